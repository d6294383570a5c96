"""A plan in a file, and whether the world is still as it was when it was made. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sistership.errors import LockError, UsageError

VERSION = 1
#: Of a host's plan, what has to be the same later. Sizes on disk may differ, what is staged may only have grown.
_BINDING = ("host", "action", "engine", "encoding", "source", "moves", "error")


def load(path: Path) -> dict[str, Any]:
    """A plan document as `plan --out` wrote it.

    Raises:
        UsageError: there is no such file, or it is no plan of this version.
    """
    hint = "sistership plan --out FILE makes one"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--plan {path}: {error.strerror}", hint=hint) from None
    except ValueError:
        raise UsageError(f"--plan {path}: not a plan", hint=hint) from None
    if not isinstance(document, dict) or document.get("kind") != "plan" or document.get("version") != VERSION:
        raise UsageError(f"--plan {path}: not a plan of this version of sistership", hint=hint)
    return document


def selected(document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The variants and the hosts that a plan is about, each once, in order."""
    variants = dict.fromkeys(str(image["variant"]) for image in document["images"])
    hosts = dict.fromkeys(str(host["host"]) for image in document["images"] for host in image["hosts"])
    return list(variants), list(hosts)


def moved(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is not as it was planned, one sentence each; empty when the plan still holds."""
    found: list[str] = []
    then = {image["variant"]: image for image in planned["images"]}
    for image in now["images"]:
        before = then.get(image["variant"])
        if before is None or before["recipe"] != image["recipe"] or before["config"] != image["config"]:
            found.append(f"{image['variant']}: another image is to be shipped now")
            continue
        hosts = {host["host"]: host for host in before["hosts"]}
        for host in image["hosts"]:
            found += _moved_on(hosts.get(host["host"], {}), host)
    return found


def _moved_on(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    name = now["host"]
    for key in _BINDING:
        if before.get(key) != now.get(key):
            return [f"{name}: {key} was {_short(before.get(key))}, is {_short(now.get(key))}"]
    had, has = _had(before.get("layers", ())), _had(now.get("layers", ()))
    if had != has:
        return [f"{name}: it had {len(had)} of the layers, has {len(has)}"]
    return []


def _had(layers: Sequence[Mapping[str, Any]]) -> set[str]:
    return {layer["diff_id"] for layer in layers if layer["state"] in {"have", "copy"}}


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text[:80]


def require(planned: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Refuse a plan that no longer holds.

    Raises:
        LockError: something moved since it was made; nothing was changed.
    """
    differences = moved(planned, now)
    if differences:
        raise LockError(
            "the plan no longer holds; nothing was changed",
            where=where,
            why="; ".join(differences[:3]) + (" …" if len(differences) > 3 else ""),  # noqa: PLR2004 - three are enough
            hint="sistership plan --out FILE, look at it, and ship that",
        )


def pending(document: Mapping[str, Any]) -> bool:
    """Whether the plan would change anything anywhere."""
    return any(host.get("action") != "nothing" for image in document["images"] for host in image["hosts"])
