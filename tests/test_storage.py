"""The device pool: what is read through a table is what was written.

The oracle is a plain dict from (half, layer, slot) to the numbers of one row; the null
block and slots that were never written read as zeros.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path
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
    EIGHT_BIT,
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

FP8 = EIGHT_BIT
NEEDS_CUDA = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs an NVIDIA GPU and PyTorch for CUDA"
)
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NEEDS_CUDA])]
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


def full(
    spec: KVCacheSpec = SMALL, num_blocks: int = 6, device: str = "cpu"
) -> KVCache:
    """A pool in which every slot but the null block's holds its own numbers."""
    cache = KVCache(spec, num_blocks=num_blocks, device=device)
    slots = list(range(spec.block_size, num_blocks * spec.block_size))
    both = (numbers(spec, spec.num_layers, len(slots), seed=s) for s in (1, 2))
    key, value = (half.to(device) for half in both)
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, FP8], ids=str)
def test_gradients_do_not_follow_into_the_pool(dtype: torch.dtype) -> None:
    """Else the pool keeps every forward pass alive: memory grows with each token."""
    cache = full(dataclasses.replace(SMALL, dtype=dtype))
    key = torch.ones(2, 1, 3, 5, dtype=torch.float32 if dtype == FP8 else dtype)
    key.requires_grad_()
    cache.write(key, key, [9])
    cache.scatter(key, 2 * key, torch.tensor([10]))
    assert not cache.kv.requires_grad and cache.kv.grad_fn is None
    assert cache.read([2], 2)[0][:, 1:].float().eq(1).all()


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
    assert storage.int64_ids("", table).dtype == torch.int64


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


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=40, deadline=None)
@given(spec=specs, data=st.data())
def test_copies_in_a_chain_and_apart(
    device: str, spec: KVCacheSpec, data: st.DataObject
) -> None:
    """On CUDA these are two ways: with a copy in between, and with the kernel."""
    cache = full(spec, 7, device)
    before = cache.kv.clone()
    sources = st.integers(1, 3) if data.draw(st.booleans()) else st.integers(1, 6)
    targets = data.draw(st.lists(st.integers(4, 6), unique=True))
    pairs = [(data.draw(sources), target) for target in targets]
    cache.copy_blocks(pairs)
    now = list(range(7))
    for source, target in pairs:
        now[target] = source
    assert same(cache.kv, before[:, :, now])


def test_the_copy_kernel_in_triton_s_interpreter(tmp_path: Path) -> None:
    """Its arithmetic, without a GPU: odd sizes, several parts of a page, words of all
    widths."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: it comes with PyTorch for CUDA")
    code = """
import torch
from blockmgr import storage_triton
from blockmgr.storage import as_words
for rows, dtype in (((4, 3, 5), torch.float32), ((16, 8, 64), torch.float16),
                    ((3, 1, 1), torch.float8_e4m3fn), ((5, 333, 1), torch.bfloat16)):
    kv = torch.randint(0, 100, (2, 3, 7, *rows)).to(dtype)
    expected = kv.clone().view(torch.uint8)
    expected[:, :, [6, 2, 3]] = expected[:, :, [1, 5, 1]]
    pairs = torch.tensor([(1, 6), (5, 2), (1, 3)])
    storage_triton.copy_blocks(as_words(kv), pairs)
    assert torch.equal(kv.view(torch.uint8), expected)
    storage_triton.copy_blocks(as_words(kv), pairs[:0])
print("equal")
"""
    done = run_python(code, TRITON_INTERPRET="1", TRITON_CACHE_DIR=str(tmp_path))
    assert done.stdout == "equal\n", done.stderr


# --- the trusted door -----------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(spec=specs, data=st.data())
def test_scatter_writes_what_write_writes(
    device: str, spec: KVCacheSpec, data: st.DataObject
) -> None:
    """Also from views with gaps and from an odd place: K and V of one projection."""
    checked, trusted = full(spec, 4, device), full(spec, 4, device)
    n, h, d = data.draw(st.integers(0, 6)), spec.num_kv_heads, spec.head_size
    first, end = spec.block_size, 4 * spec.block_size
    free = data.draw(st.permutations(range(first, end)))[:n]
    mapping = [data.draw(st.sampled_from([slot, PAD])) for slot in free]
    odd = data.draw(st.integers(0, 2))
    wide = odd + 2 * h * d + data.draw(st.integers(0, 3))
    layer = data.draw(st.none() | st.integers(0, spec.num_layers - 1))
    lead = (spec.num_layers,) if layer is None else ()
    projected = torch.randint(-16, 17, (*lead, len(mapping), wide), device=device)
    projected = projected.to(spec.dtype)
    key = projected[..., odd : odd + h * d].unflatten(-1, (h, d))  # type: ignore[no-untyped-call]
    value = projected[..., odd + h * d :][..., : h * d].unflatten(-1, (h, d))  # type: ignore[no-untyped-call]
    checked.write(key, value, mapping, layer)
    slots = torch.tensor(mapping, dtype=torch.int64, device=device)
    trusted.scatter(key, value, slots, layer)
    assert same(checked.kv, trusted.kv)
    assert not trusted.kv[:, :, 0].any()


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("device", DEVICES)
def test_scatter_takes_rows_with_gaps_in_them(device: str, heads: int) -> None:
    """Every other element of a wider tensor: no row of it lies in one piece."""
    spec = KVCacheSpec(num_layers=1, num_kv_heads=heads, head_size=8, block_size=4)
    cache = KVCache(spec, num_blocks=2, device=device)
    wide = torch.arange(2 * heads * 16, device=device).view(2, heads, 16).half()
    slots = torch.tensor([4, 6], device=device)
    cache.scatter(wide[..., ::2], wide[..., 1::2], slots, 0)
    key, value = cache.slots(0)[:, slots]
    assert same(key, wide[..., ::2]) and same(value, wide[..., 1::2])


@pytest.mark.parametrize("layer", [None, 1])
@pytest.mark.parametrize("device", DEVICES)
def test_gather_reads_many_tables_at_once(device: str, layer: int | None) -> None:
    cache = full(device=device)
    ids = torch.tensor([[3, 1, PAD], [0, 5, 2]], dtype=torch.int32, device=device)
    key, value = cache.gather(ids, layer)
    lead = (2,) if layer is None else ()
    assert key.shape == (*lead, 2, 12, 3, 5)
    for i, table in enumerate(([3, 1, 0], [0, 5, 2])):
        expected = cache.blocks(layer)[..., table, :, :, :].flatten(-4, -3)
        assert same(key[..., i, :, :, :], expected[0])
        assert same(value[..., i, :, :, :], expected[1])
    empty = cache.gather(torch.empty((2, 0), dtype=torch.int64, device=device), layer)
    assert empty[0].shape == (*lead, 2, 0, 3, 5)


@pytest.mark.gpu
@NEEDS_CUDA
def test_on_cuda_the_trusted_door_and_the_copies_do_not_wait() -> None:
    cache = full(device="cuda")
    rows = numbers(SMALL, 2, 2).cuda()
    slots = torch.tensor([9, PAD], device="cuda")
    ids = torch.tensor([2, 1], dtype=torch.int32, device="cuda")
    cache.copy_blocks([(1, 2)])  # the kernel is built at its first call
    torch.cuda.set_sync_debug_mode("error")
    try:
        cache.scatter(rows, rows, slots)
        key, _ = cache.gather(ids, 0)
        cache.copy_blocks([(1, 2), (3, 4)])
        cache.zero_blocks([5])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert same(key[1], rows[0, 0])


@pytest.mark.parametrize(
    ("slots", "got"),
    [
        (
            torch.tensor([5, 6], dtype=torch.int32),
            "(torch.int32, device(type='cpu'), 1)",
        ),
        (torch.tensor([5, 6], device="meta"), "(torch.int64, device(type='meta'), 1)"),
        (torch.tensor([[5], [6]]), "(torch.int64, device(type='cpu'), 2)"),
    ],
    ids=["int32", "meta", "square"],
)
def test_scatter_checks_all_that_needs_no_waiting(
    slots: torch.Tensor, got: str
) -> None:
    cache = full()
    before = cache.kv.clone()
    expected = "slot_mapping: expected (torch.int64, device(type='cpu'), 1); got "
    with pytest.raises(InvalidAccess, match=re.escape(expected + got)):
        cache.scatter(TWO, TWO, slots)
    good = torch.tensor([5, 6])
    with pytest.raises(InvalidAccess, match="value: expected"):
        cache.scatter(TWO, ROW, good)
    with pytest.raises(InvalidAccess, match=r"layer: expected 0\.\.1; got 2"):
        cache.scatter(TWO[0], TWO[0], good, layer=2)
    assert same(cache.kv, before)


# --- zeros and poison -----------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=40, deadline=None)
@given(spec=specs, ids=st.lists(st.integers(1, 5)), poison=st.booleans())
def test_row_37_a_block_is_filled_and_no_other(
    device: str, spec: KVCacheSpec, ids: list[int], poison: bool
) -> None:
    cache = full(spec, device=device)
    before = cache.kv.clone()
    (cache.poison_blocks if poison else cache.zero_blocks)(ids)
    others = [i for i in range(6) if i not in ids]
    assert same(cache.kv[:, :, others], before[:, :, others])
    filled = cache.kv[:, :, ids].float()
    assert filled.isnan().all() if poison else not filled.any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_poison_shows_in_all_that_was_never_written(
    device: str, dtype: torch.dtype
) -> None:
    """Row 37: three tokens in a block of four, in memory that nobody cleared."""
    spec = dataclasses.replace(SMALL, dtype=dtype)
    cache = KVCache(spec, num_blocks=4, device=device, poison=True)
    assert cache.kv.float().isnan().all()
    rows = torch.ones(2, 4, 3, 5, device=device).to(dtype)
    cache.write(rows, rows, [8, 9, 10, PAD])
    for half in cache.read([2]):
        assert not half[:, :3].float().isnan().any()
        assert half[:, 3].float().isnan().all()
    written = ~cache.kv.float().isnan()
    assert int(written.sum()) == 2 * 2 * 3 * 3 * 5  # the pad went into no block at all
    cache.copy_blocks([(2, 3)])
    assert same(cache.read([3], 3)[0], rows[:, :3])
    cache.poison_blocks([2])
    assert all(half.float().isnan().all() for half in cache.read([2]))


# --- eight bits -----------------------------------------------------------------------


def eight(k_scale: float = 1.0, v_scale: float = 1.0, **sizes: int) -> KVCacheSpec:
    small = {"num_layers": 2, "num_kv_heads": 1, "head_size": 8, "block_size": 4}
    return KVCacheSpec(**small | sizes, dtype=FP8, k_scale=k_scale, v_scale=v_scale)


scales = st.floats(2**-20, 2**20, width=32)
singles = st.floats(-(2.0**40), 2.0**40, width=32)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=150, deadline=None)
@given(data=st.data(), k_scale=scales, v_scale=scales)
def test_the_error_of_eight_bits_is_bounded(
    device: str, data: st.DataObject, k_scale: float, v_scale: float
) -> None:
    """What the module says of it: |x| / 16 or scale / 1024, the larger; beyond
    448 * scale the value is cut off there."""
    spec = eight(k_scale, v_scale)
    cache = KVCache(spec, num_blocks=3, device=device)
    near = st.floats(-600, 600, width=32)  # in units of the scale
    rows = []
    for scale in (k_scale, v_scale):
        some = singles | near.map(scale.__mul__)
        drawn = data.draw(st.lists(some, min_size=8, max_size=8))
        rows.append(torch.tensor(drawn, device=device).float().view(1, 1, 8))
    cache.write(rows[0], rows[1], [5], layer=1)
    got = cache.read([1], 2, layer=1, dtype=torch.float32)
    for before, after, scale in zip(rows, got, (k_scale, v_scale), strict=True):
        x, y = before.double().flatten(), after[1].double().flatten()
        cut = x.clamp(-448 * scale, 448 * scale)
        bound = (cut.abs() / 16).clamp(min=scale / 1024)
        assert torch.all((y - cut).abs() <= bound * (1 + 1e-6)), (x, y)
        assert torch.all(after[0] == 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_every_8_bit_number_survives_with_its_scale(
    device: str, dtype: torch.dtype
) -> None:
    """All 254 finite ones, times a power of two: stored and read without a change."""
    every = torch.arange(256, dtype=torch.uint8, device=device).view(FP8).float()
    x = (every[~every.isnan()] * 4).to(dtype).view(1, 1, 254)
    cache = KVCache(
        eight(4.0, 4.0, head_size=254, num_layers=1), num_blocks=2, device=device
    )
    cache.write(x, -x, [4], layer=0)
    key, value = cache.read([1], 1, layer=0, dtype=dtype)
    assert key.dtype == dtype and torch.equal(key, x) and torch.equal(value, -x)
    raw = cache.read([1], 1, layer=0)[0]
    assert raw.dtype == FP8 and torch.equal(raw.float(), x.float() / 4)
    batch = cache.gather(torch.tensor([1], device=device), 0, dtype)
    assert torch.equal(batch[1][:1], -x)


@pytest.mark.parametrize("device", DEVICES)
def test_eight_bits_cut_off_what_is_too_large_and_keep_nan(device: str) -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor([[[1e9, -1e9, 449, 463, 465, inf, -inf, nan]]], device=device)
    cache = KVCache(eight(num_layers=1), num_blocks=2, device=device)
    cache.write(x, x / 2, [4], layer=0)
    key, _ = cache.read([1], 1, layer=0, dtype=torch.float32)
    assert key.flatten().tolist()[:-1] == [448, -448, 448, 448, 448, 448, -448]
    assert key.isnan().flatten().tolist() == [False] * 7 + [True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits_are_rounded_once(dtype: torch.dtype) -> None:
    """Divided in 32 bits, as in vLLM: what the same 32-bit numbers give."""
    x = torch.linspace(-300, 300, 4000).to(dtype).view(500, 1, 8)
    cache = KVCache(
        eight(0.7, 1.3, num_layers=1, block_size=500), num_blocks=3, device="cpu"
    )
    slots = torch.arange(500, 1000)
    cache.scatter(x, x, slots, 0)
    cache.scatter(x.float(), x.float(), slots + 500, 0)
    for half in cache.kv[:, 0].view(torch.uint8):
        assert torch.equal(half[1], half[2])


def test_rows_that_have_8_bits_already_are_stored_as_they_are() -> None:
    cache = KVCache(eight(3.0, num_layers=1), num_blocks=2, device="cpu")
    rows = torch.randint(0, 127, (2, 1, 8), dtype=torch.uint8).view(FP8)
    cache.write(rows, rows, [4, 5], layer=0)
    assert same(cache.read([1], 2, layer=0)[0], rows)
    assert torch.equal(
        cache.read([1], 2, layer=0, dtype=torch.float32)[0], rows.float() * 3
    )


def test_a_wider_dtype_can_be_asked_for_in_every_pool() -> None:
    cache = full(dataclasses.replace(SMALL, dtype=torch.float16))
    stored, wide = cache.read([2]), cache.read([2], dtype=torch.float32)
    assert wide[0].dtype == torch.float32 and torch.equal(wide[0], stored[0].float())


def test_only_8_bits_take_another_dtype() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        cache = full(dataclasses.replace(SMALL, dtype=dtype))
        for other in {torch.float32, torch.float16, torch.bfloat16, FP8} - {dtype}:
            with pytest.raises(InvalidAccess, match="key: expected"):
                cache.write(ROW.to(other), ROW.to(other), [5])
    narrow = full(dataclasses.replace(SMALL, dtype=FP8))
    with pytest.raises(InvalidAccess, match=r"got \(.*torch.float64"):
        narrow.write(ROW.double(), ROW.double(), [5])


@pytest.mark.parametrize("name", ["k_scale", "v_scale"])
@pytest.mark.parametrize("wrong", [0, -1.0, math.inf, math.nan, None, "1", True])
def test_a_scale_is_a_number_above_0(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidPool, match=f"{name}: expected a number above 0; got"):
        eight(**{name: wrong})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_scale_is_for_8_bits_only(dtype: torch.dtype) -> None:
    with pytest.raises(InvalidPool, match=f"v_scale: expected 1.0 for {dtype}; got 2"):
        dataclasses.replace(SMALL, dtype=dtype, v_scale=2.0)


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
def test_a_pool_has_one_size(sizes: dict[str, Any]) -> None:
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
    "zeros in null": (
        lambda c: c.zero_blocks([1, 0]),
        "block: expected 1..5; got 0; block 0 is null",
    ),
    "zeros outside": (
        lambda c: c.zero_blocks([1, 6]),
        "block: expected 1..5; got 6",
    ),
    "poison in null": (
        lambda c: c.poison_blocks([1, 0]),
        "block: expected 1..5; got 0; block 0 is null",
    ),
    "zeros in no list": (
        lambda c: c.zero_blocks(1),
        "block_ids: expected integers, ('n',); got torch.int64 of shape ()",
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
        lambda: cache.zero_blocks([]),
        lambda: cache.scatter(one, one, torch.tensor([5])),
        lambda: cache.gather(torch.tensor([1])),
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


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | env
    )


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
                cache.write(pair[0], pair[1], [2])  # type: ignore[arg-type]
        assert not cache.kv.any()
    with pytest.raises(InvalidPool, match="spec: expected a KVCacheSpec"):
        KVCache(None, num_blocks=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidPool, match="no device"):
        KVCache(spec, num_blocks=3, device=[])  # type: ignore[arg-type]
    with pytest.raises(InvalidPool, match="num_layers"):
        KVCacheSpec(num_layers=True, num_kv_heads=1, head_size=2)
