"""The names of a release."""

from __future__ import annotations

import pytest

from sistership.image.identity import Image
from sistership.image.release import Release
from sistership.matrix.names import check_image, parse_reference

IMAGE = Image("sha256:" + "a" * 64, "linux/amd64", "sha256:" + "b" * 64, "sha256:" + "c" * 64, ())


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ("llama", "llama"),
        ("team/llama", "team/llama"),
        ("registry.lan:5000/team/llama", "registry.lan-5000/team/llama"),
        ("Registry.lan/llama", "registry.lan/llama"),
        ("localhost:5000/llama", "localhost-5000/llama"),
    ],
)
def test_unique_name_is_one_that_engines_take(image, wanted):
    """Whatever image name the matrix may have, a port too, the name of our own is a valid reference."""
    check_image(image)
    unique = Release("v", "k" * 64, f"{image}:v1", IMAGE).unique
    assert unique == f"sistership.local/{wanted}:aaaaaaaaaaaa"
    assert parse_reference(unique).tag == "aaaaaaaaaaaa"
