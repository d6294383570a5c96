"""Which layers of two images belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sistership.image.spans import Span


@dataclass(frozen=True)
class LayerSource:
    """One layer of an image, and a way to its bytes.

    Attributes:
        number: from 1, the lowest first.
        instruction: what made it.
        base: it came with the base image.
        diff_id: digest of its uncompressed tar.
        open: gives that tar; None where its bytes are not at hand.
    """

    number: int
    instruction: str
    base: bool
    diff_id: str
    open: Callable[[], AbstractContextManager[Span]] | None = field(compare=False, repr=False)


Pair = tuple[LayerSource | None, LayerSource | None]


def differing(a: Sequence[LayerSource], b: Sequence[LayerSource]) -> list[Pair]:
    """The pairs whose bytes differ: made by the same instruction, else in the same place among those left over.

    Equal layers are no pairs, wherever they are in their images.
    """
    same = Counter(layer.diff_id for layer in a) & Counter(layer.diff_id for layer in b)
    mine, theirs = _without(a, same), _without(b, same)
    pairs: list[Pair] = []
    for layer in list(mine):
        other = next((found for found in theirs if _alike(found, layer)), None)
        if other is not None:
            pairs.append((layer, other))
            mine.remove(layer)
            theirs.remove(other)
    for base in (True, False):
        left, right = ([layer for layer in side if layer.base is base] for side in (mine, theirs))
        count = min(len(left), len(right))
        pairs += zip(left[:count], right[:count], strict=True)
        pairs += [(layer, None) for layer in left[count:]] + [(None, layer) for layer in right[count:]]
    return sorted(pairs, key=_place)


def _without(layers: Iterable[LayerSource], same: Counter[str]) -> list[LayerSource]:
    left, kept = Counter(same), []
    for layer in layers:
        if left[layer.diff_id]:
            left[layer.diff_id] -= 1
        else:
            kept.append(layer)
    return kept


def _alike(one: LayerSource, other: LayerSource) -> bool:
    return (one.instruction, one.base) == (other.instruction, other.base)


def _place(pair: Pair) -> tuple[int, bool]:
    mine, theirs = pair
    return (mine.number, False) if mine else (theirs.number if theirs else 0, True)
