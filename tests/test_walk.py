"""What is read through a table is always what was written, whatever was called.

`oracle_data.World` makes random calls on a manager, carries them out on a real KV cache
and a host pool, poisons what is free, and reads everything again after each call.
Hypothesis drives it first, so that a failure is shrunk to a few calls; then plain seeds
do, as in `make soak`; and then the core is broken on purpose, once in each way that
matters, and the walk must notice.

The walks are the same on every run. `EXPLORE=1 pytest tests/test_walk.py` takes new
ones with Hypothesis each time, and longer.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from blockmgr import (
    Allocation,
    Block,
    BlockManager,
    BlockManagerError,
    BlockPool,
    MultiModal,
    Status,
)
from blockmgr.groups import SlidingWindow, find_hits
from blockmgr.prefix import ExtraKeys, PrefixCache
from blockmgr.sequence import Sequence, Table
from blockmgr.storage import KVCache
from blockmgr.swap import Swapper
from blockmgr.v0 import RingWindow
from tests.oracle_data import (
    EXTRAS,
    KINDS,
    WEIGHTS,
    Configuration,
    DataSequence,
    Numbers,
    Tally,
    World,
)

EXPLORE = bool(os.environ.get("EXPLORE"))
dice = st.randoms(use_true_random=False)


# --- driven by Hypothesis -------------------------------------------------------------


class Walk(RuleBasedStateMachine):
    """Every step is one random call, everything is looked at after each of them."""

    well = False  # as long as nothing is wrong: then everybody can leave at the end

    @initialize(kind=st.sampled_from(KINDS), rng=dice)
    def start(self, kind: str, rng: random.Random) -> None:
        self.world = World(Configuration.draw(rng, kind), strict=True)
        self.well = True
        note(f"{self.world.configuration}")

    @rule(rng=dice)
    def step(self, rng: random.Random) -> None:
        self.well = False
        try:
            self.world.step(rng)
        finally:
            note(self.world.history[-1] if self.world.history else "no call")
        self.well = True

    def teardown(self) -> None:
        if self.well:
            self.world.finish()


TestWalk = Walk.TestCase
TestWalk.settings = settings(
    max_examples=2000 if EXPLORE else 80,
    stateful_step_count=40,
    derandomize=not EXPLORE,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# --- driven by seeds ------------------------------------------------------------------

SEEDS, STEPS = range(8), 250


def walk(kind: str, seed: int, audit_every: int = 0) -> Tally:
    """One short walk, which raises where something is wrong."""
    rng = random.Random(seed)
    configuration = Configuration.draw(rng, kind)
    world = World(configuration, audit_every=audit_every, retry_every=4)
    for _ in range(STEPS):
        world.step(rng)
    world.finish()
    return world.tally


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_is_made_and_every_block_comes_back(kind: str) -> None:
    tally = Tally()
    for seed in SEEDS:
        tally.add(walk(kind, seed, audit_every=10))
    assert {name for name, _ in tally.calls} == set(WEIGHTS)
    answered = {"allocate", "append", "allocate_slots", "resume", "swap_out", "swap_in"}
    for name in answered:
        statuses = (Status.OK, Status.LATER) if kind == "ring" else Status
        assert all(tally.calls[name, status] for status in statuses), name
    assert tally.copies and tally.swapped_out and tally.swapped_in
    assert tally.blocks_lost == 0
    if kind != "ring":
        assert tally.evictions and tally.calls["look", "found"]


def test_a_walk_can_be_made_again() -> None:
    first, again = walk("hybrid", 3), walk("hybrid", 3)
    assert vars(first) == vars(again)


# --- the oracle -----------------------------------------------------------------------


def test_equal_contents_have_equal_numbers_and_no_others() -> None:
    numbers, seen = Numbers(shared=True), {}
    for extra in {repr(e): e for e in EXTRAS}.values():
        for tokens in ([0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]):
            first, again = DataSequence(extra), DataSequence(extra)
            numbers.extend(first, tokens)
            numbers.extend(again, tokens[:2])
            numbers.extend(again, tokens[2:])
            assert first.numbers == again.numbers
            seen[repr(extra), tuple(tokens)] = first.numbers
    last = [found[-1] for found in seen.values()]
    assert len(set(last)) == len(last) == 12
    # An image counts from its first token on, here from position 1.
    assert seen["{}", (0,) * 6][0] == seen[repr(EXTRAS[-2]), (0,) * 6][0]
    assert EXTRAS[-2] == {"mm": (MultiModal("cat", 1, 3),)}


def test_without_sharing_each_token_has_a_number_of_its_own() -> None:
    numbers, one, two = Numbers(shared=False), DataSequence(), DataSequence()
    numbers.extend(one, [5, 5])
    numbers.extend(two, [5, 5])
    assert sorted(one.numbers + two.numbers) == [1.0, 2.0, 3.0, 4.0]


# --- the core broken on purpose -------------------------------------------------------

Patch = pytest.MonkeyPatch


def not_shared(patch: Patch, tables: slice) -> None:
    """While a sequence grows, it takes the block that it writes first for its own."""
    grow = BlockManager._grow

    def alone(self: BlockManager, seq: Sequence, *how: Any) -> Any:
        users: dict[Block, int] = {}
        for table in seq.tables[tables]:
            for block in table.blocks[seq.num_computed_tokens // self.block_size :][:1]:
                users[block], block.ref_cnt = block.ref_cnt, 1
        answer = grow(self, seq, *how)
        for block, n in users.items():
            block.ref_cnt = n
        return answer

    patch.setattr(BlockManager, "_grow", alone)


def a_shared_block_is_not_copied(patch: Patch) -> None:
    not_shared(patch, slice(None))


def the_second_group_is_not_copied(patch: Patch) -> None:
    not_shared(patch, slice(1, None))


def a_copy_is_not_told(patch: Patch) -> None:
    for name in ("append", "allocate_slots"):
        silent(patch, name)


def silent(patch: Patch, name: str) -> None:
    call = getattr(BlockManager, name)

    def without(self: BlockManager, *what: Any, **how: Any) -> Allocation:
        answer: Allocation = call(self, *what, **how)
        return answer._replace(copies=())

    patch.setattr(BlockManager, name, without)


def a_copy_is_told_the_wrong_way(patch: Patch) -> None:
    copy = BlockManager._copy_on_write
    patch.setattr(
        BlockManager,
        "_copy_on_write",
        lambda self, table, place: copy(self, table, place)[::-1],
    )


def a_copy_keeps_its_share_in_the_old_block(patch: Patch) -> None:
    def copy(self: BlockManager, table: Table, place: int) -> tuple[int, int]:
        old, (new,) = table.blocks[place], self.pool.get_new_blocks(1)
        table.blocks[place] = new
        return old.block_id, new.block_id

    patch.setattr(BlockManager, "_copy_on_write", copy)


def the_storage_copies_the_wrong_way(patch: Patch) -> None:
    copy = KVCache.copy_blocks
    patch.setattr(
        KVCache,
        "copy_blocks",
        lambda self, pairs: copy(self, [(b, a) for a, b in pairs]),
    )


def a_fork_adds_no_users(patch: Patch) -> None:
    fork, touch = BlockManager.fork, BlockPool.touch

    def untouched(self: BlockManager, *names: str) -> None:
        patch.setattr(BlockPool, "touch", lambda self, blocks: None)
        try:
            fork(self, *names)
        finally:
            patch.setattr(BlockPool, "touch", touch)

    patch.setattr(BlockManager, "fork", untouched)


def the_short_way_stays_open_after_a_fork(patch: Patch) -> None:
    """An append of one token that decides nothing, into a block that is shared now."""
    fork = BlockManager.fork

    def kept(self: BlockManager, seq_id: str, child_id: str) -> None:
        room = self.sequences[seq_id].short_until if seq_id in self.sequences else 0
        fork(self, seq_id, child_id)
        self.sequences[seq_id].short_until = room

    patch.setattr(BlockManager, "fork", kept)


def a_fork_takes_the_draft_blocks_along(patch: Patch) -> None:
    copy = Sequence.copy
    patch.setattr(Sequence, "copy", lambda self, name, _: copy(self, name, 999))


def a_shared_block_is_moved_twice(patch: Patch) -> None:
    swap_out = BlockManager.swap_out

    def one_by_one(self: BlockManager, seq_ids: Any) -> Allocation:
        names = list(seq_ids)
        group = [self.sequences.get(name) for name in set(names)]
        held = sum(len(self.block_table(seq.seq_id)) for seq in group if seq)
        alright = all(seq and seq.status == "running" for seq in group)
        enough = self.host is not None and held <= self.host.num_free_blocks
        if not alright or not enough or len(group) < len(names):
            return swap_out(self, names)
        answers = [swap_out(self, [name]) for name in names]
        copies = tuple(pair for answer in answers for pair in answer.copies)
        needed = len({source for source, _ in copies})
        return answers[0]._replace(copies=copies, needed=needed)

    patch.setattr(BlockManager, "swap_out", one_by_one)


def a_swap_forgets_to_free_the_source(patch: Patch) -> None:
    swap = BlockManager._swap

    def kept(self: BlockManager, op: str, group: Any, source: Any, *to: Any) -> Any:
        held = [b for seq in group for table in seq.tables for b in table.held()]
        answer = swap(self, op, group, source, *to)
        if answer and held and held[0].block_hash is None and not held[0].ref_cnt:
            (taken,) = source.free_queue.take(1)
            taken.ref_cnt = 1
        return answer

    patch.setattr(BlockManager, "_swap", kept)


def a_swap_frees_its_destination(patch: Patch) -> None:
    swap = BlockManager._swap

    def freed(
        self: BlockManager, op: str, group: Any, source: Any, to: Any, *more: Any
    ) -> Any:
        answer = swap(self, op, group, source, to, *more)
        if answer:
            to.free_blocks([b for table in group[0].tables for b in table.held()])
        return answer

    patch.setattr(BlockManager, "_swap", freed)


def a_swap_tells_other_pairs(patch: Patch) -> None:
    swap = BlockManager._swap

    def turned(self: BlockManager, *how: Any) -> Allocation:
        answer = swap(self, *how)
        to = [target for _, target in answer.copies][::-1]
        pairs = zip(answer.copies, to, strict=True)
        return answer._replace(copies=tuple((pair[0], b) for pair, b in pairs))

    patch.setattr(BlockManager, "_swap", turned)


def a_swap_in_moves_other_bytes(patch: Patch) -> None:
    swap_in = Swapper.swap_in
    patch.setattr(
        Swapper,
        "swap_in",
        lambda self, pairs: swap_in(self, [(pairs[0][0], b) for _, b in pairs]),
    )


def what_comes_back_leaves_no_watermark(patch: Patch) -> None:
    patch.setattr(BlockManager, "_reserve", lambda self: 0)


def the_window_drops_a_block_too_many(patch: Patch) -> None:
    skipped = SlidingWindow.num_skipped_blocks
    patch.setattr(
        SlidingWindow,
        "num_skipped_blocks",
        lambda self, n, size: skipped(self, n + 1, size),
    )


def the_window_drops_a_block_too_few(patch: Patch) -> None:
    skipped = SlidingWindow.num_skipped_blocks
    patch.setattr(
        SlidingWindow,
        "num_skipped_blocks",
        lambda self, n, size: max(0, skipped(self, n, size) - 1),
    )


def a_hit_does_not_cover_the_window(patch: Patch) -> None:
    find = SlidingWindow.find_hits

    def short(self: SlidingWindow, *where: Any) -> Any:
        return find(SlidingWindow(max(2, self.window // 2)), *where)

    patch.setattr(SlidingWindow, "find_hits", short)


def a_prompt_may_be_hit_to_its_end(patch: Patch) -> None:
    def find(self: BlockManager, seq: Sequence) -> Any:
        limit = len(seq.token_ids) // self.block_size
        names = seq.block_hashes
        return find_hits(self.groups, self.pool, names, limit, self.block_size)

    patch.setattr(BlockManager, "_find_hits", find)


def blocks_are_registered_before_their_tokens_come(patch: Patch) -> None:
    """Look-ahead slots are registered too, and those of later chunks."""
    register = BlockManager._register

    def early(self: BlockManager, seq: Sequence) -> None:
        computed = seq.num_computed_tokens
        room = min(len(table.blocks) for table in seq.tables) * self.block_size
        seq.num_computed_tokens = min(len(seq.token_ids), room)
        register(self, seq)
        seq.num_computed_tokens = computed

    patch.setattr(BlockManager, "_register", early)


def a_block_that_is_taken_is_still_found(patch: Patch) -> None:
    take = BlockPool.get_new_blocks

    def remembered(self: BlockPool, n: int) -> Any:
        names = {block: block.block_hash for block in self.free_queue}
        taken = take(self, n)
        for block in taken:
            if name := names[block]:
                self.cache.insert(block, name)
        return taken

    patch.setattr(BlockPool, "get_new_blocks", remembered)


def a_hit_is_taken_for_granted_behind_a_hole(patch: Patch) -> None:
    def find(self: PrefixCache, names: Any, limit: int) -> Any:
        found = [self.get(name) for name in names[:limit]]
        return [block for block in found if block is not None]

    patch.setattr(PrefixCache, "find", find)


def a_salt_makes_no_difference(patch: Patch) -> None:
    patch.setattr(ExtraKeys, "of_block", lambda self, start, stop: ())


def a_refused_prompt_takes_a_block_and_gives_it_back(patch: Patch) -> None:
    allocate = BlockManager.allocate

    def fickle(self: BlockManager, *what: Any, **how: Any) -> Allocation:
        answer = allocate(self, *what, **how)
        if not answer and self.num_free_blocks:
            self.pool.free_blocks(self.pool.get_new_blocks(1))
        return answer

    patch.setattr(BlockManager, "allocate", fickle)


def a_table_is_not_freed_to_its_end(patch: Patch) -> None:
    held = Table.held
    patch.setattr(
        Table, "held", lambda self: held(self)[: max(1, len(self.blocks) - 1)]
    )


def free_blocks_are_not_all_given_out(patch: Patch) -> None:
    def leak(self: BlockPool) -> int:
        return len(self.free_queue) - (len(self.free_queue) == self.num_usable_blocks)

    patch.setattr(BlockPool, "num_free_blocks", property(leak))


def a_reset_works_while_blocks_are_in_use(patch: Patch) -> None:
    def reset(self: BlockPool) -> bool:
        self.cache.clear()
        return True

    patch.setattr(BlockPool, "reset_prefix_cache", reset)


def a_ring_is_a_block_too_small(patch: Patch) -> None:
    def num_blocks(self: RingWindow, num_slots: int, block_size: int) -> int:
        return max(1, min(num_slots, self.window) // block_size)

    patch.setattr(RingWindow, "num_blocks", num_blocks)


def values_are_not_written(patch: Patch) -> None:
    write = KVCache.write
    patch.setattr(
        KVCache,
        "write",
        lambda self, key, value, *how, **more: write(self, key, key, *how, **more),
    )


def never_is_never_said(patch: Patch) -> None:
    patch.setattr(BlockManager, "_later_or_never", lambda self, *what: Status.LATER)


def later_is_never_said(patch: Patch) -> None:
    patch.setattr(BlockManager, "_later_or_never", lambda self, *what: Status.NEVER)


def a_preempted_sequence_forgets_tokens(patch: Patch) -> None:
    preempt = BlockManager.preempt

    def forgetful(self: BlockManager, seq_id: str) -> None:
        preempt(self, seq_id)
        del self.sequences[seq_id].token_ids[1:]

    patch.setattr(BlockManager, "preempt", forgetful)


READS = r"reads K .* of the device"
# What is broken, in which kind of walk it shows, and what the walk says.
BROKEN: dict[Callable[[Patch], None], tuple[str, str]] = {
    a_shared_block_is_not_copied: ("full", "a shared block is written"),
    the_second_group_is_not_copied: ("hybrid", "a shared block is written"),
    a_copy_is_not_told: ("full", READS),
    a_copy_is_told_the_wrong_way: ("full", "nobody shares this block"),
    a_copy_keeps_its_share_in_the_old_block: ("full", r"is in \d tables"),
    the_storage_copies_the_wrong_way: ("full", READS),
    a_fork_adds_no_users: ("full", r"is in \d tables"),
    the_short_way_stays_open_after_a_fork: ("full", "a shared block is written"),
    a_fork_takes_the_draft_blocks_along: ("full", "a child is in other blocks"),
    a_shared_block_is_moved_twice: ("full", "a block moves twice"),
    a_swap_forgets_to_free_the_source: ("full", r"is in 0 tables"),
    a_swap_frees_its_destination: ("full", r"is in \d tables"),
    a_swap_tells_other_pairs: ("full", "a table names other blocks"),
    a_swap_in_moves_other_bytes: ("full", READS),
    what_comes_back_leaves_no_watermark: ("full", "not the room"),
    the_window_drops_a_block_too_many: ("window", "in sight of the new tokens is gone"),
    the_window_drops_a_block_too_few: ("window", "still held|changed something"),
    a_hit_does_not_cover_the_window: ("window", "in sight"),
    a_prompt_may_be_hit_to_its_end: ("full", "at least one token|nothing to compute"),
    blocks_are_registered_before_their_tokens_come: ("full", READS),
    a_block_that_is_taken_is_still_found: ("full", READS + "|nothing that could"),
    a_hit_is_taken_for_granted_behind_a_hole: ("full", READS),
    a_salt_makes_no_difference: ("full", READS),
    a_refused_prompt_takes_a_block_and_gives_it_back: ("full", "changed something"),
    a_table_is_not_freed_to_its_end: ("full", r"is in \d tables|not the room"),
    free_blocks_are_not_all_given_out: ("full", "neither free nor used|lost"),
    a_reset_works_while_blocks_are_in_use: ("full", "reset, with blocks in use"),
    a_ring_is_a_block_too_small: ("ring", "no slot|each one once|" + READS),
    values_are_not_written: ("full", READS),
    never_is_never_said: ("full", "LATER, and alone it does not fit"),
    later_is_never_said: ("full", "NEVER, and alone it fits"),
    a_preempted_sequence_forgets_tokens: ("full", "the tokens asked for"),
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_what_is_broken_is_noticed(
    broken: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    """With the very walks that find nothing wrong above, and without `audit()`."""
    kind, says = BROKEN[broken]
    broken(monkeypatch)
    with pytest.raises((AssertionError, BlockManagerError)) as caught:
        for seed in SEEDS:
            walk(kind, seed)
    assert re.search(says, str(caught.value)), str(caught.value)
