"""Lesson 06's exercises: the judges ask the real pool, and say what is true of it."""

from __future__ import annotations

from itertools import product

import pytest

from blockmgr.block import BlockHash
from blockmgr.pool import BlockPool
from classroom import CheckStatus, check
from classroom.exercises import lesson06
from classroom.exercises.lesson06 import POOL, found_blocks, hits_of, small_trace


def plain_lru() -> int:
    """The small trace through a pool whose queue nobody touches."""
    pool, found = BlockPool(POOL + 1), 0
    for request in small_trace():
        names = [BlockHash(b"%d" % i) for i in request]
        here = pool.get_cached_blocks(names, len(names) - 1)
        pool.touch(here)
        new = pool.get_new_blocks(len(names) - len(here))
        pool.cache_blocks(new, names[len(here) :])
        pool.free_blocks((here + new)[::-1])
        found += len(here)
    return found


def test_the_figures_of_the_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_blocks(lambda age, hits, place: -age) == plain_lru() == 97
    assert found_blocks(lambda age, hits, place: (hits, -age)) == 169
    assert found_blocks(lambda age, hits, place: (hits, -place, -age)) == 174
    monkeypatch.setattr(lesson06, "POOL", 5000)
    assert found_blocks(lambda age, hits, place: -age) == 194


def test_three_prompts_are_the_least() -> None:
    prompts = [list(p) for n in (1, 2, 3, 4, 5) for p in product((1, 2), repeat=n)]
    for pair in product(prompts, repeat=2):
        assert hits_of(pair, False) == hits_of(pair, True)
    history = [[1, 2, 3, 4], [5, 6, 7], [1, 2, 9]]
    assert (hits_of(history, False), hits_of(history, True)) == (2, 0)


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ([[1, 2, 3, 4], [1, 2, 9]], "Look for a history"),
        ([[1, 2, 3, 4], [5, 6, 7], [4], [1, 2, 9]], "with fewer"),
        ([[1]] * 51, "1 to 50 prompts"),
        ([["x"]], "whole numbers"),
        ([[]], "at least one"),
        ("abc", "a list"),
    ],
)
def test_a_history_that_is_not_it_is_told_why(history: object, said: str) -> None:
    result = check("06-lost-hit", history)
    assert result.status is CheckStatus.NOT_YET
    assert said in result.message


def test_the_wrong_order_is_seen_in_a_small_case() -> None:
    def head_first(
        queue: list[int], table: list[int], users: dict[int, int], remembered: set[int]
    ) -> list[int]:
        gone = [b for b in table if users[b] == 1]
        blank = [b for b in gone if b not in remembered]
        return blank + queue + [b for b in gone if b in remembered]

    result = check("06-queue-after-free", head_first)
    assert result.status is CheckStatus.NOT_YET
    assert result.expected == "[2, 1]" and result.got == "[1, 2]"
