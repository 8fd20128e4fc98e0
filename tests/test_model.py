"""A random walk of the real manager beside a plain one, every state compared.

Each step makes the same call on both. Then the answer, every table, every reference
count, the whole free queue, the whole cache and the counters must be equal; `audit()`
must hold; the event log must tell the state; and what an attention kernel would read
through every table must be what was written for exactly those tokens.

The walk is the same on every run. `EXPLORE=1 pytest tests/test_model.py` takes a new
one each time, and longer.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from blockmgr import (
    Allocation,
    BlockManager,
    BlockManagerError,
    DuplicateSequence,
    InvalidRequest,
    Snapshot,
    Status,
    UnknownSequence,
)
from tests.oracle import Content, KVStandIn, PlainManager, PlainSequence

EXPLORE = bool(os.environ.get("EXPLORE"))

# Few tokens and few starts, so that equal blocks and long shared prefixes are common.
STARTS = ([0] * 12, [0] * 4 + [1] * 8, [0, 1] * 6)
prompts = st.builds(
    lambda start, n, tail: start[:n] + tail,
    st.sampled_from(STARTS),
    st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9, 12]),
    st.lists(st.integers(0, 1), max_size=2),
)
chunks = st.sampled_from([None, None, None, None, 1, 2, 3, 5, 9])
ahead = st.sampled_from([0, 0, 0, 0, 0, 1, 2, 5, 9])
salts = st.sampled_from([None, None, None, None, "u1", "u2"])
grown = st.lists(st.integers(0, 1), min_size=1, max_size=4)
which = st.integers(0, 30)
flags = st.booleans()

MISUSES = (
    "unknown_sequence",
    "wrong_name",
    "wrong_state",
    "wrong_tokens",
    "wrong_chunk",
    "wrong_lookahead",
    "wrong_block",
    "wrong_length",
)
WRONG_NAMES: list[Any] = ["", None, 3, b"r1", ("r1",), ["r1"], 1.0, {"r1"}]
WRONG_COUNTS: list[Any] = [-1, 1.5, "3", True, [2], float("nan"), -(10**30)]
WRONG_BLOCKS: list[Any] = [0, -1, 12, 10**30, 1.0, "1", None, True, [1]]
WRONG_TOKENS: list[Any] = [
    [],
    (),
    {},
    [-1],
    [2**64],
    [1.5],
    [float("nan")],
    ["7"],
    ["\N{GRINNING FACE}"],
    "seven",
    b"7",
    bytearray(b"7"),
    [None],
    [[1]],
    None,
    7,
    object(),
]


# What one step may do: how often, and with which arguments. One rule chooses. As rules
# of their own, whole kinds would be switched off in most walks (Hypothesis does that on
# purpose), and few blocks would ever be taken.
CALLS: dict[str, tuple[int, dict[str, Any]]] = {
    "allocate": (
        5,
        {"tokens": prompts, "salt": salts, "chunk": chunks, "la": ahead, "fit": flags},
    ),
    "ask_again": (3, {"i": which, "tail": grown, "salt": salts}),
    "append": (6, {"i": which, "tokens": grown, "la": ahead}),
    "allocate_slots": (3, {"i": which, "chunk": chunks, "la": ahead}),
    "free": (5, {"i": which}),
    "preempt": (2, {"i": which}),
    "resume": (2, {"i": which, "chunk": chunks, "la": ahead, "fit": flags}),
    "look": (1, {"tokens": prompts, "salt": salts}),
    "evict": (1, {"blocks": st.lists(which, max_size=3)}),
    "reset": (1, {}),
    "misuse": (
        1,
        {"kind": st.sampled_from(MISUSES), "i": which, "n": which, "tokens": prompts},
    ),
}
calls = st.sampled_from([name for name, (n, _) in CALLS.items() for _ in range(n)])
steps = calls.flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries(CALLS[name][1]))
)


def one_of(choices: list[Any], i: int) -> Any:
    """One of these, by any number."""
    return choices[i % len(choices)]


class Walk(RuleBasedStateMachine):
    """The two managers, and the memory that both believe in."""

    @initialize(
        num_blocks=st.sampled_from([2, 3, 4, 5, 6, 8, 9, 11, 12, 12]),
        block_size=st.integers(1, 4),
        caching=st.sampled_from([True, True, True, True, False]),
        watermark=st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.34, 0.99]),
        max_model_len=st.sampled_from([None, None, None, 13, 17, 1]),
        record=st.booleans(),
    )
    def start(
        self,
        num_blocks: int,
        block_size: int,
        caching: bool,
        watermark: float,
        max_model_len: int | None,
        record: bool,
    ) -> None:
        self.real = BlockManager(
            num_blocks,
            block_size,
            enable_caching=caching,
            watermark=watermark,
            max_model_len=max_model_len,
            record=record,
        )
        self.plain = PlainManager(
            num_blocks,
            block_size,
            caching,
            math.floor(watermark * num_blocks),
            max_model_len,
        )
        self.memory = KVStandIn()
        self.names: dict[str, Content] = {}  # digest -> the one content it stands for
        self.asked: list[list[int]] = []
        self.kept = self.real.snapshot()
        self.kept_as = repr(self.kept)

    @rule(what=steps)
    def step(self, what: tuple[str, dict[str, Any]]) -> None:
        name, arguments = what
        if self.makes_sense(name):
            getattr(self, name)(**arguments)

    def makes_sense(self, name: str) -> bool:
        """Whether there is a sequence to do this with."""
        match name:
            case "append" | "allocate_slots" | "preempt":
                return bool(self.ids(running=True))
            case "resume":
                return bool(self.ids(running=False))
            case "free":
                return bool(self.ids())
            case "ask_again":
                return bool(self.asked)
        return True

    # --- calls that make sense ------------------------------------------------------

    def allocate(
        self,
        tokens: list[int],
        salt: str | None,
        chunk: int | None,
        la: int,
        fit: bool,
    ) -> None:
        if self.too_long(len(tokens)):
            return
        self.asked.append(tokens)
        seq_id = f"r{len(self.asked)}"
        found = self.real.get_computed_blocks(tokens, cache_salt=salt)
        how = {
            "cache_salt": salt,
            "num_tokens": chunk,
            "num_lookahead": la,
            "full_sequence_must_fit": fit,
        }
        before = self.real.snapshot(), self.real.stats()
        got = self.real.allocate(seq_id, iter(tokens), **how)
        expected = self.plain.allocate(
            seq_id, tokens, salt, chunk=chunk, lookahead=la, must_fit=fit
        )
        assert got.hit_blocks == found, "admission finds what a lookup finds"
        self.compare(seq_id, got, expected, before)
        self.later_or_never(
            seq_id, got, tokens, la, lambda m: m.allocate(seq_id, tokens, **how)
        )

    def ask_again(self, i: int, tail: list[int], salt: str | None) -> None:
        """A prompt that came before, perhaps with more behind it: hits, duplicates."""
        self.allocate(one_of(self.asked, i) + tail, salt, None, 0, False)

    def append(self, i: int, tokens: list[int], la: int) -> None:
        seq_id = self.pick(i, running=True)
        if self.too_long(len(self.plain.sequences[seq_id].tokens) + len(tokens)):
            return
        before = self.real.snapshot(), self.real.stats()
        got = self.real.append(seq_id, tokens, num_lookahead=la)
        self.compare(seq_id, got, self.plain.append(seq_id, tokens, la), before)
        self.later_or_never(
            seq_id,
            got,
            self.plain.sequences[seq_id].tokens,
            la,
            lambda m: m.allocate_slots(seq_id, num_lookahead=la),
        )

    def allocate_slots(self, i: int, chunk: int | None, la: int) -> None:
        seq_id = self.pick(i, running=True)
        before = self.real.snapshot(), self.real.stats()
        got = self.real.allocate_slots(seq_id, chunk, num_lookahead=la)
        self.compare(seq_id, got, self.plain.extend(seq_id, chunk, la), before)

    def free(self, i: int) -> None:
        seq_id = self.pick(i)
        self.real.free(seq_id)
        self.plain.free(seq_id)

    def preempt(self, i: int) -> None:
        seq_id = self.pick(i, running=True)
        self.real.preempt(seq_id)
        self.plain.preempt(seq_id)

    def resume(self, i: int, chunk: int | None, la: int, fit: bool) -> None:
        seq_id = self.pick(i, running=False)
        before = self.real.snapshot(), self.real.stats()
        got = self.real.resume(
            seq_id, num_tokens=chunk, num_lookahead=la, full_sequence_must_fit=fit
        )
        expected = self.plain.resume(seq_id, chunk=chunk, lookahead=la, must_fit=fit)
        self.compare(seq_id, got, expected, before)
        self.later_or_never(
            seq_id,
            got,
            self.plain.sequences[seq_id].tokens,
            la,
            lambda m: m.resume(
                seq_id,
                num_tokens=chunk,
                num_lookahead=la,
                full_sequence_must_fit=fit,
            ),
        )

    def look(self, tokens: list[int], salt: str | None) -> None:
        """Look a prompt up, and keep a snapshot: neither may change later."""
        self.kept = self.real.snapshot()
        self.kept_as = repr(self.kept)
        if self.too_long(len(tokens)):
            return
        hits = self.real.get_computed_blocks(tokens, cache_salt=salt)
        assert list(hits) == self.plain.lookup(tokens, salt)

    def evict(self, blocks: list[int]) -> None:
        usable = [1 + b % (self.plain.num_blocks - 1) for b in blocks]
        self.real.evict_blocks(usable)
        self.plain.evict(usable)

    def reset(self) -> None:
        assert self.real.reset_prefix_cache() is self.plain.reset()

    # --- calls that make none: a named error, and nothing changed --------------------

    def misuse(self, kind: str, i: int, n: int, tokens: list[int]) -> None:
        getattr(self, kind)(i, n, [1] if self.too_long(len(tokens)) else tokens)

    def unknown_sequence(self, i: int, n: int, tokens: list[int]) -> None:
        real, name = self.real, one_of(["nobody", *WRONG_NAMES], n)
        self.refuses(UnknownSequence, real.append, name, tokens)
        self.refuses(UnknownSequence, real.allocate_slots, name)
        self.refuses(UnknownSequence, real.free, name)
        self.refuses(UnknownSequence, real.preempt, name)
        self.refuses(UnknownSequence, real.resume, name)
        self.refuses(UnknownSequence, real.block_table, name)
        self.refuses(UnknownSequence, real.slot_mapping, name)

    def wrong_name(self, i: int, n: int, tokens: list[int]) -> None:
        name = one_of(WRONG_NAMES, n)
        self.refuses(InvalidRequest, self.real.allocate, name, tokens)
        for seq_id in self.ids():  # and names that are taken
            self.refuses(DuplicateSequence, self.real.allocate, seq_id, tokens)

    def wrong_state(self, i: int, n: int, tokens: list[int]) -> None:
        real = self.real
        for seq_id in self.ids(running=True):
            self.refuses(InvalidRequest, real.resume, seq_id)
        for seq_id in self.ids(running=False):
            self.refuses(InvalidRequest, real.preempt, seq_id)
            self.refuses(InvalidRequest, real.append, seq_id, tokens)
            self.refuses(InvalidRequest, real.allocate_slots, seq_id)

    def wrong_tokens(self, i: int, n: int, tokens: list[int]) -> None:
        bad = one_of(WRONG_TOKENS, n)
        self.refuses(InvalidRequest, self.real.allocate, "new", bad)
        self.refuses(InvalidRequest, self.real.get_computed_blocks, bad)
        for seq_id in self.ids(running=True):
            self.refuses(InvalidRequest, self.real.append, seq_id, bad)

    def wrong_chunk(self, i: int, n: int, tokens: list[int]) -> None:
        real, bad = self.real, one_of([0, *WRONG_COUNTS], n)
        self.refuses(InvalidRequest, real.allocate, "new", tokens, num_tokens=bad)
        for seq_id in self.ids(running=True):
            self.refuses(InvalidRequest, real.allocate_slots, seq_id, bad)
        for seq_id in self.ids(running=False):
            self.refuses(InvalidRequest, real.resume, seq_id, num_tokens=bad)

    def wrong_lookahead(self, i: int, n: int, tokens: list[int]) -> None:
        real, bad = self.real, {"num_lookahead": one_of([None, *WRONG_COUNTS], n)}
        self.refuses(InvalidRequest, real.allocate, "new", tokens, **bad)
        for seq_id in self.ids(running=True):
            self.refuses(InvalidRequest, real.append, seq_id, [1], **bad)
            self.refuses(InvalidRequest, real.allocate_slots, seq_id, **bad)
        for seq_id in self.ids(running=False):
            self.refuses(InvalidRequest, real.resume, seq_id, **bad)

    def wrong_block(self, i: int, n: int, tokens: list[int]) -> None:
        first = 1 + i % (self.plain.num_blocks - 1)
        bad = one_of(WRONG_BLOCKS, n)
        self.refuses(InvalidRequest, self.real.evict_blocks, [first, bad])

    def wrong_length(self, i: int, n: int, tokens: list[int]) -> None:
        longest = self.plain.max_model_len
        if longest is not None:
            many = [1] * (longest + 1 + n)
            self.refuses(InvalidRequest, self.real.allocate, "new", many)
            for seq_id in self.ids(running=True):
                self.refuses(InvalidRequest, self.real.append, seq_id, many)

    # --- what must hold after every step --------------------------------------------

    @invariant()
    def same_state(self) -> None:
        state, plain = self.real.snapshot(), self.plain
        assert list(state.ref_cnt) == plain.users
        assert list(state.free_queue) == plain.queue
        assert self.real.num_free_blocks == len(plain.queue)
        shown = {
            seq_id: (list(view.block_table), list(view.token_ids), view.status)
            for seq_id, view in state.sequences.items()
        }
        assert shown == {
            seq_id: (
                seq.table,
                seq.tokens[: seq.computed],
                "running" if seq.running else "preempted",
            )
            for seq_id, seq in plain.sequences.items()
        }
        for seq_id, seq in plain.sequences.items():
            assert list(self.real.block_table(seq_id)) == seq.table

    @invariant()
    def same_cache(self) -> None:
        state, plain = self.real.snapshot(), self.plain
        registered = {b: h for b, h in enumerate(state.block_hash) if h is not None}
        assert registered.keys() == plain.names.keys()
        for block, digest in registered.items():
            # One digest, one content: now and at every earlier moment of the walk.
            assert (
                self.names.setdefault(digest, plain.names[block]) == plain.names[block]
            )
            assert list(state.cache[digest]) == plain.equal[plain.names[block]]
        assert len(state.cache) == len(plain.equal)

    @invariant()
    def same_counters(self) -> None:
        stats, plain = self.real.stats(), self.plain
        assert stats.live + stats.cached + stats.empty == stats.usable
        assert stats.usable == plain.num_blocks - 1
        assert stats.allocatable == len(plain.queue)
        assert stats.cached == sum(block in plain.names for block in plain.queue)
        counters = (stats.evictions, stats.queried_tokens, stats.hit_tokens)
        assert counters == (plain.evictions, plain.queried, plain.hit)

    @invariant()
    def invariants_hold_and_the_log_tells_the_state(self) -> None:
        assert all(check.ok for check in self.real.audit())
        if self.real.log is not None:
            assert self.real.log.snapshots()[-1] == self.real.snapshot()

    @invariant()
    def every_table_reads_its_own_tokens(self) -> None:
        for seq_id, seq in self.plain.sequences.items():
            table = self.real.block_table(seq_id)
            read = self.memory.read(table, self.plain.block_size, seq.computed)
            assert read == [seq.content_at(i) for i in range(seq.computed)]

    @invariant()
    def old_snapshots_never_change(self) -> None:
        assert repr(self.kept) == self.kept_as

    # --- helpers --------------------------------------------------------------------

    def ids(self, running: bool | None = None) -> list[str]:
        """The sequences there are: all, or those that run, or those that do not."""
        return [
            seq_id
            for seq_id, seq in self.plain.sequences.items()
            if running in (None, seq.running)
        ]

    def pick(self, i: int, running: bool | None = None) -> str:
        return one_of(self.ids(running), i)

    def too_long(self, length: int) -> bool:
        longest = self.plain.max_model_len
        return longest is not None and length > longest

    def compare(
        self,
        seq_id: str,
        got: Allocation,
        expected: dict[str, Any],
        before: tuple[Snapshot, Any],
    ) -> None:
        """The answers agree, and mean what they say; granted slots are written."""
        told = {"hits": got.hit_blocks, "new": got.new_blocks}
        assert got._asdict() | told == {
            "status": Status(expected["status"]),
            "hits": tuple(expected["hits"]),
            "new": tuple(expected["new"]),
            "num_cached_tokens": expected["cached"],
            "num_scheduled_tokens": expected["scheduled"],
            "needed": expected["needed"],
            "free": expected["free"],
            "copies": (),
        }
        assert bool(got) is (got.needed <= got.free)
        if got:
            self.write(self.plain.sequences[seq_id], seq_id, got.num_scheduled_tokens)
        else:
            assert (self.real.snapshot(), self.real.stats()) == before

    def later_or_never(
        self,
        seq_id: str,
        got: Allocation,
        tokens: list[int],
        la: int,
        again: Callable[[BlockManager], Allocation],
    ) -> None:
        """LATER: the same call succeeds once the others have left. NEVER: not even an
        empty pool of this size holds these tokens and their look-ahead."""
        if got.status is Status.LATER:
            twin = copy.deepcopy(self.real)
            for other in self.plain.sequences:
                if other != seq_id:
                    twin.free(other)
            assert again(twin)
        elif got.status is Status.NEVER:
            plain = self.plain
            empty = BlockManager(
                plain.num_blocks, plain.block_size, max_model_len=plain.max_model_len
            )
            assert not empty.allocate("alone", tokens, num_lookahead=la)

    def write(self, seq: PlainSequence, seq_id: str, n: int) -> None:
        """The model computes the `n` tokens just scheduled, and those only."""
        start = seq.computed - n
        slots = self.real.slot_mapping(seq_id, start)
        assert len(slots) == len(set(slots)) == n
        self.memory.write(slots, seq, start)

    def refuses(
        self, error: type[BlockManagerError], call: Any, *args: Any, **options: Any
    ) -> None:
        before = self.real.snapshot(), self.real.stats(), repr(self.real.log)
        with pytest.raises(error) as caught:
            call(*args, **options)
        assert str(caught.value)
        assert (self.real.snapshot(), self.real.stats(), repr(self.real.log)) == before


TestWalk = Walk.TestCase
TestWalk.settings = settings(
    max_examples=2000 if EXPLORE else 200,
    stateful_step_count=50,
    derandomize=not EXPLORE,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
