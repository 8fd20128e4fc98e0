"""Exercises of lesson 03, the block table."""

from __future__ import annotations

import random
from collections.abc import Sequence

from blockmgr import address
from classroom.exercise import Exercise
from classroom.same import shown
from classroom.shrink import Case


@Exercise(
    "03-slots-by-hand",
    title="Three slots by hand",
    difficulty=1,
    minutes=4,
    hints=(
        "First the logical block: 3 // 4, 4 // 4, 10 // 4. Then look it up.",
        "The slot is (physical block) · 4 + (position % 4).",
    ),
    why="Block 7 at offset 3, block 2 at offset 0, block 5 at offset 2.",
)
def slots_by_hand() -> list[int]:
    """Look the three positions up in the table."""
    return [address((7, 2, 5), 4, position).slot for position in (3, 4, 10)]


def _mapping_cases(rng: random.Random) -> Case:
    block_size = rng.choice([1, 2, 4, 8, 16])
    table = rng.sample(range(1, 40), rng.randint(1, 6))
    start = rng.randrange(len(table) * block_size)
    stop = rng.randint(start + 1, len(table) * block_size)
    return table, block_size, start, stop


@Exercise(
    "03-slot-mapping",
    title="The slot mapping",
    difficulty=2,
    minutes=8,
    hints=(
        "Start with one position: `divmod(position, block_size)` gives its logical "
        "block and its offset.",
        "Collect `table[logical_block] * block_size + offset` for each position of "
        "`range(start, stop)`.",
    ),
    why="One table look-up for each token, and no assumption about where blocks lie.",
    cases=_mapping_cases,
    examples=[([7, 2, 5], 4, 3, 5), ([1], 16, 0, 1)],
    valid=lambda table, block_size, start, stop: (
        block_size > 0 and 0 not in table and 0 <= start < stop
    ),
)
def slot_mapping(table: list[int], block_size: int, start: int, stop: int) -> list[int]:
    """The manager's own arithmetic, position by position."""
    return [address(tuple(table), block_size, p).slot for p in range(start, stop)]


def _judge_silent_bug(got: object) -> str | None:
    if not isinstance(got, tuple | list) or len(got) != 3:
        return "Give three things: `(table, block_size, position)`."
    table, block_size, position = got
    if not isinstance(table, list | tuple) or not _are_ids(table):
        return "The table is a list of block ids: from 1 on, and no block twice."
    if type(block_size) is not int or type(position) is not int or block_size < 1:
        return "Block size and position are whole numbers, the first at least 1."
    if not 0 <= position < len(table) * block_size:
        return "The right formula has no answer there: no block has that position."
    right = address(tuple(table), block_size, position).slot
    return _compare(tuple(table), block_size, position, right)


def _are_ids(table: Sequence[object]) -> bool:
    whole = all(type(n) is int and n >= 1 for n in table)
    return whole and len(set(table)) == len(table)


def _compare(
    table: tuple[int, ...], block_size: int, position: int, right: int
) -> str | None:
    try:
        wrong = table[position % block_size] * block_size + position // block_size
    except IndexError:
        return "There the bug is loud: an IndexError. Find a case where it is silent."
    if wrong == right:
        return f"There the bug does no harm: both formulas give slot {shown(right)}."
    if wrong // block_size not in table:
        return f"There the bug leaves the table: slot {shown(wrong)} is outside."
    return None


@Exercise(
    "03-silent-bug",
    title="A silent bug",
    difficulty=2,
    minutes=8,
    hints=(
        "With position 0 both formulas agree. What about position 1?",
        "The bug must find an entry: `position % block_size` below the table's length.",
    ),
    why="Your case reads another token's K and V and nothing complains. Only a test "
    "with a position where `//` and `%` differ, and several blocks, sees it.",
    judge=_judge_silent_bug,
)
def silent_bug() -> tuple[list[int], int, int]:
    """One of many: position 1 lies in block 7, the bug looks into block 2."""
    return [7, 2, 5], 4, 1


def _way_back_cases(rng: random.Random) -> Case:
    block_size = rng.choice([1, 2, 4, 8])
    names = ("a", "b", "c")[: rng.randint(1, 3)]
    filled = rng.choice(names)  # the others may be empty
    tables = {
        name: rng.sample(range(1, 12), rng.randint(int(name == filled), 5))
        for name in names
    }
    return tables, block_size, rng.randrange(block_size, 12 * block_size)


def _judge_way_back(
    tables: dict[str, list[int]], block_size: int, slot: int, got: object
) -> str | None:
    right = set(_pairs(tables, block_size, slot))
    if not isinstance(got, list | tuple | set):
        return "Return a list of `(name, position)` pairs."
    pairs = [tuple(pair) if isinstance(pair, list | tuple) else pair for pair in got]
    if len(pairs) == len(right) and all(pair in right for pair in pairs):
        return None
    return f"Expected here, in any order: `{sorted(right)}`."


def _pairs(
    tables: dict[str, list[int]], block_size: int, slot: int
) -> list[tuple[str, int]]:
    return [
        (name, position)
        for name, table in tables.items()
        for position in range(len(table) * block_size)
        if address(tuple(table), block_size, position).slot == slot
    ]


@Exercise(
    "03-way-back",
    title="From the slot back to its tokens",
    difficulty=3,
    minutes=10,
    hints=(
        "A slot has a block and an offset too: `divmod(slot, block_size)`.",
        "Search every table for that block; `enumerate` tells its logical number, and "
        "the position is logical number · block_size + offset.",
    ),
    why="Every table that names the block has a token there, or room for one.",
    cases=_way_back_cases,
    examples=[({"left": [1, 2], "right": [1, 3]}, 4, 5), ({"a": [7, 2]}, 4, 12)],
    valid=lambda tables, block_size, slot: (
        any(tables.values()) and slot >= block_size > 0
    ),
    judge=_judge_way_back,
)
def tokens_in(
    tables: dict[str, list[int]], block_size: int, slot: int
) -> list[tuple[str, int]]:
    """Walk every table from end to end and compare slots."""
    return _pairs(tables, block_size, slot)
