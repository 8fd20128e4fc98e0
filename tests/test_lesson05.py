"""The exercises of lesson 05: what each says to answers that are nearly right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from blockmgr.errors import AuditError
from classroom import CheckStatus, check
from classroom.exercises import lesson05

Write = Callable[[list[int], int, list[int], list[int]], Any]


def writer(*, asks: bool = True, counts: bool = True, head: int = 0) -> Write:
    def before_writing(
        table: list[int], place: int, ref_cnt: list[int], free: list[int]
    ) -> tuple[int, int] | None:
        old = table[place]
        if asks and ref_cnt[old] == 1:
            return None
        new = table[place] = free.pop(head)
        ref_cnt[new] = 1
        ref_cnt[old] -= counts
        return old, new

    return before_writing


def test_copy_on_write_in_six_lines_is_right() -> None:
    assert check("05-copy-on-write", writer()).status is CheckStatus.RIGHT


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (writer(asks=False), "the pair returned should be `None`"),
        (writer(counts=False), "`ref_cnt` should be"),
        (writer(head=-1), "the pair returned should be"),
        (lambda *state: None, "the pair returned should be `(2, 3)`"),
    ],
)
def test_what_is_off_is_named(attempt: Write, named: str) -> None:
    result = check("05-copy-on-write", attempt)
    assert result.status is CheckStatus.NOT_YET
    assert named in repr(result)


@pytest.mark.parametrize(
    ("calls", "answer"),
    [
        (
            [("allocate", "A", 6), ("fork", "A", "B")],
            "nobody has a block of a stranger",
        ),
        ([("allocate", "A", 6), ("free", "B")], "Call 2 is refused"),
        ([("allocate", "A", 99)], "Between 1 and 24 tokens"),
        ([("allocate", "A")], "does not have the form"),
        (["allocate A"], "is no call"),
        ([("fork", "A", "B")] * 13, "1 to 12 calls"),
        (7, "1 to 12 calls"),
    ],
)
def test_a_history_without_harm_is_answered(calls: object, answer: str) -> None:
    result = check("05-forgotten-count", calls)
    assert result.status is CheckStatus.NOT_YET and answer in repr(result)


def test_the_forgetful_manager_differs_in_the_count_alone() -> None:
    manager = lesson05.Forgetful(num_blocks=8, block_size=4, enable_caching=False)
    manager.allocate("A", range(6))
    manager.fork("A", "B")
    assert manager.block_table("A") == manager.block_table("B") == (1, 2)
    with pytest.raises(AuditError, match="ref counts = table entries"):
        manager.audit()


def test_no_order_copies_fewer_than_the_best() -> None:
    found = Counter(map(lesson05._copies_in, permutations(lesson05.STEP)))
    numbers = [copies for copies in found if isinstance(copies, int)]
    assert min(numbers) == lesson05.FEWEST and max(numbers) == 3
    assert lesson05._copies_in(lesson05.STEP) == 3


@pytest.mark.parametrize(
    ("order", "answer"),
    [
        (list(lesson05.STEP), "copies 3 blocks"),
        (list(lesson05.STEP[:5]), "all six calls"),
        (["append A", *[c for c in lesson05.STEP if c != "append A"]], "new word too"),
        (["append E", *[c for c in lesson05.STEP if c != "append E"]], "before it was"),
        ("fork A E", "all six calls"),
        ([1, 2], "all six calls"),
    ],
)
def test_an_order_that_is_not_best_is_answered(order: object, answer: str) -> None:
    result = check("05-fewest-copies", order)
    assert result.status is CheckStatus.NOT_YET and answer in repr(result)
