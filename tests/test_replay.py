"""Recorded runs of vLLM, step by step; a broken rule shows; a bad file is named.

The recordings decide: our manager is right when it answers what vLLM answered and is in
vLLM's state after every one of the 18,200 steps. That such a comparison can fail is
shown rule by rule: each test below breaks one rule of the real code on purpose.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blockmgr import BadTrace, BlockManager, BlockPool
from blockmgr import replay as replay_module
from blockmgr.block import FreeQueue
from blockmgr.kv_events import BlockRemoved, kv_events
from blockmgr.prefix import ExtraKeys, PrefixCache
from blockmgr.replay import (
    RECORDINGS,
    Difference,
    read_trace,
    replay_file,
    replay_log,
    replay_steps,
)
from blockmgr.sequence import SequenceStatus

FILES = sorted(RECORDINGS.glob("*.jsonl.gz"))
TOTAL_STEPS = 18_200


def file(start: str) -> Path:
    """The recording whose name starts like this."""
    return next(path for path in FILES if path.name.startswith(start))


# --- vLLM and we decide the same ----------------------------------------------------


def test_all_recordings_are_here() -> None:
    assert len(FILES) == 33
    assert sum(len(read_trace(path)[1]) for path in FILES) == TOTAL_STEPS


def test_the_recordings_exercise_every_operation() -> None:
    seen = {step["op"] for path in FILES for step in read_trace(path)[1]}
    assert seen == set(replay_module.OPERATIONS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_step_of_the_recording(path: Path) -> None:
    header, steps = read_trace(path)
    compared = 0
    for difference in replay_steps(header, steps):
        assert difference is None, str(difference)
        compared += 1
    assert compared == len(steps) + 1  # the state at the start as well


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


# --- one rule broken on purpose -----------------------------------------------------
#
# Each function makes one small change to the real code. `MonkeyPatch` undoes it.


def rule_1_the_queue_starts_at_the_other_end(patch: pytest.MonkeyPatch) -> None:
    init = FreeQueue.__init__
    patch.setattr(FreeQueue, "__init__", lambda self, blocks: init(self, blocks[::-1]))


def rule_3_blank_blocks_go_to_the_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FreeQueue, "put_head", FreeQueue.put_tail)


def rule_3_remembered_blocks_go_to_the_head(patch: pytest.MonkeyPatch) -> None:
    def put_tail(self: FreeQueue, blocks: list[Any]) -> None:
        for block in blocks:
            self._line[block] = None
            self._line.move_to_end(block, last=False)

    patch.setattr(FreeQueue, "put_tail", put_tail)


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
    def find_hits(self: BlockManager, seq: Any) -> list[Any]:
        limit = len(seq.token_ids) // self.block_size
        return self.pool.get_cached_blocks(seq.block_hashes, limit)

    patch.setattr(BlockManager, "_find_hits", find_hits)


def rule_9_free_hits_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    def needed(self: BlockManager, seq: Any, hits: list[Any], slots: int) -> int:
        return max(-(-slots // self.block_size) - len(hits) - len(seq.blocks), 0)

    patch.setattr(BlockManager, "_blocks_needed", needed)


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

    manager_for = replay_module.manager_for
    patch.setattr(replay_module, "manager_for", no_limit)


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

    patch.setattr(BlockPool, "touch", lambda self, blocks: waiting.extend(blocks))
    patch.setattr(BlockPool, "get_new_blocks", take_then_touch)


def rule_11_a_failed_append_forgets_its_tokens(patch: pytest.MonkeyPatch) -> None:
    append = BlockManager.append

    def forgetful(self: BlockManager, seq_id: str, tokens: Any, **how: Any) -> Any:
        answer = append(self, seq_id, tokens, **how)
        if not answer:
            del self._sequences[seq_id].token_ids[-len(tokens) :]
        return answer

    patch.setattr(BlockManager, "append", forgetful)


def rule_12_a_resume_looks_nothing_up(patch: pytest.MonkeyPatch) -> None:
    find = BlockManager._find_hits

    def find_hits(self: BlockManager, seq: Any) -> list[Any]:
        return [] if seq.status is SequenceStatus.PREEMPTED else find(self, seq)

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
            if block in self.free_queue._line:
                self.free_queue.remove(block)
                self.free_queue.put_head([block])

    patch.setattr(BlockPool, "evict_blocks", evict_and_move)


def rule_17_an_eviction_is_not_published(patch: pytest.MonkeyPatch) -> None:
    def silent(event: Any, block_size: int) -> list[Any]:
        events = kv_events(event, block_size)
        return [e for e in events if not isinstance(e, BlockRemoved)]

    patch.setattr(replay_module, "kv_events", silent)


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
    rule_17_an_eviction_is_not_published: "26_",
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
    "another format": ('{"format": "kvtrace-v0/1"}\n', "kvtrace-v0/1"),
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
    "two groups": (f"{HYBRID}\n{STEP}\n", "one group with full attention"),
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
