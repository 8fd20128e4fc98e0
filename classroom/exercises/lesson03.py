"""Exercises of lesson 03, the block table."""

from __future__ import annotations

import random

from blockmgr import BlockManagerError, address
from classroom.exercise import exercise
from classroom.shrink import Case


@exercise(
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
    start, stop = sorted(rng.randint(0, len(table) * block_size) for _ in range(2))
    return table, block_size, start, stop


@exercise(
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
    examples=[([7, 2, 5], 4, 3, 5), ([1], 16, 0, 0)],
    valid=lambda table, block_size, start, stop: (
        block_size > 0 and 0 not in table and 0 <= start <= stop
    ),
)
def slot_mapping(table: list[int], block_size: int, start: int, stop: int) -> list[int]:
    """The manager's own arithmetic, position by position."""
    return [address(tuple(table), block_size, p).slot for p in range(start, stop)]


def _judge_silent_bug(got: object) -> str | None:
    if not isinstance(got, tuple | list) or len(got) != 3:
        return "Give three things: `(table, block_size, position)`."
    table, block_size, position = got
    if not isinstance(table, list | tuple) or not all(type(n) is int for n in table):
        return "The table is a list of block ids."
    if type(block_size) is not int or type(position) is not int or block_size < 1:
        return "Block size and position are whole numbers, the first at least 1."
    try:
        right = address(tuple(table), block_size, position).slot
    except BlockManagerError as error:
        return f"The right formula has no answer there: {error}."
    return _compare(tuple(table), block_size, position, right)


def _compare(
    table: tuple[int, ...], block_size: int, position: int, right: int
) -> str | None:
    try:
        wrong = table[position % block_size] * block_size + position // block_size
    except IndexError:
        return "There the bug is loud: an IndexError. Find a case where it is silent."
    if wrong != right:
        return None
    return f"There the bug does no harm: both formulas give slot {right}."


@exercise(
    "03-silent-bug",
    title="A silent bug",
    difficulty=2,
    minutes=8,
    hints=(
        "With position 0 both formulas agree. What about position 1?",
        "The bug must find an entry: `position % block_size` below the table's length.",
    ),
    why="Your case reads another token's K and V and nothing complains. Only a test "
    "with more than one block and a position off the diagonal sees it.",
    judge=_judge_silent_bug,
)
def silent_bug() -> tuple[list[int], int, int]:
    """One of many: position 1 lies in block 7, the bug looks into block 2."""
    return [7, 2, 5], 4, 1


def _way_back_cases(rng: random.Random) -> Case:
    block_size = rng.choice([1, 2, 4, 8])
    names = ("a", "b", "c")[: rng.randint(1, 3)]
    tables = {name: rng.sample(range(1, 12), rng.randint(0, 5)) for name in names}
    return tables, block_size, rng.randrange(block_size, 12 * block_size)


@exercise(
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
    valid=lambda tables, block_size, slot: block_size > 0 and slot >= block_size,
)
def tokens_in(
    tables: dict[str, list[int]], block_size: int, slot: int
) -> list[tuple[str, int]]:
    """Walk every table from end to end and compare slots."""
    return [
        (name, position)
        for name, table in tables.items()
        for position in range(len(table) * block_size)
        if address(tuple(table), block_size, position).slot == slot
    ]
