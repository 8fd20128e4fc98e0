"""Recorded runs of vLLM, step by step; a broken rule shows; a bad file is named.

The recordings decide: our manager is right when it answers what vLLM answered and is in
vLLM's state after every one of the 21,100 steps (5,000 more of V0, up to a renaming of
blocks). That such a comparison can fail is
shown rule by rule: each test below breaks one rule of the real code on purpose.
"""

import gzip
import inspect
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blockmgr import BadTrace, BlockManager, BlockPool, replay_v0, replay_v1
from blockmgr.block import FreeQueue
from blockmgr.groups import SlidingWindow
from blockmgr.kv_events import BlockRemoved, kv_events
from blockmgr.prefix import ExtraKeys, PrefixCache
from blockmgr.replay import (
    RECORDINGS,
    Difference,
    read_trace,
    replay_file,
    replay_log,
)
from blockmgr.replay_v1 import replay_steps
from blockmgr.sequence import SequenceStatus, Table
from blockmgr.v0 import BlockSpaceManager, RingWindow

FILES = sorted(RECORDINGS.glob("*.jsonl.gz"))
TOTAL_STEPS = 21_100
V0_STEPS = 5_000
V0_FILES = sorted((RECORDINGS / "v0").glob("*.jsonl.gz"))
V0_CACHING = [path for path in V0_FILES if "caching" in path.name]
V0_PLAIN = [path for path in V0_FILES if "caching" not in path.name]


def file(start: str) -> Path:
    """The recording whose name starts like this; `v0/` in front for one of V0."""
    folder, _, start = start.rpartition("/")
    files = V0_FILES if folder else FILES
    return next(path for path in files if path.name.startswith(start))


def alter(patch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """Break a function on purpose: as it is, but with `new` in place of `old`."""
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert source.count(old) == 1, f"{name} has {source.count(old)} times: {old}"
    scope = dict(vars(sys.modules[owner.__module__]))
    exec(source.replace(old, new), scope)
    patch.setattr(owner, name, scope[name])


# --- vLLM and we decide the same ----------------------------------------------------


def test_all_recordings_are_here() -> None:
    assert len(FILES) == 39
    assert sum(len(read_trace(path)[1]) for path in FILES) == TOTAL_STEPS


def test_the_recordings_exercise_every_operation() -> None:
    seen = {step["op"] for path in FILES for step in read_trace(path)[1]}
    assert seen == set(replay_v1.OPERATIONS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_step_of_the_recording(path: Path) -> None:
    header, steps = read_trace(path)
    compared = 0
    for difference in replay_steps(header, steps):
        assert difference is None, str(difference)
        compared += 1
    assert compared == len(steps) + 1  # the state at the start as well


def test_all_recordings_of_v0_are_here() -> None:
    assert (len(V0_PLAIN), len(V0_CACHING)) == (9, 3)
    steps = [step for path in V0_PLAIN for step in read_trace(path)[1]]
    assert {step["op"] for step in steps} == set(replay_v0.OPERATIONS)
    assert len(steps) == V0_STEPS


@pytest.mark.parametrize("path", V0_PLAIN, ids=lambda path: path.name.split(".")[0])
def test_every_step_of_v0_up_to_a_renaming_of_blocks(path: Path) -> None:
    header, steps = read_trace(path)
    compared = 0
    for difference in replay_v0.replay_steps(header, steps):
        assert difference is None, str(difference)
        compared += 1
    assert compared == len(steps) + 1


@pytest.mark.parametrize("path", V0_CACHING, ids=lambda path: path.name.split(".")[0])
def test_v0_with_its_own_prefix_cache_has_no_counterpart(path: Path) -> None:
    result = replay_file(path)
    assert (result.steps, result.difference) == (0, None)
    assert "V0's own prefix caching, which V1 replaced" in str(result)


def test_a_renaming_is_one_to_one_in_both_directions() -> None:
    """What the comparison must not take for equal: the same shape with other sharing,
    other reference counts, another place, or a block that no table holds."""
    base = {"a": [("g", 1), ("g", 2)], "b": [("g", 1)]}
    counts = {("g", 1): 2, ("g", 2): 1}
    same = {"a": [("g", 7), ("g", 3)], "b": [("g", 7)]}
    renamed = replay_v0._renamed
    told = renamed(base, counts)
    assert told == renamed(same, {("g", 7): 2, ("g", 3): 1})
    assert told != renamed({**base, "b": [("g", 2)]}, counts)
    assert told != renamed({**base, "b": [("g", 3)]}, {**counts, ("g", 3): 1})
    assert told != renamed({**base, "b": [("c", 1)]}, counts)
    assert told != renamed(base, {("g", 1): 3, ("g", 2): 1})
    assert told != renamed(base, {**counts, ("g", 9): 1})


def test_the_result_says_so_in_one_line() -> None:
    path = file("00_")
    steps = len(read_trace(path)[1])
    assert str(replay_file(path)) == f"ok  00_mixed_bs4_n8  {steps} steps"


@pytest.mark.parametrize("start", ["00_", "17_", "27_", "31_"])
def test_a_recorded_log_leads_to_the_recorded_state(start: str) -> None:
    """`replay_log` gives what lessons draw: its last state is vLLM's last state."""
    steps = read_trace(file(start))[1][:120]
    last = replay_log(file(start), 120).snapshots()[-1]
    assert list(last.ref_cnt) == steps[-1]["rc"]
    assert list(last.free_queue) == steps[-1]["fq"]
    assert [b for b, h in enumerate(last.block_hash) if h] == steps[-1]["cb"]
    held = {v.seq_id: list(v.block_table) for v in last.sequences.values()}
    assert {r: table for r, table in held.items() if table} == steps[-1]["tb"]


def test_a_log_of_v0_tells_its_forks_copies_and_swaps() -> None:
    log = replay_log(file("v0/05_"), 150)
    assert {"fork", "swap_out", "swap_in"} <= {event.op for event in log}
    assert any(event.op == "allocate_slots" and event.copies for event in log)
    last = log.snapshots()[-1]
    recorded = read_trace(file("v0/05_"))[1][149]
    assert [last.num_free, len(last.host_free_queue)] == recorded["nf"]


def test_a_schedulers_run_has_no_log() -> None:
    path = next((RECORDINGS / "sched").glob("00_*"))
    with pytest.raises(BadTrace, match="no log of single operations"):
        replay_log(path)


V0_HEADER, V0_FIRST = (lambda trace: (trace[0], trace[1][1]))(
    read_trace(file("v0/00_"))
)


@pytest.mark.parametrize(
    ("header", "step", "says"),
    [
        ({}, {"op": "dance"}, "step 1 asks for 'dance': known are admit"),
        ({}, {"op": "free", "r": "nobody"}, "step 1 lacks the field 'nobody'"),
        ({}, {"s": 5}, "step 1 has a field of another kind"),
        ({}, {"tb": 5}, "lacks or garbles a field"),
        ({}, {"rc": [1]}, "lacks or garbles a field"),
        ({"block_size": 0}, {}, "makes no sense: block_size"),
        ({"num_gpu": "x"}, {}, "makes no sense"),
    ],
)
def test_a_bad_recording_of_v0_is_named(
    header: dict[str, Any], step: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    lines = [{**V0_HEADER, **header}, {**V0_FIRST, **step}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    with pytest.raises(BadTrace) as caught:
        replay_file(path)
    assert says in str(caught.value)


# --- one rule broken on purpose -----------------------------------------------------
#
# Each function makes one small change to the real code. `MonkeyPatch` undoes it.


def rule_1_the_queue_starts_at_the_other_end(patch: pytest.MonkeyPatch) -> None:
    init = FreeQueue.__init__
    patch.setattr(FreeQueue, "__init__", lambda self, blocks: init(self, blocks[::-1]))


def rule_3_blank_blocks_go_to_the_tail(patch: pytest.MonkeyPatch) -> None:
    free = BlockPool.free_blocks

    def free_to_the_tail(self: BlockPool, blocks: Any) -> None:
        before = len(self.free_queue.stack)
        free(self, blocks)
        blank = self.free_queue.stack[before:]
        del self.free_queue.stack[before:]
        self.free_queue.put_tail(blank[::-1])

    patch.setattr(BlockPool, "free_blocks", free_to_the_tail)


def rule_3_remembered_blocks_go_to_the_head(patch: pytest.MonkeyPatch) -> None:
    alter(
        patch,
        FreeQueue,
        "put_tail",
        "+= blocks",
        "= type(self.line)(blocks) + self.line",
    )


def rule_3_a_table_is_freed_head_first(patch: pytest.MonkeyPatch) -> None:
    free = BlockPool.free_blocks
    patch.setattr(BlockPool, "free_blocks", lambda self, b: free(self, b[::-1]))


def rule_4_a_freed_block_forgets_at_once(patch: pytest.MonkeyPatch) -> None:
    free = BlockPool.free_blocks

    def free_and_forget(self: BlockPool, blocks: list[Any]) -> None:
        free(self, blocks)
        self.evict_blocks([b.block_id for b in blocks if b.ref_cnt == 0])

    patch.setattr(BlockPool, "free_blocks", free_and_forget)


def rule_5_the_salt_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExtraKeys, "of_block", lambda self, start, stop: ())


def rule_6_blocks_are_registered_one_call_late(patch: pytest.MonkeyPatch) -> None:
    register = BlockManager._register

    def late(self: BlockManager, seq: Any) -> None:
        seq.num_computed_tokens -= 1
        register(self, seq)
        seq.num_computed_tokens += 1

    patch.setattr(BlockManager, "_register", late)


def rule_7_a_duplicate_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    insert = PrefixCache.insert

    def insert_once(self: PrefixCache, block: Any, name: Any) -> bool:
        return name.digest not in self._first and insert(self, block, name)

    patch.setattr(PrefixCache, "insert", insert_once)


def rule_7_the_latest_duplicate_is_found(patch: pytest.MonkeyPatch) -> None:
    find = PrefixCache.find

    def find_latest(self: PrefixCache, hashes: Any, limit: int) -> list[Any]:
        equal = {blocks[0]: blocks[-1] for _, blocks in self}
        return [equal[block] for block in find(self, hashes, limit)]

    patch.setattr(PrefixCache, "find", find_latest)


def rule_8_the_last_token_may_be_a_hit(patch: pytest.MonkeyPatch) -> None:
    alter(
        patch,
        BlockManager,
        "_find_hits",
        "(len(seq.token_ids) - 1)",
        "len(seq.token_ids)",
    )


def rule_9_free_hits_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockManager, "_admit", "needed + revived > free", "needed > free")


def rule_9_the_watermark_always_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BlockManager, "_anybody_runs", lambda self: True)


def rule_9_the_watermark_never_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BlockManager, "_anybody_runs", lambda self: False)


def rule_9_the_full_sequence_need_not_fit(patch: pytest.MonkeyPatch) -> None:
    admit = BlockManager._admit
    patch.setattr(
        BlockManager, "_admit", lambda self, s, n, la, fit: admit(self, s, n, la, False)
    )


def rule_9_the_longest_length_does_not_count(patch: pytest.MonkeyPatch) -> None:
    def no_limit(header: Any, **how: Any) -> BlockManager:
        return manager_for({**header, "max_model_len": None}, **how)

    manager_for = replay_v1.manager_for
    patch.setattr(replay_v1, "manager_for", no_limit)


def rule_10_blocks_are_taken_before_the_hits_are_touched(
    patch: pytest.MonkeyPatch,
) -> None:
    touch, take = BlockPool.touch, BlockPool.get_new_blocks
    waiting: list[Any] = []

    def take_then_touch(self: BlockPool, n: int) -> list[Any]:
        new = take(self, n)
        touch(self, waiting)
        waiting.clear()
        return new

    patch.setattr(BlockPool, "touch", lambda self, blocks: waiting.extend(blocks) or 0)
    patch.setattr(BlockPool, "get_new_blocks", take_then_touch)


def rule_11_a_failed_append_forgets_its_tokens(patch: pytest.MonkeyPatch) -> None:
    append = BlockManager.append

    def forgetful(self: BlockManager, seq_id: str, tokens: Any, **how: Any) -> Any:
        answer = append(self, seq_id, tokens, **how)
        if not answer:
            del self.sequences[seq_id].token_ids[-len(tokens) :]
        return answer

    patch.setattr(BlockManager, "append", forgetful)


def rule_12_a_resume_looks_nothing_up(patch: pytest.MonkeyPatch) -> None:
    find = BlockManager._find_hits

    def find_hits(self: BlockManager, seq: Any) -> list[Any]:
        return [[]] if seq.status is SequenceStatus.PREEMPTED else find(self, seq)

    patch.setattr(BlockManager, "_find_hits", find_hits)


def rule_13_a_reset_works_while_blocks_are_in_use(patch: pytest.MonkeyPatch) -> None:
    def reset(self: BlockPool) -> bool:
        self.cache.clear()
        return True

    patch.setattr(BlockPool, "reset_prefix_cache", reset)


def rule_13_a_reset_sorts_the_queue(patch: pytest.MonkeyPatch) -> None:
    reset = BlockPool.reset_prefix_cache

    def reset_and_sort(self: BlockPool) -> bool:
        done = reset(self)
        if done:
            self.free_queue = FreeQueue(self.blocks[1:])
        return done

    patch.setattr(BlockPool, "reset_prefix_cache", reset_and_sort)


def rule_14_an_evicted_block_moves_to_the_head(patch: pytest.MonkeyPatch) -> None:
    evict = BlockPool.evict_blocks

    def evict_and_move(self: BlockPool, block_ids: Any) -> None:
        block_ids = list(block_ids)
        evict(self, block_ids)
        for block in (self.blocks[b] for b in block_ids):
            if block.ref_cnt == 0 and block in self.free_queue.line:
                block.num_stale += 1
                self.free_queue.num_stale += 1
                self.free_queue.stack.append(block)

    patch.setattr(BlockPool, "evict_blocks", evict_and_move)


def rule_15_a_window_lets_go_of_a_token_too_many(patch: pytest.MonkeyPatch) -> None:
    alter(patch, SlidingWindow, "num_skipped_blocks", "+ 1)", "+ 2)")


def rule_15_a_window_lets_go_of_a_token_too_few(patch: pytest.MonkeyPatch) -> None:
    alter(patch, SlidingWindow, "num_skipped_blocks", " + 1)", ")")


def rule_15_a_window_lets_go_from_low_to_high(patch: pytest.MonkeyPatch) -> None:
    drop = Table.drop
    patch.setattr(Table, "drop", lambda self, n, null: drop(self, n, null)[::-1])


def rule_15_a_refused_call_lets_nothing_go(patch: pytest.MonkeyPatch) -> None:
    grow = BlockManager._grow

    def grow_or_undo(self: BlockManager, seq: Any, n: int, lookahead: int) -> Any:
        before = [list(table.blocks) for table in seq.tables]
        answer = grow(self, seq, n, lookahead)
        if not answer and before != [table.blocks for table in seq.tables]:
            answer = answer._replace(status=answer.status)
            for table, blocks in zip(seq.tables, before, strict=True):
                gone = [
                    b
                    for b, now in zip(blocks, table.blocks, strict=True)
                    if b is not now
                ]
                self.pool.touch(gone)
                table.blocks = blocks
        return answer

    patch.setattr(BlockManager, "_grow", grow_or_undo)


def rule_15_a_window_is_looked_up_from_the_left(patch: pytest.MonkeyPatch) -> None:
    full = SlidingWindow.__mro__[1].find_hits
    patch.setattr(SlidingWindow, "find_hits", full)


def rule_15_a_shorter_run_never_counts(patch: pytest.MonkeyPatch) -> None:
    alter(patch, SlidingWindow, "find_hits", "return found[:run]", "return []")


def rule_15_a_window_wants_a_block_more(patch: pytest.MonkeyPatch) -> None:
    alter(
        patch,
        SlidingWindow,
        "find_hits",
        "(self.window - 1)",
        "(self.window + block_size)",
    )


def rule_16_full_attention_is_not_cut(patch: pytest.MonkeyPatch) -> None:
    def touch_all(self: BlockManager, seq: Any) -> Any:
        hits = find(self, seq)
        limit = (len(seq.token_ids) - 1) // self.block_size
        hits[0] = self.pool.get_cached_blocks(seq.block_hashes, limit)
        return hits

    find = BlockManager._find_hits
    patch.setattr(BlockManager, "_find_hits", touch_all)


def rule_16_groups_find_each_others_blocks(patch: pytest.MonkeyPatch) -> None:
    from blockmgr.block import BlockHash

    patch.setattr(BlockHash, "in_group", lambda self, group: self)


def rule_20_the_watermark_does_not_count(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockSpaceManager, "can_allocate", "- need >=", "- need + 99 >=")


def rule_20_never_is_later(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockSpaceManager, "can_allocate", "Status.NEVER", "Status.LATER")


def rule_20_a_ring_is_a_block_longer(patch: pytest.MonkeyPatch) -> None:
    alter(patch, RingWindow, "num_blocks", "self.window)", "self.window + block_size)")


def rule_21_a_fork_copies_its_blocks_at_once(patch: pytest.MonkeyPatch) -> None:
    fork = BlockManager.fork

    def fork_and_copy(self: BlockManager, parent: str, child: str) -> None:
        fork(self, parent, child)
        table = self.sequences[child].tables[0]
        if self.num_free_blocks and table.blocks:
            self._copy_on_write(table, len(table.blocks) - 1)

    patch.setattr(BlockManager, "fork", fork_and_copy)


def rule_22_a_shared_block_is_written_in_place(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockManager, "_grow", "ref_cnt > 1", "ref_cnt > 99")


def rule_22_the_last_user_copies_too(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockManager, "_grow", "ref_cnt > 1", "ref_cnt > 0")


def rule_22_a_group_may_append_with_one_block_free(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockSpaceManager, "can_append_slots", "len(self.groups[group])", "1")


def rule_23_a_shared_block_moves_once_for_each_user(patch: pytest.MonkeyPatch) -> None:
    alter(
        patch,
        BlockManager,
        "_swap",
        "answer = Allocation(OK, needed=needed, free=free, copies=copies)",
        "answer = Allocation(OK, copies=copies * 2)",
    )


def rule_23_a_moved_block_forgets_how_many_share_it(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockManager, "_swap", "to.free_blocks(new)", "pass")


def rule_23_swap_in_needs_no_block_to_grow(patch: pytest.MonkeyPatch) -> None:
    alter(patch, BlockSpaceManager, "can_swap_in", "distinct + len(tables)", "distinct")
    alter(patch, BlockManager, "_swap", "(len(group) if", "(0 if")


def rule_17_an_eviction_is_not_published(patch: pytest.MonkeyPatch) -> None:
    def silent(event: Any, block_size: int) -> list[Any]:
        events = kv_events(event, block_size)
        return [e for e in events if not isinstance(e, BlockRemoved)]

    patch.setattr(replay_v1, "kv_events", silent)


BROKEN: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    rule_1_the_queue_starts_at_the_other_end: "00_",
    rule_3_blank_blocks_go_to_the_tail: "00_",
    rule_3_remembered_blocks_go_to_the_head: "00_",
    rule_3_a_table_is_freed_head_first: "00_",
    rule_4_a_freed_block_forgets_at_once: "00_",
    rule_5_the_salt_does_not_count: "25_",
    rule_6_blocks_are_registered_one_call_late: "00_",
    rule_7_a_duplicate_is_not_kept: "11_",
    rule_7_the_latest_duplicate_is_found: "11_",
    rule_8_the_last_token_may_be_a_hit: "11_",
    rule_9_free_hits_are_not_counted: "14_",
    rule_9_the_watermark_always_counts: "19_",
    rule_9_the_watermark_never_counts: "16_",
    rule_9_the_full_sequence_need_not_fit: "22_",
    rule_9_the_longest_length_does_not_count: "32_",
    rule_10_blocks_are_taken_before_the_hits_are_touched: "00_",
    rule_11_a_failed_append_forgets_its_tokens: "00_",
    rule_12_a_resume_looks_nothing_up: "14_",
    rule_13_a_reset_works_while_blocks_are_in_use: "29_",
    rule_13_a_reset_sorts_the_queue: "29_",
    rule_14_an_evicted_block_moves_to_the_head: "29_",
    rule_15_a_window_lets_go_of_a_token_too_many: "33_",
    rule_15_a_window_lets_go_of_a_token_too_few: "33_",
    rule_15_a_window_lets_go_from_low_to_high: "33_",
    rule_15_a_refused_call_lets_nothing_go: "34_",
    rule_15_a_window_is_looked_up_from_the_left: "34_",
    rule_15_a_shorter_run_never_counts: "33_",
    rule_15_a_window_wants_a_block_more: "34_",
    rule_16_full_attention_is_not_cut: "36_",
    rule_16_groups_find_each_others_blocks: "36_",
    rule_17_an_eviction_is_not_published: "26_",
    rule_20_the_watermark_does_not_count: "v0/04_",
    rule_20_never_is_later: "v0/00_",
    rule_20_a_ring_is_a_block_longer: "v0/07_",
    rule_21_a_fork_copies_its_blocks_at_once: "v0/05_",
    rule_22_a_shared_block_is_written_in_place: "v0/05_",
    rule_22_the_last_user_copies_too: "v0/05_",
    rule_22_a_group_may_append_with_one_block_free: "v0/05_",
    rule_23_a_shared_block_moves_once_for_each_user: "v0/06_",
    rule_23_a_moved_block_forgets_how_many_share_it: "v0/06_",
    rule_23_swap_in_needs_no_block_to_grow: "v0/06_",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_rule_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(BROKEN[broken])
    assert replay_file(path).difference is None
    broken(monkeypatch)
    result = replay_file(path)
    assert result.difference is not None
    assert str(result).startswith(f"DIFFERS  {path.name.split('.')[0]}  step ")


def test_a_difference_says_where_and_what() -> None:
    header, steps = read_trace(file("00_"))
    steps[6]["rc"][1] += 1
    found = [d for d in replay_steps(header, steps) if d is not None]
    assert [(d.step, d.field) for d in found] == [(7, "rc")]
    assert found[0].expected[1] == found[0].got[1] + 1
    assert str(Difference(7, "rc", 1, 2)) == "step 7, rc: expected 1, got 2"


@pytest.mark.parametrize("field", ["res", "tb", "rc", "fq", "cb", "ck", "ev"])
def test_every_field_is_compared(field: str) -> None:
    header, steps = read_trace(file("26_"))
    other = {"ck": -1, "res": {}, "tb": {}}.get(field, [0])
    changed = {**steps[0], field: other}
    found = [d for d in replay_steps(header, [changed]) if d is not None]
    assert [d.field for d in found] == [field]


def test_an_event_too_many_or_too_few_is_found() -> None:
    header, steps = read_trace(file("26_"))
    for events in ([], steps[0]["ev"] * 2):
        found = [d for d in replay_steps(header, [{**steps[0], "ev": events}]) if d]
        assert [d.field for d in found] == ["ev"]


def test_a_request_that_we_refuse_is_a_difference() -> None:
    header, steps = read_trace(file("00_"))
    found = [d for d in replay_steps(header, [{**steps[0], "t": []}]) if d]
    assert found[0].field == "res"
    assert "at least 1 token" in found[0].got


# --- hashes, up to a renaming -------------------------------------------------------


def test_one_renaming_must_do_for_the_whole_recording() -> None:
    """vLLM's hashes are not ours, but two of theirs can't both be one of ours."""
    header, steps = read_trace(file("26_"))
    stored = [e["store"] for step in steps for e in step["ev"] if "store" in e]
    first, second = stored[0][0], stored[1][0]
    text = json.dumps(steps).replace(second, first)
    result = [d for d in replay_steps(header, json.loads(text)) if d is not None]
    assert result[0].field == "ev"


# --- bad files ----------------------------------------------------------------------

HEADER = json.dumps(read_trace(file("00_"))[0])
STEP = json.dumps(read_trace(file("00_"))[1][0])
WITHOUT_RC = json.dumps({k: v for k, v in json.loads(STEP).items() if k != "rc"})
HYBRID = json.dumps({**json.loads(HEADER), "groups": [{"kind": "full"}] * 2})


def changed(line: str, **fields: Any) -> str:
    """One line of a recording with other fields."""
    return json.dumps({**json.loads(line), **fields})


BAD_TEXTS = {
    "empty": ("", "an empty file"),
    "only a newline": ("\n", "line 1: expected a JSON object"),
    "not JSON": ("hello\n", "line 1: expected a JSON object"),
    "no object": ("[1, 2]\n", "line 1: expected a JSON object"),
    "so deep that it can't be read": ("[" * 100_000 + "\n", "expected a JSON object"),
    "another format": ('{"format": "kvtrace-v9/1"}\n', "kvtrace-v9/1"),
    "JSON of another kind": ('{"a": 1}\n', "not a recording this command knows"),
    "header only": (HEADER + "\n", "no steps"),
    "cut between two steps' halves": (
        f"{HEADER}\n{STEP[:60]}",
        "line 2: expected a JSON object",
    ),
    "cut before the last newline": (f"{HEADER}\n{STEP}", "cut in line 2"),
    "a blank line": (f"{HEADER}\n\n{STEP}\n", "line 2: expected a JSON object"),
    "unknown operation": (
        f"{HEADER}\n{changed(STEP, op='dance')}\n",
        "step 1 asks for 'dance': known are admit",
    ),
    "operation of another kind": (f"{HEADER}\n{changed(STEP, op=[])}\n", "asks for []"),
    "no operation": (f"{HEADER}\n{{}}\n", "step 1 asks for None"),
    "no request": (f'{HEADER}\n{{"op": "free"}}\n', "step 1 lacks the field 'r'"),
    "no state": (f"{HEADER}\n{WITHOUT_RC}\n", "step 1 lacks the field 'rc'"),
    "blocks of another kind": (
        f"{HEADER}\n{changed(STEP, op='evict', b=5)}\n",
        "step 1 has a field of another kind",
    ),
    "no events where they were recorded": (
        f"{changed(HEADER, events=True)}\n{changed(STEP, ev=None)}\n",
        "no list of events",
    ),
    "no state at the start": (f"{changed(HEADER, init=None)}\n{STEP}\n", "'init'"),
    "half a state at the start": (
        f"{changed(HEADER, init={})}\n{STEP}\n",
        "of them in 'init'",
    ),
    "more blocks than it describes": (
        f"{changed(HEADER, num_blocks=10**12)}\n{STEP}\n",
        "speaks of 1000000000000 blocks and describes",
    ),
    "no block size": (
        f"{HEADER.replace('block_size', 'size')}\n{STEP}\n",
        "first line lacks 'block_size'",
    ),
    "block size 0": (f"{changed(HEADER, block_size=0)}\n{STEP}\n", "at least 1, got 0"),
    "groups of another kind": (f"{changed(HEADER, groups=5)}\n{STEP}\n", "makes no"),
    "two equal groups": (f"{HYBRID}\n{STEP}\n", "makes no sense: groups is a tuple"),
    "a group of no kind": (f"{changed(HEADER, groups=[{}])}\n{STEP}\n", "lacks 'kind'"),
    "a group of an unknown kind": (
        f"{changed(HEADER, groups=[{'kind': 'mamba'}])}\n{STEP}\n",
        "kind 'mamba': known are full and sliding_window",
    ),
}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("text", "says"), BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_a_bad_file_is_named(
    text: str, says: str, zipped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    with pytest.raises(BadTrace) as caught:
        replay_file(path)
    assert says in str(caught.value)


BAD_BYTES = {
    "junk": bytes(range(256)),
    "junk behind gzip's mark": b"\x1f\x8b" + bytes(range(200)),
    "gzip cut in the middle": file("00_").read_bytes()[:2000],
    "gzip cut in its last bytes": file("00_").read_bytes()[:-3],
    "gzip with a wrong checksum": file("00_").read_bytes()[:-6] + b"\x00" * 6,
    "junk in gzip": gzip.compress(b"\xff\xfe\x00junk"),
    "junk behind gzip": file("00_").read_bytes() + b"junk",
}


@pytest.mark.parametrize("raw", BAD_BYTES.values(), ids=BAD_BYTES.keys())
def test_bad_bytes_are_named(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(raw)
    with pytest.raises(BadTrace, match=r"bad\.jsonl\.gz.* was cut or changed"):
        replay_file(path)


def test_a_directory_and_a_missing_file_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl.gz"):
        with pytest.raises(BadTrace, match=r"check its name|name a file in it"):
            read_trace(path)


def test_a_log_of_a_bad_file_is_refused_as_well(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{HEADER}\n{changed(STEP, op='dance')}\n", encoding="utf-8")
    with pytest.raises(BadTrace, match="dance"):
        replay_log(path)


def test_plain_text_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_bytes(gzip.decompress(file("00_").read_bytes()))
    assert replay_file(path).difference is None
