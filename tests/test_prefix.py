"""The names of full blocks, and the map from a name to its blocks."""

import hashlib
import struct
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import Block, InvalidRequest, MultiModal
from blockmgr.block import ids_of
from blockmgr.checks import extra_keys
from blockmgr.prefix import (
    NO_EXTRA_KEYS,
    NO_PARENT,
    BlockHash,
    ExtraKeys,
    PrefixCache,
    _frame,
    extend_hashes,
    sha256,
)

FIXED = settings(
    max_examples=100, derandomize=True, database=None, deadline=None, print_blob=True
)
token_lists = st.lists(st.integers(0, 3), max_size=12)
texts = st.text(alphabet="ab:(1s", max_size=4)
media = st.builds(MultiModal, texts, st.integers(0, 6), st.integers(1, 6))
extras = st.builds(
    ExtraKeys,
    st.none() | st.tuples(texts, texts),
    st.lists(media, max_size=2).map(tuple),
    st.none() | texts,
)


def hashes_of(
    tokens: list[int],
    block_size: int = 2,
    extra: ExtraKeys = NO_EXTRA_KEYS,
    hash_fn: Callable[[bytes], bytes] = sha256,
) -> list[BlockHash]:
    hashes: list[BlockHash] = []
    extend_hashes(hashes, array("Q", tokens), block_size, extra, hash_fn)
    return hashes


# --- hashing ------------------------------------------------------------------------


def test_the_default_hash_is_sha256() -> None:
    """Never Python's `hash`: it is weak, and differs from one process to the next."""
    assert sha256(b"abc") == hashlib.sha256(b"abc").digest()
    first = sha256(struct.pack("=2Q", 1, 2) + NO_PARENT)
    second = sha256(struct.pack("=2Q", 3, 4) + first)
    assert [name.digest for name in hashes_of([1, 2, 3, 4, 5])] == [first, second]


@FIXED
@given(token_lists, st.integers(1, 4))
def test_only_full_blocks_have_a_name(tokens: list[int], block_size: int) -> None:
    assert len(hashes_of(tokens, block_size)) == len(tokens) // block_size


@FIXED
@given(
    token_lists,
    st.tuples(token_lists, token_lists),
    st.integers(1, 4),
    st.lists(extras, min_size=1, max_size=2),
)
def test_one_name_is_one_content(
    start: list[int],
    ends: tuple[list[int], list[int]],
    block_size: int,
    keys: list[ExtraKeys],
) -> None:
    """Rule 5: the names of two blocks are equal exactly when everything up to their
    ends is, tokens and extra keys."""
    one, other = (start + end for end in ends)
    a, b = keys[0], keys[-1]
    pairs = zip(
        hashes_of(one, block_size, a), hashes_of(other, block_size, b), strict=False
    )
    for i, (left, right) in enumerate(pairs):
        end = (i + 1) * block_size
        edges = [(k * block_size, (k + 1) * block_size) for k in range(i + 1)]
        same = one[:end] == other[:end] and all(
            a.of_block(*edge) == b.of_block(*edge) for edge in edges
        )
        assert (left == right) is (left.digest == right.digest) is same


@FIXED
@given(token_lists, token_lists, st.integers(1, 4), extras)
def test_names_grow_with_the_tokens(
    start: list[int], more: list[int], block_size: int, extra: ExtraKeys
) -> None:
    """A name once computed stays: growing step by step or at once is the same."""
    tokens = array("Q", start)
    names: list[BlockHash] = []
    extend_hashes(names, tokens, block_size, extra)
    before = list(names)
    for token in more:
        tokens.append(token)
        extend_hashes(names, tokens, block_size, extra)
    assert names[: len(before)] == before
    assert names == hashes_of(start + more, block_size, extra)


def test_a_child_that_comes_later_has_the_same_name() -> None:
    """With a weak hash it is named after its parent's content, as at once."""
    for hash_fn in (sha256, lambda content: b"x"):
        tokens, names = array("Q", [1, 2]), list[BlockHash]()
        extend_hashes(names, tokens, 2, NO_EXTRA_KEYS, hash_fn)
        tokens.extend([3, 4])
        extend_hashes(names, tokens, 2, NO_EXTRA_KEYS, hash_fn)
        assert names == hashes_of([1, 2, 3, 4], 2, NO_EXTRA_KEYS, hash_fn)


def test_every_token_up_to_the_largest_counts() -> None:
    largest = 2**64 - 1
    names = {hashes_of([0, t])[0] for t in (0, 1, 255, 256, 2**32, largest)}
    assert len(names) == 6


def test_each_content_is_hashed_once() -> None:
    """A sequence pays for a block when its last token comes, and never again."""
    seen: list[bytes] = []

    def counting(content: bytes) -> bytes:
        seen.append(content)
        return sha256(content)

    names: list[BlockHash] = []
    tokens = array("Q", [1, 2, 3])
    for _ in range(3):
        extend_hashes(names, tokens, 2, NO_EXTRA_KEYS, counting)
    assert len(seen) == 1
    tokens.append(4)
    extend_hashes(names, tokens, 2, NO_EXTRA_KEYS, counting)
    assert [name.content for name in names] == seen


def test_a_child_tells_parents_apart_that_a_weak_digest_does_not() -> None:
    weak = [
        hashes_of(t, 2, NO_EXTRA_KEYS, lambda content: b"x")
        for t in ([1] * 4, [2] * 2 + [1] * 2)
    ]
    assert weak[0][1].digest == weak[1][1].digest
    assert weak[0][1].content != weak[1][1].content


# --- extra keys ---------------------------------------------------------------------


def test_extra_keys_are_typed_and_in_order() -> None:
    """Rule 5: the adapter, then media by their place in the block, then the salt."""
    extra = ExtraKeys(
        lora=("name", "/path"),
        mm=(MultiModal("cat", 1, 5), MultiModal("dog", 6, 1)),
        cache_salt="s",
    )
    lora = ("lora", "name", "/path")
    assert extra.of_block(0, 4) == (lora, ("mm", "cat", 1), ("salt", "s"))
    assert extra.of_block(4, 8) == (lora, ("mm", "cat", -3), ("mm", "dog", 2))
    assert extra.of_block(8, 12) == (lora,)


@pytest.mark.parametrize(
    ("offset", "length", "blocks"),
    [(0, 4, [0]), (3, 1, [0]), (3, 2, [0, 1]), (4, 4, [1]), (2, 9, [0, 1, 2])],
)
def test_a_medium_marks_the_blocks_that_it_touches(
    offset: int, length: int, blocks: list[int]
) -> None:
    extra = ExtraKeys(mm=(MultiModal("cat", offset, length),))
    touched = [i for i in range(4) if extra.of_block(4 * i, 4 * i + 4)]
    assert touched == blocks


def test_the_salt_reaches_later_blocks_through_their_parents() -> None:
    plain = hashes_of([1] * 6)
    salted = hashes_of([1] * 6, extra=ExtraKeys(cache_salt="s"))
    assert not {name.digest for name in plain} & {name.digest for name in salted}


def test_no_keys_are_no_keys() -> None:
    """An empty set of keys costs nothing and names like none at all."""
    assert extra_keys(None, (), None) is NO_EXTRA_KEYS
    assert hashes_of([1] * 4, extra=ExtraKeys()) == hashes_of([1] * 4)
    assert extra_keys(("a", "b"), [MultiModal("c", 0, 1)], "d") == ExtraKeys(
        ("a", "b"), (MultiModal("c", 0, 1),), "d"
    )


def test_odd_text_is_a_key_like_any_other() -> None:
    """Also half a surrogate pair, which UTF-8 refuses."""
    for salt in ("\N{GRINNING FACE}", "\u202eabc", "<b>", "\ud800", "x" * 100_000):
        assert hashes_of([1, 2], extra=ExtraKeys(cache_salt=salt)) != hashes_of([1, 2])
    with pytest.raises(InvalidRequest, match="cache_salt must be text, got 5"):
        extra_keys(None, (), 5)


# --- the map ------------------------------------------------------------------------


def test_a_duplicate_is_kept_and_the_earliest_is_found() -> None:
    cache, (name,) = PrefixCache(), hashes_of([1, 2])
    blocks = [Block(i) for i in (7, 3, 5, 4)]
    assert all(cache.insert(block, name) for block in blocks)
    assert len(cache) == 1
    assert cache.find([name], 1) == [blocks[0]]
    assert [(d, ids_of(b)) for d, b in cache] == [(name.digest, (7, 3, 5, 4))]


def test_each_removal_leaves_the_earliest_that_is_left() -> None:
    cache, (name,) = PrefixCache(), hashes_of([1, 2])
    blocks = [Block(i) for i in (7, 3, 5, 4)]
    for block in blocks:
        cache.insert(block, name)
    for block in (blocks[2], blocks[0], blocks[3], blocks[1]):
        assert cache.remove(block) == name
        assert block.block_hash is None
        rest = [b for b in blocks if b.block_hash is not None]
        assert cache.find([name], 1) == rest[:1]
        assert [b for _, equal in cache for b in equal] == rest
    assert len(cache) == 0
    assert cache.remove(blocks[0]) is None


def test_a_search_stops_at_the_first_miss_and_at_the_limit() -> None:
    cache, names = PrefixCache(), hashes_of([1, 2, 3, 4, 5, 6, 7, 8])
    blocks = [Block(i) for i in range(1, 5)]
    for block, name in zip(blocks, names, strict=True):
        cache.insert(block, name)
    assert cache.find(names, 4) == blocks
    assert cache.find(names, 2) == blocks[:2]
    assert cache.find(names, 0) == []
    cache.remove(blocks[1])
    assert cache.find(names, 4) == blocks[:1]


def test_other_content_under_a_taken_digest_is_not_registered() -> None:
    cache, digest = PrefixCache(), b"same"
    first, second = Block(1), Block(2)
    assert cache.insert(first, BlockHash(digest, b"one"))
    assert not cache.insert(second, BlockHash(digest, b"two"))
    assert second.block_hash is None
    assert cache.find([BlockHash(digest, b"two")], 1) == []
    assert cache.find([BlockHash(digest, b"one")], 1) == [first]


def test_clearing_forgets_duplicates_as_well() -> None:
    cache, (name,) = PrefixCache(), hashes_of([1, 2])
    blocks = [Block(1), Block(2), Block(3)]
    for block in blocks:
        cache.insert(block, name)
    cache.clear()
    assert [block.block_hash for block in blocks] == [None] * 3
    assert len(cache) == 0
    assert list(cache) == []
    assert cache.insert(blocks[2], name)
    assert cache.find([name], 1) == [blocks[2]]


inserts_and_removals = st.lists(
    st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 2)), max_size=40
)


@FIXED
@given(inserts_and_removals)
def test_the_map_is_a_dict_of_lists(todo: list[tuple[bool, int, int]]) -> None:
    """Rule 7, whatever is registered and forgotten in whatever order."""
    cache, blocks = PrefixCache(), [Block(i) for i in range(8)]
    names = [hashes_of([k, k])[0] for k in range(3)]
    plain: dict[bytes, list[Block]] = {}
    for insert, which, k in todo:
        block = blocks[which]
        if insert and block.block_hash is None:
            assert cache.insert(block, names[k])
            plain.setdefault(names[k].digest, []).append(block)
        elif not insert and block.block_hash is not None:
            digest = block.block_hash.digest
            cache.remove(block)
            plain[digest].remove(block)
        expected = {digest: tuple(equal) for digest, equal in plain.items() if equal}
        assert dict(cache) == expected
        assert len(cache) == len(expected)
        for name in names:
            assert cache.find([name], 1) == list(expected.get(name.digest, ()))[:1]


def test_keys_of_other_kinds_or_other_cuts_have_other_bytes() -> None:
    """Text or number, one part or two, one key or two: nothing runs together."""
    keys: list[Any] = [
        *(
            (),
            (("a", 1),),
            (("a", "1"),),
            (("a1",),),
            (("a",), ("1",)),
            (("a", "", "1"),),
        ),
        *((("1", "a"),), (("a", 11),), (("a", 1, 1),), (("a", 1), (1,)), ((1, "a"),)),
        *((("a", "i1:1"),), (("a", 1), ("s",)), (("ä",),), (("\ud800",),)),
    ]
    framed = {_frame(key) for key in keys}
    assert len(framed) == len(keys)
