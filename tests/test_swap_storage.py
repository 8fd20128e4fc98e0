"""Swapping: what comes back is what left, whatever happened on the way.

Without a GPU the data is tested here, and the order of the work as well: PyTorch tells
every operation it carries out, and `Races` checks that no two of them, on different
streams, touch the same memory without one waiting for the other.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from blockmgr import BlockManager
from blockmgr.storage import (
    DTYPES,
    EIGHT_BIT,
    InvalidAccess,
    InvalidPool,
    KVCache,
    KVCacheSpec,
    PoolClosed,
    PoolTooSmall,
)
from blockmgr.swap import HostPool, Swapper

NEEDS_CUDA = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs an NVIDIA GPU and PyTorch for CUDA"
)
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NEEDS_CUDA])]
SMALL = KVCacheSpec(
    num_layers=2, num_kv_heads=3, head_size=5, block_size=4, dtype=torch.float32
)
N, HOST = 6, 5  # blocks of the device pool and of the host pool, in all tests


def pools(
    spec: KVCacheSpec = SMALL, device: str = "cpu", staging_blocks: int = 2
) -> tuple[KVCache, HostPool, Swapper]:
    cache, host = KVCache(spec, num_blocks=N, device=device), HostPool(spec, HOST)
    return cache, host, Swapper(cache, host, staging_blocks=staging_blocks)


def mark(cache: KVCache, block_id: int, number: int) -> None:
    """Write `number` into every slot of a block, as K, and its negative as V."""
    spec = cache.spec
    size, heads, d = spec.block_shape
    rows = torch.full((spec.num_layers, size, heads, d), number, device=cache.kv.device)
    slots = range(block_id * size, (block_id + 1) * size)
    key = rows.to(spec.dtype)
    cache.write(key, (-rows).to(spec.dtype), list(slots))


def content(block: torch.Tensor) -> int:
    """The number that `mark` wrote into a block [2, layers, size, heads, d]."""
    key, value = block.float()
    number = int(key.flatten()[0])
    assert torch.all(key == number) and torch.all(value == -number)
    return number


def contents(
    cache: KVCache, host: HostPool, swapper: Swapper
) -> tuple[list[int], list[int]]:
    on_device = [content(cache.kv[:, :, i].cpu()) for i in range(N)]
    swapper.synchronize()
    return on_device, [content(host.blocks[i]) for i in range(HOST)]


def sleep(cycles: int) -> None:
    """Keep the current stream of the GPU busy."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


# --- the data -------------------------------------------------------------------------

device_ids, host_ids = st.integers(1, N - 1), st.integers(1, HOST - 1)


def to_each(targets: st.SearchStrategy[int], sources: st.SearchStrategy[int]) -> Any:
    """Pairs (source, destination), each destination once."""
    unique = st.lists(targets, unique=True, max_size=5)
    return unique.flatmap(
        lambda each: st.tuples(*(st.tuples(sources, st.just(t)) for t in each))
    )


ACTIONS = st.one_of(
    st.tuples(st.just("out"), to_each(host_ids, device_ids)),
    st.tuples(st.just("in"), to_each(device_ids, host_ids)),
    st.tuples(st.just("copy"), to_each(device_ids, device_ids)),
    st.tuples(st.just("write"), device_ids),
    st.tuples(st.just("read"), device_ids),
)
SCRIPT = st.lists(ACTIONS, min_size=1, max_size=12)


class Walk:
    """The pools, and beside them two lists of what each block should hold."""

    def __init__(self, spec: KVCacheSpec, device: str, staging_blocks: int) -> None:
        self.cache, self.host, self.swapper = pools(spec, device, staging_blocks)
        self.on_device, self.on_host, self.count = [0] * N, [0] * HOST, 0
        for i in range(1, N):
            self.write(i)

    def write(self, block_id: int) -> None:
        self.count = self.count % 15 + 1  # exact in 8 bits
        mark(self.cache, block_id, self.count)
        self.on_device[block_id] = self.count

    def do(self, action: str, what: Any) -> None:
        device, host = list(self.on_device), list(self.on_host)
        match action:
            case "write":
                self.write(what)
            case "read":
                both = torch.stack(self.cache.read([what], dtype=torch.float32))
                assert content(both.unflatten(2, (1, -1)).cpu()) == device[what]  # type: ignore[no-untyped-call]
            case "copy":
                self.cache.copy_blocks(list(what))
                for source, target in what:
                    self.on_device[target] = device[source]
            case "out":
                self.swapper.swap_out(what)
                for source, target in what:
                    self.on_host[target] = device[source]
            case "in":
                self.swapper.swap_in(what)
                for source, target in what:
                    self.on_device[target] = host[source]

    def check(self) -> None:
        expected = self.on_device, self.on_host
        assert contents(self.cache, self.host, self.swapper) == expected


specs = st.builds(
    KVCacheSpec,
    num_layers=st.integers(1, 3),
    num_kv_heads=st.integers(1, 3),
    head_size=st.integers(1, 5),
    block_size=st.integers(1, 4),
    dtype=st.sampled_from(DTYPES),
)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=120, deadline=None)
@given(spec=specs, staging_blocks=st.integers(1, 3), script=SCRIPT, data=st.data())
def test_what_comes_back_is_what_left(
    device: str,
    spec: KVCacheSpec,
    staging_blocks: int,
    script: list[tuple[str, Any]],
    data: st.DataObject,
) -> None:
    """On CUDA one of the two streams sleeps a little before each step, so that what
    does not wait for it comes too early."""
    walk = Walk(spec, device, staging_blocks)
    for action, what in script:
        if device == "cuda":
            side = data.draw(st.booleans(), "which stream sleeps")
            with torch.cuda.stream(walk.swapper._side if side else None):
                sleep(500_000)
        walk.do(action, what)
    walk.check()


@pytest.mark.gpu
@NEEDS_CUDA
def test_on_cuda_a_block_is_used_again_while_its_bytes_are_under_way() -> None:
    """The race itself: one stream sleeps for a tenth of a second, and the blocks are
    used again long before it wakes. The first round only loads the kernels."""
    cache, host, swapper = pools(device="cuda", staging_blocks=4)
    side = swapper._side
    assert side is not None
    for cycles in (1, 200_000_000):
        for i in range(1, N):
            mark(cache, i, i)
        torch.cuda.synchronize()

        with torch.cuda.stream(side):
            sleep(cycles)
        swapper.swap_out([(1, 1), (2, 2)])
        mark(cache, 1, 11)
        cache.copy_blocks([(3, 2)])
        assert cycles == 1 or not side.query()  # still asleep
        swapper.synchronize()
        assert [content(host.blocks[i]) for i in (1, 2)] == [1, 2]
        assert [content(cache.kv[:, :, i].cpu()) for i in (1, 2)] == [11, 3]

        with torch.cuda.stream(side):
            sleep(cycles)
        swapper.swap_in([(1, 4), (2, 5)])
        swapper.swap_out([(3, 1)])  # host block 1 is used again
        key, value = cache.read([4, 5], layer=0)  # and the blocks are read
        assert cycles == 1 or not side.query()
        assert torch.all(key[:4] == 1) and torch.all(key[4:] == 2)
        assert torch.equal(value, -key)
        swapper.synchronize()
        assert content(host.blocks[1]) == 3

        sleep(cycles)  # the pool's stream is late, the side stream is not
        mark(cache, 1, 12)
        swapper.swap_out([(1, 3)])
        swapper.synchronize()
        assert content(host.blocks[3]) == 12


@pytest.mark.gpu
@NEEDS_CUDA
def test_on_cuda_the_host_does_not_wait_for_a_swap() -> None:
    _, host, swapper = pools(device="cuda")
    assert host.blocks.is_pinned()
    torch.cuda.set_sync_debug_mode("error")
    try:
        swapper.swap_out([(1, 1), (2, 2), (3, 3)])
        swapper.swap_in([(3, 1), (2, 2), (1, 3)])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    swapper.synchronize()


def test_a_forked_pair_leaves_and_comes_back() -> None:
    """Row 20: what the manager orders, with poison in every block that it frees."""
    manager = BlockManager(8, 4, num_host_blocks=HOST, enable_caching=False)
    cache = KVCache(SMALL, num_blocks=8, device="cpu", poison=True)
    swapper = Swapper(cache, HostPool(SMALL, HOST), staging_blocks=2)

    def write(seq_id: str, number: int, start: int) -> None:
        slots = manager.slot_mapping(seq_id, start)
        rows = torch.full((2, len(slots), 3, 5), float(number))
        cache.write(rows, -rows, slots)

    def tokens(seq_id: str) -> list[float]:
        table = manager.block_table(seq_id)
        key, value = cache.read(table, len(manager.slot_mapping(seq_id)))
        assert torch.equal(value, -key)
        return [row.unique().item() for row in key[0]]

    manager.allocate("a", [1] * 6)
    write("a", 1, 0)
    manager.fork("a", "b")
    copies = manager.append("b", [2]).copies
    assert len(copies) == 1
    cache.copy_blocks(copies)
    write("b", 2, 6)
    before = set(manager.block_table("a")) | set(manager.block_table("b"))
    out = manager.swap_out(["a", "b"])
    assert len(out.copies) == 3 == len(before)
    swapper.swap_out(out.copies)
    cache.poison_blocks(sorted(before))  # at once
    manager.allocate("c", [3] * 7)
    write("c", 3, 0)
    back = manager.swap_in(["a", "b"])
    assert back and len(back.copies) == 3
    swapper.swap_in(back.copies)
    assert tokens("a") == [1] * 6
    assert tokens("b") == [1] * 6 + [2]
    assert tokens("c") == [3] * 7


# --- the order, without a GPU ---------------------------------------------------------


class Stream:
    """A stand-in for CUDA's: it knows how far it is, and which work of the others is
    certainly done before its next operation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen = {name: 0}

    def wait_event(self, event: Event) -> None:
        for name, time in event.seen.items():
            self.seen[name] = max(self.seen.get(name, 0), time)


class Event:
    """A stand-in for CUDA's."""

    def record(self, stream: Stream) -> None:
        self.seen = dict(stream.seen)


class Races(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Gives each operation to the current stream, and lists those that touch memory
    which an operation of another stream touches too, with nobody waiting."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pool, self.side = Stream("pool"), Stream("side")
        self.current = self.pool
        self.accesses: dict[int, list[tuple[str, int, bool, str]]] = {}
        self.found: list[str] = []
        self.alive: list[Any] = []  # else new memory could have an old address

    @contextmanager
    def on(self, stream: Stream | None) -> Iterator[None]:
        before, self.current = self.current, stream or self.current
        yield
        self.current = before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.alive.append((args, out))
        schema = func._schema
        aliases = [r.alias_info for r in schema.returns if r.alias_info]
        if any(not alias.is_write for alias in aliases):
            return out  # a view: nothing is touched
        stream = self.current
        stream.seen[stream.name] += 1
        for argument, value in zip(schema.arguments, args, strict=False):
            written = argument.alias_info is not None and argument.alias_info.is_write
            many = value if isinstance(value, (list, tuple)) else [value]
            for tensor in many:
                if isinstance(tensor, torch.Tensor):
                    self.touch(tensor, written, str(func))
        if not aliases and isinstance(out, torch.Tensor):
            self.touch(out, True, str(func))
        return out

    def touch(self, tensor: torch.Tensor, written: bool, what: str) -> None:
        stream = self.current
        earlier = self.accesses.setdefault(tensor.untyped_storage().data_ptr(), [])
        for name, time, wrote, how in earlier:
            if (written or wrote) and stream.seen.get(name, 0) < time:
                self.found.append(f"{what} on {stream.name}, {how} on {name}")
        earlier.append((stream.name, stream.seen[stream.name], written, what))


@settings(max_examples=60, deadline=None)
@given(staging_blocks=st.integers(1, 3), script=SCRIPT)
def test_no_two_streams_touch_the_same_memory_unordered(
    staging_blocks: int, script: list[tuple[str, Any]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        walk, races = Walk(SMALL, "cpu", staging_blocks), Races()
        patch.setattr(torch.cuda, "Event", Event)
        patch.setattr(torch.cuda, "stream", races.on)
        patch.setattr(torch.cuda, "current_stream", lambda _: races.current)
        patch.setattr(walk.swapper, "_side", races.side)  # as it is on CUDA
        with races:
            walk.swapper._staging.zero_()  # whose memory was it? the pool's stream's
            walk.swapper._emptied = walk.swapper._mark()
            for action, what in script:
                walk.do(action, what)
    assert races.found == []
    on_device = [content(walk.cache.kv[:, :, i]) for i in range(N)]
    assert on_device == walk.on_device
    assert [content(block) for block in walk.host.blocks] == walk.on_host


def test_races_are_found() -> None:
    """The test of the test: one write and one read on two streams."""
    races, memory = Races(), torch.zeros(3)
    with races:
        memory.fill_(1)
        with races.on(races.side):
            memory.clone()
        event = Event()
        event.record(races.side)
        races.pool.wait_event(event)
        memory[:1].fill_(2)
    assert races.found == ["aten.clone.default on side, aten.fill_.Scalar on pool"]


# --- unlike pools, and other misuse ---------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"num_layers": 3},
        {"num_kv_heads": 2},
        {"head_size": 4},
        {"block_size": 2},
        {"dtype": torch.float16},
        {"dtype": EIGHT_BIT},
        {"dtype": EIGHT_BIT, "k_scale": 2.0},
    ],
    ids=str,
)
def test_row_36_pools_of_unlike_types_are_refused(change: dict[str, Any]) -> None:
    other = HostPool(dataclasses.replace(SMALL, **change), HOST)
    cache = KVCache(SMALL, num_blocks=N, device="cpu")
    with pytest.raises(InvalidPool, match=r"expected two pools of one spec.*got KVC"):
        Swapper(cache, other)


def test_row_36_unlike_scales_are_unlike_types() -> None:
    """The bytes would fit, and mean other numbers."""
    spec = dataclasses.replace(SMALL, dtype=EIGHT_BIT, v_scale=2.0)
    cache = KVCache(spec, num_blocks=N, device="cpu")
    with pytest.raises(InvalidPool, match="scales"):
        Swapper(cache, HostPool(dataclasses.replace(spec, v_scale=3.0), HOST))
    Swapper(cache, HostPool(dataclasses.replace(spec), HOST))


misuse: dict[str, tuple[Any, str]] = {
    "out of the null block": (
        lambda s: s.swap_out([(1, 1), (0, 2)]),
        "source: expected 1..5; got 0; block 0 is null",
    ),
    "out to the null block": (
        lambda s: s.swap_out([(1, 1), (2, 0)]),
        "destination: expected 1..4; got 0; block 0 is null",
    ),
    "out from past the end": (
        lambda s: s.swap_out([(1, 1), (6, 2)]),
        "source: expected 1..5; got 6",
    ),
    "out to past the end": (
        lambda s: s.swap_out([(1, 1), (2, 5)]),
        "destination: expected 1..4; got 5",
    ),
    "two out to one": (
        lambda s: s.swap_out([(1, 1), (2, 3), (3, 3)]),
        "destination: expected each one once; got 3 again",
    ),
    "in from past the end": (
        lambda s: s.swap_in([(1, 1), (5, 2)]),
        "source: expected 1..4; got 5",
    ),
    "in to past the end": (
        lambda s: s.swap_in([(1, 1), (2, 6)]),
        "destination: expected 1..5; got 6",
    ),
    "two in to one": (
        lambda s: s.swap_in([(1, 1), (2, 3), (4, 3)]),
        "destination: expected each one once; got 3 again",
    ),
    "no pairs": (
        lambda s: s.swap_in([1, 2]),
        "pairs: expected integers, ('n', 2); got torch.int64 of shape (2,)",
    ),
    "text": (lambda s: s.swap_out("ab"), "pairs: expected integers ("),
}


@pytest.mark.parametrize("name", misuse)
def test_misuse_is_named_and_moves_nothing(name: str) -> None:
    walk = Walk(SMALL, "cpu", staging_blocks=1)
    walk.do("out", [(3, 2)])
    call, message = misuse[name]
    with pytest.raises(InvalidAccess, match=re.escape(message)):
        call(walk.swapper)
    walk.check()


def test_no_pairs_no_swap() -> None:
    walk = Walk(SMALL, "cpu", staging_blocks=1)
    walk.do("out", [])
    walk.do("in", [])
    walk.check()


def test_a_closed_pool_swaps_nothing() -> None:
    cache, host, swapper = pools()
    cache.close()
    for call in (swapper.swap_out, swapper.swap_in):
        with pytest.raises(PoolClosed):
            call([(1, 1)])
    assert not host.blocks.any()


def test_only_pools_can_be_swapped_between() -> None:
    cache, host, _ = pools()
    wrong: Any = 7
    with pytest.raises(InvalidPool, match="device_pool: expected a KVCache; got 7"):
        Swapper(wrong, host)
    with pytest.raises(InvalidPool, match="host_pool: expected a HostPool; got KVC"):
        Swapper(cache, cache)  # type: ignore[arg-type]
    for number in (0, -1, 1.5, None, True):
        with pytest.raises(InvalidPool, match="staging_blocks: expected 1 or more"):
            Swapper(cache, host, staging_blocks=number)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_blocks", [1, 0, -1])
def test_a_host_pool_has_a_null_block_and_one_more(num_blocks: int) -> None:
    with pytest.raises(PoolTooSmall, match=f"needs {2 * SMALL.block_bytes} bytes"):
        HostPool(SMALL, num_blocks)


@pytest.mark.parametrize("wrong", [1.5, "3", None])
def test_a_size_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(InvalidPool, match="expected an int; got"):
        HostPool(SMALL, wrong)
    with pytest.raises(InvalidPool, match="spec: expected a KVCacheSpec"):
        HostPool(wrong, 3)


def test_more_than_the_host_has_is_refused() -> None:
    with pytest.raises(InvalidPool, match=r"the host can't give 1000\d+ .*blocks of"):
        HostPool(SMALL, 10**15)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here memory can be pinned")
def test_pinned_memory_needs_cuda() -> None:
    with pytest.raises(InvalidPool, match="the host can't give 5 pinned blocks of 960"):
        HostPool(SMALL, HOST, pin_memory=True)


def test_a_host_pool_shows_itself_in_one_line() -> None:
    pinned = "pinned" if torch.cuda.is_available() else "not pinned"
    assert repr(HostPool(SMALL, HOST)) == f"HostPool(5 blocks, {pinned})"
    assert repr(HostPool(SMALL, HOST, pin_memory=False)).endswith("not pinned)")
