"""The identity's record in the lock."""

from __future__ import annotations

from typing import Any

import pytest

from sistership.errors import LockError
from sistership.image.identity import Image, Layer, digest_of, hex_of, is_digest

DIGEST = digest_of(b"")
LAYER = Layer(DIGEST, DIGEST, 3, 4, base=True, created_by="base layer 1")
IMAGE = Image(DIGEST, "linux/amd64", DIGEST, DIGEST, (LAYER,))


def test_record_has_the_locks_keys() -> None:
    """Names are part of the file format."""
    assert IMAGE.to_json() == {
        "config": DIGEST,
        "platform": "linux/amd64",
        "manifest": DIGEST,
        "manifest_plain": DIGEST,
        "layers": [
            {
                "diff_id": DIGEST,
                "digest": DIGEST,
                "size": 3,
                "plain_size": 4,
                "base": True,
                "created_by": "base layer 1",
            }
        ],
    }


def test_other_keys_of_the_lock_are_ignored() -> None:
    """The lock adds variant, name and date to the same record."""
    assert Image.from_json({**IMAGE.to_json(), "variant": "x", "tag": "1"}) == IMAGE


@pytest.mark.parametrize(
    "change",
    [
        {"config": DIGEST[:20]},
        {"manifest": None},
        {"platform": 3},
        {"layers": {}},
        {"layers": ["x"]},
        {"layers": [{**IMAGE.to_json()["layers"][0], "size": "3"}]},
        {"layers": [{**IMAGE.to_json()["layers"][0], "size": True}]},
        {"layers": [{**IMAGE.to_json()["layers"][0], "diff_id": "sha256:"}]},
    ],
)
def test_damaged_records_are_refused(change: dict[str, Any]) -> None:
    """A short digest, a wrong type or a missing value is an error with a next step."""
    with pytest.raises(LockError, match="damaged") as error:
        Image.from_json({**IMAGE.to_json(), **change})
    assert error.value.hint


def test_only_full_digests_count() -> None:
    """A short ID is never proof."""
    assert is_digest(DIGEST)
    assert not is_digest(DIGEST[7:])
    assert not is_digest(DIGEST[:19])
    assert not is_digest(DIGEST.upper())
    with pytest.raises(LockError):
        hex_of(DIGEST[7:19])
