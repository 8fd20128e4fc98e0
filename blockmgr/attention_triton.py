# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def"
# mypy: disable-error-code="untyped-decorator, no-untyped-call, no-any-return"
"""Attention through the block table on a GPU: a kernel in Triton.

It is `online` of `attention.py` with other loops. There, one sequence after another
walks its table. Here every **program** walks a part of one table, and thousands run at
once. A program has

- one sequence and one KV head, with all query heads that share it: K and V are read
  once for the whole group,
- one **tile** of the sequence's query tokens (in decode there is one token, one tile),
- one **split** of the tokens they see. A decode step with few sequences has too few
  programs to keep a GPU busy. So the walk is cut into splits, each with its own
  `biggest`, `total` and `mixed`, and a second kernel brings them together.

A row of a tile is one query token in one head, so the scores of a tile are one matrix
product, [rows, size] x [size, keys].

In vLLM: `vllm/v1/attention/ops/triton_unified_attention.py` (release 0.33) has the same
rows and the same splits, called segments.
"""

from __future__ import annotations

import triton
import triton.language as tl

from blockmgr.attention import LOWEST, Batch

import torch  # isort: skip
from torch import Tensor  # isort: skip

PROGRAMS_PER_SM = 8
"""How many programs a multiprocessor should have to hide the wait for memory."""

TOKENS_PER_SPLIT = 256
"""A shorter split costs more to start than it saves."""

MAX_SPLITS = 64
NO_WINDOW = 2**30
"""A window longer than any sequence."""


def triton_attention(batch: Batch, num_splits: int | None = None) -> Tensor:
    """`paged_attention` for a checked batch. It does not wait for the GPU.

    `num_splits`, a power of two, is chosen from the batch unless a test names it.
    """
    query, spec = batch.query, batch.cache.spec
    key, value = batch.cache.kv[:, batch.layer]  # [blocks, block_size, heads, size]
    tokens, query_heads, head_size = query.shape
    num_seqs, kv_heads = len(batch.seq_lens), spec.num_kv_heads
    group = query_heads // kv_heads
    shape = (tokens, query_heads, head_size)
    out = torch.empty(shape, dtype=query.dtype, device=query.device)
    if out.numel() == 0:
        return out
    if query.dtype == torch.bfloat16 and not query.is_cuda:
        query = query.float()  # the interpreter's matrix product is wrong in bfloat16
    query = query if query.stride(-1) == 1 else query.contiguous()
    tables = batch.block_tables
    tables = tables if tables.stride(-1) == 1 else tables.contiguous()

    # `tl.dot` wants 16 rows or more. A prefill in half precision has enough for 64.
    wide = batch.max_query_len > 1 and query.dtype.itemsize == 2
    rows = max(64 if wide else 16, triton.next_power_of_2(group))
    tile = rows // group  # query tokens in a tile
    size = max(16, triton.next_power_of_2(head_size))
    keys = max(16, min(64, 64 * 256 // (size * query.dtype.itemsize)))
    window = NO_WINDOW if batch.window is None else min(batch.window, NO_WINDOW)
    tiles = triton.cdiv(batch.max_query_len, tile)
    programs = num_seqs * tiles
    if num_splits is None:
        num_splits = _num_splits(programs * kv_heads, batch)

    # What each split found, in fp32. With one split there is nothing to bring together.
    lead = (tokens, query_heads, num_splits) if num_splits > 1 else (0, 0, 0)
    mixed = torch.empty((*lead, head_size), dtype=torch.float32, device=out.device)
    biggest, total = torch.empty((2, *lead), dtype=torch.float32, device=out.device)
    with torch.cuda.device_of(query):  # Triton starts kernels on the current GPU
        _attend_kernel[(programs * num_splits, kv_heads)](
            *(out, mixed, biggest, total),
            *(query, key, value, tables, batch.seq_lens, batch.query_start_loc),
            *(batch.scale * spec.k_scale, float(spec.v_scale), window),
            *(tiles, query.stride(0), query.stride(1), tables.stride(0)),
            *key.stride()[:3],  # the values lie in the same order
            LOWEST=LOWEST,
            BLOCK_SIZE=spec.block_size,
            HEAD_SIZE=head_size,
            SIZE=size,
            GROUP=group,
            TILE=tile,
            ROWS=rows,
            KEYS=keys,
            SPLITS=num_splits,
            num_warps=4,
            num_stages=3,
        )
        if num_splits > 1:
            _combine_kernel[(tokens * query_heads,)](
                *(out, mixed, biggest, total),
                HEAD_SIZE=head_size,
                SIZE=size,
                SPLITS=num_splits,
            )
    return out


def _num_splits(programs: int, batch: Batch) -> int:
    """Enough splits to fill the GPU, none of them too short; a power of two."""
    if batch.query.device.type != "cuda":  # the interpreter runs one after the other
        return 1
    seen = batch.max_seq_len
    if batch.window is not None:
        seen = min(seen, batch.window + batch.max_query_len - 1)
    properties = torch.cuda.get_device_properties(batch.query.device)
    wanted = PROGRAMS_PER_SM * properties.multi_processor_count // programs
    splits = min(wanted, seen // TOKENS_PER_SPLIT, MAX_SPLITS)
    return triton.next_power_of_2(splits) if splits > 1 else 1


# Triton compiles anew when a number becomes 1 or a multiple of 16. For these it would
# be a pause in the middle of serving, and no gain.
@triton.jit(do_not_specialize=["window", "tiles", "table_stride"])
def _attend_kernel(
    out,  # [tokens, query_heads, HEAD_SIZE]
    all_mixed,  # [tokens, query_heads, SPLITS, HEAD_SIZE]
    all_biggest,  # [tokens, query_heads, SPLITS]
    all_total,
    query,
    key,
    value,
    tables,
    seq_lens,
    query_start_loc,
    scale,
    v_scale,
    window,
    tiles,
    query_token_stride,
    query_head_stride,
    table_stride,
    block_stride,
    slot_stride,
    head_stride,
    LOWEST: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    SIZE: tl.constexpr,  # HEAD_SIZE, up to a power of two
    GROUP: tl.constexpr,  # query heads that share a KV head
    TILE: tl.constexpr,  # query tokens of a program
    ROWS: tl.constexpr,  # TILE * GROUP, up to a power of two
    KEYS: tl.constexpr,  # tokens of K and V in one step of the walk
    SPLITS: tl.constexpr,
):
    # Who am I? The addresses of a large pool need 64 bits, so ids are widened at once.
    program = tl.program_id(0)
    split = program % SPLITS
    tile = program // SPLITS % tiles
    seq = (program // SPLITS // tiles).to(tl.int64)
    kv_head = tl.program_id(1).to(tl.int64)
    start_row = tl.load(query_start_loc + seq).to(tl.int64)
    query_len = (tl.load(query_start_loc + seq + 1) - start_row).to(tl.int32)
    if tile * TILE >= query_len:
        return
    seq_len = tl.load(seq_lens + seq).to(tl.int32)

    # The rows: one query token in one head each.
    row = tl.arange(0, ROWS)
    token = tile * TILE + row // GROUP
    is_row = (row < TILE * GROUP) & (token < query_len)
    position = seq_len - query_len + token
    query_head = kv_head * GROUP + row % GROUP
    query_row = start_row + token
    element = tl.arange(0, SIZE)
    is_element = element < HEAD_SIZE
    q_at = query_row * query_token_stride + query_head * query_head_stride
    q = tl.load(
        query + q_at[:, None] + element[None, :],
        mask=is_row[:, None] & is_element[None, :],
        other=0.0,
    )

    # The part of the sequence that this tile sees, and this split's part of that.
    first = tl.maximum(seq_len - query_len + tile * TILE - window + 1, 0)
    end = tl.minimum(seq_len - query_len + (tile + 1) * TILE, seq_len)
    share = tl.cdiv(tl.cdiv(end - first, SPLITS), KEYS) * KEYS
    start = first + split * share
    stop = tl.minimum(start + share, end)

    biggest = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, SIZE], tl.float32)
    for base in range(start, stop, KEYS):
        at = base + tl.arange(0, KEYS)
        is_key = at < stop  # what nobody wrote is not read: see attention.py
        block = tl.load(
            tables + seq * table_stride + at // BLOCK_SIZE, mask=is_key, other=0
        ).to(tl.int64)
        slot = at % BLOCK_SIZE
        kv_at = block * block_stride + slot * slot_stride + kv_head * head_stride
        kv_at = kv_at[:, None] + element[None, :]
        is_number = is_key[:, None] & is_element[None, :]
        k = tl.load(key + kv_at, mask=is_number, other=0.0)
        v = tl.load(value + kv_at, mask=is_number, other=0.0)
        k = k.to(q.dtype)  # an 8-bit pool
        v = v.to(q.dtype)

        # "ieee": else fp32 is multiplied with 10 bits of mantissa (tf32).
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        back = position[:, None] - at[None, :]
        sees = is_key[None, :] & (back >= 0) & (back < window)
        score = tl.where(sees, score, float("-inf"))
        new_biggest = tl.maximum(biggest, tl.max(score, 1))
        shrink = tl.exp(biggest - new_biggest)
        weight = tl.exp(score - new_biggest[:, None])
        total = total * shrink + tl.sum(weight, 1)
        mixed = mixed * shrink[:, None]
        mixed += tl.dot(weight.to(q.dtype), v, input_precision="ieee")
        biggest = new_biggest

    mixed = mixed * v_scale
    # A kernel has no shape at hand: a KV head's share of the query heads is GROUP.
    query_heads = tl.num_programs(1) * GROUP
    out_row = query_row * query_heads + query_head
    is_number = is_row[:, None] & is_element[None, :]
    if SPLITS == 1:
        total = tl.where(is_row, total, 1.0)
        to = out_row[:, None] * HEAD_SIZE + element[None, :]
        tl.store(out + to, mixed / total[:, None], mask=is_number)
    else:
        split_row = out_row * SPLITS + split
        to = split_row[:, None] * HEAD_SIZE + element[None, :]
        tl.store(all_mixed + to, mixed, mask=is_number)
        tl.store(all_biggest + split_row, biggest, mask=is_row)
        tl.store(all_total + split_row, total, mask=is_row)


@triton.jit
def _combine_kernel(
    out,
    all_mixed,
    all_biggest,
    all_total,
    HEAD_SIZE: tl.constexpr,
    SIZE: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """One query token in one head: bring its splits together."""
    row = tl.program_id(0).to(tl.int64)
    split = row * SPLITS + tl.arange(0, SPLITS)
    element = tl.arange(0, SIZE)
    is_element = element < HEAD_SIZE
    biggest = tl.load(all_biggest + split)
    # A split that saw nothing has the lowest number there is, and so weight 0.
    shrink = tl.exp(biggest - tl.max(biggest, 0))
    total = tl.sum(tl.load(all_total + split) * shrink, 0)
    mixed = tl.load(
        all_mixed + split[:, None] * HEAD_SIZE + element[None, :],
        mask=is_element[None, :],
        other=0.0,
    )
    mixed = tl.sum(mixed * shrink[:, None], 0) / total
    tl.store(out + row * HEAD_SIZE + element, mixed, mask=is_element)
