"""The KV cache itself: one tensor on the device, cut into blocks.

The rest of `blockmgr` is bookkeeping about block ids. Here the ids meet real memory:

    kv[k or v, layer, block, offset, head, element]     one zeroed tensor, in this order
       2       L      N      B       H     D

Within a layer the blocks lie one after the other, so `block` and `offset` melt into one
number, the **slot** = block * B + offset, and a layer's keys are a plain list of N * B
rows. So a write needs one integer a token. All memory is taken at the start: it is
*reserved*, which is not the same as *used*.

In vLLM: `allocate_kv_cache` in `vllm/v1/worker/utils.py` (release 0.33), one zeroed
buffer too, in the same order by default except that a token's K and V lie side by side.
`reshape_and_cache_flash` in `csrc/libtorch_stable/cache_kernels.cu` writes it by slot
mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


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
    with grouped-query attention. In vLLM: `FullAttentionSpec`, one for each layer.
    """

    num_layers: int
    num_kv_heads: int
    head_size: int
    block_size: int = 16
    dtype: torch.dtype = torch.float16

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_kv_heads", "head_size", "block_size"):
            n = getattr(self, name)
            if type(n) is not int or n < 1:
                raise InvalidPool(f"{name}: expected an int of 1 or more; got {n!r}")
        if self.dtype not in DTYPES:
            raise InvalidPool(f"dtype: expected one of {DTYPES}; got {self.dtype}")

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block in **one layer**; the 2 is for K and V."""
        elements = 2 * self.block_size * self.num_kv_heads * self.head_size
        return elements * self.dtype.itemsize

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
    """

    def __init__(
        self,
        spec: KVCacheSpec,
        *,
        num_blocks: int | None = None,
        memory_bytes: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if not isinstance(spec, KVCacheSpec):
            raise InvalidPool(f"spec: expected a KVCacheSpec; got {spec!r:.40}")
        if num_blocks is not None and memory_bytes is None:
            memory_bytes = num_blocks * spec.block_bytes
        elif num_blocks is not None or memory_bytes is None:
            raise InvalidPool("expected exactly one of num_blocks and memory_bytes")
        self.spec = spec
        self.num_blocks = n = spec.num_blocks_in(memory_bytes)
        block = (spec.block_size, spec.num_kv_heads, spec.head_size)
        shape, where = (2, spec.num_layers, n, *block), pick_device(device)
        try:
            self._kv: Tensor | None = torch.zeros(shape, dtype=spec.dtype, device=where)
        except (RuntimeError, TypeError) as error:
            size = f"{n} blocks of {spec.block_bytes} bytes"
            raise InvalidPool(f"{where} can't give {size}: take fewer") from error

    @property
    def kv(self) -> Tensor:
        """The tensor: [2, layers, blocks, block_size, kv_heads, head_size]."""
        if self._kv is None:
            raise PoolClosed("this pool was closed: make a new KVCache")
        return self._kv

    def slots(self, layer: int | None = None) -> Tensor:
        """The same memory, a row for each slot: [2, (layers,) slots, heads, size]."""
        rows, layers = self.kv.flatten(2, 3), range(self.spec.num_layers)
        if layer is None:
            return rows
        if layer not in layers:
            raise InvalidAccess(f"layer: expected 0..{layers[-1]}; got {layer!r:.40}")
        return rows[:, layer]

    def write(
        self, key: Tensor, value: Tensor, slot_mapping: Ids, layer: int | None = None
    ) -> None:
        """Store the K and V of token i in slot `slot_mapping[i]`; -1 skips the token.

        `key` and `value` are [(layers,) tokens, kv_heads, head_size]. Each slot may be
        named once: of two writers, a GPU would not say which one wins.
        """
        rows, slots = self.slots(layer), _int64("slot_mapping", slot_mapping)
        shape = (*rows.shape[1:-3], len(slots), *rows.shape[-2:])
        expected = (shape, rows.dtype, rows.device)
        for name, tensor in (("key", key), ("value", value)):
            if not isinstance(tensor, Tensor):
                raise InvalidAccess(f"{name}: expected a tensor; got {tensor!r:.40}")
            got = (tuple(tensor.shape), tensor.dtype, tensor.device)
            if got != expected:
                raise InvalidAccess(f"{name}: expected {expected}; got {got}")
        tokens = (slots != PAD).nonzero().flatten()
        # The first slot of block 1 is the first that may be written: block 0 is null.
        _check(slots[tokens], "slot", self.spec.block_size, rows.shape[-3], once=True)
        source, target = tokens.to(rows.device), slots[tokens].to(rows.device)
        both = torch.stack((key, value)).detach()  # 0 is K and 1 is V, as in the pool
        rows[..., target, :, :] = both[..., source, :, :]

    def read(
        self, block_table: Ids, num_tokens: int | None = None, layer: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Copies of a sequence's K and V: [(layers,) tokens, kv_heads, head_size].

        The table brings the tokens into their order, wherever its blocks lie. With
        `num_tokens`, entries after the last token's block may be anything (-1s pad).
        """
        rows, size = self.slots(layer), self.spec.block_size
        table = _int64("block_table", block_table)
        room = len(table) * size
        length = room if num_tokens is None else num_tokens
        if type(length) is not int or not 0 <= length <= room:
            raise InvalidAccess(f"num_tokens: expected 0..{room}; got {length!r:.40}")
        used = table[: -(-length // size)]  # divided, rounded up
        _check(used, "block", NULL_BLOCK_ID, self.num_blocks)
        position = torch.arange(length)
        slots = table[position // size] * size + position % size
        key, value = rows.index_select(-3, slots.to(rows.device))
        return key, value

    def copy_blocks(self, pairs: Sequence[tuple[int, int]] | Tensor) -> None:
        """Copy whole blocks, in all layers, for each (source, destination).

        **All sources are read before any destination is written**: [(1, 2), (2, 3)]
        moves the old content of 2 to 3. So the order of the pairs does not matter; each
        destination may be named once.
        """
        kv, ids = self.kv, _int64("pairs", pairs, columns=(2,))
        _check(ids[:, 0], "source", NULL_BLOCK_ID + 1, self.num_blocks)
        _check(ids[:, 1], "destination", NULL_BLOCK_ID + 1, self.num_blocks, once=True)
        source, target = ids.to(kv.device).unbind(1)
        # A tensor indexed by a tensor is a copy: the right side is read completely.
        kv[:, :, target] = kv[:, :, source]

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


def _int64(name: str, ids: object, columns: tuple[int, ...] = ()) -> Tensor:
    """Ids as int64 on the CPU: in a large pool, 32 bits do not reach every address."""
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


def _check(ids: Tensor, name: str, first: int, end: int, once: bool = False) -> None:
    bad = ids[(ids < first) | (ids >= end)].tolist()
    if bad:
        why = "; block 0 is null and holds nothing" if first else ""
        raise InvalidAccess(f"{name}: expected {first}..{end - 1}; got {bad[0]}{why}")
    again = [i for i, n in Counter(ids.tolist()).items() if n > 1] if once else []
    if again:
        raise InvalidAccess(f"{name}: expected each one once; got {again[0]} again")
