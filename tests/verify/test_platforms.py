"""A variant with two platforms: each host is asked for the release of its own."""

from __future__ import annotations

from dataclasses import replace

from sistership.image.identity import Image
from sistership.image.release import Release, by_variant, for_platform, same_platform

DIGEST = "sha256:" + "0" * 64
AMD = Release("v", "1" * 64, "v:1", Image(DIGEST, "linux/amd64", DIGEST, DIGEST, ()))
ARM = Release("v", "2" * 64, "v:1", Image(DIGEST, "linux/arm64", DIGEST, DIGEST, ()))
OTHER = replace(AMD, variant="w")


def test_groups_are_variants() -> None:
    """Releases of one variant stand together, in order."""
    assert by_variant([AMD, OTHER, ARM]) == [(AMD, ARM), (OTHER,)]


def test_each_host_gets_its_platform() -> None:
    """An arm64 engine gets the arm64 release, whatever its variant; a foreign one the first, to be refused."""
    assert for_platform((AMD, ARM), "linux/arm64") is ARM
    assert for_platform((AMD, ARM), "linux/arm64/v8") is ARM
    assert for_platform((AMD, ARM), "linux/amd64") is AMD
    assert for_platform((AMD, ARM), "linux/s390x") is AMD
    assert not same_platform("linux/arm64", "linux/arm/v7")
