"""A random walk of a manager and its memory beside plain Python lists.

`World` holds a `BlockManager`, a real little `KVCache` and a host pool, and for each
sequence a plain list: the number that the K of each of its tokens must be. Each step
makes one random call, does with the memory what the answer says (copy, write, move),
and **poisons** with NaN whatever is free and forgotten. Then every living sequence must
read its own numbers through its tables, on the device or on the host.

The number of a token names where it comes from. With prefix caching, two tokens have
one number exactly when all that decides K and V is equal: the tokens up to it, salt,
adapter, image. Without, each token of each sequence has its own. A group of layers adds
its own share, and V is -K. All of them are whole or half and below 2**23, so fp32 holds
them exactly.

The walk knows nothing of how blocks are chosen: `oracle.py` and the recordings say
that. It knows what must be true whatever is chosen. Used by `test_walk.py` in small, by
`tools/soak.py` in large.
"""

from __future__ import annotations

import copy
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from blockmgr import (
    Allocation,
    BlockManager,
    BlockManagerError,
    DuplicateSequence,
    EventLog,
    InvalidRequest,
    MultiModal,
    Status,
    UnknownSequence,
)
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.pool import BlockPool
from blockmgr.storage import KVCache, KVCacheSpec
from blockmgr.swap import HostPool, Swapper
from blockmgr.v0 import RingWindow

KINDS = ("full", "window", "hybrid", "ring")
MOST_SEQUENCES, MOST_TOKENS = 8, 48
RUNNING, PREEMPTED, SWAPPED = "running", "preempted", "swapped"
GROUP_SHARE = 0.5  # what the second group of layers adds to a token's number
DRAFT = -7.25  # the K of a draft token that is rejected: nobody may ever read it
NAN = math.nan

# Few tokens and few starts, so that equal blocks and long shared prefixes are common.
STARTS = ([0] * 24, [0] * 4 + [1] * 20, [0, 1] * 12)
EXTRAS: tuple[dict[str, Any], ...] = (
    *({},) * 8,
    {"cache_salt": "u1"},
    {"cache_salt": "u2"},
    {"lora": ("a", "/a")},
    {"mm": (MultiModal("cat", 1, 3),)},
    {"mm": (MultiModal("dog", 5, 2), MultiModal("cat", 1, 3))},
)
# How often each call is made, of the sum of these.
WEIGHTS = {
    "allocate": 16,
    "append": 26,
    "add_tokens": 3,
    "allocate_slots": 8,
    "fork": 8,
    "free": 9,
    "preempt": 4,
    "resume": 6,
    "swap_out": 7,
    "swap_in": 8,
    "evict": 2,
    "reset": 2,
    "look": 3,
    "clear": 1,
    "misuse": 3,
}
CALLS = [name for name, weight in WEIGHTS.items() for _ in range(weight)]


class Configuration(NamedTuple):
    """What a walk walks on. `num_host_blocks` are usable, as in `BlockManager`."""

    kind: str
    window: int
    block_size: int
    num_blocks: int
    num_host_blocks: int
    caching: bool
    watermark: float
    max_model_len: int | None
    record: bool

    @classmethod
    def draw(
        cls, rng: random.Random, kind: str | None = None, **fixed: Any
    ) -> Configuration:
        """Any that makes sense, of this kind if one is named."""
        kind = rng.choice(KINDS) if kind is None else kind
        drawn = cls(
            kind=kind,
            window=rng.choice([2, 2, 3, 4, 5, 6, 7, 9, 12]),
            block_size=rng.choice([1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8]),
            num_blocks=rng.choice([2, 3, 5, 7, 9, 12, 12, 16, 16, 20, 24, 32]),
            num_host_blocks=rng.choice([0, 1, 3, 6, 6, 10, 16]),
            caching=kind != "ring" and rng.choice([True, True, True, True, False]),
            watermark=rng.choice([0.0, 0.0, 0.0, 0.1, 0.3]),
            max_model_len=rng.choice([None, None, None, 30, 17]),
            record=rng.choice([True, False, False]),
        )
        return drawn._replace(**fixed)

    def groups(self) -> tuple[FullAttention, ...]:
        if self.kind == "full":
            return (FullAttention(),)
        if self.kind == "ring":
            return (RingWindow(self.window),)
        window = SlidingWindow(self.window)
        return (window,) if self.kind == "window" else (FullAttention(), window)

    def manager(self) -> BlockManager:
        return BlockManager(
            self.num_blocks,
            self.block_size,
            num_host_blocks=self.num_host_blocks,
            groups=self.groups(),
            enable_caching=self.caching,
            watermark=self.watermark,
            max_model_len=self.max_model_len,
            record=self.record,
        )


@dataclass
class DataSequence:
    """What a sequence must be: its tokens, the number of each, how many have a slot."""

    extra: dict[str, Any] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    computed: int = 0
    status: str = RUNNING

    def copy(self) -> DataSequence:
        return DataSequence(
            self.extra, self.tokens[:], self.numbers[:], self.computed, self.status
        )


class Numbers:
    """Gives each content its number: 1.0, 2.0, ... in the order of their coming."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared  # whether equal contents have equal numbers
        self.known: dict[object, float] = {}

    def extend(self, seq: DataSequence, tokens: Iterable[int]) -> None:
        """Add tokens to a sequence, each with its number."""
        extra = seq.extra
        for token in tokens:
            i = len(seq.tokens)
            root = (extra.get("cache_salt"), extra.get("lora"))
            media = [
                (item.identifier, i - item.offset)
                for item in extra.get("mm", ())
                if 0 <= i - item.offset < item.length
            ]
            before = seq.numbers[-1] if i else root
            unique = None if self.shared else len(self.known)
            content = (before, token, tuple(media), unique)
            number = self.known.setdefault(content, float(len(self.known) + 1))
            seq.tokens.append(token)
            seq.numbers.append(number)


class Tally:
    """What a walk has done so far."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.copies = self.swapped_out = self.swapped_in = 0
        self.tokens_written = self.tokens_read = self.evictions = 0
        self.blocks_poisoned = self.refusals_tried_again = self.blocks_lost = 0
        self.tokens_hit = 0

    def add(self, other: Tally) -> None:
        """Take another walk's figures in."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.calls.update(other.calls)


class World:
    """A manager, its memory, and what must be in it.

    `audit_every` steps, `manager.audit()` looks at everything (0: never). One of
    `retry_every` refusals is tried again in a copy of the manager, where it must be
    LATER or NEVER as it said. `strict` reads through the checked door too.
    Every method that is named in `WEIGHTS` is one call, and raises `AssertionError` (or
    whatever the manager raises) where something is wrong.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        audit_every: int = 1,
        retry_every: int = 1,
        strict: bool = False,
    ) -> None:
        self.configuration = configuration
        self.manager = configuration.manager()
        self.size = configuration.block_size
        self.audit_every, self.retry_every = audit_every, retry_every
        self.strict = strict
        spec = KVCacheSpec(
            num_layers=1,
            num_kv_heads=1,
            head_size=1,
            block_size=self.size,
            dtype=torch.float32,
        )
        self.cache = KVCache(
            spec, num_blocks=configuration.num_blocks, device="cpu", poison=True
        )
        self.host: HostPool | None = None
        if configuration.num_host_blocks:
            self.host = HostPool(
                spec, configuration.num_host_blocks + 1, pin_memory=False
            )
            self.host.blocks.fill_(NAN)
            self.swapper = Swapper(self.cache, self.host, staging_blocks=3)
        # Which blocks hold nothing but NaN.
        self.poisoned = set(range(1, configuration.num_blocks))
        self.host_poisoned = set(range(1, configuration.num_host_blocks + 1))
        self.numbers = Numbers(configuration.caching)
        self.sequences: dict[str, DataSequence] = {}
        self.asked: list[list[int]] = [[0]]
        self.born = self.steps = self.refused = 0
        self.tally = Tally()
        self.history: deque[str] = deque(maxlen=20)
        self.before = self.manager.snapshot()

    # --- a step ---------------------------------------------------------------------

    def step(self, rng: random.Random) -> None:
        """One random call and everything that must hold after it."""
        name = rng.choice(CALLS)
        if len(self.sequences) > MOST_SEQUENCES and name in ("allocate", "fork"):
            name = "free"
        arguments = self.draw(name, rng)
        if arguments is None:  # there is no sequence to do this with
            name, arguments = "allocate", self.draw("allocate", rng)
        assert arguments is not None
        self.call(name, **arguments)

    def call(self, name: str, **arguments: Any) -> None:
        """One call with these arguments; `history` keeps it so that it can be read."""
        told = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        self.steps += 1
        self.history.append(f"{name}({told})")
        self.before = self.manager.snapshot()
        answer = getattr(self, name)(**arguments)
        status = answer if isinstance(answer, str) else str(answer.status)
        self.history[-1] += f" -> {status}"
        self.tally.calls[name, status] += 1
        self.poison()
        self.check_counts()
        self.check_data()
        if self.audit_every and self.steps % self.audit_every == 0:
            self.audit()

    def draw(self, name: str, rng: random.Random) -> dict[str, Any] | None:
        """Random arguments for a call; None if there is nobody to call it for."""

        def one(status: str | None) -> str | None:
            ids = self.ids(status)
            return rng.choice(ids) if ids else None

        def some(status: str) -> list[str]:
            chosen = [i for i in self.ids(status) if rng.randint(0, 2) == 0]
            return chosen or self.ids(status)[:1]

        length = rng.choice([1, 1, 1, 1, 1, 2, 3, 5])
        tokens = [rng.randint(0, 1) for _ in range(length)]
        chunk = rng.choice([None, None, None, 1, 2, 3, 5, 9])
        ahead = rng.choice([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 9])
        how = {"chunk": chunk, "ahead": ahead}
        match name:
            case "allocate" | "look":
                known = rng.choice([*STARTS, *[rng.choice(self.asked)] * 3])
                prompt = known[: rng.randint(0, self.usual())] + tokens
                prompt = prompt[: self.longest()]
                asked = {"tokens": prompt, "extra": rng.choice(EXTRAS)}
                if name == "look":
                    return asked
                return {**asked, **how, "must_fit": rng.randint(0, 3) == 0}
            case "append" | "add_tokens":
                seq_id = one(RUNNING if name == "append" else None)
                if seq_id is None:
                    return None
                room = self.longest() - len(self.sequences[seq_id].tokens)
                if room < 1:
                    return None
                found = {"seq_id": seq_id, "tokens": tokens[:room]}
                return {**found, "ahead": ahead} if name == "append" else found
            case "allocate_slots":
                seq_id = one(RUNNING)
                return None if seq_id is None else {"seq_id": seq_id, **how}
            case "resume":
                seq_id = one(PREEMPTED)
                must_fit = rng.randint(0, 3) == 0
                if seq_id is None:
                    return None
                return {"seq_id": seq_id, **how, "must_fit": must_fit}
            case "free" | "preempt" | "fork":
                seq_id = one(None if name == "free" else RUNNING)
                return None if seq_id is None else {"seq_id": seq_id}
            case "swap_out" | "swap_in":
                group = some(RUNNING if name == "swap_out" else SWAPPED)
                return {"group": group} if group and self.host else None
            case "evict":
                most = self.configuration.num_blocks - 1
                return {"blocks": [rng.randint(1, most) for _ in range(3)]}
            case "misuse":
                return {"kind": rng.randint(0, 11), "i": rng.randint(0, 7)}
        return {}

    def ids(self, status: str | None = None) -> list[str]:
        return [
            seq_id
            for seq_id, seq in self.sequences.items()
            if status in (None, seq.status)
        ]

    def usual(self) -> int:
        """Tokens of a usual prompt, so that more than one of them fits mostly."""
        room = self.configuration.num_blocks * self.size
        return min(20, max(2, room // 3))

    def longest(self) -> int:
        return min(self.configuration.max_model_len or MOST_TOKENS, MOST_TOKENS)

    # --- calls that give slots ------------------------------------------------------

    def allocate(
        self,
        tokens: list[int],
        extra: dict[str, Any],
        chunk: int | None,
        ahead: int,
        must_fit: bool,
    ) -> Allocation:
        self.asked = [*self.asked[-20:], tokens]
        self.born += 1
        seq_id, seq = f"s{self.born}", DataSequence(extra)
        self.numbers.extend(seq, tokens)
        how: dict[str, Any] = {
            "num_tokens": chunk,
            "num_lookahead": ahead,
            "full_sequence_must_fit": must_fit,
        }

        def ask(manager: BlockManager) -> Allocation:
            return manager.allocate(seq_id, iter(tokens), **how, **extra)

        answer = ask(self.manager)
        if answer:
            self.sequences[seq_id] = seq
        self.give(seq_id, seq, answer, chunk, ahead, ask)
        return answer

    def resume(
        self, seq_id: str, chunk: int | None, ahead: int, must_fit: bool
    ) -> Allocation:
        seq = self.sequences[seq_id]
        how: dict[str, Any] = {
            "num_tokens": chunk,
            "num_lookahead": ahead,
            "full_sequence_must_fit": must_fit,
        }

        def ask(manager: BlockManager) -> Allocation:
            return manager.resume(seq_id, **how)

        answer = ask(self.manager)
        if answer:
            seq.status = RUNNING
        self.give(seq_id, seq, answer, chunk, ahead, ask)
        return answer

    def append(self, seq_id: str, tokens: list[int], ahead: int) -> Allocation:
        seq = self.sequences[seq_id]
        self.numbers.extend(seq, tokens)
        given = tokens if len(tokens) == 1 else iter(tokens)
        answer = self.manager.append(seq_id, given, num_lookahead=ahead)
        self.give(
            seq_id,
            seq,
            answer,
            None,
            ahead,
            lambda m: m.allocate_slots(seq_id, num_lookahead=ahead),
        )
        return answer

    def allocate_slots(self, seq_id: str, chunk: int | None, ahead: int) -> Allocation:
        def ask(manager: BlockManager) -> Allocation:
            return manager.allocate_slots(seq_id, chunk, num_lookahead=ahead)

        answer = ask(self.manager)
        self.give(seq_id, self.sequences[seq_id], answer, chunk, ahead, ask)
        return answer

    def give(
        self,
        seq_id: str,
        seq: DataSequence,
        answer: Allocation,
        chunk: int | None,
        ahead: int,
        again: Callable[[BlockManager], Allocation],
    ) -> None:
        """Check an answer about slots, and write the tokens that it gives a slot."""
        size = self.size
        start = seq.computed + answer.num_cached_tokens
        waiting = len(seq.tokens) - start
        if answer.num_cached_tokens:
            self.tally.tokens_hit += answer.num_cached_tokens
            assert seq.computed == 0, "a sequence that has slots gets no hits"
            assert waiting >= 1, "a hit on everything leaves nothing to compute"
            assert start % size == 0, "a hit is a whole block"
        n = waiting if chunk is None else min(chunk, waiting)
        assert answer.num_scheduled_tokens == n, "the tokens asked for, no others"
        assert bool(answer) is (answer.needed <= answer.free)
        if not answer:
            self.nothing_changed(seq_id, start)

            def rest(manager: BlockManager) -> bool:
                real, ok = manager.sequences[seq_id], True
                while ok and real.num_computed_tokens < len(seq.tokens):
                    ok = bool(
                        manager.allocate_slots(seq_id, chunk, num_lookahead=ahead)
                    )
                return ok

            self.later_or_never([seq_id], answer, again, rest)
            return
        seq.computed = start + n
        tables = self.tables(seq_id)
        for table, skipped in zip(tables, self.skipped(start), strict=True):
            seen = table[skipped : -(-start // size)]
            assert all(seen), "a block in sight of the new tokens is gone"
            if not answer.num_cached_tokens:  # a hit may be longer than it must
                assert not any(table[:skipped]), "a block out of sight is still held"
        self.copy_on_write(seq_id, tables, answer)
        self.write(seq_id, tables, answer, start, ahead)

    def copy_on_write(
        self, seq_id: str, tables: list[list[int]], answer: Allocation
    ) -> None:
        """A copy goes from the block in this sequence's table to a free one, in the
        same place. Carried out before anything is written."""
        view = self.before.sequences.get(seq_id)
        copies = dict(answer.copies)
        assert len(copies) == len(answer.copies), "a block is copied twice"
        assert len(set(copies.values())) == len(copies), "two copies into one block"
        if not copies:
            return
        assert view is not None, "a sequence that comes in has nothing to copy"
        for source, target in copies.items():
            assert source != target
            assert self.before.ref_cnt[source] > 1, "nobody shares this block"
            assert self.manager.pool.blocks[source].ref_cnt, "a copied block is in use"
            places = [
                (old.index(source), now)
                for old, now in zip(view.tables, tables, strict=True)
                if source in old
            ]
            assert places, "the source of a copy is no block of this sequence"
            assert all(now[i] == target for i, now in places), "a copy is not in place"
        self.cache.copy_blocks(answer.copies)
        self.poisoned -= set(copies.values())
        self.tally.copies += len(copies)

    def write(
        self,
        seq_id: str,
        tables: list[list[int]],
        answer: Allocation,
        start: int,
        ahead: int,
    ) -> None:
        """Write the tokens from `start` on into their slots, and a draft token into
        each look-ahead slot behind. New blocks held something else before: NaN."""
        seq, size, blocks = self.sequences[seq_id], self.size, self.manager.pool.blocks
        new, longest = answer.new_blocks, self.configuration.max_model_len
        assert len(set(new)) == len(new), "a block is given twice"
        assert set(new) <= {b for table in tables for b in table}
        self.poison_new([b for b in new if b not in self.poisoned])
        first, stop = start, seq.computed
        end = min(stop + ahead, longest or stop + ahead)
        if self.configuration.kind == "ring":
            # A draft token would overwrite what is in the window still, and of a long
            # prompt only the end is written: a slot can't be named twice.
            first, end = max(start, stop - self.ring_slots()), stop
        slots: list[int] = []
        numbers: list[float] = []
        for group, table in enumerate(tables):
            assert len(table) * size >= end, "there is no slot for a (draft) token"
            for i in range(first, end):
                block_id = table[i // size]
                assert block_id, "a token to be written has no block"
                assert blocks[block_id].ref_cnt == 1, "a shared block is written"
                slots.append(block_id * size + i % size)
                number = seq.numbers[i] if i < stop else DRAFT
                numbers.append(number + group * GROUP_SHARE)
            if group == 0:
                found = self.manager.slot_mapping(seq_id, first, end)
                assert found == slots, "the slot mapping goes another way"
        if slots:
            rows = torch.tensor(numbers).view(-1, 1, 1)
            self.cache.write(rows, -rows, slots, layer=0)
            self.tally.tokens_written += len(slots)

    def nothing_changed(self, seq_id: str | None = None, start: int = 0) -> None:
        """The state is what it was before a call that was refused. One exception: what
        left the window of the sequence that asked is gone all the same (rule 15)."""
        expected = self.before
        view = expected.sequences.get(seq_id or "")
        if view is not None:
            ref_cnt, queue = list(expected.ref_cnt), list(expected.free_queue)
            tables = [list(table) for table in view.tables]
            for table, skipped in zip(tables, self.skipped(start), strict=True):
                gone: list[int] = []
                for i in reversed(range(min(skipped, len(table)))):
                    if table[i] == 0:
                        break
                    gone.append(table[i])
                    table[i] = 0
                for block_id in gone:
                    ref_cnt[block_id] -= 1
                free = [b for b in gone if ref_cnt[b] == 0]
                blank = [b for b in free if expected.block_hash[b] is None]
                queue = [*blank, *queue, *(b for b in free if b not in blank)]
            own, *more = (tuple(table) for table in tables)
            view = view._replace(block_table=own, more_tables=tuple(more))
            expected = expected._replace(
                ref_cnt=tuple(ref_cnt),
                free_queue=tuple(queue),
                sequences={**expected.sequences, view.seq_id: view},
            )
        assert self.manager.snapshot() == expected, "a refused call changed something"

    def later_or_never(
        self,
        group: Sequence[str],
        answer: Allocation,
        again: Callable[[BlockManager], Allocation],
        rest: Callable[[BlockManager], bool] = lambda manager: True,
    ) -> None:
        """LATER: the same call succeeds once all others have left. NEVER: it does not
        even then, or not all that is to come after it (`rest`)."""
        self.refused += 1
        if not self.retry_every or self.refused % self.retry_every:
            return
        self.tally.refusals_tried_again += 1
        alone = copy.deepcopy(self.manager)
        for seq_id in self.sequences:
            if seq_id not in group:
                alone.free(seq_id)
        if answer.status is Status.LATER:
            assert again(alone), "LATER, and alone it does not fit either"
        else:
            assert not again(alone) or not rest(alone), "NEVER, and alone it fits"

    def skipped(self, start: int) -> list[int]:
        """For each group, the leading blocks that a token at `start` can't see."""
        kind, hidden = self.configuration.kind, start - self.configuration.window + 1
        window = max(0, hidden) // self.size
        return {"window": [window], "hybrid": [0, window]}.get(kind, [0])

    def ring_slots(self) -> int:
        """The slots in which a ring goes around."""
        return -(-self.configuration.window // self.size) * self.size

    # --- share, leave, come back ----------------------------------------------------

    def add_tokens(self, seq_id: str, tokens: list[int]) -> str:
        self.manager.add_tokens(seq_id, iter(tokens))
        self.numbers.extend(self.sequences[seq_id], tokens)
        assert self.manager.snapshot() == self.before
        return "done"

    def fork(self, seq_id: str) -> str:
        self.born += 1
        child = f"s{self.born}"
        self.manager.fork(seq_id, child)
        self.sequences[child] = self.sequences[seq_id].copy()
        used = -(-self.sequences[child].computed // self.size)
        parents = [table[:used] for table in self.tables(seq_id)]
        assert self.tables(child) == parents, "a child is in other blocks"
        return "done"

    def free(self, seq_id: str) -> str:
        self.manager.free(seq_id)
        del self.sequences[seq_id]
        return "done"

    def preempt(self, seq_id: str) -> str:
        self.manager.preempt(seq_id)
        seq = self.sequences[seq_id]
        seq.status, seq.computed = PREEMPTED, 0
        return "done"

    def swap_out(self, group: list[str]) -> Allocation:
        old = {seq_id: self.tables(seq_id) for seq_id in group}
        answer = self.manager.swap_out(iter(group))
        pool, host = self.before.ref_cnt, self.before.host_ref_cnt
        if self.moved(group, old, answer, 0, pool, host, lambda m: m.swap_out(group)):
            self.swapper.swap_out(answer.copies)
            self.host_poisoned -= {target for _, target in answer.copies}
            self.tally.swapped_out += len(answer.copies)
            for seq_id in group:
                self.sequences[seq_id].status = SWAPPED
        return answer

    def swap_in(self, group: list[str]) -> Allocation:
        old = {seq_id: self.tables(seq_id) for seq_id in group}
        answer = self.manager.swap_in(iter(group))
        pool, host, room = self.before.ref_cnt, self.before.host_ref_cnt, len(group)
        if self.ids(RUNNING):
            room += int(self.configuration.watermark * self.configuration.num_blocks)
        if self.moved(group, old, answer, room, host, pool, lambda m: m.swap_in(group)):
            self.swapper.swap_in(answer.copies)
            self.poisoned -= {target for _, target in answer.copies}
            self.tally.swapped_in += len(answer.copies)
            for seq_id in group:
                self.sequences[seq_id].status = RUNNING
        return answer

    def moved(
        self,
        group: list[str],
        old: dict[str, list[list[int]]],
        answer: Allocation,
        room: int,
        source_users: tuple[int, ...],
        target_users: tuple[int, ...],
        again: Callable[[BlockManager], Allocation],
    ) -> bool:
        """Check an answer about a swap: each block moves once, into a free one, and the
        tables name the new ones in the old places. `room` is how many blocks must be
        left over (rule 23). False if it was refused."""
        held = {b for tables in old.values() for table in tables for b in table if b}
        assert answer.needed == len(held) + room, "not the room that a swap needs"
        assert answer.free == target_users[1:].count(0)
        assert bool(answer) is (answer.needed <= answer.free)
        if not answer:
            assert answer.copies == ()
            self.nothing_changed()
            self.later_or_never(group, answer, again)
            return False
        to = dict(answer.copies)
        assert len(to) == len(answer.copies), "a block moves twice"
        assert set(to) == held, "other blocks move than those that the group holds"
        assert len(set(to.values())) == len(to), "two blocks move into one"
        assert all(source_users[b] for b in to), "a free block moves"
        assert not any(target_users[b] for b in to.values()), "into a block in use"
        for seq_id in group:
            new = [[to.get(b, 0) for b in table] for table in old[seq_id]]
            assert self.tables(seq_id) == new, "a table names other blocks"
        return True

    # --- the cache ------------------------------------------------------------------

    def evict(self, blocks: list[int]) -> str:
        self.manager.evict_blocks(blocks)
        return "done"

    def reset(self) -> str:
        idle = not any(self.before.ref_cnt)
        assert self.manager.reset_prefix_cache() is idle, "reset, with blocks in use"
        assert self.manager.snapshot().free_queue == self.before.free_queue
        return "done" if idle else "no"

    def look(self, tokens: list[int], extra: dict[str, Any]) -> str:
        """What a lookup finds is full, and is what this prompt would have there."""
        wanted = DataSequence(extra)
        self.numbers.extend(wanted, tokens)
        tables = [
            list(self.manager.get_computed_blocks(tokens, group=group, **extra))
            for group in range(len(self.manager.groups))
        ]
        assert self.manager.snapshot() == self.before, "a look changes nothing"
        assert len({len(table) for table in tables}) == 1
        wanted.computed = len(tables[0]) * self.size
        assert wanted.computed < len(tokens), "at least one token is computed"
        self.compare("the device", self.gather, {"a prompt": (wanted, tables)})
        return "found" if tables[0] else "nothing"

    def clear(self) -> str:
        """Everybody leaves. Then every block is free, here and on the host."""
        for seq_id in list(self.sequences):
            self.free(seq_id)
        for pool in self.pools():
            lost = pool.num_usable_blocks - pool.num_free_blocks
            self.tally.blocks_lost += lost
            assert lost == 0, f"{lost} blocks are lost"
        return "done"

    def finish(self) -> None:
        """The end of the walk: everybody leaves, and all is looked at once more."""
        self.call("clear")
        if self.audit_every:
            self.audit()
        assert self.manager.reset_prefix_cache()
        self.tally.evictions += self.manager.pool.num_evictions

    # --- calls that are refused with a name -----------------------------------------

    def misuse(self, kind: int, i: int) -> str:
        manager, ids = self.manager, self.ids()
        seq_id = ids[i % len(ids)] if ids else None
        longest = self.configuration.max_model_len
        host = bool(self.host)
        call: Callable[..., Any]
        match kind:
            case 0:
                for call in (
                    *(manager.free, manager.preempt, manager.resume),
                    *(manager.allocate_slots, manager.block_table),
                ):
                    self.refuses(UnknownSequence, call, "nobody")
                self.refuses(UnknownSequence, manager.append, "nobody", [1])
                self.refuses(UnknownSequence, manager.add_tokens, "nobody", [1])
                self.refuses(UnknownSequence, manager.fork, "nobody", "somebody")
            case 1:
                for old in ids:
                    self.refuses(DuplicateSequence, manager.allocate, old, [1])
                for old in self.ids(RUNNING):
                    self.refuses(DuplicateSequence, manager.fork, old, ids[0])
                    self.refuses(InvalidRequest, manager.fork, old, "")
            case 2:
                self.refuses(InvalidRequest, manager.allocate, "new", [])
                self.refuses(InvalidRequest, manager.get_computed_blocks, [-1])
                if seq_id:
                    self.refuses(InvalidRequest, manager.add_tokens, seq_id, [1, -1])
                    self.refuses(InvalidRequest, manager.add_tokens, seq_id, [])
            case 3:
                for old in self.ids(RUNNING):
                    self.refuses(InvalidRequest, manager.resume, old)
            case 4:
                for old in [*self.ids(PREEMPTED), *self.ids(SWAPPED)]:
                    self.refuses(InvalidRequest, manager.append, old, [1])
                    self.refuses(InvalidRequest, manager.allocate_slots, old)
                    self.refuses(InvalidRequest, manager.preempt, old)
                    self.refuses(InvalidRequest, manager.fork, old, "child")
            case 5:
                bad = {"num_lookahead": -1}
                self.refuses(InvalidRequest, manager.allocate, "new", [1], **bad)
                bad = {"num_tokens": 0}
                self.refuses(InvalidRequest, manager.allocate, "new", [1], **bad)
                for old in self.ids(RUNNING):
                    self.refuses(InvalidRequest, manager.allocate_slots, old, 0)
            case 6:
                blocks = [1, self.configuration.num_blocks]
                self.refuses(InvalidRequest, manager.evict_blocks, blocks)
            case 7 if longest and seq_id:
                many = [1] * (longest + 1)
                self.refuses(InvalidRequest, manager.allocate, "new", many)
                self.refuses(InvalidRequest, manager.add_tokens, seq_id, many)
            case 8:
                error = UnknownSequence if host else BlockManagerError
                for call in (manager.swap_out, manager.swap_in):
                    self.refuses(error, call, ["nobody"])
            case 9 if host:  # a group of which one member is somewhere else
                here, there = self.ids(RUNNING), self.ids(SWAPPED)
                if here and there:
                    mixed = [*here, *there]
                    self.refuses(InvalidRequest, manager.swap_out, mixed)
                    self.refuses(InvalidRequest, manager.swap_in, mixed[::-1])
            case 10 if host and seq_id:  # one name twice
                status = self.sequences[seq_id].status
                call = manager.swap_in if status == SWAPPED else manager.swap_out
                self.refuses(InvalidRequest, call, [seq_id, seq_id])
            case 11 if seq_id:  # tokens that end in an error

                def broken() -> Iterator[int]:
                    yield 1
                    raise ArithmeticError

                self.refuses(ArithmeticError, manager.add_tokens, seq_id, broken())
                self.refuses(ArithmeticError, manager.allocate, "new", broken())
        self.nothing_changed()
        return "refused"

    def refuses(
        self, error: type[Exception], call: Callable[..., Any], *args: Any, **how: Any
    ) -> None:
        try:
            call(*args, **how)
        except error:
            pass
        else:
            raise AssertionError(f"{call.__name__}{args} {how} was not refused")
        assert self.manager.snapshot() == self.before, f"{call.__name__} left a trace"

    # --- what must hold after each step ---------------------------------------------

    def tables(self, seq_id: str) -> list[list[int]]:
        """The block table of each group of layers."""
        groups = range(len(self.manager.groups))
        return [list(self.manager.block_table(seq_id, group)) for group in groups]

    def pools(self) -> list[BlockPool]:
        host = self.manager.host
        return [self.manager.pool, host] if host else [self.manager.pool]

    def poison(self) -> None:
        """Fill with NaN what has become free and is remembered by nobody."""
        fresh = free_and_blank(self.manager.pool, self.poisoned)
        if fresh:
            self.cache.poison_blocks(fresh)
            self.poisoned.update(fresh)
            self.tally.blocks_poisoned += len(fresh)
        if self.host and self.manager.host:
            fresh = free_and_blank(self.manager.host, self.host_poisoned)
            if fresh:
                self.host.blocks[fresh] = NAN
                self.host_poisoned.update(fresh)
                self.tally.blocks_poisoned += len(fresh)

    def poison_new(self, blocks: list[int]) -> None:
        """The same for what has just been taken and held something until now."""
        if blocks:
            self.cache.poison_blocks(blocks)
            self.tally.blocks_poisoned += len(blocks)

    def check_counts(self) -> None:
        """In each pool free + used = usable, and a block's users are the tables that
        name it."""
        users: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        for seq_id, seq in self.sequences.items():
            real = self.manager.sequences[seq_id]
            assert (real.status, real.num_computed_tokens) == (seq.status, seq.computed)
            for table in self.tables(seq_id):
                users[seq.status == SWAPPED].update({b for b in table if b})
        for on_host, pool in enumerate(self.pools()):
            counted = users[bool(on_host)]
            used = sum(block.ref_cnt > 0 for block in pool.blocks)
            self.tally.blocks_lost += (
                lost := pool.num_usable_blocks - used - pool.num_free_blocks
            )
            assert lost == 0, f"{lost} blocks are neither free nor used"
            for block in pool.blocks:
                n = counted[block.block_id]
                assert block.ref_cnt == n, f"{block} is in {n} tables"

    def check_data(self) -> None:
        """What each sequence reads through its tables is what was written for it."""
        here = {i: self.sequences[i] for i in self.ids(RUNNING)}
        there = {i: self.sequences[i] for i in self.ids(SWAPPED)}
        self.compare(
            "the device",
            self.gather,
            {seq_id: (seq, self.tables(seq_id)) for seq_id, seq in here.items()},
        )
        self.compare(
            "the host",
            self.gather_from_host,
            {seq_id: (seq, self.tables(seq_id)) for seq_id, seq in there.items()},
        )
        if self.strict:
            self.read_each(here)

    def compare(
        self,
        where: str,
        gather: Callable[[Tensor], tuple[Tensor, Tensor]],
        wanted: dict[str, tuple[DataSequence, list[list[int]]]],
    ) -> None:
        """Read many tables at once, and compare all that can be seen."""
        names = [(i, group) for i, (_, t) in wanted.items() for group in range(len(t))]
        if not names:
            return
        size = self.size
        rows = [
            self.expected(seq, t) for seq, tables in wanted.values() for t in [tables]
        ]
        numbers = [row for of_seq in rows for row in of_seq]
        used = [-(-len(row) // size) for row in numbers]
        width = max(used)
        if width == 0:
            return
        tables = [t for _, of_seq in wanted.values() for t in of_seq]
        ids = [t[:n] + [0] * (width - n) for t, n in zip(tables, used, strict=True)]
        filled = [row + [NAN] * (width * size - len(row)) for row in numbers]
        key, value = gather(torch.tensor(ids))
        want = torch.tensor(filled)
        wrong = ((key != want) | (value != -want)) & ~want.isnan()
        self.tally.tokens_read += sum(map(len, numbers))
        if wrong.any():
            row, i = wrong.nonzero()[0].tolist()
            (seq_id, group), block_id = names[row], ids[row][i // size]
            raise AssertionError(
                f"{seq_id} (group {group}) reads K {key[row, i]} and V {value[row, i]} "
                f"at position {i} in block {block_id} of {where}, not "
                f"{want[row, i]} and minus that"
            )

    def expected(
        self, seq: DataSequence, tables: list[list[int]]
    ) -> Iterator[list[float]]:
        """For each group the numbers that must be read, NaN where nobody may look."""
        n, kind = seq.computed, self.configuration.kind
        seen = n - self.configuration.window + 1  # the next token sees from here on
        for group, table in enumerate(tables):
            numbers = [number + group * GROUP_SHARE for number in seq.numbers[:n]]
            assert len(table) * self.size >= n, "there are tokens without a block"
            if kind == "ring":
                gone = max(0, n - self.ring_slots())
                numbers[:gone] = [NAN] * gone
            for j, block_id in enumerate(table):
                if block_id == 0:
                    first, end = j * self.size, min((j + 1) * self.size, n)
                    window = kind == "window" or (kind == "hybrid" and group == 1)
                    assert window and end <= seen, f"block {j} is in sight and is gone"
                    numbers[first:end] = [NAN] * (end - first)
            yield numbers

    def gather(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of whole tables on the device, [rows, slots]."""
        key, value = self.cache.gather(ids, layer=0)
        return key.flatten(1), value.flatten(1)

    def gather_from_host(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The same on the host, whose blocks are [blocks, 2, layers, slots, ...]."""
        assert self.host
        key, value = self.host.blocks[ids].movedim(2, 0).flatten(2)
        return key, value

    def read_each(self, here: dict[str, DataSequence]) -> None:
        """The checked door, one table at a time: as `compare`."""
        for seq_id, seq in here.items():
            tables = self.tables(seq_id)
            for table, numbers in zip(tables, self.expected(seq, tables), strict=True):
                key, value = self.cache.read(table, seq.computed, layer=0)
                for got, sign in ((key, 1), (value, -1)):
                    pairs = zip(got.flatten().tolist(), numbers, strict=True)
                    assert all(k == sign * n or math.isnan(n) for k, n in pairs), seq_id

    def audit(self) -> None:
        """The manager's own look at everything, and its log so far."""
        assert all(check.ok for check in self.manager.audit())
        if self.manager.log is not None:  # a new log, or each audit is longer
            self.manager.log = EventLog(self.manager.snapshot())


def free_and_blank(pool: BlockPool, poisoned: set[int]) -> list[int]:
    """Blocks that nobody has and nobody can find. What is in use isn't poisoned now."""
    found = []
    for block in pool.blocks[1:]:
        if block.ref_cnt:
            poisoned.discard(block.block_id)
        elif block.block_hash is None and block.block_id not in poisoned:
            found.append(block.block_id)
    return found
