"""The JSON documents of an image, in one canonical spelling: sorted keys, no spaces, UTF-8."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sistership.errors import BuildError
from sistership.image.identity import Image, Layer, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
LAYER_ZSTD: Final = LAYER + "+zstd"
OCI_LAYOUT: Final = b'{"imageLayoutVersion":"1.0.0"}'

#: What a container inherits from its image; everything else in a config describes the builder.
_RUNTIME: Final = (
    "User",
    "ExposedPorts",
    "Env",
    "Entrypoint",
    "Cmd",
    "Volumes",
    "WorkingDir",
    "Labels",
    "StopSignal",
    "Healthcheck",
    "Shell",
    "ArgsEscaped",
)


def canonical_json(value: object) -> bytes:
    """The one spelling of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def platform_of(config: Mapping[str, Any]) -> str:
    """``os/architecture`` or ``os/architecture/variant``; arm64's only variant, v8, is not named."""
    name = f"{config['os']}/{config['architecture']}"
    variant = config.get("variant") or ""
    return name if not variant or (name == "linux/arm64" and variant == "v8") else f"{name}/{variant}"


def config_document(
    built: Mapping[str, Any],
    *,
    created: str,
    labels: Mapping[str, str],
    base_layers: int,
    own: Sequence[tuple[str, bool]],
    diff_ids: Sequence[str],
) -> bytes:
    """The config: the runtime fields that the builder set, all else from the recipe.

    Args:
        built: the config that the builder wrote.
        created: ISO date, for the image and for every history line.
        labels: win over labels of the same name that the builder wrote.
        base_layers: how many layers come from the base.
        own: instruction, and whether its layer holds anything, of each own layer.
        diff_ids: of the layers that hold something.
    """
    runtime = {key: built["config"][key] for key in _RUNTIME if _is_set((built.get("config") or {}).get(key))}
    merged = {**runtime.get("Labels", {}), **labels}
    if merged:
        runtime["Labels"] = merged
    history: list[dict[str, Any]] = [
        {"created": created, "created_by": f"base layer {number}"} for number in range(1, base_layers + 1)
    ]
    for instruction, filled in own:
        line = {"created": created, "created_by": instruction}
        history.append(line if filled else {**line, "empty_layer": True})
    document = {
        "architecture": built["architecture"],
        "os": built["os"],
        "created": created,
        "config": runtime,
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
        "history": history,
    }
    if built.get("variant"):
        document["variant"] = built["variant"]
    return canonical_json(document)


def manifest_document(config: bytes, layers: Sequence[Layer], *, plain: bool) -> bytes:
    """The manifest over zstd blobs, or over the uncompressed layers."""
    return canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest_of(config), "size": len(config)},
            "layers": [descriptor(layer, plain=plain) for layer in layers],
        }
    )


def descriptor(layer: Layer, *, plain: bool) -> dict[str, Any]:
    """What a manifest says of a layer."""
    if plain:
        return {"mediaType": LAYER, "digest": layer.diff_id, "size": layer.plain_size}
    return {"mediaType": LAYER_ZSTD, "digest": layer.digest, "size": layer.size}


def image_of(config: bytes, layers: Sequence[Layer]) -> tuple[Image, bytes, bytes]:
    """The image of a config and its layers, and both its manifests: zstd, then plain."""
    packed, plain = (manifest_document(config, layers, plain=plain) for plain in (False, True))
    image = Image(
        config=digest_of(config),
        platform=platform_of(json.loads(config)),
        manifest=digest_of(packed),
        manifest_plain=digest_of(plain),
        layers=tuple(layers),
    )
    return image, packed, plain


def layers_of(config: bytes, manifest: bytes, manifest_plain: bytes, base_layers: int) -> tuple[Layer, ...]:
    """The layers that a canonical config and its two manifests describe."""
    document = json.loads(config)
    made_by = [line["created_by"] for line in document["history"] if not line.get("empty_layer")]
    rows = zip(
        document["rootfs"]["diff_ids"],
        json.loads(manifest)["layers"],
        json.loads(manifest_plain)["layers"],
        made_by,
        strict=True,
    )
    return tuple(
        Layer(
            diff_id=diff_id,
            digest=packed["digest"],
            size=packed["size"],
            plain_size=plain["size"],
            base=number < base_layers,
            created_by=created_by,
        )
        for number, (diff_id, packed, plain, created_by) in enumerate(rows)
    )


def refuse_triggers(built: Mapping[str, Any], where: str) -> None:
    """Refuse ONBUILD: it changes what a later build does, and engines spell its absence differently.

    Raises:
        BuildError: the config holds triggers.
    """
    triggers = (built.get("config") or {}).get("OnBuild")
    if triggers:
        raise BuildError(
            f"the image has ONBUILD triggers: {triggers[0]}",
            where=where,
            why="a trigger acts in other people's builds and cannot be made equal on every engine",
            hint="take a base image without ONBUILD, or remove the instruction",
        )


def _is_set(value: object) -> bool:
    return value not in (None, "", False, [], {})
