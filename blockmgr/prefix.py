"""Prefix caching: naming the content of full blocks, and finding a block by its name.

The K and V in a block depend on its tokens **and on every token before them**. So a
block's hash covers its parent's hash, its own tokens, and whatever else decides the
values (an adapter, images, a tenant's salt): rule 5. Equal hash, equal content.

In vLLM: `hash_block_tokens` and `generate_block_hash_extra_keys` in
`vllm/v1/core/kv_cache_utils.py`, `BlockHashToBlockMap` in `vllm/v1/core/block_pool.py`
(release 0.33).
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from blockmgr.block import Block, BlockHash
from blockmgr.errors import InvalidRequest

HashFn = Callable[[bytes], bytes]
TOKEN_BYTES = array("Q").itemsize  # tokens are packed as unsigned 64-bit integers


def sha256(content: bytes) -> bytes:
    """The default hash, 32 bytes. Cryptographic on purpose: with a weak hash somebody
    can build a prompt that hits another prompt's blocks (CVE-2025-25183)."""
    return hashlib.sha256(content).digest()


NO_PARENT = sha256(b"")
"""What the first block of a chain names as its parent; no block has this digest."""


# --- extra keys ---------------------------------------------------------------------


class MultiModal(NamedTuple):
    """An image or sound that occupies `length` tokens from position `offset`."""

    identifier: str
    offset: int
    length: int


class ExtraKeys(NamedTuple):
    """What decides K and V besides the tokens: adapter, media, and a tenant's salt.

    The salt counts in the first block only: every later block carries it through its
    parent. Two tenants with different salts can never hit each other's blocks, so one
    can't time whether another sent a prompt (CVE-2025-46570).
    """

    lora: tuple[str, str] | None = None
    mm: tuple[MultiModal, ...] = ()
    cache_salt: str | None = None

    def of_block(self, start: int, stop: int) -> tuple[tuple[str | int, ...], ...]:
        """Typed keys of the block that covers tokens `start..stop-1`, in rule 5's
        order: `("lora", name, path)`, `("mm", id, offset - start)`, `("salt", s)`."""
        keys: list[tuple[str | int, ...]] = []
        if self.lora is not None:
            keys.append(("lora", *self.lora))
        for item in self.mm:
            if item.offset < stop and start < item.offset + item.length:
                keys.append(("mm", item.identifier, item.offset - start))
        if self.cache_salt is not None and start == 0:
            keys.append(("salt", self.cache_salt))
        return tuple(keys)


NO_EXTRA_KEYS = ExtraKeys()


def _frame(keys: tuple[tuple[str | int, ...], ...]) -> bytes:
    """Bytes that no other keys have: each part is tagged with its type and length."""
    framed = b""
    for key in keys:
        framed += b"(%d" % len(key)
        for part in key:
            text = str(part).encode("utf-8", "surrogatepass")
            kind = b"s" if isinstance(part, str) else b"i"
            framed += b"%s%d:%s" % (kind, len(text), text)
    return framed


# --- hashing ------------------------------------------------------------------------


def extend_hashes(
    hashes: list[BlockHash],
    token_ids: array[int],
    block_size: int,
    extra: ExtraKeys = NO_EXTRA_KEYS,
    hash_fn: HashFn = sha256,
) -> None:
    """Append to `hashes` the hash of every full block of `token_ids` that lacks one.

    Tokens are only ever appended, so a hash once computed stays valid: a sequence pays
    for each block once, when its last token arrives (rule 6).
    """
    first, last = len(hashes), len(token_ids) // block_size
    if first >= last:
        return
    start = first * block_size
    packed = token_ids[start : last * block_size].tobytes()
    step = block_size * TOKEN_BYTES
    # What a child says about its parent is never a weak digest: two parents could share
    # it, and then their children's contents would be equal while their K and V differ.
    strong, plain = hash_fn is sha256, extra is NO_EXTRA_KEYS
    parent, sha, new_tuple = NO_PARENT, hashlib.sha256, tuple.__new__
    if hashes:
        parent = hashes[-1].digest if strong else sha256(hashes[-1].content)
    new: list[BlockHash] = []
    lows = range(0, len(packed), step)
    if plain and strong:  # as below, for the most frequent case
        for low in lows:
            parent = sha(packed[low : low + step] + parent).digest()
            new.append(new_tuple(BlockHash, (parent, b"", 0)))
        hashes += new
        return
    for low in lows:
        content = packed[low : low + step] + parent
        if not plain:
            content += _frame(extra.of_block(start, start + block_size))
            start += block_size
        digest = parent = sha(content).digest()
        if strong:
            new.append(BlockHash(digest))
            continue
        digest = hash_fn(content)
        if not isinstance(digest, bytes):
            raise InvalidRequest(f"hash_fn must answer with bytes, got {digest!r:.40}")
        new.append(BlockHash(digest, content))
    hashes += new  # all at once: `hash_fn` may have raised before


# --- the map ------------------------------------------------------------------------


class PrefixCache:
    """From hash to blocks. A hash may stand for several equal blocks (rule 7).

    Equal blocks arise when two sequences compute the same tokens side by side, or when
    a prompt that is cached to its end has its last block computed again. Tables are
    append-only, so nobody swaps one for the other: the map keeps both, and a lookup
    gives the one that was registered first.

    `compare_content` makes a hit compare what was hashed, as it must be with any hash
    that is not cryptographic. With SHA-256, equal digests mean equal content.
    """

    def __init__(self, compare_content: bool = True) -> None:
        self.compare_content = compare_content
        self._first: dict[bytes, Block] = {}
        self._more: dict[bytes, OrderedDict[Block, None]] = {}  # equal ones, in order

    def __len__(self) -> int:
        """Number of distinct hashes."""
        return len(self._first)

    def __iter__(self) -> Iterator[tuple[bytes, tuple[Block, ...]]]:
        """Every digest with its blocks, earliest first."""
        for digest, block in self._first.items():
            yield digest, (block, *self._more.get(digest, ()))

    def find(self, hashes: Sequence[BlockHash], limit: int) -> list[Block]:
        """The blocks of the longest cached start of `hashes`, at most `limit` of them.

        Stops at the first miss: a block behind a hole can't be used, because its K and
        V belong to a start that is not there (rule 8). Changes nothing.
        """
        found: list[Block] = []
        try:
            for name in hashes[:limit]:
                found.append(self._first[name.digest])
        except KeyError:
            pass  # the first miss
        if self.compare_content:
            for i, block in enumerate(found):
                if not _same_content(block, hashes[i]):
                    return found[:i]
        return found

    def get(self, name: BlockHash) -> Block | None:
        """The block registered first under `name`, or None. Changes nothing."""
        block = self._first.get(name.digest)
        return block if block is not None and _same_content(block, name) else None

    def insert(self, block: Block, name: BlockHash) -> bool:
        """Register `block` under `name`. False, and nothing done, if that digest is
        taken by other content: then the block stays unregistered, which is safe."""
        first = self._first.setdefault(name.digest, block)
        if first is not block:
            if not _same_content(first, name):
                return False
            self._more.setdefault(name.digest, OrderedDict())[block] = None
        block.block_hash = name
        return True

    def remove(self, block: Block) -> BlockHash | None:
        """Forget a block's hash and return it; None if it had none."""
        name = block.block_hash
        if name is None:
            return None
        block.block_hash = None
        more = self._more.get(name.digest)
        if more is None:
            del self._first[name.digest]
            return name
        if self._first[name.digest] is block:
            self._first[name.digest] = more.popitem(last=False)[0]
        else:
            del more[block]
        if not more:
            del self._more[name.digest]
        return name

    def clear(self) -> None:
        """Forget every hash."""
        for _, blocks in self:
            for block in blocks:
                block.block_hash = None
        self._first.clear()
        self._more.clear()


def _same_content(block: Block, name: BlockHash) -> bool:
    """Whether a registered block holds exactly what `name` was made from."""
    own = block.block_hash
    return own is name or (own is not None and own.content == name.content)
