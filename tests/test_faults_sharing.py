"""Faults that real block managers have had, where K and V are shared, moved or dropped.

`test_faults.py` says what each row is about. Here a small server carries out what the
manager's answers say, on a real pool of memory: the K of each token is a number that
no other has, V is its negative, and NaN lies in every block that nobody has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import Allocation, BlockManager, InvalidRequest, Status
from blockmgr.device_tables import BlockTables, TableTooLong
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.policy import Batched, OnDemand, PolicyAllocator, PreAllocate
from blockmgr.storage import KVCache, KVCacheSpec
from blockmgr.swap import HostPool, Swapper

FIXED = settings(derandomize=True, database=None, deadline=None, print_blob=True)


class Server:
    """A manager and its memory, on the device and, if there is one, on the host."""

    def __init__(self, num_blocks: int, block_size: int = 4, **options: Any) -> None:
        self.manager = BlockManager(num_blocks, block_size, **options)
        spec = KVCacheSpec(
            num_layers=2,
            num_kv_heads=1,
            head_size=2,
            block_size=block_size,
            dtype=torch.float32,
        )
        self.cache = KVCache(spec, num_blocks=num_blocks, device="cpu", poison=True)
        num_host_blocks = options.get("num_host_blocks", 1)
        self.host = HostPool(spec, num_host_blocks + 1, pin_memory=False)
        self.host.blocks.fill_(math.nan)
        self.swapper = Swapper(self.cache, self.host)
        self.numbers: dict[str, list[float]] = {}
        self.new = count(1)  # tokens and numbers, none of them twice

    def allocate(self, seq_id: str, n: int) -> Allocation:
        """A prompt of `n` tokens that nobody else has."""
        answer = self.manager.allocate(seq_id, [next(self.new) for _ in range(n)])
        if answer:
            self.numbers[seq_id] = []
        return self.write(seq_id, answer)

    def append(self, seq_id: str) -> Allocation:
        """One more token. Refused, it waits for `try_again`."""
        return self.write(seq_id, self.manager.append(seq_id, [next(self.new)]))

    def try_again(self, seq_id: str) -> Allocation:
        return self.write(seq_id, self.manager.allocate_slots(seq_id))

    def resume(self, seq_id: str) -> Allocation:
        return self.write(seq_id, self.manager.resume(seq_id))

    def write(self, seq_id: str, answer: Allocation) -> Allocation:
        """What the model does with an answer: copy, then write the tokens scheduled."""
        self.cache.copy_blocks(answer.copies)
        if answer:
            n, numbers = answer.num_scheduled_tokens, self.numbers[seq_id]
            stop = self.manager.sequences[seq_id].num_computed_tokens
            while len(numbers) < stop:
                numbers.append(float(next(self.new)))
            rows = torch.tensor(numbers[stop - n : stop]).view(1, n, 1, 1)
            rows = rows.expand(2, n, 1, 2)
            slots = self.manager.slot_mapping(seq_id, stop - n, stop)
            self.cache.write(rows, -rows, slots)
        self.poison()
        return answer

    def fork(self, seq_id: str, child_id: str) -> None:
        self.manager.fork(seq_id, child_id)
        self.numbers[child_id] = list(self.numbers[seq_id])

    def swap_out(self, seq_ids: list[str]) -> Allocation:
        answer = self.manager.swap_out(seq_ids)
        self.swapper.swap_out(answer.copies)
        self.poison()
        return answer

    def swap_in(self, seq_ids: list[str]) -> Allocation:
        answer = self.manager.swap_in(seq_ids)
        self.swapper.swap_in(answer.copies)
        self.poison()
        return answer

    def poison(self) -> None:
        """NaN into every block that nobody has or can find, here and on the host."""
        for pool, blocks in (
            (self.manager.pool, self.cache.kv.movedim(2, 0)),
            (self.manager.host, self.host.blocks),
        ):
            if pool is not None:
                blank = [b for b in pool.blocks[1:] if not (b.ref_cnt or b.block_hash)]
                blocks[[block.block_id for block in blank]] = math.nan

    def read(self, seq_id: str) -> list[float]:
        """K of each token, read through the table."""
        key, value = self.cache.read(
            self.manager.block_table(seq_id), len(self.numbers[seq_id])
        )
        seen = key.flatten(2)[0, :, 0]
        for rows, sign in ((key, 1), (value, -1)):  # all layers and elements alike
            assert (
                rows.flatten(2).movedim(1, -1).eq(sign * seen)[..., ~seen.isnan()].all()
            )
        return [float(number) for number in seen]

    def state(self) -> tuple[object, ...]:
        """Everything there is: the manager's state, and the bytes of both memories."""
        memory = (self.cache.kv, self.host.blocks)
        return self.manager.snapshot(), *(m.nan_to_num(-1e9).tolist() for m in memory)

    def users(self, blocks: Iterable[int]) -> list[int]:
        return [self.manager.pool.blocks[b].ref_cnt for b in blocks]


# --- forks ----------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("child", "a"), ("a", "child")])
def test_row_4_forks_part_at_the_first_token(order: tuple[str, str]) -> None:
    """Whoever comes first gets a copy, and the other one stays in the old block."""
    server = Server(num_blocks=4)
    server.allocate("a", 6)
    server.fork("a", "child")
    assert server.manager.block_table("child") == server.manager.block_table("a")
    first, second = order
    copied, in_place = server.append(first), server.append(second)
    assert copied and copied.copies == ((2, 3),)
    assert in_place and in_place.copies == ()
    assert server.manager.block_table(first) == (1, 3)
    assert server.manager.block_table(second) == (1, 2)
    assert server.users([1, 2, 3]) == [2, 1, 1]
    server.manager.audit()
    for seq_id in order:
        assert server.read(seq_id) == server.numbers[seq_id]
    old, new = server.cache.kv[:, :, 2], server.cache.kv[:, :, 3]
    same = (old == new) | (old.isnan() & new.isnan())
    # Of their slots 0..3 only slot 2 differs, in K and V, in both layers.
    assert same.all(dim=(0, 1, 3, 4)).tolist() == [True, True, False, True]
    assert not same[:, :, 2].any()


def test_row_4_a_full_block_stays_shared() -> None:
    """There is nothing to write into it, so there is nothing to copy."""
    server = Server(num_blocks=6)
    server.allocate("a", 8)
    server.fork("a", "child")
    assert server.append("child").copies == server.append("a").copies == ()
    assert server.users([1, 2, 3, 4, 5]) == [2, 2, 1, 1, 0]
    assert server.read("a")[:8] == server.read("child")[:8] == server.numbers["a"][:8]
    assert server.read("a")[8] != server.read("child")[8]


def test_row_5_a_fork_that_can_not_be_copied_keeps_all() -> None:
    """Neither of the two can write, and neither loses anything. Once one is gone, the
    other one needs no copy any more."""
    server = Server(num_blocks=3)
    server.allocate("a", 6)
    server.fork("a", "child")
    before = server.state()
    for seq_id in ("child", "a"):
        answer = server.append(seq_id)
        assert answer.status is Status.LATER
        assert (answer.needed, answer.free, answer.copies) == (1, 0, ())
        assert server.state() == before
        assert server.read(seq_id) == server.numbers[seq_id]
    server.manager.audit()
    server.manager.free("a")
    answer = server.try_again("child")
    assert (answer.copies, answer.new_blocks) == ((), ())
    assert server.read("child") == server.numbers["child"]
    assert len(server.numbers["child"]) == 7


# --- swaps ----------------------------------------------------------------------------


def forked_pair(num_blocks: int, num_host_blocks: int) -> Server:
    """6 tokens, a fork, one token more: 3 blocks, of which the two share the first."""
    server = Server(num_blocks, num_host_blocks=num_host_blocks)
    server.allocate("a", 6)
    server.fork("a", "child")
    server.append("child")
    return server


def test_row_20_a_pair_comes_back_when_there_is_room() -> None:
    server = forked_pair(num_blocks=6, num_host_blocks=4)
    host = server.manager.host
    assert host is not None
    out = server.swap_out(["a", "child"])
    assert len(out.copies) == len(dict(out.copies)) == 3
    assert (host.num_free_blocks, server.manager.num_free_blocks) == (1, 5)
    assert sorted(b.ref_cnt for b in host.blocks) == [0, 0, 1, 1, 2]
    server.allocate("fills", 8)

    before = server.state()
    refused = server.swap_in(["a", "child"])  # 3 blocks, and one to grow for each
    assert (refused.status, refused.needed, refused.free) == (Status.LATER, 5, 3)
    assert refused.copies == ()
    assert server.state() == before
    assert server.read("fills") == server.numbers["fills"]

    server.manager.free("fills")
    back = server.swap_in(["a", "child"])
    assert back and len(back.copies) == len(dict(back.copies)) == 3
    assert host.num_free_blocks == 4
    shared, own = server.manager.block_table("a")
    assert server.manager.block_table("child")[0] == shared
    assert server.users([shared, own]) == [2, 1]
    for seq_id in ("a", "child"):
        assert server.append(seq_id).copies == ()
        assert server.read(seq_id) == server.numbers[seq_id]
    server.manager.audit()


def test_row_20_a_pair_that_could_never_grow_again_is_told_so() -> None:
    server = forked_pair(num_blocks=5, num_host_blocks=3)
    assert server.swap_out(["a", "child"])
    before = server.state()
    answer = server.swap_in(["a", "child"])
    assert (answer.status, answer.needed, answer.free) == (Status.NEVER, 5, 4)
    assert server.state() == before
    server.manager.free("a")
    server.manager.free("child")  # one can leave from the host, too
    server.manager.audit()
    assert server.manager.host is not None
    assert server.manager.host.num_free_blocks == 3


@pytest.mark.parametrize(
    ("num_host_blocks", "status"),
    [(1, Status.NEVER), (2, Status.LATER), (3, Status.LATER)],
)
def test_row_21_a_host_that_is_full_moves_nothing(
    num_host_blocks: int, status: Status
) -> None:
    """To compute the victim again is always possible."""
    server = Server(num_blocks=6, num_host_blocks=num_host_blocks)
    free = num_host_blocks
    if status is Status.LATER:
        server.allocate("there", 5)
        assert server.swap_out(["there"])
        free -= 2
    server.allocate("victim", 8)
    before = server.state()
    answer = server.swap_out(["victim"])
    assert (answer.status, answer.needed, answer.free) == (status, 2, free)
    assert answer.copies == ()
    assert server.state() == before
    assert server.read("victim") == server.numbers["victim"]
    server.manager.preempt("victim")
    assert server.resume("victim")
    assert server.read("victim") == server.numbers["victim"]
    server.manager.audit()


TIER_CALLS = st.lists(
    st.tuples(
        st.sampled_from(
            ["allocate", "append", "append", "fork", "out", "in", "free", "preempt"]
        ),
        st.integers(0, 20),
        st.integers(1, 7),
    ),
    max_size=40,
)


@FIXED
@given(TIER_CALLS, st.booleans())
def test_row_23_each_tier_adds_up(
    calls: list[tuple[str, int, int]], caching: bool
) -> None:
    """Two pools of 5, which their tables and their counters must agree about."""
    manager = BlockManager(6, 2, num_host_blocks=5, enable_caching=caching)
    assert manager.host is not None
    for i, (call, which, n) in enumerate(calls):
        sequences = manager.sequences.values()
        swapped = [s.seq_id for s in sequences if s.status == "swapped"]
        running = [s.seq_id for s in sequences if s.status == "running"]
        here = swapped if call == "in" else running
        if call == "free":
            here = list(manager.sequences)
        seq_id = here[which % len(here)] if here else ""
        if call == "allocate":
            manager.allocate(f"r{i}", range(n))
        elif not seq_id:
            continue
        elif call == "append":
            manager.append(seq_id, range(n))
        elif call == "fork":
            manager.fork(seq_id, f"r{i}")
        elif call in ("out", "in"):
            group = list(dict.fromkeys([seq_id, here[n % len(here)]]))
            (manager.swap_out if call == "out" else manager.swap_in)(group)
        else:
            (manager.free if call == "free" else manager.preempt)(seq_id)
        used: dict[bool, set[int]] = {True: set(), False: set()}
        for seq in manager.sequences.values():
            used[seq.status == "swapped"].update(manager.block_table(seq.seq_id))
        assert len(used[False]) + manager.pool.num_free_blocks == 5
        assert len(used[True]) + manager.host.num_free_blocks == 5
        manager.audit()


# --- windows --------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "dead"), [(4, 0), (5, 1), (7, 2), (9, 3)])
def test_row_30_blocks_leave_the_window_one_by_one(n: int, dead: int) -> None:
    """They leave with the call that follows, just before it counts what it needs."""
    server = Server(num_blocks=9, block_size=2, groups=(SlidingWindow(4),))
    server.allocate("a", n)
    table = server.manager.block_table("a")
    free = server.manager.num_free_blocks
    new = server.append("a").new_blocks
    now = server.manager.block_table("a")
    assert now == (0,) * dead + table[dead:] + new
    assert server.users(table[:dead]) == [0] * dead
    assert server.manager.num_free_blocks == free + dead - len(new)
    server.manager.audit()
    seen = server.read("a")[n - 3 :]  # the new token, and the three before it
    assert seen == server.numbers["a"][n - 3 :]
    server.manager.free("a")
    assert server.manager.num_free_blocks == 8
    server.manager.audit()


@FIXED
@given(
    window=st.integers(2, 9),
    block_size=st.integers(1, 4),
    prompt=st.integers(1, 12),
    growth=st.integers(1, 20),
    hybrid=st.booleans(),
)
def test_row_30_holds_for_every_window(
    window: int, block_size: int, prompt: int, growth: int, hybrid: bool
) -> None:
    """Token i sees those from i - window + 1 on. A block has to be there as long as the
    next token sees one of its slots, and not longer."""
    groups = (SlidingWindow(window),)
    manager = BlockManager(
        *(99, block_size), groups=(FullAttention(), *groups) if hybrid else groups
    )
    manager.allocate("a", range(prompt))
    for i in range(prompt, prompt + growth):
        free = manager.num_free_blocks
        before = manager.block_table("a", group=hybrid)
        new = manager.append("a", [i]).new_blocks
        table = manager.block_table("a", group=hybrid)
        seen = {k // block_size for k in range(max(0, i - window + 1), i + 1)}
        assert {j for j, block_id in enumerate(table) if block_id} == seen
        gone = sum(was != is_now for was, is_now in zip(before, table, strict=False))
        assert manager.num_free_blocks == free - len(new) + gone
        manager.audit()
    manager.free("a")
    assert manager.num_free_blocks == 98


# --- sizes ----------------------------------------------------------------------------


@FIXED
@given(
    block_id=st.integers(1, 2**31 - 2),
    block_size=st.integers(1, 2**12),
    offset=st.integers(0, 2**12),
)
def test_row_38_holds_for_every_slot(
    block_id: int, block_size: int, offset: int
) -> None:
    """Beside Python's integers, which have no end."""
    offset %= block_size
    tables = BlockTables(
        1, 2, num_blocks=2**31 - 1, block_size=block_size, device="cpu"
    )
    tables.assign("a", [1, block_id])
    at = block_size + offset
    slots = tables.slot_mapping([("a", at, at + 1)])
    assert slots.tolist() == [block_id * block_size + offset]


@FIXED
@given(
    num_layers=st.integers(1, 64),
    num_blocks=st.integers(2, 200_000),
    block_size=st.integers(1, 128),
    heads=st.integers(1, 64),
    data=st.data(),
)
def test_row_38_holds_for_every_pool(
    num_layers: int, num_blocks: int, block_size: int, heads: int, data: st.DataObject
) -> None:
    """Where a slot lies in a pool so large that only its addresses exist."""
    spec = KVCacheSpec(
        num_layers=num_layers,
        num_kv_heads=heads,
        head_size=128,
        block_size=block_size,
    )
    cache = KVCache(spec, num_blocks=num_blocks, device="meta")
    half = data.draw(st.integers(0, 1), "K or V")
    layer = data.draw(st.integers(0, num_layers - 1), "layer")
    num_slots = num_blocks * block_size
    slot = data.draw(st.integers(0, num_slots - 1), "slot")
    row = cache.slots(layer)[half, slot]
    address = ((half * num_layers + layer) * num_slots + slot) * heads * 128
    assert row.storage_offset() == address


@pytest.mark.parametrize(
    "policy", [PreAllocate(16), Batched(4)], ids=["16", "4 blocks"]
)
@pytest.mark.parametrize("n", [1, 9, 10])
def test_row_40_room_taken_ahead_ends_at_the_longest_length(
    n: int, policy: OnDemand
) -> None:
    """Room is taken 4 blocks ahead, and a row has room for 10 tokens: 3 blocks."""
    manager = BlockManager(num_blocks=20, block_size=4, max_model_len=10)
    tables = BlockTables(1, 3, num_blocks=20, block_size=4, device="cpu")
    assert PolicyAllocator(manager, policy).allocate("a", range(n))
    assert len(manager.block_table("a")) == 3
    tables.assign("a", manager.block_table("a"))
    with pytest.raises(InvalidRequest, match="11 tokens are more than max_model_len"):
        manager.allocate("b", range(11))


def test_row_40_a_row_refuses_a_longer_table() -> None:
    manager = BlockManager(num_blocks=20, block_size=4)
    tables = BlockTables(1, 3, num_blocks=20, block_size=4, device="cpu")
    manager.allocate("a", range(10), num_lookahead=4)
    with pytest.raises(TableTooLong, match="at most 3 blocks; got 4"):
        tables.assign("a", manager.block_table("a"))


@FIXED
@given(
    longest=st.integers(1, 20),
    block_size=st.integers(1, 5),
    policy=st.one_of(
        st.builds(PreAllocate, st.integers(1, 60)),
        st.builds(Batched, st.integers(1, 9)),
    ),
    growth=st.lists(st.integers(1, 5), min_size=1, max_size=8),
)
def test_row_40_holds_for_every_length(
    longest: int, block_size: int, policy: OnDemand, growth: list[int]
) -> None:
    """However far ahead room is taken, and however much more is asked for."""
    manager = BlockManager(90, block_size, max_model_len=longest)
    server = PolicyAllocator(manager, policy)
    width = -(-longest // block_size)
    tables = BlockTables(1, width, num_blocks=90, block_size=block_size, device="cpu")
    assert server.allocate("a", [0])
    length = 1
    for n in growth:
        if length + n > longest:
            before = manager.snapshot()
            with pytest.raises(InvalidRequest, match="max_model_len"):
                server.append("a", range(n))
            assert manager.snapshot() == before
        else:
            assert server.append("a", range(n))
            length += n
        assert -(-length // block_size) <= len(manager.block_table("a")) <= width
        tables.assign("a", manager.block_table("a"))
