"""Exercises of lesson 00, Start here."""

from __future__ import annotations

import random

from blockmgr import BlockManager, Snapshot, audit
from classroom.chats import serve
from classroom.exercise import Exercise
from classroom.same import shown
from classroom.shrink import Case

FORGED = "ref counts = table entries"
"""The invariant that exercise 3 breaks, by the name that the audit gives it."""


@Exercise(
    "00-queue-by-hand",
    title="The queue after Finn",
    difficulty=1,
    minutes=5,
    hints=(
        "A table is freed tail first: block 3, then 2, then 1. Where does each go?",
        "Without a hash: to the head. With a hash: to the tail, in the order freed.",
    ),
    why="Block 3 can't be found again, so it is overwritten first. Blocks 2 and 1 are "
    "remembered and wait at the tail, 2 before 1.",
)
def queue_by_hand() -> list[int]:
    """Ask the manager: ten tokens, of which two blocks of 4 are full."""
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("Finn", range(10))
    manager.free("Finn")
    return list(manager.snapshot().free_queue)


def _lengths(rng: random.Random) -> Case:
    return rng.randint(1, 200), rng.choice([1, 2, 4, 8, 16, 32])


@Exercise(
    "00-blocks-needed",
    title="How many blocks?",
    difficulty=1,
    minutes=5,
    hints=(
        "Try 8, 9 and 12 tokens with blocks of 4. When does the number change?",
        "It is a division rounded up: `//` rounds down, so add something first.",
    ),
    why="A block that is only begun counts whole. The manager takes as many.",
    cases=_lengths,
    examples=[(9, 4), (8, 4), (1, 16)],
    valid=lambda num_tokens, block_size: num_tokens > 0 and block_size > 0,
)
def blocks_needed(num_tokens: int, block_size: int) -> int:
    """Ask the manager how many blocks it gives."""
    manager = BlockManager(num_blocks=300, block_size=block_size)
    return len(manager.allocate("r0", range(num_tokens)).new_blocks)


def _states(rng: random.Random) -> Case:
    manager = BlockManager(num_blocks=12, block_size=4)
    start = [rng.randrange(9) for _ in range(4)]
    for name in ("a", "b", "c")[: rng.randint(1, 3)]:
        tail = [rng.randrange(9) for _ in range(rng.randint(1, 6))]
        manager.allocate(name, start + tail)
    return (manager.snapshot(),)


def _judge_forgery(snapshot: Snapshot, got: object) -> str | None:
    if not isinstance(got, Snapshot):
        return "forge should return a snapshot: `snapshot._replace(...)` makes one."
    try:
        broken = [item.name for item in audit(got) if not item.ok]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return "That is no snapshot any more: replace a field by one of the same kind."
    if broken == [FORGED]:
        return None
    named = ", ".join(f"`{name}`" for name in broken) or "nothing at all"
    return (
        f"From `ref_cnt={snapshot.ref_cnt}` your forgery makes "
        f"`ref_cnt={shown(got.ref_cnt)}`, and that breaks {named}."
    )


@Exercise(
    "00-forge",
    title="Break exactly one rule",
    difficulty=2,
    minutes=10,
    hints=(
        "`ref_cnt` is a tuple with one number for each block. Make a list of it first.",
        "Change the count of a block that is in use, and keep it above 0: then the "
        "block is still in use and only the comparison with the tables notices.",
    ),
    why="A count that is too high keeps its block from ever becoming free: a leak. "
    "Only counting the table entries shows it.",
    cases=_states,
    judge=_judge_forgery,
    rounds=20,
)
def forge(snapshot: Snapshot) -> Snapshot:
    """One way to do it: one user too many for the first block in use."""
    counts = list(snapshot.ref_cnt)
    counts[next(i for i, count in enumerate(counts) if count)] += 1
    return snapshot._replace(ref_cnt=tuple(counts))


AMPLE = 60
"""Blocks with which nobody can have to wait: more than all six chats ever hold."""


def _judge_smallest(got: object) -> str | None:
    if type(got) is not int or got < 2:
        return "A whole number of at least 2: the null block, and one to use."
    step = None if got > AMPLE else _first_wait(got)
    if step is not None:
        return f"With `num_blocks={got}` somebody has to wait, in step {step}."
    if got > AMPLE or _first_wait(got - 1) is None:
        size = shown(got)
        return f"With `num_blocks={size}` nobody waits. With a smaller one neither."
    return None


def _first_wait(num_blocks: int) -> int | None:
    log, _ = serve(num_blocks=num_blocks)
    waits = (n for n, event in enumerate(log, start=1) if event.status != "OK")
    return next(waits, None)


@Exercise(
    "00-smallest-pool",
    title="The smallest pool without waiting",
    difficulty=2,
    minutes=5,
    hints=(
        "`serve(num_blocks=20)[0]` is a log; look at `event.status` of each event.",
        "Try sizes from 2 up and stop at the first in which every status is OK.",
    ),
    why="With one block less, somebody finds the queue empty at the busiest moment.",
    judge=_judge_smallest,
)
def smallest_pool() -> int:
    """Run the six chats in larger and larger pools until nobody waits."""
    return next(size for size in range(2, AMPLE) if _first_wait(size) is None)
