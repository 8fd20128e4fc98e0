"""Exercises of lesson 02, the memory pool."""

from __future__ import annotations

import random
from functools import lru_cache

from blockmgr import BlockManager
from blockmgr.profile import load_profile
from classroom.exercise import Exercise
from classroom.same import shown
from classroom.shrink import Case


def _sizes(
    memory_bytes: int,
    block_size: int,
    layers: int,
    kv_heads: int,
    head_size: int,
    itemsize: int,
) -> tuple[int, int, int]:
    """Bytes of a block, blocks, tokens: as the KV cache itself counts them."""
    import torch  # takes seconds, and most checks don't need it

    from blockmgr.storage import KVCacheSpec

    dtypes = {1: torch.float8_e4m3fn, 2: torch.float16, 4: torch.float32}
    spec = KVCacheSpec(
        num_layers=layers,
        num_kv_heads=kv_heads,
        head_size=head_size,
        block_size=block_size,
        dtype=dtypes[itemsize],
    )
    num_blocks = spec.num_blocks_in(memory_bytes)
    return spec.block_bytes, num_blocks, (num_blocks - 1) * block_size


@Exercise(
    "02-block-by-hand",
    title="A block by hand",
    difficulty=1,
    minutes=5,
    hints=(
        "First one token: 2 × layers × KV heads × head size × bytes. The 2 is for K "
        "and V.",
        "Then × 32 for the block, then 104,857,600 // that, then less one.",
    ),
    why="12,288 bytes for each token, 393,216 for each block; 266 blocks fit, one of "
    "them the null block.",
)
def block_by_hand() -> list[int]:
    """Ask the spec."""
    block_bytes, num_blocks, _ = _sizes(100 * 2**20, 32, 24, 2, 64, 2)
    return [block_bytes, num_blocks - 1]


def _pool_cases(rng: random.Random) -> Case:
    shape = rng.randint(1, 48), rng.randint(1, 16), rng.choice([8, 16, 64, 80, 128])
    block_size, itemsize = rng.choice([1, 4, 8, 16, 32]), rng.choice([1, 2, 4])
    block = _sizes(2**50, block_size, *shape, itemsize)[0]
    memory = rng.randint(2, 40) * block + rng.choice([0, 1, rng.randrange(block)])
    return memory, block_size, *shape, itemsize


@Exercise(
    "02-pool-size",
    title="How large is the pool?",
    difficulty=2,
    minutes=10,
    hints=(
        "Begin with the bytes of one token, as by hand; a block has `block_size` of "
        "them.",
        "Whole blocks only: `memory_bytes // block_bytes`. The tokens are those of "
        "all blocks but the null block.",
    ),
    why="Whole blocks only; and whoever forgets the null block promises `block_size` "
    "tokens that have no slot.",
    cases=_pool_cases,
    examples=[(2**30, 16, 32, 8, 128, 2), (100 * 2**20, 32, 24, 2, 64, 2)],
    valid=lambda *case: min(case) > 0,
    rounds=40,
)
def pool_size(
    memory_bytes: int,
    block_size: int,
    layers: int,
    kv_heads: int,
    head_size: int,
    itemsize: int,
) -> tuple[int, int]:
    """Ask the spec, which raises where not even two blocks fit."""
    shape = layers, kv_heads, head_size
    return _sizes(memory_bytes, block_size, *shape, itemsize)[1:]


_POOL_SLOTS = 64  # 16 blocks of 4, beside the null block


def _judge_does_not_fit(got: object) -> str | None:
    if not isinstance(got, list | tuple) or not all(type(n) is int for n in got):
        return "Give a list of whole numbers: the tokens of each request."
    if not got or min(got) < 1 or len(got) > _POOL_SLOTS:
        return f"Give 1 to {_POOL_SLOTS} requests, each of 1 token or more."
    if sum(got) > _POOL_SLOTS:
        return (
            f"These have {shown(sum(got))} tokens and the pool {_POOL_SLOTS} slots: "
            "the colleague would refuse them too."
        )
    manager = BlockManager(17, 4, enable_caching=False)
    answers = [manager.allocate(str(i), range(n)) for i, n in enumerate(got)]
    if all(answers):
        used = manager.snapshot().num_used
        return f"The manager finds room for all of them, in {used} of 16 blocks."
    return None


@Exercise(
    "02-does-not-fit",
    title="It should fit, and does not",
    difficulty=2,
    minutes=8,
    hints=(
        "The colleague counts tokens, the manager counts blocks. Which lengths take "
        "many blocks for few tokens?",
        "A request of 5 tokens takes 2 blocks, 8 slots. How many of these fit?",
    ),
    why="Tokens were counted where blocks are given out. With B = 4 each request may "
    "leave up to 3 slots empty, and nobody else can use them. 17 tokens are the "
    "fewest that do it: 17 requests of one.",
    judge=_judge_does_not_fit,
)
def does_not_fit() -> list[int]:
    """Nine requests of 5 tokens need 18 blocks; the worst are 17 requests of 1."""
    return [5] * 9


@lru_cache(maxsize=1)
def _lengths() -> tuple[int, ...]:
    """The tokens of the lesson's 400 requests, prompt and answer together."""
    drawn = load_profile("alpaca_lengths").draw(400, seed=2)
    return tuple(request.prompt_tokens + request.output_tokens for request in drawn)


def _totals(block_size: int) -> tuple[float, int]:
    """Share of the slots wasted, and table entries, of those requests."""
    lengths = _lengths()
    entries = sum(-(-length // block_size) for length in lengths)
    return 1 - sum(lengths) / (entries * block_size), entries


def _judge_block_size(got: object) -> str | None:
    if type(got) is not int or not 1 <= got <= 512:
        return "Give a block size: a whole number from 1 to 512."
    share, entries = _totals(got)
    if share > 0.05:
        return f"Blocks of {got} slots waste {share:.2%} of them: more than 5 %."
    if entries > _totals(_best_block_size())[1]:
        return (
            f"Within the 5 %: {share:.2%}, with {entries:,} table entries. But "
            "another block size has fewer entries and keeps to 5 % as well."
        )
    return None


def _best_block_size() -> int:
    within = [size for size in range(1, 65) if _totals(size)[0] <= 0.05]
    return min(within, key=lambda size: _totals(size)[1])


@Exercise(
    "02-block-size",
    title="Little waste, short tables",
    difficulty=3,
    minutes=10,
    hints=(
        "Try every block size from 1 to 64. Its entries are "
        '`sum(blocks_taken(lengths["Alpaca"], size))`, its slots `size` times as many.',
        "Keep those that waste at most 5 %, and take the one with the fewest entries: "
        "`min(..., key=...)`.",
    ),
    why="Half a block of each request is wasted. With requests as short as these, that "
    "must be few slots, and the price is longer tables.",
    judge=_judge_block_size,
)
def block_size() -> int:
    """Try them all."""
    return _best_block_size()
