"""The device pool: what is read through a table is what was written.

The oracle is a plain dict from (half, layer, slot) to the numbers of one row; the null
block and slots that were never written read as zeros.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import blockmgr.storage as storage
from blockmgr.errors import BlockManagerError
from blockmgr.manager import BlockManager
from blockmgr.storage import (
    DTYPES,
    PAD,
    InvalidAccess,
    InvalidPool,
    KVCache,
    KVCacheSpec,
    PoolClosed,
    PoolTooSmall,
    pick_device,
    pick_dtype,
)

FP8 = torch.float8_e4m3fn
SMALL = KVCacheSpec(
    num_layers=2, num_kv_heads=3, head_size=5, block_size=4, dtype=torch.float32
)
sizes = st.integers(1, 4)
specs = st.builds(
    KVCacheSpec,
    num_layers=sizes,
    num_kv_heads=sizes,
    head_size=sizes,
    block_size=st.integers(1, 5),
    dtype=st.sampled_from(DTYPES),
)


def numbers(spec: KVCacheSpec, *lead: int, seed: int = 0) -> torch.Tensor:
    """Small whole numbers, exact in every dtype of the pool: [*lead, heads, size]."""
    make = torch.Generator().manual_seed(seed)
    shape = (*lead, spec.num_kv_heads, spec.head_size)
    return torch.randint(-16, 17, shape, generator=make).to(spec.dtype)


def full(spec: KVCacheSpec = SMALL, num_blocks: int = 6) -> KVCache:
    """A pool in which every slot but the null block's holds its own numbers."""
    cache = KVCache(spec, num_blocks=num_blocks, device="cpu")
    slots = list(range(spec.block_size, num_blocks * spec.block_size))
    key, value = (numbers(spec, spec.num_layers, len(slots), seed=s) for s in (1, 2))
    cache.write(key, value, slots)
    return cache


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.float(), b.float())


class Oracle:
    """What a pool should hold, in dicts and lists and nothing else."""

    def __init__(self, spec: KVCacheSpec) -> None:
        self.spec = spec
        self.rows: dict[tuple[int, int, int], Any] = {}
        self.zeros = [[0.0] * spec.head_size for _ in range(spec.num_kv_heads)]

    def write(self, halves: list[Any], slots: list[int], layers: list[int]) -> None:
        for half, per_layer in enumerate(halves):
            for layer, rows in zip(layers, per_layer, strict=True):
                for slot, row in zip(slots, rows, strict=True):
                    if slot != -1:
                        self.rows[half, layer, slot] = row

    def copy(self, pairs: list[tuple[int, int]]) -> None:
        before, size = dict(self.rows), self.spec.block_size
        for half in (0, 1):
            for layer in range(self.spec.num_layers):
                for src, dst in pairs:
                    for i in range(size):
                        row = before.get((half, layer, src * size + i), self.zeros)
                        self.rows[half, layer, dst * size + i] = row

    def read(self, half: int, layer: int, table: list[int], n: int) -> list[Any]:
        size = self.spec.block_size
        slots = [table[i // size] * size + i % size for i in range(n)]
        return [self.rows.get((half, layer, slot), self.zeros) for slot in slots]


# --- the property that everything else serves -----------------------------------------


@settings(max_examples=120, deadline=None)
@given(data=st.data(), spec=specs, num_blocks=st.integers(2, 7))
def test_reading_through_a_table_gives_what_was_written(
    data: st.DataObject, spec: KVCacheSpec, num_blocks: int
) -> None:
    cache, oracle = KVCache(spec, num_blocks=num_blocks, device="cpu"), Oracle(spec)
    slots = st.sampled_from(range(spec.block_size, num_blocks * spec.block_size))
    blocks = st.sampled_from(range(1, num_blocks))
    layers = st.none() | st.sampled_from(range(spec.num_layers))
    for step in range(data.draw(st.integers(1, 5), "steps")):
        if data.draw(st.booleans(), "write"):
            layer = data.draw(layers, "layer")
            mapping = data.draw(st.lists(slots, unique=True, max_size=9), "slots")
            for at in data.draw(st.sets(st.integers(0, len(mapping))), "pads"):
                mapping.insert(at, PAD)
            lead = (
                [len(mapping)] if layer is not None else [spec.num_layers, len(mapping)]
            )
            halves = [numbers(spec, *lead, seed=2 * step + half) for half in (0, 1)]
            key, value = halves
            cache.write(key, value, mapping, layer)
            lists = [half.float().tolist() for half in halves]
            if layer is None:
                oracle.write(lists, mapping, list(range(spec.num_layers)))
            else:
                oracle.write([[rows] for rows in lists], mapping, [layer])
        else:
            targets = data.draw(st.lists(blocks, unique=True, max_size=6), "targets")
            pairs = [(data.draw(blocks, "source"), dst) for dst in targets]
            cache.copy_blocks(pairs)
            oracle.copy(pairs)
    table = data.draw(st.lists(st.integers(0, num_blocks - 1), max_size=8), "table")
    n = data.draw(st.integers(0, len(table) * spec.block_size), "tokens")
    every = cache.read(table, n)
    for layer in range(spec.num_layers):
        for half, got in enumerate(cache.read(table, n, layer)):
            assert got.shape == (n, spec.num_kv_heads, spec.head_size)
            assert got.dtype == spec.dtype
            assert got.float().tolist() == oracle.read(half, layer, table, n)
            assert same(every[half][layer], got)


def test_it_stores_what_the_block_manager_decides() -> None:
    """A table whose blocks are out of order, over blocks that others used before."""
    manager = BlockManager(num_blocks=8, block_size=4)
    cache = KVCache(SMALL, num_blocks=8, device="cpu")
    stored = numbers(SMALL, 2, 14)
    manager.allocate("a", [1] * 6)
    cache.write(stored[:, :6] - 1, stored[:, :6] - 1, manager.slot_mapping("a"))
    manager.allocate("b", [2] * 9)
    cache.write(stored[:, :9], -stored[:, :9], manager.slot_mapping("b"))
    manager.free("a")
    manager.append("b", [3] * 5)
    assert manager.block_table("b") == (3, 4, 5, 2)
    cache.write(stored[:, 9:], -stored[:, 9:], manager.slot_mapping("b", start=9))
    key, value = cache.read(manager.block_table("b"), 14)
    assert same(key, stored) and same(value, -stored)


def test_a_read_is_a_copy() -> None:
    cache = full()
    before = cache.kv.clone()
    for half in cache.read([1, 2]):
        half.fill_(99)
    assert same(cache.kv, before)


def test_gradients_do_not_follow_into_the_pool() -> None:
    """Else the pool keeps every forward pass alive: memory grows with each token."""
    cache = full()
    key = numbers(SMALL, 2, 1).requires_grad_()
    cache.write(key, key, [9])
    assert not cache.kv.requires_grad
    assert same(cache.read([2], 2)[0][:, 1:], key.detach())


def test_a_write_from_the_pool_itself_reads_before_it_writes() -> None:
    cache = full()
    key, value = cache.slots(0)[:, 4:6].clone()
    views = cache.slots(0)[:, 4:6]
    cache.write(views[1], views[0], [4, 5], layer=0)
    assert same(cache.slots(0)[0, 4:6], value) and same(cache.slots(0)[1, 4:6], key)


# --- padding, layers, addresses -------------------------------------------------------


def test_padding_writes_nothing() -> None:
    cache = full()
    before = cache.kv.clone()
    three = numbers(SMALL, 2, 3)
    cache.write(three, three, [PAD, PAD, PAD])
    assert same(cache.kv, before)
    cache.write(three, three, [PAD, 23, PAD])
    assert same(cache.slots()[0, :, 23], three[:, 1])
    assert same(cache.slots()[:, :, :23], before.flatten(2, 3)[:, :, :23])


def test_a_layer_is_written_alone() -> None:
    cache = full()
    before = cache.kv.clone()
    two = numbers(SMALL, 2, seed=5)
    cache.write(two, two, [8, 9], layer=1)
    assert same(cache.kv[:, 0], before[:, 0])
    assert same(cache.read([2], 2, layer=1)[1], two)


def test_the_null_block_reads_as_zeros() -> None:
    key, value = full().read([0, 1])
    assert not key[:, :4].any() and not value[:, :4].any()
    assert key[:, 4:].any() and value[:, 4:].any()


def test_the_rest_of_a_padded_row_is_not_looked_at() -> None:
    cache = full()
    padded = torch.tensor([3, 1, PAD, PAD], dtype=torch.int32)
    assert same(cache.read(padded, 7)[0], cache.read([3, 1], 7)[0])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_small_integers_are_widened_before_they_are_multiplied(
    dtype: torch.dtype,
) -> None:
    """Row 38's kind: 100 * 16 does not fit 8 bits, as a large slot does not fit 32."""
    spec = KVCacheSpec(num_layers=1, num_kv_heads=1, head_size=1)
    cache = KVCache(spec, num_blocks=101, device="cpu")
    one = torch.ones(1, 1, 1, dtype=spec.dtype)
    cache.write(one, 2 * one, torch.tensor([1600]), layer=0)
    table = torch.tensor([100], dtype=dtype)
    assert [half[0].item() for half in cache.read(table, 1, layer=0)] == [1, 2]
    assert storage._int64("", table).dtype == torch.int64


def test_row_38_a_pool_whose_offsets_need_more_than_32_bits() -> None:
    spec = KVCacheSpec(num_layers=1, num_kv_heads=32, head_size=128)
    cache = KVCache(spec, num_blocks=64_000, device="meta")
    last = cache.slots(0)[1, -1, -1, -1]
    assert last.storage_offset() == 2 * 64_000 * 16 * 32 * 128 - 1 > 2**32
    assert cache.read([63_999], layer=0)[1].shape == (16, 32, 128)


# --- copying blocks -------------------------------------------------------------------


def test_copies_read_all_sources_first() -> None:
    cache = full()
    before = cache.kv.clone()
    cache.copy_blocks([(1, 2), (2, 3), (4, 5), (5, 4)])
    for source, target in [(1, 2), (2, 3), (4, 5), (5, 4), (1, 1), (0, 0)]:
        assert same(cache.kv[:, :, target], before[:, :, source])


def test_copies_may_be_none_a_tensor_or_onto_itself() -> None:
    cache = full()
    before = cache.kv.clone()
    cache.copy_blocks([])
    cache.copy_blocks([(3, 3)])
    assert same(cache.kv, before)
    cache.copy_blocks(torch.tensor([[1, 4]], dtype=torch.int32))
    assert same(cache.kv[:, :, 4], before[:, :, 1])


# --- sizes ----------------------------------------------------------------------------

LEAST = 2 * SMALL.block_bytes


@pytest.mark.parametrize(
    "memory_bytes", [-1, 0, 1, SMALL.block_bytes, LEAST - 1], ids=str
)
def test_row_35_too_little_memory_is_refused_with_the_bytes_needed(
    memory_bytes: int,
) -> None:
    with pytest.raises(ValueError, match=f"needs {LEAST} bytes; got {memory_bytes}:"):
        KVCache(SMALL, memory_bytes=memory_bytes, device="cpu")
    with pytest.raises(PoolTooSmall):
        SMALL.num_blocks_in(memory_bytes)


@pytest.mark.parametrize("num_blocks", [-3, 0, 1])
def test_row_35_too_few_blocks_are_refused(num_blocks: int) -> None:
    with pytest.raises(PoolTooSmall, match=f"needs {LEAST} bytes"):
        KVCache(SMALL, num_blocks=num_blocks, device="cpu")


def test_row_35_exactly_enough_is_enough() -> None:
    assert KVCache(SMALL, memory_bytes=LEAST, device="cpu").num_blocks == 2
    assert KVCache(SMALL, num_blocks=2, device="cpu").num_blocks == 2


@pytest.mark.parametrize(
    ("dtype", "block_bytes", "num_blocks"),
    [(torch.float16, 4096, 256), (FP8, 2048, 512)],
)
def test_row_36_bytes_of_a_narrower_type(
    dtype: torch.dtype, block_bytes: int, num_blocks: int
) -> None:
    spec = KVCacheSpec(num_layers=2, num_kv_heads=4, head_size=8, dtype=dtype)
    assert (spec.block_size, spec.block_bytes) == (16, block_bytes)
    assert spec.page_size_bytes * 2 == block_bytes
    cache = KVCache(spec, memory_bytes=1024**2, device="cpu")
    assert (cache.num_blocks, cache.kv.nbytes) == (num_blocks, 1024**2)


@settings(max_examples=100, deadline=None)
@given(spec=specs, memory_bytes=st.integers(-10, 40_000))
def test_rows_35_36_a_pool_is_within_its_budget_or_refused(
    spec: KVCacheSpec, memory_bytes: int
) -> None:
    """The kind: no pool without a usable block, none over budget, no byte uncounted."""
    try:
        cache = KVCache(spec, memory_bytes=memory_bytes, device="cpu")
    except PoolTooSmall as error:
        assert memory_bytes < 2 * spec.block_bytes
        assert f"needs {2 * spec.block_bytes} bytes; got {memory_bytes}" in str(error)
        return
    assert cache.num_blocks >= 2
    assert cache.kv.nbytes == cache.num_blocks * spec.block_bytes
    assert cache.kv.nbytes == cache.kv.untyped_storage().nbytes() <= memory_bytes
    assert memory_bytes - cache.kv.nbytes < spec.block_bytes


def test_a_new_pool_is_zero_and_in_the_order_it_promises() -> None:
    cache = KVCache(SMALL, num_blocks=6, device="cpu")
    assert cache.kv.shape == (2, 2, 6, 4, 3, 5) and cache.kv.is_contiguous()
    assert not cache.kv.any()
    assert cache.slots().data_ptr() == cache.kv.data_ptr()


@pytest.mark.parametrize(
    "sizes", [{}, {"num_blocks": 4, "memory_bytes": 4096}], ids=str
)
def test_a_pool_has_one_size(sizes: dict[str, int]) -> None:
    with pytest.raises(InvalidPool, match="exactly one of num_blocks and memory_bytes"):
        KVCache(SMALL, device="cpu", **sizes)


@pytest.mark.parametrize("size", [1e6, 2.0, "16", None])
def test_a_size_is_a_whole_number(size: Any) -> None:
    with pytest.raises(InvalidPool, match="expected an int; got"):
        SMALL.num_blocks_in(size)


@pytest.mark.parametrize("num_blocks", [10**12, 10**18, 10**30], ids=str)
def test_more_than_the_device_has_is_refused(num_blocks: int) -> None:
    with pytest.raises(InvalidPool, match=f"cpu can't give {num_blocks} blocks of 960"):
        KVCache(SMALL, num_blocks=num_blocks, device="cpu")


@pytest.mark.parametrize(
    "field", ["num_layers", "num_kv_heads", "head_size", "block_size"]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, None])
def test_a_shape_is_made_of_whole_numbers(field: str, value: Any) -> None:
    good = {"num_layers": 1, "num_kv_heads": 1, "head_size": 1, "block_size": 1}
    with pytest.raises(
        InvalidPool, match=f"{field}: expected an int of 1 or more; got"
    ):
        KVCacheSpec(**{**good, field: value})


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, "fp16"])
def test_other_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(InvalidPool, match=r"torch\.float16.*got " + str(dtype)):
        KVCacheSpec(num_layers=1, num_kv_heads=1, head_size=1, dtype=dtype)


# --- misuse: a named error that says what was expected, and nothing changed -----------

ROW = numbers(SMALL, 2, 1)
TWO = numbers(SMALL, 2, 2)
misuse: dict[str, tuple[Any, str]] = {
    "slot in the null block": (
        lambda c: c.write(TWO, TWO, [5, 3]),
        "slot: expected 4..23; got 3; block 0 is null",
    ),
    "slot past the end": (
        lambda c: c.write(TWO, TWO, [5, 24]),
        "slot: expected 4..23; got 24",
    ),
    "slot far below": (
        lambda c: c.write(TWO, TWO, [5, -2]),
        "slot: expected 4..23; got -2",
    ),
    "slot named twice": (
        lambda c: c.write(TWO, TWO, [5, 5]),
        "slot: expected each one once; got 5 again",
    ),
    "slots of fractions": (
        lambda c: c.write(TWO, TWO, [5, 6.5]),
        "slot_mapping: expected integers, ('n',); got torch.float32",
    ),
    "slots of booleans": (
        lambda c: c.write(TWO, TWO, [True, True]),
        "slot_mapping: expected integers, ('n',); got torch.bool",
    ),
    "slots in a square": (
        lambda c: c.write(TWO, TWO, [[5], [6]]),
        "slot_mapping: expected integers, ('n',); got torch.int64 of shape (2, 1)",
    ),
    "one bare slot": (
        lambda c: c.write(ROW, ROW, 5),
        "slot_mapping: expected integers, ('n',); got torch.int64 of shape ()",
    ),
    "slot too large for 64 bits": (
        lambda c: c.write(ROW, ROW, [2**63]),
        "slot_mapping: expected integers (",
    ),
    "slots as text": (
        lambda c: c.write(ROW, ROW, "5"),
        "slot_mapping: expected integers (",
    ),
    "no slots at all": (
        lambda c: c.write(ROW, ROW, None),
        "slot_mapping: expected integers (",
    ),
    "fewer slots than tokens": (
        lambda c: c.write(TWO, TWO, [5]),
        "key: expected ((2, 1, 3, 5), torch.float32, device(type='cpu')); got ((2, 2,",
    ),
    "value of another shape": (
        lambda c: c.write(TWO, ROW, [5, 6]),
        "value: expected ((2, 2, 3, 5),",
    ),
    "all layers where one was named": (
        lambda c: c.write(TWO, TWO, [5, 6], layer=0),
        "key: expected ((2, 3, 5),",
    ),
    "value of another dtype": (
        lambda c: c.write(TWO, TWO.double(), [5, 6]),
        "got ((2, 2, 3, 5), torch.float64,",
    ),
    "key on another device": (
        lambda c: c.write(TWO.to("meta"), TWO, [5, 6]),
        "got ((2, 2, 3, 5), torch.float32, device(type='meta'))",
    ),
    "layer past the end": (
        lambda c: c.write(TWO[0], TWO[0], [5, 6], layer=2),
        "layer: expected 0..1; got 2",
    ),
    "layer from the back": (lambda c: c.read([1], layer=-1), "layer: expected 0..1"),
    "block past the end": (
        lambda c: c.read([1, 6]),
        "block: expected 0..5; got 6",
    ),
    "padding where a token lies": (
        lambda c: c.read([1, PAD], 5),
        "block: expected 0..5; got -1",
    ),
    "more tokens than the table holds": (
        lambda c: c.read([1, 2], 9),
        "num_tokens: expected 0..8; got 9",
    ),
    "fewer than no tokens": (
        lambda c: c.read([1, 2], -1),
        "num_tokens: expected 0..8; got -1",
    ),
    "copy to null": (
        lambda c: c.copy_blocks([(1, 2), (3, 0)]),
        "destination: expected 1..5; got 0; block 0 is null",
    ),
    "copy of null": (
        lambda c: c.copy_blocks([(1, 2), (0, 3)]),
        "source: expected 1..5; got 0; block 0 is null",
    ),
    "copy from outside": (
        lambda c: c.copy_blocks([(1, 2), (6, 3)]),
        "source: expected 1..5; got 6",
    ),
    "copy to outside": (
        lambda c: c.copy_blocks([(1, 2), (3, -1)]),
        "destination: expected 1..5; got -1",
    ),
    "two copies to one block": (
        lambda c: c.copy_blocks([(1, 3), (2, 3)]),
        "destination: expected each one once; got 3 again",
    ),
    "copies that are no pairs": (
        lambda c: c.copy_blocks([(1, 2, 3)]),
        "pairs: expected integers, ('n', 2); got torch.int64 of shape (1, 3)",
    ),
    "copies of unlike length": (
        lambda c: c.copy_blocks([(1, 2), (3,)]),
        "pairs: expected integers (",
    ),
}


@pytest.mark.parametrize("name", misuse)
def test_misuse_is_named_and_changes_nothing(name: str) -> None:
    cache = full()
    before = cache.kv.clone()
    call, message = misuse[name]
    with pytest.raises(InvalidAccess, match=re.escape(message)):
        call(cache)
    assert same(cache.kv, before)


def test_a_table_may_hold_null_so_reading_does_not_blame_it() -> None:
    with pytest.raises(InvalidAccess, match=r"got 6$"):
        full().read([1, 6])


def test_every_error_is_one_of_ours_and_a_value_error() -> None:
    for kind in (InvalidPool, PoolTooSmall, InvalidAccess, PoolClosed):
        assert issubclass(kind, BlockManagerError) and issubclass(kind, ValueError)


# --- closing, showing -----------------------------------------------------------------


def test_closing_gives_the_memory_back_and_is_final() -> None:
    cache = full()
    cache.close()
    cache.close()
    assert cache._kv is None  # nothing else of ours holds the tensor
    one = numbers(SMALL, 2, 1)
    calls: list[Any] = [
        lambda: cache.kv,
        lambda: cache.slots(),
        lambda: cache.write(one, one, [5]),
        lambda: cache.read([1]),
        lambda: cache.copy_blocks([]),
    ]
    for call in calls:
        with pytest.raises(PoolClosed, match="make a new KVCache"):
            call()


def test_a_with_block_closes_even_after_an_error() -> None:
    with pytest.raises(InvalidAccess), full() as cache:
        cache.read([77])
    assert repr(cache).endswith("closed)")


def test_repr_is_short_and_stable() -> None:
    cache = full()
    assert repr(cache) == "KVCache(6 blocks, L2 H3 D5 B4 float32, cpu)"
    cache.close()
    assert repr(cache) == "KVCache(6 blocks, L2 H3 D5 B4 float32, closed)"


# --- device, dtype, torch itself ------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "mps", "best"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps")],
)
def test_the_best_device_is_asked_first(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, best: str
) -> None:
    """PyTorch is told what it has; a stand-in for `empty` notes the device asked."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    asked: list[str] = []

    class Answer:
        def __init__(self, _: int, device: str) -> None:
            asked.append(device)
            self.device = device

    monkeypatch.setattr(torch, "empty", Answer)
    assert str(pick_device()) == best and asked == [best]
    assert str(pick_device("cpu")) == "cpu"


def test_this_machine_has_a_device_and_a_dtype_for_it() -> None:
    device = pick_device()
    spec = KVCacheSpec(
        num_layers=1, num_kv_heads=1, head_size=2, dtype=pick_dtype(device)
    )
    with KVCache(spec, num_blocks=2) as cache:
        assert cache.kv.device == device
        one = torch.ones(1, 1, 2, dtype=spec.dtype, device=device)
        cache.write(one, 2 * one, [16], layer=0)
        assert [h.sum().item() for h in cache.read([1], 1, layer=0)] == [2, 4]


def test_dtypes_by_device_never_float64() -> None:
    assert pick_dtype(torch.device("cpu")) == torch.float32
    assert pick_dtype(torch.device("cuda")) == torch.float16
    assert pick_dtype(torch.device("mps")) == torch.float16
    assert torch.float64 not in DTYPES


@pytest.mark.parametrize("name", ["gpu", "cuda:99", ""])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InvalidPool, match=f"no device '{name}' here, try '"):
        KVCache(SMALL, num_blocks=2, device=name)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_torch_one_friendly_line() -> None:
    done = run_python(
        "import sys; sys.modules['torch'] = None; import blockmgr.storage"
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert "blockmgr.storage needs PyTorch: run `make lab`, or `pip install" in last
    assert done.stderr.count("Traceback") == 1


def test_the_bookkeeping_does_not_import_torch() -> None:
    code = "import blockmgr, sys; sys.exit('torch' in sys.modules)"
    assert run_python(code).returncode == 0


# --- things of another kind -----------------------------------------------------------


def test_anything_of_another_kind_is_named() -> None:
    spec = KVCacheSpec(num_layers=1, num_kv_heads=1, head_size=2, block_size=2)
    with KVCache(spec, num_blocks=3, device="cpu") as cache:
        for num_tokens in (1.5, "x", True):
            with pytest.raises(InvalidAccess, match=r"num_tokens: expected 0\.\.2"):
                cache.read([1], num_tokens)  # type: ignore[arg-type]
        good = torch.zeros(1, 1, 1, 2, dtype=spec.dtype)
        for pair in ((None, good), (good, [0])):
            with pytest.raises(InvalidAccess, match="expected a tensor"):
                cache.write(*pair, slot_mapping=[2])  # type: ignore[arg-type]
        assert not cache.kv.any()
    with pytest.raises(InvalidPool, match="spec: expected a KVCacheSpec"):
        KVCache(None, num_blocks=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidPool, match="no device"):
        KVCache(spec, num_blocks=3, device=[])  # type: ignore[arg-type]
    with pytest.raises(InvalidPool, match="num_layers"):
        KVCacheSpec(num_layers=True, num_kv_heads=1, head_size=2)
