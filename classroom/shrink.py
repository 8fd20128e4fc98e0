"""Make a failing case small, so that a learner can follow it with a pencil."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Case = tuple[Any, ...]
TRIES = 300


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = TRIES) -> Case:
    """The smallest case near `case` for which `fails` still holds.

    Greedy: take the first smaller neighbour that fails, and start again from there;
    stop when none does or after `tries` calls of `fails`. Returns `case` itself when it
    is as small as can be. `fails` must say False for cases that are not valid.
    """
    left = tries
    found = True
    while found:
        found = False
        for candidate in _simpler_entry(case):
            if left == 0:
                return case
            left -= 1
            if fails(candidate):
                case, found = candidate, True
                break
    return case


def smaller(value: Any) -> Iterator[Any]:
    """Simpler values of the same kind, the simplest first; none for other kinds, such
    as a snapshot, which is a tuple but cannot lose an entry."""
    kind = type(value)
    if kind is bool:
        yield from [False] if value else []
    elif kind is int:
        yield from _smaller_int(value)
    elif kind in (str, list, tuple):
        yield from _shorter(value)
        yield from _simpler_entry(value)
    elif kind is dict:
        for key in value:
            yield {k: v for k, v in value.items() if k != key}


def _smaller_int(n: int) -> Iterator[int]:
    near = [n // 2, n - 1] if n > 0 else [-(-n // 2), n + 1]
    toward_zero = [0, 1, 2, 3, *near]
    yield from dict.fromkeys(m for m in toward_zero if abs(m) < abs(n))


def _shorter(items: Any) -> Iterator[Any]:
    half = len(items) // 2
    if half:
        yield items[:half]
        yield items[half:]
    for i in range(len(items)):
        yield items[:i] + items[i + 1 :]


def _simpler_entry(items: Any) -> Iterator[Any]:
    if isinstance(items, str):
        return
    for i, entry in enumerate(items):
        for simpler in smaller(entry):
            yield items[:i] + type(items)([simpler]) + items[i + 1 :]
