"""An export meets a project."""

from __future__ import annotations

import dataclasses

import pytest

from sistership.build.adopt import How, adopt
from sistership.errors import IdentityError
from sistership.recipe.lock import Lock


@pytest.fixture
def read(make):
    """The project's matrix."""
    return make.matrix()


@pytest.fixture
def export(make, read):
    """Built for it elsewhere."""
    return make.exported(read, make.locked(read), make.image())


def test_first_image_of_a_locked_variant(make, read, export):
    """The record goes into the lock under its recipe key; the resolution that is there stays."""
    lock = Lock().with_variant("alpha", make.locked(read))
    found = adopt(read, lock, export, keep=False)
    assert (found.how, found.resolved, found.refusal) == (How.ADDED, False, "")
    assert found.lock.images == {export.key: export.record}
    assert found.lock.variants == lock.variants


def test_resolution_comes_along(make, read, export):
    """A clone whose lock was never committed ships too: the recipe key proves the resolution."""
    found = adopt(read, Lock(), export, keep=False)
    assert (found.resolved, found.refusal) == (True, "")
    assert found.lock.variants["alpha"] == make.locked(read)


@pytest.mark.parametrize("change", [{"commit": "0" * 40}, {"tree": "0" * 40}, {"number": 2}, {"inputs": "0" * 64}])
def test_resolution_of_another_recipe_stays_out(make, read, export, change):
    """One that does not lead to the recipe key is not believed."""
    other = dataclasses.replace(export, resolved={**export.resolved, **change})
    found = adopt(read, Lock(), other, keep=False)
    assert (found.resolved, found.lock.variants) == (False, {})
    assert "not locked here" in found.refusal


@pytest.mark.parametrize("resolved", [None, {}, {"inputs": 5}])
def test_export_without_a_resolution(read, export, resolved):
    """It is taken all the same, and what is missing is said."""
    found = adopt(read, Lock(), dataclasses.replace(export, resolved=resolved), keep=False)
    assert (found.how, found.refusal) == (How.ADDED, "alpha is not locked here")


def test_own_resolution_is_never_replaced(make, read, export):
    """A lock that answers the matrix with another commit stays, and the difference is told."""
    text = make.text.replace("84e908c625fb60992b4cdef8180fb12fa9b4c4bf", "main")
    moving = make.matrix(text)
    theirs = make.exported(moving, make.locked(moving, commit="1" * 40), make.image())
    lock = Lock().with_variant("alpha", make.locked(moving, commit="2" * 40))
    found = adopt(moving, lock, theirs, keep=False)
    assert found.lock.variants == lock.variants
    assert "another recipe" in found.refusal


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("alpha:", "gamma:", "no variant alpha"),
        ("[linux/amd64, linux/arm64]", "[linux/arm64]", "linux/arm64 only"),
        ("bookworm-slim@", "trixie-slim@", "not locked here"),
    ],
)
def test_matrix_that_asks_for_something_else(make, export, old, new, said):
    """The image is kept, and the reason why `ship` would not send it is said."""
    found = adopt(make.matrix(make.text.replace(old, new)), Lock(), export, keep=False)
    assert said in found.refusal
    assert export.key in found.lock.images


def test_known_image(make, read, export):
    """What the lock has already stays as it is."""
    lock = make.lock_with(export)
    assert adopt(read, lock, export, keep=False).how is How.KNOWN
    assert adopt(read, lock, export, keep=True).lock == lock


def test_same_image_with_other_blobs(make, read, export):
    """Compressed anew it is the same image; the record follows the blobs that are here."""
    made = dataclasses.replace(make.image(), manifest="sha256:" + "d" * 64)
    other = make.exported(read, make.locked(read), made)
    lock = make.lock_with(export)
    assert adopt(read, lock, other, keep=True).lock == lock
    found = adopt(read, lock, other, keep=False)
    assert found.how is How.REPACKED
    assert found.lock.images[export.key] == other.record


def test_another_image_of_the_same_recipe(make, read, export):
    """Two images of one recipe are an identity that differs: exit 23, whatever else fits."""
    other = make.exported(read, make.locked(read), make.image(content="y"))
    with pytest.raises(IdentityError, match="another image for this recipe") as raised:
        adopt(read, make.lock_with(export), other, keep=True)
    assert raised.value.code == 23
