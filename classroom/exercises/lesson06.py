"""Exercises of lesson 06, Recycling."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from blockmgr import BlockManager
from blockmgr.block import Block, BlockHash, FreeQueue, ids_of
from blockmgr.errors import BlockManagerError
from blockmgr.pool import BlockPool
from classroom.exercise import Exercise
from classroom.same import shown
from classroom.shrink import Case


@Exercise(
    "06-queue-by-hand",
    title="The queue by hand",
    difficulty=1,
    minutes=6,
    hints=(
        "`a` takes blocks 1, 2 and 3, and block 3 is not full. `b` takes block 4.",
        "After both have left, the queue is 3, 5, 6, 7, 2, 1, 4. Then `c` pulls one "
        "block out of it and takes one from its head.",
    ),
    why="Block 1 is pulled out of the middle, block 3 is taken from the head, and "
    "nobody else has moved.",
)
def queue_by_hand() -> list[int]:
    """Ask the manager."""
    manager = BlockManager(num_blocks=8, block_size=4)
    manager.allocate("a", range(10))
    manager.allocate("b", range(100, 104))
    manager.free("a")
    manager.free("b")
    manager.allocate("c", range(6))
    return list(manager.snapshot().free_queue)


# --- the order in which a table comes back --------------------------------------------


def _frees(rng: random.Random) -> Case:
    """A manager after some traffic, and one of those that are still there."""
    manager = BlockManager(num_blocks=24, block_size=2)
    for i in range(rng.randint(1, 8)):
        tokens = [rng.randrange(2) for _ in range(rng.randint(1, 7))]
        manager.allocate(f"r{i}", tokens)
        if len(manager.sequences) > 2:
            manager.free(rng.choice(list(manager.sequences)))
    leaver = rng.choice(list(manager.sequences))
    state = manager.snapshot()
    users = {b: n for b, n in enumerate(state.ref_cnt) if n}
    remembered = {b for b, key in enumerate(state.block_hash) if key is not None}
    return (
        list(state.free_queue),
        list(state.sequences[leaver].block_table),
        users,
        remembered,
    )


def _makes_a_pool(
    queue: list[int], table: list[int], users: dict[int, int], remembered: set[int]
) -> bool:
    used = set(users)
    return bool(
        table
        and len(set(queue)) == len(queue)
        and len(set(table)) == len(table)
        and set(table) <= used
        and not used & set(queue)
        and 0 not in used | set(queue) | remembered
        and all(count > 0 for count in users.values())
    )


@Exercise(
    "06-queue-after-free",
    title="Give a table back",
    difficulty=2,
    minutes=10,
    hints=(
        "Walk `reversed(table)` and keep the blocks with `users[block] == 1`: only "
        "they become free.",
        "Split what you kept in two: blank ones and remembered ones. The new queue is "
        "`blank + queue + kept`.",
    ),
    why="Blank in front, the old queue, remembered behind, each part last block first: "
    "the queue of `free_blocks` in the real pool.",
    cases=_frees,
    examples=[
        ([5, 6], [1, 2, 3], {1: 1, 2: 1, 3: 1}, {1, 2}),
        ([4, 5, 6], [1, 2, 3], {1: 2, 2: 1, 3: 1}, {1, 2}),
        ([], [7], {7: 1}, set()),
    ],
    valid=_makes_a_pool,
)
def queue_after_free(
    queue: list[int], table: list[int], users: dict[int, int], remembered: set[int]
) -> list[int]:
    """Bring a real pool into this state, and let it free the table."""
    pool = BlockPool(max([0, *queue, *users, *remembered]) + 2)
    for b in remembered:
        pool.blocks[b].block_hash = BlockHash(b"%d" % b)
    for b, count in users.items():
        pool.blocks[b].ref_cnt = count
    # The order is what is given: which part of the queue a block is in, does not show.
    pool.free_queue.stack = []
    pool.free_queue.line = deque(pool.blocks[b] for b in queue)
    pool.free_blocks([pool.blocks[b] for b in reversed(table)])
    return list(ids_of(pool.free_queue))


# --- break it: head first loses a hit -------------------------------------------------

USABLE, SIZE = 3, 2
"""The pool of exercise 3: usable blocks, and tokens in each."""

MOST_PROMPTS = 50


class HeadFirst(BlockPool):
    """A pool that frees a table's first block first."""

    def free_blocks(self, blocks: Sequence[Block]) -> None:
        """As the real one, in the other order."""
        super().free_blocks(blocks[::-1])


def hits_of(prompts: Sequence[Sequence[int]], head_first: bool) -> int:
    """Tokens found when each prompt is served alone: it comes, and it goes."""
    manager = BlockManager(num_blocks=USABLE + 1, block_size=SIZE)
    if head_first:
        manager.pool.__class__ = HeadFirst
    for i, prompt in enumerate(prompts):
        if manager.allocate(str(i), prompt):
            manager.free(str(i))
    return manager.hit_tokens


def _judge_history(got: object) -> str | None:
    if not isinstance(got, list | tuple) or not got or len(got) > MOST_PROMPTS:
        return f"Give a list of 1 to {MOST_PROMPTS} prompts, each a list of numbers."
    try:
        kept, lost = (hits_of(list(map(list, got)), flip) for flip in (False, True))
    except (BlockManagerError, TypeError):
        return "Each prompt is a list of whole numbers, at least one."
    if kept <= lost:
        return (
            f"Tail first finds {kept} tokens, head first {lost}. Look for a history in "
            "which tail first finds more."
        )
    if len(got) > 3:
        return (
            f"It works ({kept} tokens against {lost}), and it can be done with fewer."
        )
    return None


@Exercise(
    "06-lost-hit",
    title="A hit that head first loses",
    difficulty=2,
    minutes=10,
    hints=(
        "The first prompt must leave two remembered blocks. The second must take just "
        "one of them. The third asks for the first one's start.",
        "`[1, 2, 3, 4]` fills two blocks; block 3 is still blank. What must a prompt "
        "be like that takes two blocks? And the last one must have a token more than "
        "the two that it wants to find.",
    ),
    why="With one prompt there is nothing to find, and with two nothing has been taken "
    "in between. So three is the least.",
    judge=_judge_history,
)
def lost_hit() -> list[list[int]]:
    """The second prompt takes the blank block and one that is remembered."""
    return [[1, 2, 3, 4], [5, 6, 7], [1, 2, 9]]


# --- a target to beat -----------------------------------------------------------------

POOL, TARGET = 12, 170
"""Usable blocks of exercise 4, and the blocks that have to be found."""

Worth = Callable[[int, int, int], Any]


def small_trace() -> list[list[int]]:
    """Two hundred requests as lists of block names: half of them begin with one of
    three short system prompts, the others are long and never come again."""
    rng, fresh, trace = random.Random(6), iter(range(100, 10_000)), []
    for _ in range(200):
        if rng.random() < 0.5:
            start = int(rng.random() * 3) * 10
            trace.append([start, start + 1, next(fresh)])
        else:
            trace.append([next(fresh) for _ in range(3 + int(rng.random() * 5))])
    return trace


class Past(NamedTuple):
    """What is known of a remembered block: when it was used last, how often it was
    found, and its place in its chain, 0 at the start."""

    last: int
    hits: int
    place: int


def found_blocks(worth: Worth) -> int:
    """Blocks found in the small trace by a real pool, whose remembered free blocks are
    put in order before each request: what is worth least is taken first."""
    pool, found, past = BlockPool(POOL + 1), 0, dict[BlockHash, Past]()
    for now, request in enumerate(small_trace()):
        _put_in_order(pool, past, worth, now)
        names = [BlockHash(b"%d" % i) for i in request]
        here = pool.get_cached_blocks(names, len(names) - 1)
        pool.touch(here)
        new = pool.get_new_blocks(len(names) - len(here))
        pool.cache_blocks(new, names[len(here) :])
        for place, name in enumerate(names):
            hits = past[name].hits + 1 if place < len(here) else 0
            past[name] = Past(now, hits, place)
        pool.free_blocks((here + new)[::-1])
        found += len(here)
    return found


def _put_in_order(
    pool: BlockPool, past: dict[BlockHash, Past], worth: Worth, now: int
) -> None:
    """Sort the remembered blocks of the queue; equal ones keep their order."""
    blank, kept = list[Block](), list[tuple[Any, int, Block]]()
    for turn, block in enumerate(pool.free_queue):
        block.num_stale = 0
        if block.block_hash is None:
            blank.append(block)
        else:
            was = past[block.block_hash]
            kept.append((worth(now - was.last, was.hits, was.place), turn, block))
    pool.free_queue = FreeQueue(blank)
    pool.free_queue.line = deque(block for *_, block in sorted(kept))


def _judge_found(got: object) -> str | None:
    lru = found_blocks(lambda age, hits, place: -age)
    if type(got) is int and got >= TARGET:
        return None
    return f"It finds {shown(got)} blocks. LRU finds {lru}; the target is {TARGET}."


@Exercise(
    "06-beat-lru",
    title="Beat LRU",
    difficulty=3,
    minutes=15,
    hints=(
        "Half of the requests are long and never come again. How does a block look "
        "that nobody has ever asked for a second time?",
        "A block with more `hits` is worth more: that alone finds 169. Of two that are "
        "equal in this, which is the more useful one in its chain? Tuples are compared "
        "entry by entry.",
    ),
    why="Here past hits, and a place near the start, say more about a block's future "
    "than its age does. "
    "That is true of this trace; lesson 10 asks whether it is of real ones.",
    cases=lambda rng: (),
    rounds=1,
    run=found_blocks,
    judge=_judge_found,
    steps=3_000_000,
)
def worth(age: int = 0, hits: int = 0, place: int = 0) -> tuple[int, int, int]:
    """Least frequently found, of those the deepest, and of those the oldest."""
    return hits, -place, -age
