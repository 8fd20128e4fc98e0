"""Attention that reads K and V through the block table.

    query           [tokens, query_heads, head_size]   all sequences, one after another
    block_tables    [num_seqs, max_blocks]             one table a row, -1 pads
    seq_lens        [num_seqs]                         tokens, the new ones included
    query_start_loc [num_seqs + 1]                     which query rows belong to whom

The query tokens of a sequence are its **last** ones: all of it in a first prefill, what
follows a cached prefix, one token in decode. Their own K and V are in the cache already
(write first, then attend). Token i sees tokens 0..i, or i-W+1..i with a window of W.

There are three ways to the same numbers, the simplest first:

`gather` copies a sequence's K and V out of their blocks and calls PyTorch
`online` walks the table block by block and needs no copy: read this one to learn
`triton` does the same on a GPU, for all sequences at once (`attention_triton.py`)

**What nobody wrote is never used.** A pool is full of old bytes: in slots after the
last token, in freed blocks, in block 0. To give such a slot the weight 0 is not enough,
as 0 * NaN is NaN. So all three leave those slots out.

In vLLM: a backend's `forward` in `vllm/v1/attention/backends/` (release 0.33), with
`query_start_loc`, `seq_lens` and `block_table` under the same names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache as remember
from importlib.util import find_spec
from itertools import pairwise

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.errors import BlockManagerError
from blockmgr.storage import EIGHT_BIT, Ids, KVCache

# After storage, which says in one line what to do where there is no PyTorch.
import torch  # isort: skip
import torch.nn.functional as F  # isort: skip
from torch import Tensor  # isort: skip

PAD = -1
"""A table entry behind the last block of its sequence."""

BACKENDS = ("auto", "gather", "online", "triton")
QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LOWEST = torch.finfo(torch.float32).min
_INTEGERS = (torch.int64, torch.int32)


class InvalidAttention(BlockManagerError, ValueError):
    """The tensors, tables and lengths don't fit together. Nothing was computed."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of one call in one form: tensors, on one device."""

    query: Tensor  # [tokens, query_heads, head_size]
    cache: KVCache
    layer: int
    block_tables: Tensor  # [num_seqs, max_blocks]
    seq_lens: Tensor  # [num_seqs]
    query_start_loc: Tensor  # [num_seqs + 1]
    scale: float
    window: int | None
    max_query_len: int  # no sequence has more query tokens
    max_seq_len: int  # no sequence is longer


def paged_attention(
    query: Tensor,
    cache: KVCache,
    layer: int,
    block_tables: Sequence[Sequence[int]] | Tensor,
    seq_lens: Ids,
    query_start_loc: Ids | None = None,
    *,
    scale: float | None = None,
    window: int | None = None,
    backend: str = "auto",
    max_query_len: int | None = None,
    checked: bool = True,
) -> Tensor:
    """What each query token gathers from the tokens it sees; shaped as the query is.

    `query`: [tokens, query_heads, head_size], in the cache's dtype; over a cache of 8
    bits it has 16 or 32. There may be more query heads than the cache has heads: then
    groups of them share one. `block_tables`: a tensor padded with -1, or a list of
    tables of any lengths. With a window, entries whose tokens nobody sees any more may
    be anything (0 as a rule). `query_start_loc`: sequence i has the query rows `[i]` to
    `[i + 1]`; None means one each (decode). `scale`: 1 / sqrt(head_size) if None.
    `backend`: "auto" is `triton` where it runs, else `gather`. Sums are in fp32 always.

    Raises `InvalidAttention` before any work. For that it looks at the tables' values,
    so the host waits for a GPU. `checked=False` trusts the caller, who must then give
    tensors on the query's device, and may give `max_query_len`, a bound on the query
    tokens of one sequence.
    """
    if checked:
        _check_options(scale, window, backend)
        _check_query(query, cache, layer)
    device, spec = query.device, cache.spec
    if not isinstance(block_tables, Tensor):
        block_tables = _padded(block_tables)
    block_tables = _ids("block_tables", block_tables, device, dim=2)
    seq_lens = _ids("seq_lens", seq_lens, device)
    if query_start_loc is None:
        query_start_loc = torch.arange(len(seq_lens) + 1, device=device)
        max_query_len = 1
    batch = Batch(
        query=query,
        cache=cache,
        layer=layer,
        block_tables=block_tables,
        seq_lens=seq_lens,
        query_start_loc=_ids("query_start_loc", query_start_loc, device),
        scale=spec.head_size**-0.5 if scale is None else scale,
        window=window,
        max_query_len=len(query) if max_query_len is None else max_query_len,
        max_seq_len=block_tables.shape[1] * spec.block_size,
    )
    if checked:
        batch = _checked(batch)
    with torch.no_grad():  # as with writing: this serves a model and trains none
        return _attend(batch, _pick(backend, query, cache))


def _attend(batch: Batch, backend: str) -> Tensor:
    if backend == "triton":
        from blockmgr.attention_triton import triton_attention

        return triton_attention(batch)
    one_sequence = _gather if backend == "gather" else _online
    out = torch.empty_like(batch.query)
    for rows, table, seq_len in _sequences(batch):
        out[rows] = one_sequence(batch, batch.query[rows].float(), table, seq_len)
    return out


def _sequences(batch: Batch) -> Iterator[tuple[slice, Tensor, int]]:
    """For each sequence with a query: its query rows, its table and its length."""
    lengths = batch.seq_lens.tolist()
    for i, (start, stop) in enumerate(pairwise(batch.query_start_loc.tolist())):
        if start < stop:
            yield slice(start, stop), batch.block_tables[i], lengths[i]


def first_visible(query_len: int, seq_len: int, window: int | None) -> int:
    """The first position that some query token sees: those before it are not used."""
    return 0 if window is None else max(0, seq_len - query_len - window + 1)


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Whether the token at position `queries[i]` sees the one at `keys[j]`: [i, j]."""
    back = queries[:, None] - keys
    return back >= 0 if window is None else (back >= 0) & (back < window)


# --- gather, then PyTorch -------------------------------------------------------------


def _gather(batch: Batch, query: Tensor, table: Tensor, seq_len: int) -> Tensor:
    """One sequence: copy its K and V out of the pool, then attention as everywhere."""
    block_size, query_len = batch.cache.spec.block_size, len(query)
    first = first_visible(query_len, seq_len, batch.window)
    begin = first // block_size
    blocks = table[begin : -(-seq_len // block_size)]  # divided, rounded up
    both = batch.cache.gather(blocks, batch.layer, torch.float32)
    # Only the slots that count: none before the window or behind the last token.
    counts = slice(first - begin * block_size, seq_len - begin * block_size)
    key, value = (rows[counts] for rows in both)  # [tokens, kv_heads, head_size]
    position = torch.arange(first, seq_len, device=query.device)
    sees = visible(position[-query_len:], position, batch.window)
    # PyTorch wants [batch, heads, tokens, size]. One token sees all: it needs no mask.
    q, k, v = (rows.transpose(0, 1)[None] for rows in (query, key, value))
    mask = None if query_len == 1 else sees
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=batch.scale, enable_gqa=True
    )
    return out[0].transpose(0, 1)


# --- block by block -------------------------------------------------------------------


def _online(batch: Batch, query: Tensor, table: Tensor, seq_len: int) -> Tensor:
    """One sequence, a block at a time: nothing is copied, nothing grows with seq_len.

    Softmax divides by a sum over all tokens, which a walk knows only at its end. So
    three things are carried from block to block, for each query token and head:

        biggest   the largest score so far
        total     the sum of exp(score - biggest) so far
        mixed     the sum of exp(score - biggest) * value so far

    When a larger score appears, the old `total` and `mixed` were made with the old
    `biggest`: multiplied by exp(old - new), they are as if made with the new one.
    """
    spec, query_len = batch.cache.spec, len(query)
    all_keys, all_values = batch.cache.kv[:, batch.layer]
    query = query.reshape(query_len, spec.num_kv_heads, -1, spec.head_size)
    # With a window, a token may see nothing of the first block. Starting at a finite
    # number, and not at minus infinity, keeps exp(biggest - biggest) at 1 for it.
    biggest = query.new_full(query.shape[:-1], LOWEST)
    total, mixed = torch.zeros_like(biggest), torch.zeros_like(query)
    first = first_visible(query_len, seq_len, batch.window)
    asking = torch.arange(seq_len - query_len, seq_len, device=query.device)
    for column, block in enumerate(table.tolist()):
        base = column * spec.block_size
        start, stop = max(first, base), min(seq_len, base + spec.block_size)
        if start >= stop:
            continue  # no token here counts
        offsets = slice(start - base, stop - base)
        key = all_keys[block, offsets].float() * spec.k_scale
        value = all_values[block, offsets].float() * spec.v_scale
        # q: query token, h: KV head, g: query head in its group, b: token in the block
        score = torch.einsum("qhgd,bhd->qhgb", query, key) * batch.scale
        position = torch.arange(start, stop, device=query.device)
        hidden = ~visible(asking, position, batch.window)
        score = score.masked_fill(hidden[:, None, None], -math.inf)

        new_biggest = torch.maximum(biggest, score.amax(-1))
        shrink = torch.exp(biggest - new_biggest)
        weight = torch.exp(score - new_biggest[..., None])
        total = total * shrink + weight.sum(-1)
        mixed = mixed * shrink[..., None]
        mixed = mixed + torch.einsum("qhgb,bhd->qhgd", weight, value)
        biggest = new_biggest
    return (mixed / total[..., None]).flatten(1, 2)


# --- which one ------------------------------------------------------------------------


@remember
def has_triton() -> bool:
    """Whether Triton is installed; it is not imported."""
    return find_spec("triton") is not None


def _has_8_bit_floats(device: torch.device) -> bool:
    """NVIDIA's do from compute capability 8.9 on, and so does Triton's interpreter."""
    if device.type != "cuda":
        return True
    return torch.cuda.get_device_capability(device) >= (8, 9)


def _pick(backend: str, query: Tensor, cache: KVCache) -> str:
    """`triton` on CUDA where it is installed, else `gather`; or the one asked for."""
    why = ""
    if not has_triton():
        why = "Triton is not installed"
    elif not query.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        why = f"Triton runs on CUDA, or with TRITON_INTERPRET=1, not on {query.device}"
    elif cache.spec.dtype == EIGHT_BIT and not _has_8_bit_floats(query.device):
        why = f"{query.device} has no 8-bit floats"
    if backend == "auto":
        return "triton" if query.is_cuda and not why else "gather"
    if backend == "triton" and why:
        raise InvalidAttention(f"backend 'triton': {why}; take 'auto' or 'gather'")
    return backend


# --- what comes in --------------------------------------------------------------------


def _padded(tables: Sequence[Sequence[int]]) -> list[list[int]]:
    """Tables of any lengths as a rectangle: -1 fills them up."""
    try:
        width = max(map(len, tables), default=0)
        return [[*table, *[PAD] * (width - len(table))] for table in tables]
    except TypeError as error:
        raise InvalidAttention(
            f"block_tables: expected one list a sequence; got {tables!r:.40}"
        ) from error


def _ids(
    name: str, ids: Ids | list[list[int]], device: torch.device, dim: int = 1
) -> Tensor:
    """Integers as a tensor. A list goes to the device; a tensor stays where it is."""
    try:
        tensor = ids if isinstance(ids, Tensor) else torch.tensor(ids, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidAttention(f"{name}: expected integers ({error})") from error
    if not isinstance(ids, Tensor) and tensor.numel() == 0:
        # An empty list is a tensor of floats to torch, and may lack a dimension.
        tensor = tensor.long().reshape(len(ids), *[0] * (dim - 1))
    if tensor.dim() != dim:
        raise InvalidAttention(f"{name}: expected {dim} dimensions; got {_what(ids)}")
    return tensor


def _what(thing: object) -> str:
    if isinstance(thing, Tensor):
        return f"{thing.dtype} {list(thing.shape)} on {thing.device}"
    return f"{thing!r:.40}"


def _check_options(scale: object, window: object, backend: object) -> None:
    if backend not in BACKENDS:
        raise InvalidAttention(f"backend: expected one of {BACKENDS}; got {backend!r}")
    if scale is not None and not (type(scale) is float and math.isfinite(scale)):
        raise InvalidAttention(f"scale: expected a float or None; got {scale!r:.40}")
    if window is not None and (type(window) is not int or window < 1):
        raise InvalidAttention(
            f"window: expected an int of 1 or more, or None; got {window!r:.40}"
        )


def _check_query(query: Tensor, cache: KVCache, layer: int) -> None:
    """The query against the pool: dimensions, heads, types, device."""
    if not isinstance(cache, KVCache):
        raise InvalidAttention(f"cache: expected a KVCache; got {_what(cache)}")
    spec, device = cache.spec, cache.kv.device
    if type(layer) is not int or not 0 <= layer < spec.num_layers:
        layers = f"0..{spec.num_layers - 1}"
        raise InvalidAttention(f"layer: expected {layers}; got {layer!r:.40}")
    if not isinstance(query, Tensor):
        raise InvalidAttention(f"query: expected a tensor; got {query!r:.40}")
    if query.dim() != 3 or query.shape[2] != spec.head_size:
        shape = f"[tokens, query_heads, {spec.head_size}]"
        raise InvalidAttention(f"query: expected {shape}; got {_what(query)}")
    if query.shape[1] == 0 or query.shape[1] % spec.num_kv_heads:
        raise InvalidAttention(
            f"query: expected a multiple of the cache's {spec.num_kv_heads} heads, as "
            f"each serves a group of the same size; got {query.shape[1]} heads"
        )
    dtypes = QUERY_DTYPES if spec.dtype == EIGHT_BIT else (spec.dtype,)
    if query.dtype not in dtypes or query.device != device:
        names = " or ".join(map(str, dtypes))
        raise InvalidAttention(
            f"query: expected {names} on {device}, as the cache is; "
            f"got {query.dtype} on {query.device}"
        )


def _checked(batch: Batch) -> Batch:
    """Tables and lengths against each other and the pool: the batch, limits exact.

    This waits for a GPU's values.
    """
    given = (batch.block_tables, batch.seq_lens, batch.query_start_loc)
    num_seqs, width = len(batch.seq_lens), batch.block_tables.shape[1]
    shapes = ((num_seqs, width), (num_seqs,), (num_seqs + 1,))
    names = ("block_tables", "seq_lens", "query_start_loc")
    for name, ids, shape in zip(names, given, shapes, strict=True):
        fits = ids.dtype in _INTEGERS and ids.device == batch.query.device
        if not fits or ids.shape != shape:
            expected = f"int32 or int64 {list(shape)} on {batch.query.device}"
            raise InvalidAttention(f"{name}: expected {expected}; got {_what(ids)}")
    tables, seq_lens, starts = (ids.to("cpu", torch.int64) for ids in given)
    query_lens = starts.diff()
    tokens = len(batch.query)
    if starts[0] != 0 or starts[-1] != tokens or (query_lens < 0).any():
        raise InvalidAttention(
            f"query_start_loc: expected it to rise from 0 to the {tokens} query "
            f"tokens; got {starts.tolist()}"
        )
    lens = zip(query_lens.tolist(), seq_lens.tolist(), tables, strict=True)
    for seq, (query_len, seq_len, table) in enumerate(lens):
        if query_len > 0:  # else it is a place in the batch that pads
            _check_one(batch, seq, query_len, seq_len, table)
    return replace(
        batch,
        max_query_len=max(query_lens.tolist(), default=0),
        max_seq_len=max(seq_lens.tolist(), default=0),
    )


def _check_one(
    batch: Batch, seq: int, query_len: int, seq_len: int, table: Tensor
) -> None:
    block_size, num_blocks = batch.cache.spec.block_size, batch.cache.num_blocks
    if seq_len < query_len:
        raise InvalidAttention(
            f"seq_lens: sequence {seq} has {query_len} query tokens, which are the "
            f"last of it, so expected {query_len} or more; got {seq_len}"
        )
    end = -(-seq_len // block_size)  # divided, rounded up
    if end > len(table):
        raise InvalidAttention(
            f"block_tables: {seq_len} tokens of sequence {seq} need {end} blocks "
            f"of {block_size}; got {len(table)} columns"
        )
    begin = first_visible(query_len, seq_len, batch.window) // block_size
    used = table[begin:end]
    wrong = ((used <= NULL_BLOCK_ID) | (used >= num_blocks)).nonzero().flatten()
    if len(wrong):
        column = begin + int(wrong[0])
        raise InvalidAttention(
            f"block_tables: sequence {seq} reads column {column}, so expected a "
            f"block in 1..{num_blocks - 1}; got {int(table[column])}"
        )
