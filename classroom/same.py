"""Comparing and printing values that a learner made, without trusting them.

A learner's object may claim to equal everything, print a million characters, or carry
a memory address in its text. Only plain values are compared by content, and everything
is printed short and the same way every time.
"""

from __future__ import annotations

import math
import operator
import re
import reprlib
from collections.abc import Mapping, Sequence, Set
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (str, bytes, type(None))


def same(expected: object, got: object) -> bool:
    """True if `got` is the right answer where `expected` is.

    Lists and tuples with equal entries are the same, 3 is the same as a numpy 3, an
    array counts as the list that it holds, and floats may differ by rounding. True and
    1 are not the same, and neither are "3" and 3. An object of another kind must have
    exactly the expected type, so that one which claims to equal everything earns
    nothing.
    """
    if type(got).__module__ in ("numpy", "torch"):
        got = got.tolist() if hasattr(got, "tolist") else got
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, _PLAIN):
        return type(got) is type(expected) and got == expected
    if isinstance(expected, float):
        return _close(expected, got)
    if isinstance(expected, int):
        return _whole(got) == expected or _close(expected, got)
    if isinstance(expected, Mapping):
        return isinstance(got, dict) and _same_mapping(expected, got)
    if isinstance(expected, Set):
        return isinstance(got, set | frozenset) and set(expected) == set(got)
    if isinstance(expected, Sequence):
        return isinstance(got, list | tuple) and _same_items(expected, got)
    return type(got) is type(expected) and bool(got == expected)


def _whole(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def _close(expected: float, got: object) -> bool:
    if not isinstance(got, int | float):
        return False
    try:
        return math.isclose(expected, got, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # a whole number beyond every float
        return False


def _same_items(expected: Sequence[object], got: Sequence[object]) -> bool:
    return len(expected) == len(got) and all(map(same, expected, got))


def _same_mapping(expected: Mapping[Any, object], got: Mapping[Any, object]) -> bool:
    return set(expected) == set(got) and all(same(expected[k], got[k]) for k in got)


def shown(value: object, limit: int = 240) -> str:
    """A short, stable text for any value: no addresses, at most `limit` characters."""
    text = _ADDRESS.sub("", _SHORT.repr(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


class _Repr(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # more digits than Python is willing to write
            return "a very large number"


def _short() -> reprlib.Repr:
    short = _Repr()
    short.maxlist = short.maxtuple = short.maxset = short.maxdict = 24
    short.maxlevel = 4
    short.maxstring = short.maxother = 160
    short.maxlong = 60
    return short


_SHORT = _short()
