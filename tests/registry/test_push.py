"""Pushing against a registry that keeps to the specification and goes wrong on demand."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import HostUnreachableError, ShipError, SistershipError
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.registry.client import LONGEST, Client
from sistership.registry.login import find_login
from sistership.registry.place import Place, tag_of
from sistership.registry.push import Pushed, missing, push
from sistership.registry.upload import LEAST, Outgoing, Upload
from sistership.registry.wire import Wire

from .fake import PASSWORD, USER, Fault, Registry

REPOSITORY = "team/llamacpp"
#: Made once: reading the system's authorities takes longer than most of these tests.
CONTEXT = ssl.create_default_context()


class Waits(list[float]):
    """How long a client would have waited."""

    def __call__(self, seconds: float) -> None:
        """Do not wait."""
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    """Nobody waits in a test."""
    return Waits()


@pytest.fixture
def client(server: Registry, waits: Waits) -> Callable[..., Client]:
    """Makes clients of the registry; each begins as a push begins."""

    def make(repository: str = REPOSITORY) -> Client:
        place = Place(server.host, repository)
        made = Client(Wire(place, context=CONTEXT), find_login(place), wait=waits)
        made.begin()
        return made

    return make


def log_in(folder: Path, server: Registry, password: str = PASSWORD) -> None:
    """As `docker login` leaves it."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {server.host: {"auth": auth}}}))


def pushed(client: Client, image: Image, store: Store, **more: object) -> Pushed:
    """Push one blob after the other."""
    return push(client, image, store, jobs=1, **more)


def stored(image: Image, store: Store) -> int:
    """Bytes of an image's blobs."""
    return sum(store.path(digest).stat().st_size for digest in {image.config, *(each.digest for each in image.layers)})


def one_blob(client: Client, store: Store, image: Image, part: int) -> Upload:
    """The upload of the larger layer in parts."""
    layer = image.layers[0]
    return Upload(client, Outgoing(layer.digest, layer.size, store.path(layer.digest)), part=part)


def test_registry_holds_the_bytes_of_the_store(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """Blobs and manifest arrive unchanged, under the digest and under 12 digits of the config, never `latest`."""
    done = pushed(client(), image, store)
    assert server.blobs[REPOSITORY] == {
        digest: store.read(digest) for digest in {image.config, *(each.digest for each in image.layers)}
    }
    assert server.manifests[REPOSITORY] == dict.fromkeys((image.manifest, tag_of(image)), store.read(image.manifest))
    assert (done.sent, done.there) == (stored(image, store), 0) == (server.taken, 0)


def test_second_push_sends_nothing(server: Registry, client: Callable[..., Client], image: Image, store: Store) -> None:
    """Blobs and manifest that are there are only asked for: no byte, no POST, no PUT."""
    pushed(client(), image, store)
    server.seen.clear()
    before = server.taken
    done = pushed(client(), image, store)
    assert (done.sent, done.there, server.taken) == (0, 3, before)
    assert {each.partition(" ")[0] for each in server.seen} == {"GET", "HEAD"}
    assert missing(client(), image, store) == ()


def test_blob_of_a_repository_beside_is_mounted(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """What another repository of the registry has travels for nobody."""
    pushed(client("team/other"), image, store)
    before = server.taken
    done = pushed(client(), image, store, others=("team/empty", "team/other"))
    assert (done.mounted, done.sent, server.taken) == (3, 0, before)
    assert set(server.blobs[REPOSITORY]) == set(server.blobs["team/other"])


@pytest.mark.parametrize("status", [0, 500, 503])
def test_cut_upload_goes_on_where_the_registry_stands(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, status: int
) -> None:
    """A part of which 70,000 bytes arrived is continued there: each byte arrives once, whatever ended it."""
    server.faults.append(Fault("PATCH", status, after=70_000))
    one_blob(client(), store, image, 200_000).run()
    assert server.blobs[REPOSITORY][image.layers[0].digest] == store.read(image.layers[0].digest)
    assert server.taken == image.layers[0].size
    assert server.count("POST") == 1


def test_registry_that_forgets_an_upload_gets_the_blob_anew(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """Distribution 2 cannot say where an upload stands; then the one blob begins again, and it is whole."""
    server.resumable = False
    server.faults.append(Fault("PATCH", after=70_000))
    pushed(client(), image, store)
    assert server.count("POST") == 4
    assert server.taken == stored(image, store) + 70_000
    assert server.blobs[REPOSITORY][image.layers[0].digest] == store.read(image.layers[0].digest)


def test_upload_that_is_cut_each_time_ends_with_a_sentence(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, waits: Waits
) -> None:
    """After five tries without progress it gives up, having waited longer each time."""
    server.faults.append(Fault("PATCH", times=100))
    with pytest.raises(ShipError, match="cut 5 times"):
        one_blob(client(), store, image, 200_000).run()
    assert waits == [0.5, 1, 2, 4]


def test_manifest_never_comes_before_its_blobs(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """A push that fails at a blob leaves no manifest: nobody can pull half an image."""
    server.faults.append(Fault("PATCH", 403, times=100))
    with pytest.raises(ShipError, match="does not allow this login to push"):
        pushed(client(), image, store)
    assert not server.manifests.get(REPOSITORY)
    assert server.count("PUT") == 0


def test_damaged_blob_of_the_store_is_never_finished(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """The bytes are hashed on their way out; what is wrong is given up at the registry and told."""
    path = store.path(image.layers[0].digest)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    with pytest.raises(SistershipError, match="damaged"):
        pushed(client(), image, store)
    assert server.count("DELETE") == 1
    assert image.layers[0].digest not in server.blobs.get(REPOSITORY, {})
    assert not server.manifests.get(REPOSITORY)


def test_requests_get_smaller_where_a_proxy_wants_it(
    server: Registry, client: Callable[..., Client], store: Store
) -> None:
    """413 halves the part and the upload goes on; nothing is sent twice."""
    data = bytes(range(256)) * (4 * LEAST // 256)
    digest = store.add(data)
    server.largest = LEAST + 5
    Upload(client(), Outgoing(digest, len(data), store.path(digest))).run()
    assert server.blobs[REPOSITORY][digest] == data
    assert server.taken == len(data)


def test_too_small_a_limit_is_explained(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """Below one MiB the proxy's setting is named."""
    server.largest = 1000
    with pytest.raises(ShipError, match="takes no requests as large") as caught:
        pushed(client(), image, store)
    assert "client_max_body_size" in str(caught.value.hint)


def test_least_above_the_limit_is_explained(server: Registry, client: Callable[..., Client], store: Store) -> None:
    """A registry that asks for parts larger than its proxy takes ends the push; it does not go round for ever."""
    data = bytes(range(256)) * (4 * LEAST // 256)
    digest = store.add(data)
    server.least, server.resumable = 3 * LEAST, False
    server.faults += [Fault("PATCH", 413, after=4 * LEAST), Fault("PATCH", 413, after=3 * LEAST, times=9)]
    with pytest.raises(ShipError, match="wants larger parts than its proxy takes") as caught:
        Upload(client(), Outgoing(digest, len(data), store.path(digest))).run()
    assert server.count("PATCH") == 2
    assert str(3 * LEAST) in str(caught.value.why)
    assert "client_max_body_size" in str(caught.value.hint)


@pytest.mark.parametrize("resumable", [True, False])
def test_parts_that_are_taken_and_not_kept_have_an_end(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, waits: Waits, resumable: bool
) -> None:
    """202 without a byte more is no progress, nor is a blob that begins anew and comes no farther: five tries."""
    server.resumable = resumable
    stays = {"Range": "0-99999"}
    server.faults += [Fault("PATCH", 202, 100_000, stays), Fault("PATCH", 202, 100_000, stays, 40, keeps=False)]
    with pytest.raises(ShipError, match="keeps nothing of them"):
        one_blob(client(), store, image, 100_000).run()
    assert waits == [0.5, 1, 2, 4]


@pytest.mark.parametrize(
    "faults",
    [
        [Fault("PATCH", 202, 100_000, {"Range": "0-299998"})],
        [Fault("PATCH", after=70_000), Fault("GET", 204, headers={"Range": "0-299998"})],
    ],
    ids=["part", "state"],
)
def test_registry_that_claims_more_than_was_sent_is_not_believed(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, faults: list[Fault]
) -> None:
    """Bytes that were never sent are sent, and hashed: the blob arrives, and nobody calls its file damaged."""
    upload = one_blob(client(), store, image, 100_000)
    server.faults += [replace(fault) for fault in faults]
    assert upload.run().how == "sent"
    assert server.blobs[REPOSITORY][image.layers[0].digest] == store.read(image.layers[0].digest)


def test_sound_file_is_never_called_damaged(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """Other bytes went out, and the file is whole: the upload is blamed, nobody is told to delete the file."""
    layer = image.layers[0]
    path, sound = store.path(layer.digest), store.read(layer.digest)
    path.chmod(0o600)
    path.write_bytes(bytes([sound[0] ^ 1]) + sound[1:])
    blob = Outgoing(layer.digest, layer.size, path)
    with pytest.raises(ShipError, match="other bytes went out") as caught:
        Upload(client(), blob, part=100_000, progress=lambda _: path.write_bytes(sound)).run()
    assert "delete" not in str(caught.value)
    assert server.count("DELETE") == 1
    assert layer.digest not in server.blobs.get(REPOSITORY, {})


def test_busy_registry_is_waited_for_as_it_asks(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, waits: Waits
) -> None:
    """429 and 503 with `Retry-After` are obeyed, within reason; other 5xx wait longer each time."""
    server.faults += [
        Fault("HEAD", 429, headers={"Retry-After": "7"}),
        Fault("HEAD", 503, headers={"Retry-After": "100000"}),
        Fault("POST", 502, times=2),
    ]
    pushed(client(), image, store)
    assert waits == [7.0, LONGEST, 0.5, 1.0]


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_login_of_docker_counts(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, docker_config: Path, auth: str
) -> None:
    """What `docker login` left in its config is used, for Basic and for tokens with the right scope."""
    server.auth = auth
    log_in(docker_config, server)
    assert pushed(client(), image, store).sent == stored(image, store)
    if auth == "bearer":
        assert any(f"repository:{REPOSITORY}:pull,push" in token for token in server.tokens)


def test_token_that_runs_out_is_asked_for_again(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, docker_config: Path
) -> None:
    """A long push outlives its token; the part that met the 401 is sent with a new one."""
    server.auth = "bearer"
    log_in(docker_config, server)
    opened = client()
    opened.blob_size(image.config)
    server.tokens.clear()
    pushed(opened, image, store)
    assert tag_of(image) in server.manifests[REPOSITORY]


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_wrong_password_is_told_with_the_command(
    server: Registry, client: Callable[..., Client], image: Image, store: Store, docker_config: Path, auth: str
) -> None:
    """The message names the registry and `docker login`, never the password."""
    server.auth = auth
    log_in(docker_config, server, "wrong horse")
    with pytest.raises(ShipError, match="wants another login") as caught:
        pushed(client(), image, store)
    assert f"docker login {server.host}" in str(caught.value)
    assert "wrong horse" not in str(caught.value)
    assert server.taken == 0


def test_missing_login_is_told(server: Registry, client: Callable[..., Client], image: Image, store: Store) -> None:
    """Without any login the message asks for one."""
    server.auth = "basic"
    with pytest.raises(ShipError, match="wants a login"):
        pushed(client(), image, store)


def test_registry_that_is_gone_is_unreachable(image: Image, store: Store, waits: Waits) -> None:
    """Nobody listens: exit code 20, and `--via direct` is named."""
    place = Place("127.0.0.1:9", REPOSITORY)
    with pytest.raises(HostUnreachableError, match="does not answer") as caught:
        Client(Wire(place), None, wait=waits).begin()
    assert "--via direct" in str(caught.value.hint)


def test_plain_http_is_refused_off_loopback(server: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that speaks plain HTTP gets nothing, unless it is on loopback or the matrix says insecure."""
    place = Place(server.host, REPOSITORY)
    monkeypatch.setattr("sistership.registry.place.is_loopback", lambda _: False)
    with pytest.raises(ShipError, match="speaks plain HTTP"):
        Client(Wire(place), None).begin()
    Client(Wire(Place(server.host, REPOSITORY, insecure=True)), None).begin()


def test_blobs_travel_side_by_side(server: Registry, client: Callable[..., Client], image: Image, store: Store) -> None:
    """Several at once give the same registry, and progress that ends at the whole."""
    told: list[tuple[int, int]] = []
    done = push(client(), image, store, progress=lambda *pair: told.append(pair))
    assert done.sent == stored(image, store)
    assert told[-1] == (stored(image, store), stored(image, store))


def test_one_refusal_ends_the_other_uploads(
    server: Registry, client: Callable[..., Client], image: Image, store: Store
) -> None:
    """With several on their way the first error is told, and nothing more is begun."""
    server.faults.append(Fault("POST", 403, times=100))
    opened = client()
    with pytest.raises(ShipError, match="does not allow this login"):
        push(opened, image, store, jobs=3)
    assert opened.stop.is_set()
    assert server.taken == 0
    assert not server.manifests.get(REPOSITORY)
