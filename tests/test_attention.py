"""Attention through the block table equals attention over plain lists.

The oracle is softmax as in a textbook, one token and one head at a time, in Python's
own floats: it sees K and V in their order and knows no blocks. In the pool everything
that the sequences did not write, or no longer see, is NaN.

`BLOCKMGR_TEST_DEVICE=cuda` runs the same tests on a GPU (`make gpu-check`).
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import blockmgr.attention as attention
from blockmgr.attention import (
    BACKENDS,
    InvalidAttention,
    first_visible,
    has_triton,
    paged_attention,
    visible,
)
from blockmgr.errors import BlockManagerError
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.manager import BlockManager
from blockmgr.storage import EIGHT_BIT, KVCache, KVCacheSpec, PoolClosed

DEVICE = os.environ.get("BLOCKMGR_TEST_DEVICE", "cpu")
BOTH = ("gather", "online")
FP32 = torch.float32


@dataclass(frozen=True)
class Case:
    """A batch without its numbers. Each sequence: (its length, its query tokens)."""

    lens: tuple[tuple[int, int], ...]
    block_size: int = 4
    kv_heads: int = 2
    group: int = 1
    head_size: int = 4
    layers: int = 1
    window: int | None = None
    seed: int = 0


@dataclass
class Scene:
    """A case with numbers: what `paged_attention` gets, and what it should see."""

    case: Case
    cache: KVCache
    layer: int
    query: Tensor
    tables: list[list[int]]
    keys: list[Tensor]  # of each sequence, in order: [seq_len, kv_heads, head_size]
    values: list[Tensor]

    @property
    def seq_lens(self) -> list[int]:
        return [seq_len for seq_len, _ in self.case.lens]

    @property
    def starts(self) -> list[int]:
        return [0, *accumulate(query_len for _, query_len in self.case.lens)]

    def attend(self, backend: str, **options: Any) -> Tensor:
        options = {"window": self.case.window, "backend": backend, **options}
        given = (self.query, self.cache, self.layer, self.tables, self.seq_lens)
        return paged_attention(*given, self.starts, **options)

    def expected(self, scale: float | None = None) -> Tensor:
        rows = []
        lens = enumerate(self.case.lens)
        for seq, (seq_len, query_len) in lens:
            k, v = self.keys[seq].tolist(), self.values[seq].tolist()
            for i in range(query_len):
                q = self.query[self.starts[seq] + i].tolist()
                stop = seq_len - query_len + i + 1
                start = max(0, stop - (self.case.window or stop))
                rows.append(textbook(q, k[start:stop], v[start:stop], scale))
        return torch.tensor(rows, dtype=torch.float64).view(self.query.shape)


def textbook(q: Any, k: Any, v: Any, scale: float | None = None) -> list[list[float]]:
    """One query token over the tokens it sees: [query_heads][head_size]."""
    size, group = len(q[0]), len(q) // len(k[0])
    factor = 1 / math.sqrt(size) if scale is None else scale
    out = []
    for head, numbers in enumerate(q):
        at = head // group
        scores = [
            factor * sum(a * b for a, b in zip(numbers, token[at], strict=True))
            for token in k
        ]
        weights = [math.exp(score - max(scores)) for score in scores]
        out.append(
            [
                sum(w * token[at][d] for w, token in zip(weights, v, strict=True))
                / sum(weights)
                for d in range(size)
            ]
        )
    return out


def play(
    case: Case,
    *,
    dtype: torch.dtype = FP32,
    query_dtype: torch.dtype | None = None,
    scales: tuple[float, float] = (1.0, 1.0),
) -> Scene:
    """Numbers for a case: a pool of NaN, and in it only what the query tokens see."""
    rng, make = random.Random(case.seed), torch.Generator().manual_seed(case.seed)
    spec = KVCacheSpec(
        num_layers=case.layers,
        num_kv_heads=case.kv_heads,
        head_size=case.head_size,
        block_size=case.block_size,
        dtype=dtype,
        k_scale=scales[0],
        v_scale=scales[1],
    )
    widths = [-(-seq_len // case.block_size) for seq_len, _ in case.lens]
    ids = list(range(1, sum(widths) + 3))
    rng.shuffle(ids)
    cache = KVCache(spec, num_blocks=len(ids) + 1, device=DEVICE, poison=True)
    layer = rng.randrange(case.layers)

    def numbers(tokens: int, heads: int) -> Tensor:
        return torch.randn(tokens, heads, case.head_size, generator=make)

    tables, keys, values = [], [], []
    for (seq_len, query_len), width in zip(case.lens, widths, strict=True):
        table = [ids.pop() for _ in range(width)]
        first = first_visible(query_len, seq_len, case.window) if query_len else seq_len
        slots = [
            table[i // case.block_size] * case.block_size + i % case.block_size
            for i in range(first, seq_len)
        ]
        both = [numbers(seq_len, case.kv_heads) for _ in (0, 1)]
        if dtype != EIGHT_BIT:
            both = [half.to(dtype) for half in both]
        new_keys, new_values = (half[first:].to(DEVICE) for half in both)
        cache.write(new_keys, new_values, slots, layer)
        gone = range(first // case.block_size)
        table = [0 if i in gone else block for i, block in enumerate(table)]
        tables.append(table + [-1] * rng.choice([0, 0, 1, 3]))
        if dtype == EIGHT_BIT:
            both = [
                (half / scale).to(dtype).double() * scale
                for half, scale in zip(both, scales, strict=True)
            ]
        keys.append(both[0].double())
        values.append(both[1].double())
    query = numbers(sum(q for _, q in case.lens), case.kv_heads * case.group)
    query = query.to(DEVICE, query_dtype or dtype)
    return Scene(case, cache, layer, query, tables, keys, values)


def error(got: Tensor, expected: Tensor) -> float:
    """The largest difference. NaN, which is larger than nothing, counts as infinite."""
    if got.numel() == 0:
        return 0.0
    worst = (got.cpu().double() - expected).abs().max().item()
    return math.inf if math.isnan(worst) else worst


LENS = st.integers(1, 18).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n) | st.just(1))
)
CASES = st.builds(
    Case,
    lens=st.lists(LENS, max_size=4).map(tuple),
    block_size=st.integers(1, 5),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    head_size=st.integers(1, 6),
    layers=st.integers(1, 2),
    window=st.none() | st.integers(1, 9),
    seed=st.integers(0, 999),
)


# --- the property ---------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(case=CASES)
def test_attention_through_the_table_equals_plain_attention(case: Case) -> None:
    scene = play(case)
    before = scene.cache.kv.clone()
    expected = scene.expected()
    for backend in BOTH:
        got = scene.attend(backend)
        assert got.shape == scene.query.shape and got.dtype == scene.query.dtype
        assert error(got, expected) <= 1e-5, backend
    assert torch.equal(scene.cache.kv.nan_to_num(9e9), before.nan_to_num(9e9))


@settings(max_examples=50, deadline=None)
@given(
    case=CASES,
    dtype=st.sampled_from([torch.float16, torch.bfloat16]),
    backend=st.sampled_from(BOTH),
)
def test_half_types_are_added_up_in_fp32(
    case: Case, dtype: torch.dtype, backend: str
) -> None:
    """So the one error that counts is the last rounding: half a step of the dtype."""
    scene = play(case, dtype=dtype)
    expected = scene.expected()
    allowed = expected.abs().max().item() if expected.numel() else 0.0
    allowed = allowed * torch.finfo(dtype).eps / 2 + 1e-5
    assert error(scene.attend(backend), expected) <= allowed


@settings(max_examples=50, deadline=None)
@given(
    case=CASES,
    query_dtype=st.sampled_from(attention.QUERY_DTYPES),
    backend=st.sampled_from(BOTH),
    scales=st.sampled_from([(1.0, 1.0), (0.25, 2.0), (2.0, 0.125)]),
)
def test_a_pool_of_8_bits_is_multiplied_with_its_scales(
    case: Case,
    query_dtype: torch.dtype,
    backend: str,
    scales: tuple[float, float],
) -> None:
    """The oracle sees what is stored, so all that is left is the query's rounding."""
    scene = play(case, dtype=EIGHT_BIT, query_dtype=query_dtype, scales=scales)
    expected = scene.expected()
    allowed = expected.abs().max().item() if expected.numel() else 0.0
    allowed = allowed * torch.finfo(query_dtype).eps / 2 + 1e-5
    got = scene.attend(backend)
    assert got.dtype == query_dtype
    assert error(got, expected) <= allowed


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("window", [None, 100])
def test_real_sizes_equal_pytorchs_dense_attention(
    backend: str, window: int | None
) -> None:
    """Two prefills, one of them after a cached prefix, and a decode step."""
    lens = ((300, 300), (257, 40), (512, 1))
    scene = play(Case(lens, block_size=16, group=3, head_size=64, window=window))
    got, starts = scene.attend(backend), scene.starts
    for seq, (seq_len, query_len) in enumerate(lens):
        mask = torch.ones(seq_len, seq_len, dtype=torch.bool).tril()
        if window is not None:
            mask = mask.triu(1 - window)
        q = scene.query[starts[seq] : starts[seq + 1]].cpu().double()
        k, v = (x[seq].repeat_interleave(3, 1) for x in (scene.keys, scene.values))
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        dense = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask[-query_len:]
        )
        assert error(got[starts[seq] : starts[seq + 1]], dense.transpose(0, 1)) <= 1e-5


@pytest.mark.parametrize("backend", BOTH)
def test_large_scores_do_not_overflow(backend: str) -> None:
    """exp(200) is no fp32 number: the running maximum is there for this."""
    scene = play(Case(((9, 9),), seed=3))
    assert error(scene.attend(backend, scale=200.0), scene.expected(200.0)) <= 1e-3
    assert error(scene.attend(backend, scale=-0.5), scene.expected(-0.5)) <= 1e-5


# --- poison ---------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BOTH)
def test_row_37_three_tokens_in_a_block_of_four(backend: str) -> None:
    scene = play(Case(((3, 3),)))
    assert scene.cache.kv.isnan().any()
    assert error(scene.attend(backend), scene.expected()) <= 1e-5


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("window", [None, 6])
def test_a_manager_a_pool_and_attention(backend: str, window: int | None) -> None:
    """Prefill, a hit on its prefix, decode. What no sequence holds is NaN all along."""
    spec = KVCacheSpec(
        num_layers=2, num_kv_heads=2, head_size=4, block_size=4, dtype=FP32
    )
    group = FullAttention() if window is None else SlidingWindow(window)
    manager = BlockManager(num_blocks=12, block_size=4, groups=(group,))
    cache = KVCache(spec, num_blocks=12, device=DEVICE, poison=True)
    make = torch.Generator().manual_seed(1)
    kv = torch.randn(2, 2, 24, 2, 4, generator=make).to(DEVICE)  # one content
    query = torch.randn(24, 6, 4, generator=make).to(DEVICE)

    def step(seq_id: str, start: int, stop: int) -> None:
        """Tokens start..stop are new: write them in each layer, then attend."""
        held = {b for name in running for b in manager.block_table(name)}
        cache.poison_blocks(sorted(set(range(1, 12)) - held))
        slots = manager.slot_mapping(seq_id, start, stop)
        for layer in (0, 1):
            new = kv[:, layer, start:stop]
            cache.write(new[0], new[1], slots, layer)
            got = paged_attention(
                query[start:stop],
                cache,
                layer,
                [manager.block_table(seq_id)],
                [stop],
                [0, stop - start],
                window=window,
                backend=backend,
            )
            k, v = kv[:, layer].tolist()
            for i in range(start, stop):
                seen = slice(max(0, i + 1 - (window or i + 1)), i + 1)
                expected = torch.tensor(textbook(query[i].tolist(), k[seen], v[seen]))
                assert error(got[i - start], expected.double()) <= 1e-5

    manager.allocate("gone", [99] * 9)
    manager.allocate("a", list(range(10)))
    manager.free("gone")
    running = ["a"]
    step("a", 0, 10)
    running.append("b")
    assert manager.allocate("b", list(range(13))).num_cached_tokens == 8
    step("b", 8, 13)
    for i in range(13, 24):
        manager.append("b", [i])
        step("b", i, i + 1)
    table = manager.block_table("b")
    assert table.count(0) == (0 if window is None else 4) and len(table) == 6


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("window", [3, 4, 8])
def test_a_ring_of_blocks_is_a_table_that_repeats(backend: str, window: int) -> None:
    """As vLLM's first version kept a window: the newest token overwrites the oldest."""
    case = Case(((0, 0),), block_size=4, group=2)
    cache = play(case).cache
    ring = [2, 1][: -(-window // 4)]
    make = torch.Generator().manual_seed(7)
    kv = torch.randn(2, 20, 2, 4, generator=make).to(DEVICE)
    query = torch.randn(20, 4, 4, generator=make).to(DEVICE)
    k, v = kv.tolist()
    for i in range(20):
        table = [ring[column % len(ring)] for column in range(i // 4 + 1)]
        cache.write(kv[0, i, None], kv[1, i, None], [table[-1] * 4 + i % 4], layer=0)
        got = paged_attention(
            query[i : i + 1], cache, 0, [table], [i + 1], window=window, backend=backend
        )
        seen = slice(max(0, i + 1 - window), i + 1)
        expected = torch.tensor([textbook(query[i].tolist(), k[seen], v[seen])])
        assert error(got, expected.double()) <= 1e-5


# --- forms of the arguments -----------------------------------------------------------


def test_who_sees_whom() -> None:
    two, five = torch.tensor([3, 4]), torch.arange(5)
    assert visible(two, five, None).int().tolist() == [[1, 1, 1, 1, 0], [1] * 5]
    assert visible(two, five, 2).int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    # Rule 15: c tokens are computed, max(0, c - W + 1) of them are seen no more.
    assert [first_visible(1, c + 1, 3) for c in range(5)] == [0, 0, 0, 1, 2]
    assert first_visible(4, 9, 3) == 3 and first_visible(4, 9, None) == 0


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_tables_are_lists_of_any_lengths_or_one_padded_tensor(
    backend: str, dtype: torch.dtype
) -> None:
    scene = play(Case(((9, 1), (3, 1), (5, 1)), group=2))
    tables = [[b for b in table if b > 0] for table in scene.tables]
    rows = [table + [-1] * (4 - len(table)) for table in tables]
    as_tensors = [
        torch.tensor(numbers, dtype=dtype, device=DEVICE)
        for numbers in (rows, scene.seq_lens, scene.starts)
    ]
    args = (scene.query, scene.cache, scene.layer)
    expected = scene.expected()
    for form in ((tables, scene.seq_lens), as_tensors, as_tensors[:2]):
        for checked in (True, False):
            got = paged_attention(*args, *form, backend=backend, checked=checked)
            assert error(got, expected) <= 1e-5


@pytest.mark.parametrize("backend", BOTH)
def test_a_query_may_be_a_part_of_a_larger_tensor(backend: str) -> None:
    """As a model hands it over: Q, K and V of a token side by side."""
    scene = play(Case(((9, 4), (6, 1)), group=3))
    plain, wide = scene.query, torch.full((5, 3, 6, 4), math.nan, device=DEVICE)
    wide[:, 1] = plain
    scene.query = wide[:, 1]
    assert not scene.query.is_contiguous()
    got = scene.attend(backend)
    assert error(got, scene.expected()) <= 1e-5
    assert got.untyped_storage().data_ptr() != wide.untyped_storage().data_ptr()


@pytest.mark.parametrize("backend", BOTH)
def test_no_gradient_and_no_sequences(backend: str) -> None:
    scene = play(Case(((9, 4),)))
    scene.query.requires_grad_()
    assert not scene.attend(backend).requires_grad
    empty = play(Case(()))
    assert empty.attend(backend).shape == (0, 2, 4)
    padding = play(Case(((0, 0), (7, 0), (5, 2), (0, 0))))
    assert error(padding.attend(backend), padding.expected()) <= 1e-5


def test_auto_is_gather_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = play(Case(((5, 1),)))
    on_gpu = scene.query.is_cuda and has_triton()
    best = scene.attend("triton" if on_gpu else "gather")
    assert torch.equal(scene.attend("auto"), best)
    monkeypatch.setattr(attention, "has_triton", lambda: False)
    assert torch.equal(scene.attend("auto"), scene.attend("gather"))
    with pytest.raises(InvalidAttention, match=r"Triton is not installed; take 'auto'"):
        scene.attend("triton")


def test_triton_without_a_gpu_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = play(Case(((5, 1),)))
    scene.query = scene.query.cpu()
    monkeypatch.setattr(attention, "has_triton", lambda: True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(InvalidAttention, match="CUDA, or with TRITON_INTERPRET=1, not"):
        scene.attend("triton", checked=False)


# --- what doesn't fit -----------------------------------------------------------------


def ids(*numbers: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor(numbers, dtype=dtype, device=DEVICE)


# A cache with 2 heads of 4 in 7 blocks of 4; 9 tokens, 2 of them the query.
misuse: dict[str, tuple[dict[str, Any], str]] = {
    "a table too short": (
        {"block_tables": [[1, 2]]},
        "block_tables: 9 tokens of sequence 0 need 3 blocks of 4; got 2 columns",
    ),
    "no tables": (
        {"block_tables": []},
        "block_tables: expected int32 or int64 [1, 0] on",
    ),
    "a pad among the blocks it reads": (
        {"block_tables": [[1, -1, 3]]},
        "sequence 0 reads column 1, so expected a block in 1..6; got -1",
    ),
    "a table that ends in pads too early": (
        {"block_tables": [[1, 2, -1]]},
        "sequence 0 reads column 2, so expected a block in 1..6; got -1",
    ),
    "the null block without a window": (
        {"block_tables": [[0, 2, 3]]},
        "sequence 0 reads column 0, so expected a block in 1..6; got 0",
    ),
    "the null block inside the window": (
        {"block_tables": [[0, 0, 3]], "window": 2},
        "sequence 0 reads column 1, so expected a block in 1..6; got 0",
    ),
    "a block behind the pool's end": (
        {"block_tables": [[1, 2, 7]]},
        "sequence 0 reads column 2, so expected a block in 1..6; got 7",
    ),
    "one table without its list": (
        {"block_tables": [1, 2, 3]},
        "block_tables: expected one list a sequence; got [1, 2, 3]",
    ),
    "one table as a tensor of one dimension": (
        {"block_tables": ids(1, 2, 3)},
        "block_tables: expected 2 dimensions; got torch.int64 [3]",
    ),
    "tables of floats": (
        {"block_tables": [[1.0, 2.0, 3.0]]},
        "block_tables: expected int32 or int64 [1, 3]",
    ),
    "tables of words": (
        {"block_tables": [["a"]]},
        "block_tables: expected integers (",
    ),
    "tables elsewhere": (
        {"block_tables": torch.ones(1, 3, dtype=torch.int64, device="meta")},
        "block_tables: expected int32 or int64 [1, 3] on",
    ),
    "more tables than lengths": (
        {"block_tables": [[1, 2, 3], [4]]},
        "block_tables: expected int32 or int64 [1, 3]",
    ),
    "lengths of another type": (
        {"seq_lens": ids(9, dtype=torch.int16)},
        "seq_lens: expected int32 or int64 [1] on",
    ),
    "lengths that are a number": (
        {"seq_lens": torch.tensor(9, device=DEVICE)},
        "seq_lens: expected 1 dimensions; got torch.int64 []",
    ),
    "fewer tokens than query tokens": (
        {"seq_lens": [1]},
        "sequence 0 has 2 query tokens, which are the last of it, so expected 2 or",
    ),
    "too few starts": (
        {"query_start_loc": [0]},
        "query_start_loc: expected int32 or int64 [2]",
    ),
    "starts that don't start at 0": (
        {"query_start_loc": [1, 2]},
        "query_start_loc: expected it to rise from 0 to the 2 query tokens; got [1, 2]",
    ),
    "starts that end too early": (
        {"query_start_loc": [0, 1]},
        "query_start_loc: expected it to rise from 0 to the 2 query tokens; got [0, 1]",
    ),
    "starts that fall": (
        {
            "query_start_loc": [0, 3, 2],
            "block_tables": [[1, 2, 3]] * 2,
            "seq_lens": [9, 9],
        },
        "query_start_loc: expected it to rise from 0 to the 2 query tokens; got [0, 3",
    ),
    "two query tokens in a decode step": (
        {"query_start_loc": None},
        "query_start_loc: expected it to rise from 0 to the 2 query tokens; got [0, 1]",
    ),
    "no query": ({"query": None}, "query: expected a tensor; got None"),
    "a query without heads": (
        {"query": torch.ones(2, 4, device=DEVICE)},
        "query: expected [tokens, query_heads, 4]; got torch.float32 [2, 4]",
    ),
    "another head size": (
        {"query": torch.ones(2, 2, 5, device=DEVICE)},
        "query: expected [tokens, query_heads, 4]; got torch.float32 [2, 2, 5]",
    ),
    "3 query heads on 2": (
        {"query": torch.ones(2, 3, 4, device=DEVICE)},
        "query: expected a multiple of the cache's 2 heads",
    ),
    "no query heads": (
        {"query": torch.ones(2, 0, 4, device=DEVICE)},
        "query: expected a multiple of the cache's 2 heads",
    ),
    "another dtype": (
        {"query": torch.ones(2, 2, 4, dtype=torch.float16, device=DEVICE)},
        "query: expected torch.float32 on",
    ),
    "another device": (
        {"query": torch.ones(2, 2, 4, device="meta")},
        "as the cache is; got torch.float32 on meta",
    ),
    "no cache": ({"cache": torch.ones(1)}, "cache: expected a KVCache; got torch.fl"),
    "no such layer": ({"layer": 1}, "layer: expected 0..0; got 1"),
    "a layer before the first": ({"layer": -1}, "layer: expected 0..0; got -1"),
    "a layer that is a bool": ({"layer": False}, "layer: expected 0..0; got False"),
    "no window": (
        {"window": 0},
        "window: expected an int of 1 or more, or None; got 0",
    ),
    "half a window": ({"window": 1.5}, "window: expected an int of 1 or more, or None"),
    "no scale": ({"scale": math.nan}, "scale: expected a float or None; got nan"),
    "a scale of another kind": ({"scale": "x"}, "scale: expected a float or None"),
    "no such backend": (
        {"backend": "flash"},
        "backend: expected one of ('auto', 'gather', 'online', 'triton'); got 'flash'",
    ),
}


def good() -> dict[str, Any]:
    spec = KVCacheSpec(
        num_layers=1, num_kv_heads=2, head_size=4, block_size=4, dtype=FP32
    )
    return {
        "query": torch.ones(2, 4, 4, device=DEVICE),
        "cache": KVCache(spec, num_blocks=7, device=DEVICE),
        "layer": 0,
        "block_tables": [[1, 2, 3]],
        "seq_lens": [9],
        "query_start_loc": [0, 2],
    }


def test_what_the_misuse_is_made_from_is_right() -> None:
    assert not paged_attention(**good()).any()  # all values are zeros


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("name", misuse)
def test_misuse_is_named_before_any_work(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, message = misuse[name]

    def work(*_: object) -> Any:
        raise AssertionError("it has begun")

    monkeypatch.setattr(attention, "_attend", work)
    with pytest.raises(InvalidAttention, match=re.escape(message)):
        paged_attention(**{**good(), "backend": backend, **changes})


def test_8_bits_take_any_query_and_no_other_pool_does() -> None:
    spec = KVCacheSpec(
        num_layers=1, num_kv_heads=2, head_size=4, block_size=4, dtype=EIGHT_BIT
    )
    arguments = good() | {"cache": KVCache(spec, num_blocks=7, device=DEVICE)}
    paged_attention(**arguments)
    arguments["query"] = arguments["query"].to(EIGHT_BIT)
    with pytest.raises(InvalidAttention, match=r"torch\.float32 or torch\.float16 or"):
        paged_attention(**arguments)


def test_a_closed_pool_is_named() -> None:
    arguments = good()
    arguments["cache"].close()
    with pytest.raises(PoolClosed, match="make a new KVCache"):
        paged_attention(**arguments)


def test_the_error_is_one_of_ours_and_a_value_error() -> None:
    assert issubclass(InvalidAttention, BlockManagerError)
    assert issubclass(InvalidAttention, ValueError)
    assert BACKENDS[0] == "auto"


@pytest.mark.parametrize(
    "change",
    [
        {"block_tables": [[0, 0, 3]], "seq_lens": [9], "window": 1},
        {"block_tables": [[-1, 99, 3]], "seq_lens": [10], "window": 1},
        {"block_tables": [[1, 2, 3, -1, 88]]},
    ],
)
def test_what_nobody_sees_may_be_anything_in_a_table(change: dict[str, Any]) -> None:
    """Each change leaves what the query reads as it was: here, block 3 with zeros."""
    arguments = good() | change
    if "window" in change:
        arguments |= {"query": arguments["query"][:1], "query_start_loc": None}
    make: Callable[[str], Tensor] = lambda name: paged_attention(  # noqa: E731
        **arguments, backend=name
    )
    for backend in BOTH:
        assert not make(backend).any()
