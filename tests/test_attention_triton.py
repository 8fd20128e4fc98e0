"""The Triton kernel gives what the textbook gives, on scenes of `test_attention.py`.

On a GPU it is compiled. Elsewhere Triton's interpreter runs it, which is slow, so the
shapes are tiny. Both stop where Triton is not installed: it is 1 GB and optional.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from blockmgr.attention import Batch, paged_attention
from blockmgr.storage import EIGHT_BIT, KVCache, KVCacheSpec
from tests.test_attention import CASES, DEVICE, FP32, Case, Scene, error, play

if find_spec("triton") is None:
    pytest.skip(
        'Triton is not installed: pip install "blockmgr-course[triton]"',
        allow_module_level=True,
    )
if DEVICE == "cpu":
    if torch.cuda.is_available():
        pytest.skip("there is a GPU for this: make gpu-check", allow_module_level=True)
    # Read when the kernel's module is imported, so it stands before that.
    os.environ["TRITON_INTERPRET"] = "1"

from blockmgr.attention_triton import triton_attention

ON_GPU = DEVICE != "cpu"
SCALES = {
    torch.float16: (1.0, 1.0),
    torch.bfloat16: (1.0, 1.0),
    EIGHT_BIT: (0.25, 0.5),
}


def needs_gpu(test: Any) -> Any:
    skip = pytest.mark.skipif(not ON_GPU, reason="needs a GPU (make gpu-check)")
    return pytest.mark.gpu(skip(test))


def batch_of(scene: Scene) -> Batch:
    """The scene in the kernel's own form, which `paged_attention` makes otherwise."""
    width = max(map(len, scene.tables), default=0)
    tables = [table + [-1] * (width - len(table)) for table in scene.tables]

    def ids(numbers: Any) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32, device=DEVICE)

    return Batch(
        query=scene.query,
        cache=scene.cache,
        layer=scene.layer,
        block_tables=ids(tables),
        seq_lens=ids(scene.seq_lens),
        query_start_loc=ids(scene.starts),
        scale=scene.case.head_size**-0.5,
        window=scene.case.window,
        max_query_len=max((query_len for _, query_len in scene.case.lens), default=0),
        max_seq_len=max(scene.seq_lens, default=0),
    )


# On a GPU each shape is compiled for about a second, so there it is one of these.
FEW = [
    Case((), kv_heads=1, group=1, head_size=4, block_size=4),
    Case((), kv_heads=2, group=3, head_size=5, block_size=3),
    Case((), kv_heads=1, group=8, head_size=128, block_size=16),
]
SHAPES = st.sampled_from(FEW) if ON_GPU else CASES


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)
@given(case=CASES, shape=SHAPES)
def test_the_kernel_equals_plain_attention(case: Case, shape: Case) -> None:
    case = Case(
        lens=case.lens,
        block_size=shape.block_size,
        kv_heads=shape.kv_heads,
        group=shape.group,
        head_size=shape.head_size,
        window=case.window,
        seed=case.seed,
    )
    scene = play(case)
    assert error(scene.attend("triton"), scene.expected()) <= 1e-5


MIXED = ((150, 2), (12, 12), (1, 1), (97, 1), (0, 0))


@pytest.mark.parametrize(("splits", "window"), [(1, None), (2, 50), (8, None)])
def test_splits_are_brought_together(splits: int, window: int | None) -> None:
    """Eight splits of a tile that sees one token: seven of them see nothing."""
    case = Case(MIXED, block_size=16, kv_heads=1, group=2, window=window)
    scene = play(case)
    got = triton_attention(batch_of(scene), num_splits=splits)
    assert error(got, scene.expected()) <= 1e-5


@pytest.mark.parametrize(("dtype", "splits"), [(torch.float16, 2), (torch.bfloat16, 1)])
def test_half_types(dtype: torch.dtype, splits: int) -> None:
    """The weights are rounded before they meet V, as in every kernel: one step more."""
    case = Case(MIXED, block_size=16, kv_heads=1, group=3)
    scene = play(case, dtype=dtype)
    got = triton_attention(batch_of(scene), num_splits=splits)
    expected = scene.expected()
    assert got.dtype == dtype
    allowed = 2 * torch.finfo(dtype).eps * expected.abs().max().item()
    assert error(got, expected) <= allowed


@pytest.mark.parametrize(
    ("query_dtype", "splits"),
    [(torch.float32, 1), (torch.float16, 2), (torch.bfloat16, 1)],
)
def test_a_pool_of_8_bits(query_dtype: torch.dtype, splits: int) -> None:
    case = Case(MIXED, block_size=16, kv_heads=1, group=3)
    scene = play(case, dtype=EIGHT_BIT, query_dtype=query_dtype, scales=(0.25, 2.0))
    got = triton_attention(batch_of(scene), num_splits=splits)
    expected = scene.expected()
    assert got.dtype == query_dtype
    allowed = 2 * torch.finfo(query_dtype).eps * expected.abs().max().item()
    assert error(got, expected) <= max(allowed, 1e-5)


@pytest.mark.parametrize("group", [5, 17])
def test_groups_that_are_no_power_of_two(group: int) -> None:
    """A group of 17 does not fit into 16 rows."""
    scene = play(Case(((40, 7), (20, 1)), kv_heads=1, group=group, head_size=20))
    assert error(scene.attend("triton"), scene.expected()) <= 1e-5


def test_a_query_and_tables_that_are_parts_of_larger_tensors() -> None:
    scene = play(Case(((9, 4), (6, 1)), group=3))
    wide = torch.full((5, 3, 6, 4), float("nan"), device=DEVICE)
    wide[:, 1] = scene.query
    scene.query = wide[:, 1]
    expected = scene.expected()
    assert error(scene.attend("triton"), expected) <= 1e-5
    scene.query = scene.query.transpose(1, 2).contiguous().transpose(1, 2)
    assert scene.query.stride(-1) != 1
    assert error(scene.attend("triton"), expected) <= 1e-5
    tables = torch.tensor([[*t, -1, -1][:4] for t in scene.tables], device=DEVICE)
    args = (scene.query, scene.cache, scene.layer, tables.T.contiguous().T)
    got = paged_attention(*args, scene.seq_lens, scene.starts, backend="triton")
    assert error(got, expected) <= 1e-5


# --- on a GPU -------------------------------------------------------------------------


@needs_gpu
def test_the_trusted_way_does_not_wait_for_the_gpu() -> None:
    scene = play(Case(((33, 1), (18, 1)), group=2))
    batch = batch_of(scene)
    args = (scene.query, scene.cache, scene.layer, batch.block_tables, batch.seq_lens)
    paged_attention(*args, backend="triton", checked=False)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        got = paged_attention(*args, backend="triton", checked=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert error(got, scene.expected()) <= 1e-5


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, EIGHT_BIT])
@pytest.mark.parametrize("window", [None, 700])
def test_real_sizes(dtype: torch.dtype, window: int | None) -> None:
    """Splits and tiles as the kernel chooses them; `gather` was shown right before."""
    lens = ((3000, 1), (1, 1), (1500, 1500), (2100, 70), (256, 1))
    case = Case(lens, block_size=16, kv_heads=8, group=4, head_size=128, window=window)
    query_dtype = torch.float16 if dtype == EIGHT_BIT else dtype
    scene = play(case, dtype=dtype, query_dtype=query_dtype, scales=SCALES[dtype])
    expected = scene.attend("gather").cpu().double()
    allowed = 2 * torch.finfo(query_dtype).eps * expected.abs().max().item()
    assert error(scene.attend("triton"), expected) <= allowed
    decode = play(
        Case(tuple((n, 1) for n, _ in lens), 16, 8, 4, 128, window=window),
        dtype=dtype,
        query_dtype=query_dtype,
        scales=SCALES[dtype],
    )
    expected = decode.attend("gather").cpu().double()
    assert error(decode.attend("triton"), expected) <= allowed


@needs_gpu
def test_row_38_blocks_that_32_bits_do_not_reach() -> None:
    spec = KVCacheSpec(num_layers=1, num_kv_heads=8, head_size=128, dtype=torch.float16)
    num_blocks = 2**31 // (16 * 8 * 128) + 8  # keys alone: more than 2**31 numbers
    free, _ = torch.cuda.mem_get_info()
    if free < 1.1 * num_blocks * spec.block_bytes:
        pytest.skip(f"needs {num_blocks * spec.block_bytes / 1e9:.0f} GB of GPU memory")
    with KVCache(spec, num_blocks=num_blocks, device=DEVICE) as cache:
        table = [num_blocks - 1, 3, num_blocks - 2]
        make = torch.Generator(DEVICE).manual_seed(0)
        kv = torch.randn(2, 40, 8, 128, generator=make, device=DEVICE).half()
        slots = [table[i // 16] * 16 + i % 16 for i in range(40)]
        cache.write(kv[0], kv[1], slots, layer=0)
        query = torch.randn(1, 32, 128, generator=make, device=DEVICE).half()
        got, expected = (
            paged_attention(query, cache, 0, [table], [40], backend=backend)
            for backend in ("triton", "gather")
        )
        assert expected.abs().max() > 0.01
        assert error(got, expected.cpu().double()) <= 2e-3


def test_fp32_is_not_cut_to_10_bits() -> None:
    """A GPU's matrix units would do that unless they are told not to."""
    scene = play(Case(((64, 1),), kv_heads=1, group=4, head_size=64, block_size=16))
    assert scene.query.dtype == FP32
    assert error(scene.attend("triton"), scene.expected()) <= 1e-5
