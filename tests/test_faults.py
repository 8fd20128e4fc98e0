"""Faults that real block managers have had: what forbids each kind, and the cases.

The numbers are the rows of a list of public reports on several systems, with gaps where
a report says nothing about a block manager. For each row `KINDS` says what went wrong
elsewhere and which property forbids **all** faults of its kind, with the tests that
look at that property in random states. Below stands the smallest case, which a person
can follow. Pools have one block more than a report says where the report's pool had no
null block. The cases with real K and V are in `test_faults_sharing.py`.

`docs/faults.md` is this table as a page: `python -m tests.test_faults > docs/faults.md`
writes it anew.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import (
    Allocation,
    BlockManager,
    BlockManagerError,
    BlockPool,
    InvalidFree,
    InvalidRequest,
    MultiModal,
    OutOfBlocks,
    Status,
    UnknownSequence,
)
from blockmgr.audit import INVARIANTS
from tests.oracle import KVStandIn, PlainSequence

ROOT = Path(__file__).resolve().parents[1]

FIXED = settings(derandomize=True, database=None, deadline=None, print_blob=True)


class Kind(NamedTuple):
    """A fault, and why none like it can happen here.

    `cases` and `properties` are tests: those of the smallest case, and those that look
    at the property in random states. `audit` names invariants that every random walk
    checks. `broken` names ways of breaking the core on purpose, one by one, which
    `test_walk.py` must notice: they show that the property is really looked at.
    """

    went_wrong: str
    forbidden_by: str
    cases: tuple[str, ...]
    properties: tuple[str, ...]
    audit: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


# The manager beside a plain one, every state compared; and the manager with real
# memory, everything read again after each call and NaN in all that is free.
MODEL, WALK = "test_model::TestWalk", "test_walk::TestWalk"
LOADS = "test_scheduler::test_everybody_ends_once_in_bounded_steps_and_says_what_it_would_alone"  # noqa: E501

KINDS: dict[int, Kind] = {
    1: Kind(
        "A block was given to another prompt and kept its old hash in the map, so that "
        "the first prompt read the second one's K and V.",
        "The map holds a block under exactly the hash that the block carries, and a "
        "block that is taken loses both at once. One digest stands for one content.",
        ("test_faults::test_row_1_a_reused_block_forgets_its_old_hash",),
        (MODEL, WALK),
        ("map and blocks agree",),
        ("a_block_that_is_taken_is_still_found",),
    ),
    2: Kind(
        "In a nearly full pool a request's own hits were counted as free blocks for "
        "its new ones, and one block stood twice in its table.",
        "A hit that nobody uses leaves the free queue, so admission needs it as well "
        "as the new blocks. No table holds a block twice.",
        ("test_faults::test_row_2_free_hits_count_as_needed",),
        (MODEL,),
        ("tables hold their tokens", "every block is free or in use"),
    ),
    3: Kind(
        "A prompt that was cached to its end left nothing to compute, and the engine "
        "crashed for want of an output.",
        "At most (ceil(n/B)-1)*B of n tokens are cached: one is always left.",
        ("test_faults::test_row_3_one_token_is_always_left_to_compute",),
        ("test_faults::test_row_3_holds_for_every_length", MODEL, WALK),
        broken=("a_prompt_may_be_hit_to_its_end",),
    ),
    4: Kind(
        "Two forks wrote their next tokens into one shared block that was not full.",
        "Whoever writes into a block is its only user: a shared one is copied first, "
        "and only then. The copy is told to the storage.",
        (
            "test_faults_sharing::test_row_4_forks_part_at_the_first_token",
            "test_faults_sharing::test_row_4_a_full_block_stays_shared",
        ),
        (WALK,),
        ("ref counts = table entries", "tables hold their tokens"),
        (
            "a_shared_block_is_not_copied",
            "the_short_way_stays_open_after_a_fork",
            "a_copy_is_not_told",
            "the_storage_copies_the_wrong_way",
        ),
    ),
    5: Kind(
        "An allocation that ran out half-way was not undone, or its undo dropped "
        "blocks that the sequence had before.",
        "There is no undo: everything that a call needs, copies included, is counted "
        "before the first change. A refused call changes nothing.",
        (
            "test_faults::test_row_5_a_refused_append_changes_nothing",
            "test_faults::test_row_5_the_pool_refuses_with_numbers",
            "test_faults_sharing::test_row_5_a_fork_that_can_not_be_copied_keeps_all",
        ),
        (MODEL, WALK),
        broken=("a_refused_prompt_takes_a_block_and_gives_it_back",),
    ),
    7: Kind(
        "Duplicate, null or free blocks given back, or a negative number taken, made "
        "the free count larger than the pool.",
        "A reference that nobody holds can't be given back. Such a call is refused by "
        "name and changes nothing.",
        (
            "test_faults::test_row_7_no_wrong_reference_is_accepted",
            "test_faults::test_row_7_a_sequence_is_freed_once",
        ),
        ("test_faults::test_row_7_the_pool_counts_every_reference", MODEL, WALK),
        ("the null block is nobody's", "free + in use = usable"),
    ),
    8: Kind(
        '"Not now" and "never" were one answer, so an impossible request was tried '
        "again for ever and blocked everybody behind it.",
        "LATER means that the call succeeds once the others have left, NEVER that it "
        "does not even then. Every load of the scheduler ends in bounded steps.",
        (
            "test_faults::test_row_8_never_has_numbers_and_the_next_one_runs",
            "test_faults::test_row_8_growth_ends_with_never",
            "test_scheduler::test_a_prompt_that_can_never_fit_ends_at_once_and_the_next_one_runs",
            "test_scheduler::test_growth_that_can_never_fit_ends_and_preempts_nobody",
        ),
        (MODEL, WALK, LOADS),
        broken=("never_is_never_said", "later_is_never_said"),
    ),
    9: Kind(
        "Two requests pushed each other out again and again, or the watermark that is "
        "to prevent it kept out a request that was alone.",
        "Every load ends in bounded steps, and nobody is sent back more often than "
        "`max_preemptions`. The watermark counts only while somebody runs.",
        (
            "test_faults::test_row_9_the_watermark_is_for_those_that_run",
            "test_scheduler::test_preempting_again_and_again_ends_and_a_watermark_spares_most_of_it",
        ),
        (
            "test_faults::test_row_9_no_watermark_counts_when_nobody_runs",
            "test_scheduler::test_every_step_keeps_to_its_limits_and_to_the_order",
            LOADS,
        ),
    ),
    11: Kind(
        "The head of a cached chain was evicted before its tail, and nothing behind a "
        "missing block can be found.",
        "A table is freed tail first, and the queue gives out what was freed first: "
        "whatever is remembered can be found from its start.",
        ("test_faults::test_row_11_the_tail_of_a_cached_chain_goes_first",),
        ("test_faults::test_row_11_whatever_is_remembered_is_found", MODEL),
    ),
    12: Kind(
        "Equal tokens were found although other tokens stood before them, or blocks "
        "behind a missing one were counted.",
        "A block's hash covers everything from the start to its end, and a lookup "
        "stops at the first miss.",
        (
            "test_faults::test_row_12_equal_tokens_after_another_start_are_no_hit",
            "test_faults::test_row_12_nothing_is_found_behind_a_hole",
        ),
        ("test_prefix::test_one_name_is_one_content", MODEL, WALK),
        broken=("a_hit_is_taken_for_granted_behind_a_hole",),
    ),
    15: Kind(
        "The K and V of another adapter, image or tenant was used.",
        "All that decides K and V is part of the hash, each part with its type and its "
        "length. Parts of another type are refused.",
        (
            "test_faults::test_row_15_what_decides_k_and_v_decides_the_hit",
            "test_faults::test_row_15_keys_that_look_alike_are_different",
            "test_faults::test_row_15_keys_of_another_kind_are_refused",
        ),
        ("test_prefix::test_one_name_is_one_content", WALK),
        broken=("a_salt_makes_no_difference",),
    ),
    16: Kind(
        "Two prompts had one hash, and one was served with the other's K and V "
        "(CVE-2025-25183).",
        "The hash is SHA-256, never Python's `hash`. With any other, content and "
        "parent are compared on a hit: a collision costs a hit and gives none.",
        (
            "test_prefix::test_the_default_hash_is_sha256",
            "test_faults::test_row_16_a_collision_is_no_hit",
            "test_faults::test_row_16_parents_that_collide_do_not_lend_each_other_their_children",
        ),
        ("test_faults::test_row_16_no_weak_hash_gives_a_wrong_hit",),
    ),
    17: Kind(
        "A quick answer told one tenant that another had sent the same prompt "
        "(CVE-2025-46570).",
        "A salt is part of the first block's hash and so of every later one's: no "
        "block is found under another salt.",
        ("test_faults::test_row_17_another_tenants_prompt_can_not_be_timed",),
        ("test_prefix::test_one_name_is_one_content", MODEL, WALK),
        broken=("a_salt_makes_no_difference",),
    ),
    19: Kind(
        "Blocks that only remember something were reported as leaked.",
        "The gauges are separate, and live + cached + empty = usable. When everybody "
        "has left, every block can be given out.",
        ("test_faults::test_row_19_the_cache_is_no_leak",),
        (MODEL, WALK),
        ("free + in use = usable",),
        ("a_table_is_not_freed_to_its_end", "free_blocks_are_not_all_given_out"),
    ),
    20: Kind(
        "Blocks ran out in the middle of a swap-in.",
        "A swap is one call, all or none: its distinct blocks and one to grow for each "
        "sequence are counted first. A shared block moves once and stays shared.",
        (
            "test_faults_sharing::test_row_20_a_pair_comes_back_when_there_is_room",
            "test_faults_sharing::test_row_20_a_pair_that_could_never_grow_again_is_told_so",
            "test_swap_storage::test_a_forked_pair_leaves_and_comes_back",
        ),
        (WALK, "test_swap_storage::test_what_comes_back_is_what_left"),
        broken=(
            "a_shared_block_is_moved_twice",
            "what_comes_back_leaves_no_watermark",
            "a_swap_tells_other_pairs",
        ),
    ),
    21: Kind(
        "With a full host pool the server aborted or froze.",
        "A swap that does not fit is refused before anything moves. The scheduler then "
        "computes the victim again.",
        (
            "test_faults_sharing::test_row_21_a_host_that_is_full_moves_nothing",
            "test_scheduler::test_without_room_on_the_host_a_victim_is_computed_again",
        ),
        (WALK, LOADS),
    ),
    23: Kind(
        "The counters of the two memories drifted apart from what was in them.",
        "In each of them free + used = usable after every call, where used are the "
        "distinct blocks in tables.",
        ("test_faults_sharing::test_row_23_each_tier_adds_up",),
        ("test_faults_sharing::test_row_23_each_tier_adds_up", WALK),
        ("free + in use = usable", "ref counts = table entries"),
        ("a_swap_forgets_to_free_the_source", "a_swap_frees_its_destination"),
    ),
    28: Kind(
        "Draft tokens were written outside the block table, or rejected ones cached.",
        "A table has a slot for every token and every look-ahead token, and only "
        "tokens that were appended are ever hashed.",
        (
            "test_faults::test_row_28_every_draft_token_has_a_slot",
            "test_faults::test_row_28_look_ahead_blocks_are_used_later",
            "test_faults::test_row_28_rejected_drafts_are_never_cached",
        ),
        (MODEL, WALK),
        broken=("blocks_are_registered_before_their_tokens_come",),
    ),
    29: Kind(
        "A block came one token too early or too late.",
        "A table has ceil(tokens / B) blocks, and more only for look-ahead.",
        ("test_faults::test_row_29_a_block_comes_exactly_at_the_edge",),
        ("test_faults::test_row_29_holds_for_every_growth", MODEL),
        ("tables hold their tokens",),
    ),
    30: Kind(
        "A window freed one block too many or too few.",
        "What the next token can see has a block, and what it can't see has none. "
        "Null takes the place of a block that goes, so it goes once.",
        ("test_faults_sharing::test_row_30_blocks_leave_the_window_one_by_one",),
        ("test_faults_sharing::test_row_30_holds_for_every_window", WALK),
        broken=(
            "the_window_drops_a_block_too_many",
            "the_window_drops_a_block_too_few",
            "a_hit_does_not_cover_the_window",
        ),
    ),
    33: Kind(
        "A reset that could not be done said nothing, and old K and V was used.",
        "False means that nothing changed, True that nothing is found any more.",
        ("test_faults::test_row_33_a_reset_says_whether_it_was_done",),
        (MODEL, WALK),
        broken=("a_reset_works_while_blocks_are_in_use",),
    ),
    35: Kind(
        "Too little memory made a pool of 0 blocks, which crashed much later.",
        "A pool has the null block and one more, or there is no pool: the error names "
        "the bytes needed.",
        (
            "test_storage::test_row_35_too_little_memory_is_refused_with_the_bytes_needed",
            "test_storage::test_row_35_too_few_blocks_are_refused",
            "test_storage::test_row_35_exactly_enough_is_enough",
        ),
        ("test_storage::test_rows_35_36_a_pool_is_within_its_budget_or_refused",),
    ),
    36: Kind(
        "The bytes of a block were computed for another type than the one it holds.",
        "A block's bytes come from the dtype itself and add up to the memory that was "
        "taken. Swaps are between pools of one spec only.",
        (
            "test_storage::test_row_36_bytes_of_a_narrower_type",
            "test_swap_storage::test_row_36_pools_of_unlike_types_are_refused",
            "test_swap_storage::test_row_36_unlike_scales_are_unlike_types",
        ),
        ("test_storage::test_rows_35_36_a_pool_is_within_its_budget_or_refused",),
    ),
    37: Kind(
        "NaN from slots that were never written reached a result.",
        "Attention masks by selecting: what it must not see never takes part. Blocks "
        "are cleared by their ids and no others are touched.",
        (
            "test_attention::test_row_37_three_tokens_in_a_block_of_four",
            "test_storage::test_poison_shows_in_all_that_was_never_written",
        ),
        (
            "test_attention::test_attention_through_the_table_equals_plain_attention",
            "test_storage::test_row_37_a_block_is_filled_and_no_other",
            WALK,
        ),
    ),
    38: Kind(
        "Offsets of 32 bits overflowed in a large pool.",
        "Ids are widened to 64 bits before they are multiplied.",
        (
            "test_storage::test_row_38_a_pool_whose_offsets_need_more_than_32_bits",
            "test_attention_triton::test_row_38_blocks_that_32_bits_do_not_reach",
        ),
        (
            "test_faults_sharing::test_row_38_holds_for_every_slot",
            "test_faults_sharing::test_row_38_holds_for_every_pool",
        ),
    ),
    40: Kind(
        "A block table became wider than its row.",
        "No table is longer than ceil(max_model_len / B), room taken ahead included, "
        "and a row refuses what is longer.",
        (
            "test_faults_sharing::test_row_40_room_taken_ahead_ends_at_the_longest_length",
            "test_faults_sharing::test_row_40_a_row_refuses_a_longer_table",
            "test_device_tables::test_misuse_is_named_and_changes_nothing",
        ),
        (
            "test_faults_sharing::test_row_40_holds_for_every_length",
            "test_device_tables::test_row_by_row_it_is_what_the_manager_says",
        ),
    ),
}
ROWS = (
    *(1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16, 17, 19, 20, 21, 23),
    *(28, 29, 30, 33, 35, 36, 37, 38, 40),
)


# --- the table ----------------------------------------------------------------------


def defined(path: Path) -> set[str]:
    """What a file defines at its top: functions, classes, names."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return found


TESTS = {path.stem: defined(path) for path in sorted((ROOT / "tests").glob("*.py"))}


def rows_of(name: str) -> list[int]:
    """The rows that a test names: `test_row_3_...`, `test_rows_35_36_...`."""
    found = re.match(r"test_(?:row_(\d+)|rows_((?:\d+_)+\d+))_", name)
    return [int(n) for n in (found[1] or found[2]).split("_")] if found else []


def test_every_row_has_its_kind_and_a_test_with_its_number() -> None:
    assert tuple(KINDS) == ROWS
    named = [row for names in TESTS.values() for name in names for row in rows_of(name)]
    assert set(named) == set(ROWS)


def test_every_test_that_a_kind_names_is_there() -> None:
    for row, kind in KINDS.items():
        assert kind.cases and kind.properties, f"row {row} is shown by nothing"
        for test in (*kind.cases, *kind.properties):
            file, _, name = test.partition("::")
            assert name in TESTS[file], f"row {row}: there is no {test}"
        assert set(kind.audit) <= INVARIANTS.keys(), f"row {row}"
        missing = set(kind.broken) - TESTS["test_walk"]
        assert not missing, f"row {row}: the walk is not shown {missing}"


@pytest.mark.parametrize("file", ["test_faults", "test_faults_sharing"])
def test_every_case_here_is_named_by_its_kind(file: str) -> None:
    for name in TESTS[file]:
        for row in rows_of(name):
            kind = KINDS[row]
            named = f"{file}::{name}" in (*kind.cases, *kind.properties)
            assert named, f"row {row} does not name {name}"


def page() -> Iterator[str]:
    """`docs/faults.md`, line by line."""
    yield from PAGE_HEAD.splitlines()
    for row, kind in KINDS.items():
        tests = [f"`{test}`" for test in kind.cases]
        tests += [f"random: `{test}`" for test in kind.properties]
        tests += [f'audit: "{name}"' for name in kind.audit]
        tests += [f"broken: `{name}`" for name in kind.broken]
        shown = "<br>".join(tests)
        yield f"| {row} | {kind.went_wrong} | {kind.forbidden_by} | {shown} |"


PAGE_HEAD = """\
# Faults of others, and what forbids them here

Real block managers have had these faults; they are known from public reports on several
systems. The numbers are those of the list that this course works from. For each fault
we name the property that forbids **every** fault of its kind, and the tests: first
those of the smallest case, then (*random*) those that look at the property in random
states.

Four habits catch most of them: an audit after every call; a refused call changes
nothing; a random walk beside a plain second implementation, with real data; and NaN in
every block that is free.

- `test_model::TestWalk` makes random calls on the manager and on a plain one, and
  compares every state. `test_walk::TestWalk` makes them on a manager with real memory,
  forks, swaps, windows and two groups of layers, and reads everything again after each
  call. `make soak` takes the same walk a million steps far.
- *audit* names an invariant of `blockmgr/audit.py`, checked after every step of both
  walks.
- *broken* names a way in which `tests/test_walk.py` breaks the core on purpose, and the
  walk notices.

This page is written by `python -m tests.test_faults`, and a test compares the two.

| | What went wrong elsewhere | What forbids the whole kind | Shown by |
|---|---|---|---|
"""


def test_the_page_says_what_the_table_says() -> None:
    page_there = (ROOT / "docs/faults.md").read_text(encoding="utf-8").splitlines()
    assert page_there == list(page()), "python -m tests.test_faults > docs/faults.md"


# --- the cases ----------------------------------------------------------------------


def tokens(n: int, first: int = 0) -> list[int]:
    """`n` tokens, all different."""
    return list(range(first, first + n))


def served(manager: BlockManager, prompt: list[int], **how: Any) -> int:
    """Admit a prompt, end it, and say how many of its tokens were cached."""
    answer = manager.allocate("once", prompt, **how)
    assert answer
    manager.free("once")
    manager.audit()
    return answer.num_cached_tokens


def test_row_1_a_reused_block_forgets_its_old_hash() -> None:
    manager = BlockManager(num_blocks=3, block_size=4)
    x, y = tokens(8), tokens(8, first=100)
    manager.allocate("x", x)
    manager.free("x")
    manager.allocate("y", y)
    assert manager.get_computed_blocks(x) == ()
    manager.audit()
    manager.free("y")
    assert manager.allocate("x", x).num_cached_tokens == 0
    manager.audit()


def test_row_2_free_hits_count_as_needed() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    p = tokens(4)
    manager.allocate("p", p)
    manager.free("p")
    manager.allocate("r", tokens(8, first=100))
    before = manager.snapshot(), manager.stats()

    q = [*p, *tokens(4, first=200)]
    refused = manager.allocate("q", q)
    assert refused.status is Status.LATER
    assert (refused.needed, refused.free) == (2, 1)
    assert (manager.snapshot(), manager.stats()) == before

    manager.free("r")
    answer = manager.allocate("q", q)
    assert answer.num_cached_tokens == 4
    table = manager.block_table("q")
    assert len(table) == len(set(table)) == 2
    manager.audit()


def test_row_3_one_token_is_always_left_to_compute() -> None:
    manager = BlockManager(num_blocks=5, block_size=4)
    prompts = [tokens(8), tokens(8), tokens(9), tokens(4), tokens(4)]
    assert [served(manager, prompt) for prompt in prompts] == [0, 4, 8, 0, 0]


@FIXED
@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 20))
def test_row_3_holds_for_every_length(block_size: int, n: int, more: int) -> None:
    manager = BlockManager(num_blocks=99, block_size=block_size)
    served(manager, tokens(n + more))
    cached = served(manager, tokens(n))
    assert cached == (-(-n // block_size) - 1) * block_size


def test_row_5_a_refused_append_changes_nothing() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(4))
    before = manager.snapshot(), manager.stats()
    answer = manager.append("a", tokens(12, first=50))
    assert answer.status is Status.NEVER  # 16 tokens are 4 blocks, and 3 are usable
    assert (answer.needed, answer.free) == (3, 2)
    assert (manager.snapshot(), manager.stats()) == before
    manager.audit()


def test_row_5_the_pool_refuses_with_numbers() -> None:
    pool = BlockPool(4)
    pool.get_new_blocks(1)
    queue = list(pool.free_queue)
    with pytest.raises(OutOfBlocks, match="free or preempt") as caught:
        pool.get_new_blocks(3)
    assert (caught.value.needed, caught.value.free) == (3, 2)
    assert list(pool.free_queue) == queue
    assert [block.ref_cnt for block in queue] == [0, 0]


Misuse = Callable[[BlockPool, list[Any]], object]
ROW_7: dict[str, tuple[Misuse, type[Exception], str]] = {
    "one block twice": (
        lambda pool, held: pool.free_blocks([held[0], held[0]]),
        InvalidFree,
        "more often than it was taken",
    ),
    "one block twice, behind a good one": (
        lambda pool, held: pool.free_blocks([held[1], held[0], held[0]]),
        InvalidFree,
        "more often than it was taken",
    ),
    "the null block": (
        lambda pool, held: pool.free_blocks([held[0], pool.null_block]),
        InvalidFree,
        "null block",
    ),
    "a free block": (
        lambda pool, held: pool.free_blocks([held[0], pool.blocks[5]]),
        InvalidFree,
        "free each reference once",
    ),
    "take -1 blocks": (
        lambda pool, held: pool.get_new_blocks(-1),
        InvalidRequest,
        "at least 0, got -1",
    ),
    "share a block that holds nothing": (
        lambda pool, held: pool.touch([held[0], pool.blocks[5]]),
        InvalidRequest,
        "take a block with get_new_blocks",
    ),
    "share the null block": (
        lambda pool, held: pool.touch([pool.null_block]),
        InvalidRequest,
        "holds nothing",
    ),
}


@pytest.mark.parametrize(("misuse", "error", "says"), ROW_7.values(), ids=ROW_7.keys())
def test_row_7_no_wrong_reference_is_accepted(
    misuse: Misuse, error: type[Exception], says: str
) -> None:
    pool = BlockPool(6)
    held = pool.get_new_blocks(2)
    before = list(pool.free_queue), [block.ref_cnt for block in pool.blocks]
    with pytest.raises(error, match=says):
        misuse(pool, held)
    after = list(pool.free_queue), [block.ref_cnt for block in pool.blocks]
    assert after == before


def test_row_7_a_sequence_is_freed_once() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(4))
    manager.free("a")
    before = manager.snapshot()
    with pytest.raises(UnknownSequence, match="no sequence 'a'"):
        manager.free("a")
    assert manager.snapshot() == before


REFERENCES = st.lists(
    st.tuples(
        st.sampled_from(["take", "share", "free", "free"]),
        st.integers(-1, 6),
        st.lists(st.integers(0, 5), max_size=4),
    ),
    max_size=40,
)


@FIXED
@given(REFERENCES)
def test_row_7_the_pool_counts_every_reference(
    calls: list[tuple[str, int, list[int]]],
) -> None:
    """Beside a plain list of counts: what goes below 0 there is refused here."""
    pool, users = BlockPool(6), [0] * 6
    for call, n, ids in calls:
        blocks, queue = [pool.blocks[i] for i in ids], list(pool.free_queue)
        do: Callable[[], object]
        if call == "take":
            do = partial(pool.get_new_blocks, n)
            allowed = 0 <= n <= len(queue)
            ids, change = [block.block_id for block in queue[: max(n, 0)]], 1
        elif call == "share":
            do, change = partial(pool.touch, blocks), 1
            allowed = all(users[i] for i in ids)
        else:
            do, change = partial(pool.free_blocks, blocks), -1
            allowed = all(users[i] >= ids.count(i) for i in ids)
        if allowed:
            do()
            for i in ids:
                users[i] += change
        else:
            with pytest.raises(BlockManagerError):
                do()
            assert list(pool.free_queue) == queue
        assert [block.ref_cnt for block in pool.blocks] == users
        free = [i for i in range(1, 6) if not users[i]]
        assert sorted(block.block_id for block in pool.free_queue) == free
        assert pool.num_free_blocks == len(free)


def test_row_8_never_has_numbers_and_the_next_one_runs() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    before = manager.snapshot()
    answer = manager.allocate("large", tokens(13))
    assert answer.status is Status.NEVER
    assert (answer.needed, answer.free, manager.stats().usable) == (4, 3, 3)
    assert manager.snapshot() == before
    assert manager.allocate("next", tokens(4, first=50))


def test_row_8_growth_ends_with_never() -> None:
    """To be sent back and to come again does not help: that is refused as well."""
    manager = BlockManager(num_blocks=3, block_size=4)
    manager.allocate("a", tokens(8))
    answer = manager.append("a", [50])
    assert answer.status is Status.NEVER
    assert (answer.needed, answer.free, manager.stats().usable) == (1, 0, 2)
    manager.preempt("a")
    answer = manager.resume("a")
    assert answer.status is Status.NEVER
    assert (answer.needed, answer.free) == (3, 2)


def test_row_9_the_watermark_is_for_those_that_run() -> None:
    """The two requests of the report, from the manager's side: "b" has to wait until
    "a" has room to grow. Once "a" is gone, nothing is kept free for it."""
    manager = BlockManager(6, 4, watermark=0.17, enable_caching=False)  # 1 block of 6
    manager.allocate("a", tokens(8))
    assert manager.allocate("b", tokens(8, first=100)).needed == 3
    assert manager.append("a", tokens(4, first=50)).new_blocks  # growth keeps none free
    assert manager.append("a", [54]).status is Status.LATER
    manager.preempt("b")
    assert manager.allocate_slots("a")
    waits = manager.resume("b")
    assert (waits.status, waits.needed, waits.free) == (Status.LATER, 3, 1)
    manager.free("a")
    assert manager.resume("b").needed == 2
    manager.free("b")
    assert manager.allocate("all", tokens(20)), "every usable block, and nobody runs"


@FIXED
@given(st.integers(2, 30), st.floats(0, 1, exclude_max=True), st.data())
def test_row_9_no_watermark_counts_when_nobody_runs(
    num_blocks: int, watermark: float, data: st.DataObject
) -> None:
    manager = BlockManager(num_blocks, 2, watermark=watermark, num_host_blocks=30)
    manager.allocate("waits", [9])
    manager.preempt("waits")
    room = 2 * (num_blocks - 1)
    n = data.draw(st.integers(1, room), "prompt")
    assert manager.allocate("a", tokens(n))
    for i in range(room - n):
        assert manager.append("a", [i]), "growth may take the last block"
    manager.preempt("a")
    assert manager.resume("a")


def test_row_11_the_tail_of_a_cached_chain_goes_first() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(12))
    table = manager.block_table("a")
    manager.free("a")
    assert manager.allocate("b", [7]).new_blocks == table[-1:]
    assert manager.get_computed_blocks(tokens(13)) == table[:2]


TEXTS = st.lists(st.integers(0, 1), min_size=1, max_size=9)


@FIXED
@given(
    st.integers(3, 10),
    st.integers(1, 3),
    st.lists(
        st.tuples(
            st.sampled_from(["allocate", "allocate", "append", "fork", "free", "free"]),
            st.integers(0, 20),
            TEXTS,
        ),
        max_size=40,
    ),
)
def test_row_11_whatever_is_remembered_is_found(
    num_blocks: int, block_size: int, calls: list[tuple[str, int, list[int]]]
) -> None:
    """Blocks that the cache can't find any more are lost room. After any calls, and
    with the evictions that they bring, some text leads to each of them."""
    manager = BlockManager(num_blocks, block_size)
    texts: set[tuple[int, ...]] = set()
    for i, (call, which, text) in enumerate(calls):
        here = list(manager.sequences)
        if call == "allocate":
            if manager.allocate(f"r{i}", text):
                texts.add(tuple(text))
        elif here:
            seq_id = here[which % len(here)]
            if call == "fork":
                manager.fork(seq_id, f"r{i}")
            elif call == "free" or not manager.append(seq_id, text):
                manager.free(seq_id)
            else:
                texts.add(tuple(manager.sequences[seq_id].token_ids))
        state = manager.snapshot()
        found = {
            state.block_hash[block_id]
            for known in texts
            for block_id in manager.get_computed_blocks([*known, 0])
        }
        assert found == set(state.cache)


def test_row_12_equal_tokens_after_another_start_are_no_hit() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    served(manager, [1, 2, 3, 4, 9, 9, 9, 9])
    assert manager.get_computed_blocks([5, 6, 7, 8, 9, 9, 9, 9, 0]) == ()
    assert len(manager.get_computed_blocks([1, 2, 3, 4, 9, 9, 9, 9, 0])) == 2
    served(manager, [5, 6, 7, 8])  # now both halves are cached, but not as one
    assert len(manager.get_computed_blocks([5, 6, 7, 8, 9, 9, 9, 9, 0])) == 1


def test_row_12_nothing_is_found_behind_a_hole() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(8))
    manager.evict_blocks(manager.block_table("a")[:1])
    assert manager.get_computed_blocks(tokens(9)) == ()
    assert manager.allocate("b", tokens(9)).num_cached_tokens == 0
    manager.audit()


def test_row_15_what_decides_k_and_v_decides_the_hit() -> None:
    manager = BlockManager(num_blocks=40, block_size=4)
    ways: list[dict[str, Any]] = [
        {},
        {"lora": ("a", "/a")},
        {"lora": ("b", "/b")},
        {"cache_salt": "a"},
        {"mm": (MultiModal("a", 0, 2),)},
        {"mm": (MultiModal("b", 0, 2),)},
        {"mm": (MultiModal("a", 1, 2),)},
    ]
    assert [served(manager, tokens(5), **way) for way in ways] == [0] * len(ways)
    assert [served(manager, tokens(5), **way) for way in ways] == [4] * len(ways)


LOOK_ALIKES = [
    ({"lora": ("ab", "c")}, {"lora": ("a", "bc")}),
    ({"lora": ("a", "")}, {"lora": ("", "a")}),
    ({"cache_salt": ""}, {}),
    ({"cache_salt": "s1:a"}, {"cache_salt": "a"}),
    ({"cache_salt": "salt"}, {"lora": ("salt", "salt")}),
    ({"mm": (MultiModal("1", 0, 4),)}, {"mm": (MultiModal("10", 0, 4),)}),
    (
        {"mm": (MultiModal("a", 0, 2), MultiModal("b", 2, 2))},
        {"mm": (MultiModal("b", 0, 2), MultiModal("a", 2, 2))},
    ),
    ({"lora": ("a", "b"), "cache_salt": "c"}, {"lora": ("a", "b")}),
    ({"cache_salt": "\u00e9"}, {"cache_salt": "e\u0301"}),  # equal to the eye only
]


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKES)
def test_row_15_keys_that_look_alike_are_different(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    for first, second in ((one, other), (other, one)):
        manager = BlockManager(num_blocks=9, block_size=4)
        assert served(manager, tokens(5), **first) == 0
        assert served(manager, tokens(5), **second) == 0
        assert served(manager, tokens(5), **first) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"cache_salt": 5},
        {"cache_salt": b"a"},
        {"lora": "ab"},
        {"lora": ("a",)},
        {"lora": ("a", None)},
        {"lora": ["a", "b"]},
        {"mm": 5},
        {"mm": (("a", 0, 2),)},
        {"mm": (MultiModal("a", -1, 2),)},
        {"mm": (MultiModal("a", 0, 0),)},
        {"mm": (MultiModal("a", 0.5, 2),)},  # type: ignore[arg-type]
        {"mm": MultiModal("a", 0, 2)},
    ],
    ids=str,
)
def test_row_15_keys_of_another_kind_are_refused(wrong: dict[str, Any]) -> None:
    """As bytes, the number 5 and an object that prints as 5 would be one key."""
    manager = BlockManager(num_blocks=9, block_size=4)
    before = manager.snapshot()
    for call in (
        lambda: manager.allocate("a", tokens(5), **wrong),
        lambda: manager.get_computed_blocks(tokens(5), **wrong),
    ):
        with pytest.raises(InvalidRequest, match="must be"):
            call()
    assert manager.snapshot() == before


def constant(content: bytes) -> bytes:
    """The worst hash there is: everything collides."""
    return b"same"


def one_byte(content: bytes) -> bytes:
    """A hash of 256 values, so that a few hundred blocks collide all the time."""
    return hashlib.sha256(content).digest()[:1]


def two_bits(content: bytes) -> bytes:
    """A hash of 4 values."""
    return bytes([hashlib.sha256(content).digest()[0] & 3])


def test_row_16_a_collision_is_no_hit() -> None:
    manager = BlockManager(num_blocks=9, block_size=4, hash_fn=constant)
    assert served(manager, tokens(5)) == 0
    assert served(manager, tokens(5, first=50)) == 0
    assert served(manager, tokens(5)) == 4  # what is really there is still found
    manager.audit()


def test_row_16_parents_that_collide_do_not_lend_each_other_their_children() -> None:
    """The same one step deeper: the blocks themselves are equal and have one hash, but
    the blocks before them only *collide*.

    First a start and a rest are cached, then the start is evicted, and another start
    with the same digest is cached in its place. The rest must not be found behind it.
    """
    one, other = [1, 1, 1, 1], [2, 2, 2, 2]
    rest = [9, 9, 9, 9]

    def collide(content: bytes) -> bytes:
        first = content[0]  # the low byte of a block's first token
        return b"start" if first in (1, 2) else hashlib.sha256(content).digest()

    manager = BlockManager(num_blocks=9, block_size=4, hash_fn=collide)
    manager.allocate("a", [*one, *rest, 0])
    manager.evict_blocks(manager.block_table("a")[:1])
    manager.allocate("b", [*other, 0])
    assert manager.get_computed_blocks([*other, 0]) == manager.block_table("b")[:1]
    assert manager.get_computed_blocks([*other, *rest, 0]) == (
        manager.block_table("b")[0],
    )


weak_hashes = st.sampled_from([constant, one_byte, two_bits])
small_prompts = st.lists(st.integers(0, 2), min_size=1, max_size=9)


@FIXED
@given(weak_hashes, st.lists(small_prompts, min_size=2, max_size=25))
def test_row_16_no_weak_hash_gives_a_wrong_hit(
    weak: Callable[[bytes], bytes], prompts: list[list[int]]
) -> None:
    """Whatever the hash: what is read through a table is what was written for exactly
    this start. Every third sequence stays, and one block is evicted each time."""
    manager = BlockManager(num_blocks=12, block_size=2, hash_fn=weak)
    memory = KVStandIn()
    for i, prompt in enumerate(prompts):
        answer = manager.allocate(f"r{i}", prompt)
        if not answer:
            continue
        seq = PlainSequence(prompt)
        cached = answer.num_cached_tokens
        memory.write(manager.slot_mapping(f"r{i}", cached), seq, cached)
        table = manager.block_table(f"r{i}")
        read = memory.read(table, 2, len(prompt))
        assert read == [seq.content_at(k) for k in range(len(prompt))]
        if i % 3:
            manager.free(f"r{i}")
        manager.evict_blocks(table[:1] if i % 2 else [])
        manager.audit()


def test_row_17_another_tenants_prompt_can_not_be_timed() -> None:
    manager = BlockManager(num_blocks=20, block_size=4)
    assert served(manager, tokens(9), cache_salt="u1") == 0
    assert served(manager, tokens(9), cache_salt="u1") == 8
    assert served(manager, tokens(9), cache_salt="u2") == 0
    assert served(manager, tokens(9)) == 0


def test_row_19_the_cache_is_no_leak() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    for i in range(3):
        manager.allocate(f"r{i}", tokens(5, first=10 * i))
    for i in range(3):
        manager.free(f"r{i}")
    stats = manager.stats()
    assert (stats.live, stats.cached, stats.empty) == (0, 3, 5)
    assert stats.allocatable == stats.usable == manager.num_free_blocks == 8
    assert manager.usage == 0.0
    assert manager.allocate("all", tokens(32, first=100)).status is Status.OK


@pytest.mark.parametrize(
    ("length", "ahead", "new"),
    [(3, 0, 0), (3, 1, 1), (3, 4, 1), (3, 9, 3), (4, 0, 1), (4, 8, 3)],
)
def test_row_28_every_draft_token_has_a_slot(length: int, ahead: int, new: int) -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(length))
    answer = manager.append("a", [50], num_lookahead=ahead)
    assert len(answer.new_blocks) == new
    slots = manager.slot_mapping("a", 0, length + 1 + ahead)
    assert len(set(slots)) == length + 1 + ahead


def test_row_28_look_ahead_blocks_are_used_later() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(3), num_lookahead=9)
    assert len(manager.block_table("a")) == 3
    table = manager.block_table("a")
    assert manager.append("a", tokens(9, first=50)).new_blocks == ()
    assert manager.block_table("a") == table


def test_row_28_rejected_drafts_are_never_cached() -> None:
    """The model guessed 3 4 5 6 and one guess was right: only what was appended may be
    found by others."""
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", [1, 2], num_lookahead=6)
    assert manager.stats().cached == len(manager.snapshot().cache) == 0
    manager.append("a", [3, 9], num_lookahead=4)
    assert len(manager.snapshot().cache) == 1
    assert manager.get_computed_blocks([1, 2, 3, 4, 5]) == ()
    assert manager.get_computed_blocks([1, 2, 3, 9, 5]) == manager.block_table("a")[:1]


@pytest.mark.parametrize(
    ("length", "grows"),
    [(3, False), (4, True), (5, False), (7, False), (8, True), (9, False)],
)
def test_row_29_a_block_comes_exactly_at_the_edge(length: int, grows: bool) -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(length))
    assert bool(manager.append("a", [50]).new_blocks) is grows


@FIXED
@given(st.integers(1, 5), st.lists(st.integers(1, 7), min_size=1, max_size=12))
def test_row_29_holds_for_every_growth(block_size: int, growth: list[int]) -> None:
    manager = BlockManager(num_blocks=200, block_size=block_size)
    manager.allocate("a", [0])
    length = 1
    for n in growth:
        length += n
        answer: Allocation = manager.append("a", tokens(n))
        assert answer.num_scheduled_tokens == n
        assert len(manager.block_table("a")) == -(-length // block_size)


def test_row_33_a_reset_says_whether_it_was_done() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(9))
    before = manager.snapshot()
    assert manager.reset_prefix_cache() is False
    assert manager.snapshot() == before
    manager.free("a")
    queue = manager.snapshot().free_queue
    assert manager.get_computed_blocks(tokens(9)) != ()
    assert manager.reset_prefix_cache() is True
    assert manager.get_computed_blocks(tokens(9)) == ()
    assert manager.snapshot().free_queue == queue
    manager.audit()


if __name__ == "__main__":
    print(*page(), sep="\n")
