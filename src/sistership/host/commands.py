"""How scripts speak to an engine: the same functions of shell for every kind of engine.

Whoever needs an engine writes a script that begins with its `functions` and calls them; no other room knows a word of
any engine's command line. (Building is the exception: it needs Docker's own buildx, by `cli`.)

Functions, each with the exit status of what it did. IMAGE is an ID as facts show it, or a name:

- `ask_engine [REFERENCE…]`: the sections of a probe that `answers` reads; `sec NAME` is defined by the caller.
- `load_image`: an archive on standard input becomes an image under the name in it; prints the engine's words.
- `save_image IMAGE`: an archive on standard output.
- `pull_image REFERENCE`: from its registry; prints the engine's words.
- `tag_image IMAGE NAME`, `drop_name NAME`: the latter removes the image with its last name, never by force, never with
  what it was built upon.
- `image_id NAME`: prints the ID as facts show it.
- `prove_image IMAGE`: succeeds when a container can be made of the image, or what is as good a proof; nothing of it is
  run, nothing stays. Prints why not.
- `open_image IMAGE`: its files become readable, until `close_image`, which the caller has in a trap as well: it may be
  called twice, and when opening failed. Prints why not. To be called in the script's own shell, not in `$(…)`.
- `copy_out PATH`: a tar with that one regular file of the open image on standard output.
- `image_folders`: the folders that lie above each other as the open image, topmost first, with colons between them;
  prints nothing where an engine does not tell. Whether this user can read them is for the caller to find out.
- `is_open`: whether an image is open, so that what failed is told from a file that is not there.
- `used_images`: prints `IMAGE CONTAINER` for every container, running or not, IMAGE being the ID (`sha256:` may be
  missing) and CONTAINER its name. Fails when one is not told of; the reason is the last line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from sistership.host.held import HeldImage
from sistership.matrix.model import Host

#: What every kind's `functions` define.
FUNCTIONS: Final = (
    *("ask_engine", "load_image", "save_image", "pull_image", "tag_image", "drop_name", "image_id", "prove_image"),
    *("open_image", "copy_out", "image_folders", "is_open", "close_image", "used_images"),
)


@dataclass(frozen=True)
class EngineFacts:
    """What an engine says of itself.

    Attributes:
        version, store, daemon, platform, images: see HostFacts.
        disk: the line of `df -Pk` of where it keeps images.
        spool: the same of where it keeps what it is given until that is stored; "" where it has no such place.
        blobs: digests of the blobs that it has; None: it lists none.
    """

    version: str
    store: str
    daemon: str
    platform: str
    disk: str
    images: tuple[HeldImage, ...]
    spool: str = ""
    blobs: frozenset[str] | None = None


class Commands(Protocol):
    """One kind of engine, as one host starts it."""

    @property
    def kind(self) -> str:
        """`docker`, for example."""
        ...

    @property
    def cli(self) -> str:
        """Its command as quoted shell words."""
        ...

    @property
    def functions(self) -> str:
        """Shell that defines FUNCTIONS and runs nothing."""
        ...

    def answers(self, host: Host, said: Mapping[str, str], errors: str) -> EngineFacts:
        """What the sections of `ask_engine` mean.

        Args:
            host: as the inventory has it.
            said: sections by name; `machine` (`uname -m`) and `boot` are among them.
            errors: what came on standard error, the host's banner too.

        Raises:
            HostUnfitError: no engine, or no right to use it, or several and none chosen.
            IdentityError: the engine answered only in part, so nothing can be said of what it holds.
        """
        ...
