"""The cause table's rows for what is no file content: owners, modes, times, layers, the config. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sistership.compare.model import Cause, Difference, Kind

_TAR: Final = "measured with Engine 20.10, 26.1 and 28.5"
_REVISION: Final = ("revision", "commit", "created", "number", "date", "recipe", "version", "inputs")


class LayerRow(NamedTuple):
    """One row: the kinds it is about, and what else has to hold."""

    kinds: tuple[Kind, ...]
    shows: Callable[[Difference], bool]
    cause: Cause


def _always(_: Difference) -> bool:
    return True


def _revision(difference: Difference) -> bool:
    return difference.path.rpartition(".")[2] in _REVISION


LAYERS: Final[tuple[LayerRow, ...]] = (
    LayerRow(
        (Kind.TIMES,),
        _always,
        Cause(
            "file-times",
            "file times are those of the build, or an epoch that follows the commit",
            "one constant time for every file of every image; the commit's date belongs into a label",
            _TAR,
        ),
    ),
    LayerRow(
        (Kind.OWNER, Kind.NAMES),
        _always,
        Cause(
            "owner",
            "the user who built it, or that machine's passwd, is written into the layer",
            "numeric owners, set in the build stage (chown 0:0; tar --numeric-owner --owner=0 --group=0)",
            _TAR,
        ),
    ),
    LayerRow(
        (Kind.ORDER,),
        _always,
        Cause(
            "entry-order",
            "files were packed in the order in which a directory lists them",
            "sort by name in bytes (tar --sort=name, LC_ALL=C sort), or compare canonical images",
            _TAR,
        ),
    ),
    LayerRow(
        (Kind.MODE,),
        _always,
        Cause(
            "umask",
            "another umask, or modes that a checkout or an engine left",
            "umask 022 and an explicit chmod in the build stage; no COPY --chmod",
            _TAR,
        ),
    ),
    LayerRow(
        (Kind.XATTR,),
        _always,
        Cause(
            "xattr",
            "file capabilities or security labels of the builder's file system",
            "set capabilities in the build stage; leave SELinux labels and user.* out",
            _TAR,
        ),
    ),
    LayerRow(
        (Kind.LINK,),
        lambda difference: "hard link" in difference.detail,
        Cause(
            "hard-links",
            "one build linked equal files, the other copied them",
            "copy with cp -L, or link on purpose in the build stage",
            _TAR,
        ),
    ),
    LayerRow(
        (Kind.LAYER,),
        lambda difference: "base image" in difference.detail or difference.instruction.startswith("base layer"),
        Cause(
            "base-image",
            "the runtime base is another image: a tag moved",
            "pin the base by digest; `lock` does, and `--locked` keeps it",
            "argoproj-labs/argocd-operator#2347",
        ),
    ),
    LayerRow(
        (Kind.CONFIG, Kind.INPUT),
        _revision,
        Cause(
            "other-recipe",
            "the two were made from another commit or recipe",
            "compare images of one recipe; `lock` says what each was made from",
            "the image's labels",
        ),
    ),
    LayerRow(
        (Kind.INPUT,),
        lambda difference: difference.path.partition(".")[0] in {"toolchain", "packages", "bases", "snapshot"},
        Cause(
            "toolchain",
            "the build stage had another toolchain or other packages",
            "pin the build base by digest and the package archive by snapshot, in the lock",
            "buildkite/agent#2430",
        ),
    ),
    LayerRow(
        (Kind.FORM,),
        _always,
        Cause(
            "tar-writer",
            "another program or version wrote the tar",
            "build both with one version of sistership",
            _TAR,
        ),
    ),
)
