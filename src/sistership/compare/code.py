"""Which instruction sets machine code of x86-64 uses, guessed from how often their prefixes occur.

Nothing is disassembled: a count means something only beside the count of the other build.
"""

from __future__ import annotations

import re
from typing import Final

from sistership.compare.model import Code
from sistership.image.spans import Span


def _any(values: list[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % value for value in values) + b"]"


# Intel SDM volume 2, sections 2.3 and 2.7: in 64-bit mode C4, C5 and 62 begin nothing but VEX and EVEX.
_MAPS: Final = (1, 2, 3)
_VEX: Final = re.compile(
    rb"\xc5[\x80-\xff][\x10-\x17\x28-\x2f\x50-\x7f\xc2\xc6\xd0-\xff]"
    rb"|\xc4" + _any([value for value in range(256) if value & 0x1F in _MAPS]) + rb".[^\x00]",
    re.DOTALL,
)
_EVEX: Final = re.compile(
    rb"\x62"
    + _any([value for value in range(256) if value & 0x0F in _MAPS])
    + _any([value for value in range(256) if value & 0x04])
    + rb"[^\x00]"
)

#: Fewer sequences are chance.
_LEAST: Final = 8
#: One build uses a set and the other does not when their counts are this far apart.
_APART: Final = 8


def code_of(span: Span) -> Code:
    """Count what looks like AVX and AVX-512 in machine code of x86-64."""
    vex = evex = 0
    for chunk in span.chunks():
        vex += sum(1 for _ in _VEX.finditer(chunk))
        evex += sum(1 for _ in _EVEX.finditer(chunk))
    return Code(span.size, vex, evex)


def apart(one: int, other: int) -> bool:
    """Whether one count says "used" and the other "hardly ever"."""
    few, many = sorted((one, other))
    return many >= _LEAST and many >= few * _APART
