"""The KV cache itself: one tensor on the device, cut into blocks.

The rest of `blockmgr` is bookkeeping about block ids. Here the ids meet real memory:

    kv[k or v, layer, block, offset, head, element]     one zeroed tensor, in this order
       2       L      N      B       H     D

Within a layer the blocks lie one after the other, so `block` and `offset` melt into one
number, the **slot** = block * B + offset, and a layer's keys are a plain list of N * B
rows. So a write needs one integer a token. All memory is taken at the start: it is
*reserved*, which is not the same as *used*.

There are two doors. `write` and `read` take lists and check every id before they touch
anything. `scatter` and `gather` take ids that are on the device already and trust them,
since a look at their values would make the host wait for the device. Ids that come from
`device_tables.BlockTables` were checked on their way in.

**Eight bits.** A float8_e4m3fn pool takes K and V of 16 or 32 bits: `x / scale` is cut
off at +-448, rounded and stored, and comes back times `scale`, one scale for K and one
for V. For |x| <= 448 * scale the error is at most max(|x| / 16, scale / 1024).

In vLLM: `allocate_kv_cache` in `vllm/v1/worker/utils.py` (release 0.33), one zeroed
buffer too, in the same order by default except that a token's K and V lie side by side.
`reshape_and_cache_flash` in `csrc/libtorch_stable/cache_kernels.cu` writes it by slot
mapping, and divides by each layer's `k_scale` and `v_scale` for `kv_cache_dtype="fp8"`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Self

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.errors import BlockManagerError

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    advice = "blockmgr.storage needs PyTorch: run `make lab`, or `pip install torch`"
    raise ModuleNotFoundError(f"{advice} ({error})", name=error.name) from None

Ids = Sequence[int] | Tensor
"""Slots or block ids: a list, or a one-dimensional tensor of integers."""

PAD = -1
"""A slot that pads: the token in this place is not written."""

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn)
"""What a pool can hold. No float64: Apple's GPUs lack it and no server wants it."""

EIGHT_BIT = torch.float8_e4m3fn
"""The dtype that is scaled: 4 bits of exponent, 3 of mantissa, no infinity, +-448."""

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_WORDS = (torch.int64, torch.int32, torch.int16, torch.uint8)


class InvalidPool(BlockManagerError, ValueError):
    """No such pool can be made: its shape, dtype, device or size is impossible."""


class PoolTooSmall(InvalidPool):
    """Not enough memory for the null block and one more. The message says how much."""


class InvalidAccess(BlockManagerError, ValueError):
    """A slot, block, layer or tensor that doesn't fit the pool. Nothing was written."""


class PoolClosed(InvalidAccess):
    """The pool was closed and its memory given back."""


def pick_device(name: str | torch.device | None = None) -> torch.device:
    """The device called `name`, or the best one here: cuda, then mps, then cpu."""
    best = "mps" if torch.backends.mps.is_available() else "cpu"
    best = "cuda" if torch.cuda.is_available() else best
    try:  # only the device itself knows whether it is there
        return torch.empty(0, device=best if name is None else name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidPool(f"no device {str(name)!r} here, try {best!r}") from error


def pick_dtype(device: torch.device) -> torch.dtype:
    """Half precision as servers have it; on a CPU fp32, faster and easier to check."""
    return torch.float32 if device.type == "cpu" else torch.float16


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheSpec:
    """What one token leaves behind, and how many tokens make a block.

    `num_kv_heads`: heads of K and V. There are fewer of them than query heads in models
    with grouped-query attention. `k_scale` and `v_scale` are for 8 bits only. In vLLM:
    `FullAttentionSpec`, one for each layer.
    """

    num_layers: int
    num_kv_heads: int
    head_size: int
    block_size: int = 16
    dtype: torch.dtype = torch.float16
    k_scale: float = 1.0
    v_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_kv_heads", "head_size", "block_size"):
            n = getattr(self, name)
            if type(n) is not int or n < 1:
                raise InvalidPool(f"{name}: expected an int of 1 or more; got {n!r}")
        if self.dtype not in DTYPES:
            raise InvalidPool(f"dtype: expected one of {DTYPES}; got {self.dtype}")
        for name in ("k_scale", "v_scale"):
            scale, scaled = getattr(self, name), self.dtype == EIGHT_BIT
            if not _is_scale(scale) or not (scaled or scale == 1):
                what = "a number above 0" if scaled else f"1.0 for {self.dtype}"
                raise InvalidPool(f"{name}: expected {what}; got {scale!r:.40}")

    @property
    def block_shape(self) -> tuple[int, int, int]:
        """(block_size, num_kv_heads, head_size): K (or V) of a block in one layer."""
        return self.block_size, self.num_kv_heads, self.head_size

    @property
    def scales(self) -> tuple[float, float]:
        """Those of K and of V."""
        return self.k_scale, self.v_scale

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block in **one layer**; the 2 is for K and V."""
        return 2 * math.prod(self.block_shape) * self.dtype.itemsize

    @property
    def block_bytes(self) -> int:
        """Bytes of one block in all layers: what one block id costs."""
        return self.num_layers * self.page_size_bytes

    def num_blocks_in(self, memory_bytes: int) -> int:
        """How many whole blocks fit (`num_gpu_blocks`): 2 or more, or PoolTooSmall."""
        least = 2 * self.block_bytes  # with less, all would fail, but much later
        if type(memory_bytes) is not int:
            raise InvalidPool(f"pool size: expected an int; got {memory_bytes!r:.40}")
        if memory_bytes < least:
            need = f"the smallest pool, null block and one more, needs {least} bytes"
            raise PoolTooSmall(f"{need}; got {memory_bytes}: give it more memory")
        return memory_bytes // self.block_bytes


class KVCache:
    """The K and V of `num_blocks` blocks, in one tensor.

    It moves bytes and knows no sequences: the `BlockManager` says which slots to write
    and which table to read. Give `memory_bytes` or `num_blocks`. All checks stand
    before the first write, so a call that raises has changed nothing. Nobody can write
    the null block: it reads as zeros. Without `layer`, all layers are meant, and K and
    V have one more dimension in front.

    `poison=True` is for tests: new memory, the null block's too, holds NaN instead of
    zeros, so that a value which was never written shows wherever it is used.
    """

    def __init__(
        self,
        spec: KVCacheSpec,
        *,
        num_blocks: int | None = None,
        memory_bytes: int | None = None,
        device: str | torch.device | None = None,
        poison: bool = False,
    ) -> None:
        if not isinstance(spec, KVCacheSpec):
            raise InvalidPool(f"spec: expected a KVCacheSpec; got {spec!r:.40}")
        if num_blocks is not None and memory_bytes is None:
            memory_bytes = num_blocks * spec.block_bytes
        elif num_blocks is not None or memory_bytes is None:
            raise InvalidPool("expected exactly one of num_blocks and memory_bytes")
        self.spec = spec
        self.num_blocks = n = spec.num_blocks_in(memory_bytes)
        shape = (2, spec.num_layers, n, *spec.block_shape)
        where = pick_device(device)
        try:
            self._kv: Tensor | None = torch.zeros(shape, dtype=spec.dtype, device=where)
        except (RuntimeError, TypeError) as error:
            size = f"{n} blocks of {spec.block_bytes} bytes"
            raise InvalidPool(f"{where} can't give {size}: take fewer") from error
        self._blank = math.nan if poison else 0.0
        if poison:
            self.kv.fill_(math.nan)

    @property
    def kv(self) -> Tensor:
        """The tensor: [2, layers, blocks, block_size, kv_heads, head_size]."""
        if self._kv is None:
            raise PoolClosed("this pool was closed: make a new KVCache")
        return self._kv

    def blocks(self, layer: int | None = None) -> Tensor:
        """One layer of it, or all: [2, (layers,) blocks, block_size, heads, size]."""
        kv, layers = self.kv, range(self.spec.num_layers)
        if layer is None:
            return kv
        if type(layer) is not int or layer not in layers:
            raise InvalidAccess(f"layer: expected 0..{layers[-1]}; got {layer!r:.40}")
        return kv[:, layer]

    def slots(self, layer: int | None = None) -> Tensor:
        """The same memory, a row for each slot: [2, (layers,) slots, heads, size]."""
        return self.blocks(layer).flatten(-4, -3)

    # --- the checked door -------------------------------------------------------------

    def write(
        self, key: Tensor, value: Tensor, slot_mapping: Ids, layer: int | None = None
    ) -> None:
        """Store the K and V of token i in slot `slot_mapping[i]`; -1 skips the token.

        `key` and `value` are [(layers,) tokens, kv_heads, head_size], in the pool's
        dtype. A pool of 8 bits takes 16 and 32 bits too, and divides by its scale; rows
        of 8 bits are stored as they are. Each slot may be named once: of two writers, a
        GPU would not say which one wins.
        """
        slots = int64_ids("slot_mapping", slot_mapping)
        self._check_rows(key, value, len(slots), layer)
        # The first slot of block 1 is the first that may be written: block 0 is null.
        size, end = self.spec.block_size, self.slots(layer).shape[-3]
        check_ids(slots[slots != PAD], "slot", size, end, once=True)
        slots = to_device(slots, self.kv.device)
        # Cloned, for they may be views of this pool, and K is written before V is read.
        self.scatter(key.clone(), value.clone(), slots, layer)

    def read(
        self,
        block_table: Ids,
        num_tokens: int | None = None,
        layer: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Copies of a sequence's K and V: [(layers,) tokens, kv_heads, head_size].

        The table brings the tokens into their order, wherever its blocks lie. With
        `num_tokens`, entries after the last token's block may be anything (-1s pad).
        With `dtype`, the numbers that were written, in that dtype. Without, what is
        stored: in a pool of 8 bits, not yet multiplied by the scale.
        """
        size = self.spec.block_size
        table = int64_ids("block_table", block_table)
        room = len(table) * size
        length = room if num_tokens is None else num_tokens
        if type(length) is not int or not 0 <= length <= room:
            raise InvalidAccess(f"num_tokens: expected 0..{room}; got {length!r:.40}")
        used = table[: -(-length // size)]  # divided, rounded up
        check_ids(used, "block", NULL_BLOCK_ID, self.num_blocks)
        both = self.gather(to_device(used, self.kv.device), layer, dtype)
        key, value = (half[..., :length, :, :] for half in both)
        return key, value

    def copy_blocks(self, pairs: Sequence[tuple[int, int]] | Tensor) -> None:
        """Copy whole blocks, in all layers, for each (source, destination).

        **All sources are read before any destination is written**: [(1, 2), (2, 3)]
        moves the old content of 2 to 3. So the order of the pairs does not matter; each
        destination may be named once.
        """
        words, ids = as_words(self.kv), int64_ids("pairs", pairs, columns=(2,))
        sources, targets = ids.unbind(1)
        check_ids(sources, "source", NULL_BLOCK_ID + 1, self.num_blocks)
        check_ids(targets, "destination", NULL_BLOCK_ID + 1, self.num_blocks, once=True)
        chained = not set(sources.tolist()).isdisjoint(targets.tolist())
        kernel = None if chained or not words.is_cuda else _copy_kernel()
        pairs = to_device(ids, words.device)
        if kernel is not None:  # each byte is read once and written once
            kernel.copy_blocks(words, pairs)
        else:  # indexed by a tensor, the right side is a copy: it is read completely
            words[:, :, pairs[:, 1]] = words[:, :, pairs[:, 0]]

    def zero_blocks(self, block_ids: Ids) -> None:
        """Fill these blocks with zeros, in all layers, and touch no other."""
        self._fill(block_ids, 0.0)

    def poison_blocks(self, block_ids: Ids) -> None:
        """Fill these blocks with NaN: for tests, when the manager has freed them."""
        self._fill(block_ids, math.nan)

    # --- the trusted door -------------------------------------------------------------

    def scatter(
        self, key: Tensor, value: Tensor, slot_mapping: Tensor, layer: int | None = None
    ) -> None:
        """`write` without a look at the slots: they must be right, the host can't wait.

        `slot_mapping` is int64 and on the pool's device: -1, or slots of usable blocks,
        each once. `key` and `value` are as for `write`, and not parts of this pool.
        """
        self._check_rows(key, value, len(slot_mapping), layer)
        got = (slot_mapping.dtype, slot_mapping.device, slot_mapping.dim())
        if got != (expected := (torch.int64, self.kv.device, 1)):
            raise InvalidAccess(f"slot_mapping: expected {expected}; got {got}")
        # To leave the -1s out, the host would have to count them. So those tokens go
        # into the null block, into slot 0, which is blank again after the last line.
        rows, slots, spec = self.slots(layer), slot_mapping.clamp(min=0), self.spec
        for half, tensor, scale in zip(rows, (key, value), spec.scales, strict=True):
            stored = _aligned(_encode(tensor, spec.dtype, scale))
            as_words(half).index_copy_(-2, slots, as_words(stored))
        rows[..., 0, :, :] = self._blank

    def gather(
        self,
        block_tables: Tensor,
        layer: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`read` of whole blocks without a look at the ids, for one table or for many.

        `block_tables` [*rows, n] is on the pool's device: block ids, or -1, which reads
        as the null block. K and V are [(layers,) *rows, n * B, kv_heads, head_size].
        """
        spec, num_layers = self.spec, self.spec.num_layers
        pages = as_words(self.kv).flatten(-2).flatten(0, 2)
        planes = torch.arange(2 * num_layers, device=pages.device).view(2, num_layers)
        if layer is not None:
            self.blocks(layer)  # raises if there is none
            planes = planes[:, layer]
        # Pages, K or V of a block in one layer, are numbered through the whole pool, as
        # int64: one operation on the first dimension gets all, the fastest on CUDA.
        ids = block_tables.flatten().clamp(min=NULL_BLOCK_ID)
        numbers = planes.flatten()[:, None] * self.num_blocks + ids
        *rows, n = block_tables.shape
        tokens = (n * spec.block_size, spec.num_kv_heads, spec.head_size)
        stored = pages[numbers.flatten()].view(spec.dtype)
        key, value = stored.view(*planes.shape, *rows, *tokens)
        return _decode(key, spec.k_scale, dtype), _decode(value, spec.v_scale, dtype)

    # --- the rest ---------------------------------------------------------------------

    def _fill(self, block_ids: Ids, number: float) -> None:
        kv, ids = self.kv, int64_ids("block_ids", block_ids)
        check_ids(ids, "block", NULL_BLOCK_ID + 1, self.num_blocks)
        kv[:, :, to_device(ids, kv.device)] = number

    def _check_rows(
        self, key: Tensor, value: Tensor, num_tokens: int, layer: int | None
    ) -> None:
        rows = self.slots(layer)
        shape = (*rows.shape[1:-3], num_tokens, *rows.shape[-2:])
        expected = (shape, rows.dtype, rows.device)
        for name, tensor in (("key", key), ("value", value)):
            if not isinstance(tensor, Tensor):
                raise InvalidAccess(f"{name}: expected a tensor; got {tensor!r:.40}")
            narrowed = rows.dtype == EIGHT_BIT and tensor.dtype in DTYPES
            dtype = rows.dtype if narrowed else tensor.dtype
            if (tuple(tensor.shape), dtype, tensor.device) != expected:
                got = (tuple(tensor.shape), tensor.dtype, tensor.device)
                raise InvalidAccess(f"{name}: expected {expected}; got {got}")

    def close(self) -> None:
        """Give the memory back. Closing a closed pool does nothing."""
        self._kv = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        s, where = self.spec, "closed" if self._kv is None else self._kv.device
        shape = f"L{s.num_layers} H{s.num_kv_heads} D{s.head_size} B{s.block_size}"
        dtype = str(s.dtype).removeprefix("torch.")
        return f"KVCache({self.num_blocks} blocks, {shape} {dtype}, {where})"


# --- ids ------------------------------------------------------------------------------


def int64_ids(name: str, ids: object, columns: tuple[int, ...] = ()) -> Tensor:
    """Ids as int64 on the CPU: in a large pool, 32 bits do not reach every address.

    Raises `InvalidAccess` unless `ids` are integers of shape (n, *columns).
    """
    try:
        rows = torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidAccess(f"{name}: expected integers ({error})") from error
    if rows.numel() == 0:  # an empty list is a float tensor to torch
        return torch.empty((0, *columns), dtype=torch.int64)
    if rows.dtype not in _INTEGERS or rows.shape[1:] != columns or rows.dim() == 0:
        got = f"{rows.dtype} of shape {tuple(rows.shape)}"
        raise InvalidAccess(f"{name}: expected integers, {('n', *columns)}; got {got}")
    return rows.to("cpu", torch.int64)


def check_ids(ids: Tensor, name: str, first: int, end: int, once: bool = False) -> None:
    """Raise `InvalidAccess` unless all are in first..end-1, with `once` each once."""
    bad = ids[(ids < first) | (ids >= end)].tolist()
    if bad:
        why = "; block 0 is null and holds nothing" if first else ""
        raise InvalidAccess(f"{name}: expected {first}..{end - 1}; got {bad[0]}{why}")
    again = [i for i, n in Counter(ids.tolist()).items() if n > 1] if once else []
    if again:
        raise InvalidAccess(f"{name}: expected each one once; got {again[0]} again")


def to_device(ids: Tensor, device: torch.device) -> Tensor:
    """Send a CPU tensor to the device. The host goes on at once.

    CUDA copies in the background only from pinned memory, which never moves. PyTorch
    keeps that memory until the copy is done.
    """
    if device.type == "cuda":
        return ids.contiguous().pin_memory().to(device, non_blocking=True)
    return ids.to(device)


# --- numbers and words ----------------------------------------------------------------


def as_words(rows: Tensor) -> Tensor:
    """The same bytes, [..., heads, size] -> [..., words], as the largest integers that
    divide a row.

    What only moves needs no numbers: a GPU thread moves one element at a time, so eight
    bytes instead of two or one. Integers have every operation, which float8 lacks, and
    no gradient: else the pool would keep every forward pass alive.
    """
    flat = rows.flatten(-2)
    num_bytes = flat.shape[-1] * flat.itemsize
    return flat.view(next(w for w in _WORDS if num_bytes % w.itemsize == 0))


def _aligned(rows: Tensor) -> Tensor:
    """`rows`, or a copy if `as_words` would not find whole words where a row begins."""
    starts = (rows.storage_offset(), *rows.stride()[:-2])
    whole = all(n * rows.itemsize % 8 == 0 for n in starts)
    if whole and rows.stride()[-2:] == (rows.shape[-1], 1):
        return rows
    return rows.clone(memory_format=torch.contiguous_format)


def _encode(numbers: Tensor, dtype: torch.dtype, scale: float) -> Tensor:
    """Numbers as the pool stores them. NaN stays NaN, infinity becomes the largest."""
    if numbers.dtype == dtype:
        return numbers
    most = torch.finfo(dtype).max  # beyond it, some versions of PyTorch make NaN
    return (numbers.float() / scale).clamp(-most, most).to(dtype)


def _decode(stored: Tensor, scale: float, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        return stored
    if stored.dtype == EIGHT_BIT:
        stored = stored.float() * scale
    return stored.to(dtype)


def _is_scale(scale: object) -> bool:
    return type(scale) in (int, float) and 0 < scale < math.inf  # type: ignore[operator]


def _copy_kernel() -> ModuleType | None:
    try:
        from blockmgr import storage_triton
    except ModuleNotFoundError:  # no Triton: PyTorch does it, and moves all bytes twice
        return None
    return storage_triton
