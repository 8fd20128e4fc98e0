"""What fits into a budget of memory: `KVCacheSpec`'s own numbers, and how they come.

Nothing is computed twice: bytes and blocks are asked of the spec, and the equations
only write down what it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from blockmgr.errors import InvalidRequest
from blockmgr.storage import KVCacheSpec, PoolTooSmall

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""Powers of two, as memory is sold and counted."""

_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    start: size
    for name, size in UNITS.items()
    for start in (name[0].lower(), name[:2].lower(), name.lower())
}
"""What can stand behind a number: also a unit that is still being typed."""

MOST_BYTES = 4 * UNITS["TiB"]
"""Largest budget that can be chosen."""


def size_text(num_bytes: int) -> str:
    """`2 MiB`, `12.5 MiB`, `768 bytes`: four digits, in the unit that suits."""
    for name, size in reversed(UNITS.items()):
        if num_bytes >= size:
            return f"{num_bytes / size:.4g} {name}"
    return f"{num_bytes} {'byte' if num_bytes == 1 else 'bytes'}"


def read_size(text: str) -> int:
    """`1.5 GiB`, `800 MB`, `65536 bytes` as a number of bytes; a number alone is GiB.

    Raises `InvalidRequest`, saying what can be written.
    """
    found = re.fullmatch(r"\s*(\d[\d,]{0,17}(?:\.\d{0,9})?)\s*([A-Za-z]{0,5})\s*", text)
    unit = _unit(found[2].lower()) if found else None
    if found is None or unit is None:
        raise InvalidRequest(
            f"can't read {text[:24]!r} as a size: write 1.5 GiB or 800 MB, say"
        )
    num_bytes = int(float(found[1].replace(",", "")) * unit + 0.5)
    if not 1 <= num_bytes <= MOST_BYTES:
        raise InvalidRequest(f"choose from 1 byte to {size_text(MOST_BYTES)}")
    return num_bytes


def _unit(word: str) -> int | None:
    """Bytes of a unit, in small letters; None for a word that is none."""
    if not word:
        return UNITS["GiB"]
    return 1 if "bytes".startswith(word) else _UNITS.get(word)


class Sum(NamedTuple):
    """One line: what is computed, the numbers, and what comes out."""

    rule: str
    text: str
    outcome: str


@dataclass(frozen=True, slots=True)
class PoolSums:
    """What `spec` says about a budget. Make it with `pool_sums`.

    `num_blocks` is 0 where no pool fits. `token_bytes` and `block_bytes` are those of
    all layers.
    """

    spec: KVCacheSpec
    memory_bytes: int
    num_blocks: int
    token_bytes: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, K and V, all layers."""
        return self.spec.block_bytes

    @property
    def usable(self) -> int:
        """Blocks for requests: all but the null block."""
        return max(self.num_blocks - 1, 0)

    @property
    def tokens(self) -> int:
        """Tokens that the usable blocks hold: their slots."""
        return self.usable * self.spec.block_size

    @property
    def left_over(self) -> int:
        """Bytes at the end of the budget, too few for a block."""
        return self.memory_bytes - self.num_blocks * self.block_bytes

    def equations(self) -> Iterator[Sum]:
        """Every step from the shape to the number of tokens."""
        s = self.spec
        yield Sum(
            "2 × layers × KV heads × head size × bytes",
            f"2 × {s.num_layers} × {s.num_kv_heads} × {s.head_size} × "
            f"{s.dtype.itemsize} = {self.token_bytes:,}",
            "bytes for each token",
        )
        yield Sum(
            "block size × bytes per token",
            f"{s.block_size} × {self.token_bytes:,} = {self.block_bytes:,}",
            "bytes for each block",
        )
        if not self.num_blocks:
            least = 2 * self.block_bytes
            yield Sum(
                "null block and one more",
                f"2 × {self.block_bytes:,} = {least:,}",
                f"bytes at least, more than {self.memory_bytes:,}",
            )
            return
        yield Sum(
            "budget // bytes per block",
            f"{self.memory_bytes:,} // {self.block_bytes:,} = {self.num_blocks:,}",
            "blocks (num_gpu_blocks)",
        )
        yield Sum(
            "less the null block",
            f"{self.num_blocks:,} - 1 = {self.usable:,}",
            "blocks for requests",
        )
        yield Sum(
            "× block size",
            f"{self.usable:,} × {s.block_size} = {self.tokens:,}",
            "tokens at most",
        )
        yield Sum(
            "budget % bytes per block",
            f"{self.memory_bytes:,} % {self.block_bytes:,} = {self.left_over:,}",
            "bytes left over",
        )


def pool_sums(spec: KVCacheSpec, memory_bytes: int) -> PoolSums:
    """Ask `spec` about a budget; too little memory is an answer too, with no block."""
    one_token = replace(spec, block_size=1).block_bytes
    try:
        blocks = spec.num_blocks_in(memory_bytes)
    except PoolTooSmall:
        blocks = 0
    return PoolSums(spec, memory_bytes, blocks, one_token)


def sentence(sums: PoolSums, name: str) -> str:
    """What stands above the picture."""
    each = size_text(sums.block_bytes)
    start = f"{name}: a block of {_tokens(sums.spec.block_size)} takes {each}. "
    budget = size_text(sums.memory_bytes)
    if not sums.num_blocks:
        least = size_text(2 * sums.block_bytes)
        return (
            f"{start}A pool needs two of them, the null block and one more: {least}. "
            f"{budget} is too little."
        )
    return (
        f"{start}{budget} hold {sums.num_blocks:,} blocks: the null block and "
        f"{sums.usable:,} for requests, with room for {_tokens(sums.tokens)}. "
        f"Left over at the end: {size_text(sums.left_over)}."
    )


def _tokens(n: int) -> str:
    return f"{n:,} token{'' if n == 1 else 's'}"
