"""How long the manager's basic operations take, in a unit that every machine has.

Nanoseconds say as much about the machine as about the code. So every time is also
given in **units**: one unit is what one `append(popleft())` of a `deque` costs, the
cheapest way to take a free block and give it back that Python has. Each sample of a
row stands between two samples of the unit, and a row's figure is the median over all
rounds of *row / unit*: when the machine slows down for a while, both slow down.

Python's garbage collector is off while anything is timed, as in `timeit`: the core
makes no reference cycles, and a collection would land on whichever row is running.

Every sample checks that the work was really done: that all 124 blocks were found, that
no block was lost. A benchmark that measures nothing is worse than none.

In vLLM: `benchmarks/benchmark_block_pool.py` times take and free, in microseconds
(release 0.33).
"""

from __future__ import annotations

import gc
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from random import Random
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

from blockmgr.block import BlockHash
from blockmgr.errors import BlockManagerError
from blockmgr.manager import BlockManager
from blockmgr.pool import BlockPool
from blockmgr.prefix import extend_hashes

BLOCK_SIZE = 16
PROMPT = 2_000  # tokens: 125 full blocks, of which 124 can be hits (rule 8)
FULL = PROMPT // BLOCK_SIZE
HITS = FULL - 1
POOL = 10_000  # blocks, where the row doesn't say otherwise
SEQUENCES = 256
START = GROWTH = 4 * BLOCK_SIZE  # tokens: 4 block edges are crossed while growing
FLAT_SIZES = (1_000, 10_000, 100_000, 1_000_000)
FLAT_SEQUENCES = 64  # what fits into the smallest of these pools
SAMPLE_NS = 3_000_000  # a sample takes about this long: far above the clock's step
ROUNDS, QUICK_ROUNDS = 100, 15

Sample = Callable[[int], float]
"""Does an operation that many times and returns nanoseconds per operation."""

Progress = Callable[[str, int, int], object]
"""Is told what is being measured, how many rounds are done, and of how many."""


class BenchError(BlockManagerError):
    """A benchmark didn't do what its row says, so its time means nothing."""


class Row(NamedTuple):
    """One row: what it measures, and in units the target and what others need.

    `vllm` (release 0.33) and `nano` (nano-vllm) are None where there is no figure.
    """

    name: str
    about: str
    target: int
    vllm: int | None
    nano: int | None


ROWS = (
    Row("take_free_1", "take 1 block and free it", 14, 41, 21),
    Row("take_free_8", "take 8 blocks and free them", 45, 155, 91),
    Row("lookup_124", "find 124 cached blocks, hashes ready", 700, 3_200, None),
    Row("hash_2000", "hash 2,000 tokens: 125 blocks", 4_500, 9_300, None),
    Row(
        "admit_hit_free", "admit with 124 hits, hashes ready, free", 1_400, 4_500, None
    ),
    Row("admit_cold_free", "admit 125 blocks, caching off, free", 400, 1_160, 1_340),
    Row("append", "append 1 token, with hashing, 256 sequences", 25, 218, 19),
)
"""In the order in which they are reported."""


# --- one function for each kind of row ------------------------------------------------


def unit() -> Sample:
    """Take the first of a row of numbers and put it at the end."""
    queue = deque(range(POOL))

    def sample(times: int) -> float:
        start = perf_counter_ns()
        for _ in repeat(None, times):
            queue.append(queue.popleft())
        return (perf_counter_ns() - start) / times

    return sample


def take_free(pool: BlockPool, n: int) -> Sample:
    """`get_new_blocks(n)` and `free_blocks` of the same, in a pool where all is free.

    They are blank from the second time on, so nothing is evicted.
    """

    def sample(times: int) -> float:
        start = perf_counter_ns()
        for _ in repeat(None, times):
            taken = pool.get_new_blocks(n)
            pool.free_blocks(taken)
        spent = perf_counter_ns() - start
        expect("blocks taken", len(taken), n)
        expect_all_free(pool)
        return spent / times

    return sample


def lookup(pool: BlockPool, names: list[BlockHash], hits: int = HITS) -> Sample:
    """`get_cached_blocks` of a prompt whose first `hits` blocks the pool remembers."""

    def sample(times: int) -> float:
        start = perf_counter_ns()
        for _ in repeat(None, times):
            found = pool.get_cached_blocks(names, hits)
        spent = perf_counter_ns() - start
        expect("blocks found", len(found), hits)
        expect_all_free(pool)
        return spent / times

    return sample


def hash_tokens(tokens: array[int]) -> Sample:
    """`extend_hashes` of a whole prompt, from no hash at all."""

    def sample(times: int) -> float:
        start = perf_counter_ns()
        for _ in repeat(None, times):
            hashes: list[BlockHash] = []
            extend_hashes(hashes, tokens, BLOCK_SIZE)
        spent = perf_counter_ns() - start
        expect("hashes", len(hashes), len(tokens) // BLOCK_SIZE)
        expect("different hashes", len(set(hashes)), len(hashes))
        return spent / times

    return sample


def admit_free(manager: BlockManager, seq_id: str, hits: int) -> Sample:
    """`resume` and `preempt` of a sequence: an admission, and the blocks given back.

    `allocate` first makes the sequence, a copy of the prompt and its hashes (the row
    `hash_2000`), as vLLM does it when a request arrives, long before it is admitted. A
    resume decides the same without. `preempt` frees the blocks as `free` does, and
    keeps the tokens for the next time.
    """

    def sample(times: int) -> float:
        start = perf_counter_ns()
        for _ in repeat(None, times):
            answer = manager.resume(seq_id)
            manager.preempt(seq_id)
        spent = perf_counter_ns() - start
        expect("blocks found", len(answer.hit_blocks), hits)
        expect("blocks taken", len(answer.new_blocks), FULL - hits)
        expect_all_free(manager.pool)
        return spent / times

    return sample


def append(manager: BlockManager, sequences: int) -> Sample:
    """`append` of one token to each of many sequences in turn, `GROWTH` times over.

    The time is per token. Each sample starts with empty pool and cache, and all
    sequences with `START` tokens, different ones: all cross a block edge in the same
    turn, and every block that one of them fills is hashed and registered.
    """
    random = Random(0)
    prompts = {
        f"sequence {i}": array("Q", (random.randrange(100_000) for _ in range(START)))
        for i in range(sequences)
    }
    turns = [[random.randrange(100_000)] for _ in range(GROWTH)]

    def sample(times: int) -> float:
        for seq_id, tokens in prompts.items():
            manager.allocate(seq_id, tokens)
        add = manager.append
        start = perf_counter_ns()
        for token in turns:
            for seq_id in prompts:
                add(seq_id, token)
        spent = perf_counter_ns() - start
        grown = (START + GROWTH) // BLOCK_SIZE
        for seq_id in prompts:
            expect("blocks in a table", len(manager.block_table(seq_id)), grown)
        expect("hashed blocks", len(manager.pool.cache), grown * sequences)
        for seq_id in prompts:
            manager.free(seq_id)
        expect_all_free(manager.pool)
        manager.reset_prefix_cache()
        return spent / (sequences * GROWTH)

    return sample


def expect(what: str, got: int, wanted: int) -> None:
    """Complain unless the work was done."""
    if got != wanted:
        raise BenchError(
            f"{what}: expected {wanted}, got {got}: the time of this row would mean "
            "nothing, so find out what the operation did instead"
        )


def expect_all_free(pool: BlockPool) -> None:
    """Complain if a block was lost: each must stand in the free queue once."""
    expect("free blocks", pool.num_free_blocks, pool.num_usable_blocks)


# --- what the rows work on ------------------------------------------------------------


def prompt_of(length: int, seed: int = 0) -> array[int]:
    """Random tokens of a vocabulary of 100,000, the same every time."""
    random = Random(seed)
    return array("Q", (random.randrange(100_000) for _ in range(length)))


def hashes_of(tokens: array[int], block_size: int = BLOCK_SIZE) -> list[BlockHash]:
    """The hashes that a sequence of these tokens has."""
    hashes: list[BlockHash] = []
    extend_hashes(hashes, tokens, block_size)
    return hashes


def remember(pool: BlockPool, names: list[BlockHash]) -> BlockPool:
    """Make the pool remember blocks of these names, all of them free."""
    blocks = pool.get_new_blocks(len(names))
    pool.cache_blocks(blocks, names)
    pool.free_blocks(blocks[::-1])
    return pool


def preempted(seq_id: str, tokens: array[int]) -> BlockManager:
    """A manager with one sequence, preempted, that finds all but its last block.

    Another sequence with the same tokens had registered the blocks, as with a system
    prompt. The pool holds just this prompt, so that every admission finds the same
    state: the blocks before the last are hits, and the last is overwritten.
    """
    manager = BlockManager(len(tokens) // BLOCK_SIZE + 1, BLOCK_SIZE)
    manager.allocate("another", tokens)
    manager.free("another")
    manager.allocate(seq_id, tokens)
    manager.preempt(seq_id)
    return manager


def samples() -> dict[str, Sample]:
    """The benchmark of each row, with what it works on."""
    tokens = prompt_of(PROMPT)
    # Two requests with equal tokens have hashes that are equal, and not the same
    # object: so the names are computed once to be registered, and once to look up.
    cached = remember(BlockManager(POOL, BLOCK_SIZE).pool, hashes_of(tokens))
    off = BlockManager(POOL, BLOCK_SIZE, enable_caching=False)
    off.allocate("a", tokens)
    off.preempt("a")
    return {
        "take_free_1": take_free(BlockPool(POOL), 1),
        "take_free_8": take_free(BlockPool(POOL), 8),
        "lookup_124": lookup(cached, hashes_of(tokens)),
        "hash_2000": hash_tokens(tokens),
        "admit_hit_free": admit_free(preempted("a", tokens), "a", HITS),
        "admit_cold_free": admit_free(off, "a", 0),
        "append": append(BlockManager(POOL, BLOCK_SIZE), SEQUENCES),
    }


def flat_samples(num_blocks: int) -> dict[str, Sample]:
    """Three of them in a pool of `num_blocks`, each of which remembers something.

    The names cover 1 token a block, which is quicker to prepare.
    """
    tokens = array("Q", range(num_blocks - 1))
    pool = remember(BlockManager(num_blocks, 1).pool, hashes_of(tokens, 1))
    asked = hashes_of(tokens[:FULL], 1)
    return {
        "lookup_124": lookup(pool, asked),
        "take_free_1": take_free(pool, 1),
        "append": append(BlockManager(num_blocks, BLOCK_SIZE), FLAT_SEQUENCES),
    }


# --- timing ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, in units per operation.

    `rows` are in the order of `ROWS`. `flat` says for some of them what they cost in a
    pool of each number of blocks; it is empty unless that was asked for.
    """

    unit_ns: float
    rows: dict[str, float]
    flat: dict[str, dict[int, float]]

    def ns(self, name: str) -> float:
        """Nanoseconds per operation of a row."""
        return self.rows[name] * self.unit_ns

    def as_json(self) -> dict[str, object]:
        """For machines: `unit_ns` and `rows`, and `flat` only if it was measured."""
        found: dict[str, object] = {"unit_ns": self.unit_ns, "rows": self.rows}
        if self.flat:
            found["flat"] = self.flat
        return found


def run(
    rounds: int = ROUNDS,
    pools: Iterable[int] = (),
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Measure every row, and some of them again in pools of so many blocks.

    A pool of 1,000,000 blocks takes a few seconds to fill, and 0.6 GB of memory.
    Raises `BenchError` if a row didn't do its work.
    """

    def follow(what: str) -> Callable[[int], object]:
        return lambda done: progress(what, done, rounds)

    flat: dict[str, dict[int, float]] = {}
    with no_collection():
        unit_ns, rows = measure(samples(), rounds, follow("rows"))
        for size in pools:
            shown = follow(f"{size:,} blocks")
            for name, units in measure(flat_samples(size), rounds, shown)[1].items():
                flat.setdefault(name, {})[size] = units
    return Report(unit_ns, rows, flat)


def measure(
    rows: dict[str, Sample],
    rounds: int,
    progress: Callable[[int], object] = lambda done: None,
    one: Sample | None = None,
) -> tuple[float, dict[str, float]]:
    """Nanoseconds of one unit, and units of every row: each the median of `rounds`.

    `one` is a sample of the unit itself.
    """
    progress(0)
    one = one or unit()
    unit_times = repeats(one) // 2  # there is one before each sample and one behind it
    times = {name: repeats(sample) for name, sample in rows.items()}
    ratios: dict[str, list[float]] = {name: [] for name in rows}
    units = []
    for done in range(1, rounds + 1):
        before = one(unit_times)
        for name, sample in rows.items():
            spent = sample(times[name])
            after = one(unit_times)
            ratios[name].append(spent / ((before + after) / 2))
            units.append(after)
            before = after
        progress(done)
    return median(units), {name: median(found) for name, found in ratios.items()}


def repeats(sample: Sample) -> int:
    """How often to do it in one sample of about `SAMPLE_NS`. Also a warm-up."""
    times = 16
    while times * sample(times) < SAMPLE_NS / 2:
        times *= 4
    return times


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector off inside, and leave it as it was."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
