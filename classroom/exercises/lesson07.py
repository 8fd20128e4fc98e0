"""Exercises of lesson 07, prefix caching."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from itertools import accumulate, chain

from blockmgr import BlockManager
from blockmgr.block import Block, BlockHash
from blockmgr.prefix import PrefixCache
from classroom.exercise import Exercise
from classroom.same import shown
from classroom.shrink import Case
from classroom.tutor import PARTS, hit_tokens, in_order

Link = Callable[[str, Sequence[int]], str]


def link(parent: str, tokens: Sequence[int]) -> str:
    """The name of a block: made from its parent's name and its tokens."""
    return hashlib.sha256(repr((parent, tuple(tokens))).encode()).hexdigest()[:8]


def found(
    served: Sequence[Sequence[int]], tokens: Sequence[int], block_size: int
) -> int:
    """Tokens that the real manager finds after it has served some prompts."""
    rooms = sum(-(-len(one) // block_size) for one in served)
    manager = BlockManager(rooms + 2, block_size)
    for number, one in enumerate(served):
        manager.allocate(str(number), one)
        manager.free(str(number))
    return len(manager.get_computed_blocks(tokens)) * block_size


# --- by hand --------------------------------------------------------------------------


@Exercise(
    "07-hits-by-hand",
    title="How many tokens are found?",
    difficulty=1,
    minutes=5,
    hints=(
        "Write the served prompt as blocks: 10 11 12 13 | 14 15 16 17 | 18 19 20 21 | "
        "22. The last one is not full.",
        "Compare from the left, whole blocks only, and stop before the block of the "
        "last token.",
    ),
    why="A: three blocks are full. B: all three are known, but the third holds the "
    "last token. C: the first block differs, so nothing behind it counts. D: one "
    "block is the same, the second already differs.",
)
def hits_by_hand() -> list[int]:
    """Ask the manager, each time after the one prompt that was served."""
    served = list(range(10, 23))
    asked = (served, served[:12], [99, *served[1:]], [*served[:6], *range(50, 57)])
    return [found([served], tokens, 4) for tokens in asked]


# --- the longest hit ------------------------------------------------------------------


def names_of(tokens: Sequence[int], block_size: int, link: Link = link) -> list[str]:
    """The names of the full blocks of a prompt."""
    ends = range(block_size, len(tokens) + 1, block_size)
    blocks = [tokens[end - block_size : end] for end in ends]
    return list(accumulate(blocks, link, initial=""))[1:]


def _prompt(rng: random.Random) -> list[int]:
    return [rng.randint(0, 2) for _ in range(rng.randint(1, 14))]


def _lookup_case(served: list[list[int]], tokens: list[int], block_size: int) -> Case:
    names = (names_of(one, block_size) for one in served)
    return set(chain.from_iterable(names)), tokens, block_size, link


def _lookup_cases(rng: random.Random) -> Case:
    served = [_prompt(rng) for _ in range(rng.randint(1, 3))]
    near = rng.choice(served)[: rng.randint(1, 14)]
    tokens = [*near, *_prompt(rng)][: rng.randint(1, 16)]
    return _lookup_case(served, tokens, rng.choice([1, 2, 4]))


@Exercise(
    "07-longest-hit",
    title="The longest hit",
    difficulty=2,
    minutes=12,
    hints=(
        "The last token must be computed, so there are `(len(tokens) - 1) // "
        "block_size` blocks to ask for, from the left.",
        'Start with `parent = ""` and make each name from the one before. At the first '
        "name that is not in `cached`, return the tokens so far.",
    ),
    why="Full blocks from the left, each name made from the one before, the first miss "
    "ends it, and the block of the last token is never asked for.",
    cases=_lookup_cases,
    examples=[
        _lookup_case([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5], 2),
        _lookup_case([[1, 2, 3, 4]], [1, 2, 3, 4], 2),
        _lookup_case([[1, 2, 3, 4]], [0, 2, 3, 4, 5], 2),
        _lookup_case([[1, 2, 1, 2]], [1, 2, 0, 0, 1, 2, 9], 2),
        _lookup_case([[1]], [1], 4),
    ],
    valid=lambda cached, tokens, block_size, link: bool(tokens) and block_size > 0,
)
def longest_hit(
    cached: set[str], tokens: list[int], block_size: int, link: Link
) -> int:
    """What the real prefix cache finds, asked as the manager asks it (rule 8)."""
    cache = PrefixCache()
    for number, name in enumerate(sorted(cached)):
        cache.insert(Block(number), BlockHash(name.encode()))
    names = [BlockHash(name.encode()) for name in names_of(tokens, block_size, link)]
    hits = cache.find(names, (len(tokens) - 1) // block_size)
    return len(hits) * block_size


# --- break it -------------------------------------------------------------------------


def _judge_unchained(got: object) -> str | None:
    if not isinstance(got, tuple | list) or len(got) != 2:
        return "Give two prompts: `(served, asked)`."
    prompts = [list(one) for one in got if isinstance(one, list | tuple)]
    if len(prompts) != 2 or not all(map(_are_tokens, prompts)):
        return "Each prompt is a list of 1 to 100 tokens, whole numbers from 0 on."
    served, asked = prompts
    known = {tuple(served[i : i + 4]) for i in range(0, len(served) - 3, 4)}
    limit = (len(asked) - 1) // 4
    wrong = 0
    while wrong < limit and tuple(asked[4 * wrong : 4 * wrong + 4]) in known:
        wrong += 1
    right = found([served], asked, 4) // 4
    if wrong > right:
        return None
    if not wrong:
        return "There the unchained cache finds nothing, so it does no harm."
    return f"There both find {shown(right)} of its blocks: the hit is a right one."


def _are_tokens(tokens: Sequence[object]) -> bool:
    whole = all(type(n) is int and 0 <= n < 2**63 for n in tokens)
    return whole and 1 <= len(tokens) <= 100


@Exercise(
    "07-unchained",
    title="A hash without a chain",
    difficulty=2,
    minutes=8,
    hints=(
        "The first block that is asked for must be known, but from another place: then "
        "what stood before it was something else.",
        "Serve two blocks of 4, then ask for the second one alone, and one token more.",
    ),
    why="The tokens of that block are the same, but in the served prompt four others "
    "stood before them, and its K and V were computed from those. The wrong hit would "
    "give the model another prompt's past, and no error.",
    judge=_judge_unchained,
)
def unchained() -> tuple[list[int], list[int]]:
    """One of many: the served prompt's second block, asked for as a first one."""
    return [1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7, 8, 9]


# --- a target -------------------------------------------------------------------------

TARGET = 84
"""Per cent of the prompt tokens to be found; the best order reaches 86.6."""


def _judge_order(got: object) -> str | None:
    if not isinstance(got, tuple | list) or len(got) != len(PARTS):
        return f"Give the five parts in an order: {', '.join(PARTS)}."
    if any(type(part) is not str for part in got) or {*got} != {*PARTS}:
        return f"Each of these must stand there once: {', '.join(PARTS)}."
    hits, asked = hit_tokens(in_order([str(part) for part in got]))
    rate = 100 * hits / asked
    if rate >= TARGET:
        return None
    return f"This order finds {hits:,} of {asked:,} tokens: {rate:.1f} %."


@Exercise(
    "07-order",
    title="Put what changes last",
    difficulty=3,
    minutes=10,
    hints=(
        "A chain breaks at the first part that differs from one request to the next. "
        "Which parts are the same in all 24?",
        "After the parts that never change comes the one with the fewest different "
        "values, and the time, which is another one each time, at the very end.",
    ),
    why="What is the same for everybody stands first, what differs most stands last. "
    "The best order finds 86.6 %: the pupil before the question, for there are 6 "
    "pupils and 12 questions.",
    judge=_judge_order,
)
def order() -> list[str]:
    """One of the two best orders of all 120."""
    return ["rules", "examples", "pupil", "question", "time"]
