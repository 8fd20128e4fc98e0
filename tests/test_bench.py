"""The benchmark: that each row does the work it names. Never how long that takes."""

import gc
import json
from array import array
from itertools import cycle

import pytest

from blockmgr import BlockManager, BlockPool
from blockmgr.bench import (
    BLOCK_SIZE,
    FULL,
    GROWTH,
    HITS,
    PROMPT,
    ROWS,
    START,
    BenchError,
    Report,
    Sample,
    admit_free,
    append,
    flat_samples,
    hash_tokens,
    hashes_of,
    lookup,
    measure,
    no_collection,
    preempted,
    prompt_of,
    remember,
    run,
    samples,
    take_free,
)
from blockmgr.block import Block

NAMES = [
    *("take_free_1", "take_free_8", "lookup_124", "hash_2000"),
    *("admit_hit_free", "admit_cold_free", "append"),
]
POOLS = (1_000, 2_000)


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int]]:
    return []


@pytest.fixture(scope="module")
def report(told: list[tuple[str, int, int]]) -> Report:
    return run(2, POOLS, lambda *progress: told.append(progress))


# --- what is reported -----------------------------------------------------------------


def test_the_rows_come_in_the_order_of_the_targets(report: Report) -> None:
    assert [row.name for row in ROWS] == list(samples()) == list(report.rows) == NAMES
    assert [row.target for row in ROWS] == [14, 45, 700, 4_500, 1_400, 400, 25]
    assert all(units > 0 for units in report.rows.values())


def test_nanoseconds_are_units_times_the_unit(report: Report) -> None:
    for name in NAMES:
        assert report.ns(name) / report.unit_ns == pytest.approx(report.rows[name])


def test_json_has_two_keys_and_a_third_only_if_it_was_measured(report: Report) -> None:
    wide = json.loads(json.dumps(report.as_json()))
    assert list(wide) == ["unit_ns", "rows", "flat"]
    assert list(wide["rows"]) == NAMES
    assert wide["rows"] == report.rows
    assert {tuple(sizes) for sizes in wide["flat"].values()} == {("1000", "2000")}
    narrow = Report(report.unit_ns, report.rows, {})
    assert list(narrow.as_json()) == ["unit_ns", "rows"]


def test_pools_of_each_size_are_measured_in_the_order_given(report: Report) -> None:
    assert set(report.flat) == {"take_free_1", "lookup_124", "append"}
    assert all(tuple(sizes) == POOLS for sizes in report.flat.values())


def test_progress_runs_from_0_to_the_last_round_of_each_part(
    report: Report, told: list[tuple[str, int, int]]
) -> None:
    parts = ("rows", "1,000 blocks", "2,000 blocks")
    assert told == [(part, done, 2) for part in parts for done in range(3)]


# --- how it is computed ---------------------------------------------------------------


def always(ns: float) -> Sample:
    return lambda times: ns


def test_a_row_is_divided_by_the_unit() -> None:
    rows = {"a": always(10.0), "b": always(35.0)}
    assert measure(rows, 3, one=always(5.0)) == (5.0, {"a": 2.0, "b": 7.0})


def test_a_machine_that_slows_down_changes_the_unit_and_not_the_rows() -> None:
    speed = {"factor": 1.0}

    def row(times: int) -> float:
        return 10 * speed["factor"]

    def slow_down(done: int) -> None:
        speed["factor"] = 1.0 + done

    unit_ns, rows = measure(
        {"a": row}, 9, slow_down, one=lambda times: 5 * speed["factor"]
    )
    assert rows == {"a": 2.0}
    assert unit_ns == 5 * 5


def test_the_unit_is_taken_before_and_behind_the_row() -> None:
    speeds = cycle([4.0, 6.0])
    _, rows = measure({"a": always(10.0)}, 4, one=lambda times: next(speeds))
    assert rows == {"a": 2.0}


def test_one_sample_that_was_disturbed_does_not_count() -> None:
    spikes = cycle([10.0, 10.0, 10.0, 10.0, 9_000.0])
    _, rows = measure({"a": lambda times: next(spikes)}, 20, one=always(5.0))
    assert rows == {"a": 2.0}


@pytest.mark.parametrize("was_on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(was_on: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        with pytest.raises(BenchError), no_collection():
            assert not gc.isenabled()
            raise BenchError("stop")
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()


# --- that the work is done ------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_row_works_again_and_again(name: str) -> None:
    sample = samples()[name]
    assert all(sample(times) > 0 for times in (1, 2, 3))


def test_every_row_works_in_a_small_pool() -> None:
    assert all(sample(3) > 0 for sample in flat_samples(1_000).values())


class Miser(BlockPool):
    """Gives one block less than it was asked for."""

    def get_new_blocks(self, n: int) -> list[Block]:
        return super().get_new_blocks(n - 1)


def test_a_pool_that_gives_too_few_is_noticed() -> None:
    with pytest.raises(BenchError, match="blocks taken: expected 8, got 7"):
        take_free(Miser(10), 8)(1)


@pytest.mark.parametrize("n", [1, 8])
def test_take_and_free_takes_n_blocks_and_loses_none(n: int) -> None:
    pool = BlockPool(10)
    take_free(pool, n)(5)
    assert sorted(block.block_id for block in pool.free_queue) == list(range(1, 10))
    pool.get_new_blocks(1)  # and never given back
    with pytest.raises(BenchError, match="free blocks: expected 9, got 8"):
        take_free(pool, n)(5)


def test_the_lookup_finds_124_blocks_by_names_that_another_request_computed() -> None:
    tokens = prompt_of(PROMPT)
    registered, asked = hashes_of(tokens), hashes_of(tokens)
    assert registered == asked and len(asked) == FULL == HITS + 1 == 125
    assert not any(a is b for a, b in zip(registered, asked, strict=True))
    pool = remember(BlockPool(FULL + 1), registered)
    lookup(pool, asked)(2)
    gone = pool.get_cached_blocks(asked, FULL)[60]
    pool.evict_blocks([gone.block_id])
    with pytest.raises(BenchError, match="blocks found: expected 124, got 60"):
        lookup(pool, asked)(2)


def test_hashing_gives_a_hash_for_each_full_block() -> None:
    hash_tokens(prompt_of(PROMPT))(2)
    hash_tokens(prompt_of(PROMPT + BLOCK_SIZE - 1))(2)
    assert len(hashes_of(prompt_of(PROMPT + BLOCK_SIZE - 1))) == FULL


def test_the_admission_finds_124_blocks_each_time_and_overwrites_the_last() -> None:
    manager = preempted("a", prompt_of(PROMPT))
    before = manager.stats().evictions
    admit_free(manager, "a", HITS)(7)
    assert manager.stats().evictions - before == 7
    assert manager.stats().cached == manager.stats().usable == FULL
    manager.audit()
    hits = manager.resume("a").hit_blocks
    manager.preempt("a")
    manager.evict_blocks(hits[100:101])
    with pytest.raises(BenchError, match="blocks found: expected 124, got 100"):
        admit_free(manager, "a", HITS)(1)


def test_the_cold_admission_finds_nothing_and_loses_nothing() -> None:
    off = BlockManager(FULL + 1, BLOCK_SIZE, enable_caching=False)
    off.allocate("a", prompt_of(PROMPT))
    off.preempt("a")
    admit_free(off, "a", 0)(3)
    assert off.stats().empty == FULL
    off.audit()
    with pytest.raises(BenchError, match="blocks found: expected 0, got 124"):
        admit_free(preempted("a", prompt_of(PROMPT)), "a", 0)(2)


def test_appending_fills_and_registers_blocks_and_cleans_up() -> None:
    blocks = (START + GROWTH) // BLOCK_SIZE
    manager = BlockManager(3 * blocks + 1, BLOCK_SIZE)
    for _ in range(2):
        append(manager, 3)(1)
        assert manager.stats().empty == 3 * blocks
        manager.audit()
    assert GROWTH >= 4 * BLOCK_SIZE and GROWTH % BLOCK_SIZE == 0
    with pytest.raises(BenchError, match=f"table: expected {blocks}, got {blocks - 1}"):
        append(BlockManager(3 * blocks, BLOCK_SIZE), 3)(1)  # the last is refused
    with pytest.raises(BenchError, match=f"hashed blocks: expected {3 * blocks}, got"):
        append(BlockManager(3 * blocks + 1, enable_caching=False), 3)(1)


def test_a_pool_that_remembers_everything_is_what_the_sizes_are_compared_in() -> None:
    tokens = array("Q", range(POOLS[0] - 1))
    pool = remember(BlockPool(POOLS[0]), hashes_of(tokens, 1))
    assert len(pool.cache) == pool.num_free_blocks == POOLS[0] - 1
    assert len(pool.get_cached_blocks(hashes_of(tokens[:FULL], 1), HITS)) == HITS
