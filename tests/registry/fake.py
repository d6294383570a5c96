"""A registry in this process that keeps to the distribution specification, and goes wrong where a test says so."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD = "anna", "correct horse"


@dataclass
class Fault:
    """What the next requests of one method meet, in place of an answer.

    Attributes:
        method: of the requests it is about.
        status: answered; 0: the connection is cut.
        after: bytes of the body that are taken first.
        headers: of the answer.
        times: how often.
        keeps: what was taken counts as arrived.
    """

    method: str
    status: int = 0
    after: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    keeps: bool = True


class Registry(ThreadingHTTPServer):
    """Repositories in memory.

    Attributes:
        auth: `none`, `basic` or `bearer`.
        resumable: the state of an upload can be asked; distribution 2 has no answer.
        largest: bytes that one request may have; 0: any.
        least: bytes that it asks each part but the last to have; 0: any.
        seen: method and path of each request, in order.
        taken: bytes of blobs that were received.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.auth = "none"
        self.resumable = True
        self.largest = 0
        self.least = 0
        self.blobs: dict[str, dict[str, bytes]] = {}
        self.manifests: dict[str, dict[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.faults: list[Fault] = []
        self.seen: list[str] = []
        self.taken = 0
        self.tokens: set[str] = set()
        self.guard = threading.Lock()

    @property
    def host(self) -> str:
        """Its address, as a reference names it."""
        return f"127.0.0.1:{self.server_address[1]}"

    def count(self, method: str) -> int:
        """How many requests of a method came."""
        return sum(1 for each in self.seen if each.startswith(f"{method} "))

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Registry

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do(self) -> None:
        """Any method."""
        parts = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.scopes = parse_qs(parts.query).get("scope", [])
        with self.server.guard:
            self.server.seen.append(f"{self.command} {parts.path}")
            fault = next((each for each in self.server.faults if each.method == self.command and each.times), None)
            if fault:
                fault.times -= 1
        if fault:
            self.go_wrong(fault, parts.path)
        elif parts.path == "/token":
            self.give_token()
        elif not self.allowed():
            kind = 'Basic realm="practice"'
            if self.server.auth == "bearer":
                kind = f'Bearer realm="http://{self.server.host}/token",service="practice"'
            self.answer(
                401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}', {"WWW-Authenticate": kind}
            )
        else:
            self.route(parts.path)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do  # noqa: N815 - the base class asks for these names

    def go_wrong(self, fault: Fault, path: str) -> None:
        """Take some bytes, then answer badly or not at all."""
        if fault.after:
            upload = self.server.uploads.get(path.rpartition("/")[2])
            data = self.rfile.read(fault.after)
            if upload is not None and fault.keeps:
                upload.extend(data)
            self.server.taken += len(data)
        if fault.status:
            self.close_connection = True
            self.answer(fault.status, b'{"errors":[{"code":"TROUBLE","message":"not now"}]}', fault.headers)
        else:
            self.close_connection = True
            self.connection.close()

    def allowed(self) -> bool:
        """Whether the request carries what is asked for."""
        given = self.headers.get("Authorization", "")
        if self.server.auth == "basic":
            return given == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return self.server.auth == "none" or given.removeprefix("Bearer ") in self.server.tokens

    def give_token(self) -> None:
        """A token that holds until somebody empties `tokens`."""
        given = self.headers.get("Authorization", "")
        if given != "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode():
            self.answer(401, b"{}")
            return
        with self.server.guard:
            token = f"token-{len(self.server.seen)}-{'|'.join(self.scopes)}"
            self.server.tokens.add(token)
        self.answer(200, json.dumps({"token": token}).encode())

    def route(self, path: str) -> None:
        """What a registry does."""
        if path == "/v2/":
            self.answer(200, b"{}")
        elif found := re.fullmatch(r"/v2/(.+)/blobs/uploads/([^/]*)", path):
            self.upload(found[1], found[2])
        elif found := re.fullmatch(r"/v2/(.+)/blobs/(sha256:\w+)", path):
            blob = self.server.blobs.get(found[1], {}).get(found[2])
            self.answer(200 if blob is not None else 404, blob or b"")
        elif found := re.fullmatch(r"/v2/(.+)/manifests/(.+)", path):
            self.manifest(found[1], found[2])
        else:
            self.answer(404)

    def manifest(self, repository: str, reference: str) -> None:
        """Keep a manifest, or say which there is."""
        kept = self.server.manifests.setdefault(repository, {})
        if self.command == "PUT":
            document = self.body()
            digest = "sha256:" + hashlib.sha256(document).hexdigest()
            needed = [json.loads(document)["config"], *json.loads(document)["layers"]]
            if any(each["digest"] not in self.server.blobs.get(repository, {}) for each in needed):
                self.answer(400, b'{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob unknown"}]}')
                return
            kept[digest] = kept[reference] = document
            self.answer(201, headers={"Docker-Content-Digest": digest})
            return
        found = kept.get(reference)
        digest = "sha256:" + hashlib.sha256(found or b"").hexdigest()
        self.answer(200 if found else 404, found or b"", {"Docker-Content-Digest": digest} if found else {})

    def upload(self, repository: str, name: str) -> None:
        """Begin, continue, ask for, end or give up an upload."""
        where = f"/v2/{repository}/blobs/uploads/"
        if self.command == "POST":
            source = self.server.blobs.get(self.query.get("from", ""), {})
            mounted = source.get(self.query.get("mount", ""))
            if mounted is not None:
                self.server.blobs.setdefault(repository, {})[self.query["mount"]] = mounted
                self.answer(201)
                return
            name = f"u{len(self.server.seen)}"
            self.server.uploads[name] = bytearray()
            least = {"OCI-Chunk-Min-Length": str(self.server.least)} if self.server.least else {}
            self.answer(202, headers={"Location": where + name, "Range": "0-0", **least})
            return
        held = self.server.uploads.get(name)
        if held is None:
            self.answer(404, b'{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN","message":"blob upload unknown"}]}')
        elif self.command == "PATCH":
            self.take(held, where + name)
        elif self.command == "GET" and not self.server.resumable:
            del self.server.uploads[name]
            self.answer(404)
        elif self.command == "PUT":
            self.close_upload(repository, name, bytes(held))
        else:
            if self.command == "DELETE":
                del self.server.uploads[name]
            self.answer(204, headers={"Location": where + name, "Range": f"0-{max(len(held) - 1, 0)}"})

    def take(self, held: bytearray, location: str) -> None:
        """Bytes of an upload, at their place."""
        size = int(self.headers["Content-Length"])
        if self.server.largest and size > self.server.largest:
            self.close_connection = True
            self.answer(413)
            return
        if int(self.headers["Content-Range"].partition("-")[0]) != len(held):
            self.close_connection = True
            self.answer(416)
            return
        data = self.body()
        held += data
        self.server.taken += len(data)
        self.answer(202, headers={"Location": location, "Range": f"0-{len(held) - 1}"})

    def close_upload(self, repository: str, name: str, data: bytes) -> None:
        """The blob is there when its bytes have its digest."""
        del self.server.uploads[name]
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        if digest != self.query["digest"]:
            self.answer(400, b'{"errors":[{"code":"DIGEST_INVALID","message":"other bytes"}]}')
            return
        self.server.blobs.setdefault(repository, {})[digest] = data
        self.answer(201)

    def body(self) -> bytes:
        """The whole body."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """One answer."""
        if self.command in {"POST", "PUT"} and not self.close_connection and status >= 400:
            self.close_connection = True
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry that runs meanwhile."""
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
