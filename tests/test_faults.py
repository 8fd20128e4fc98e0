"""Faults that real block managers have had, each as its smallest case.

The numbers are the rows of a list of public reports on several systems. A docstring
says the fault in our own words, and after it the property that forbids its whole kind.
The random walk in `test_model.py` checks those properties on thousands of states; here
stands the case that a person can follow. Pools have one block more than a report says
where the report's pool had no null block.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import (
    Allocation,
    BlockManager,
    BlockPool,
    InvalidFree,
    InvalidRequest,
    MultiModal,
    OutOfBlocks,
    Status,
    UnknownSequence,
)
from tests.oracle import KVStandIn, PlainSequence

FIXED = settings(derandomize=True, database=None, deadline=None, print_blob=True)


def tokens(n: int, first: int = 0) -> list[int]:
    """`n` tokens, all different."""
    return list(range(first, first + n))


def served(manager: BlockManager, prompt: list[int], **how: Any) -> int:
    """Admit a prompt, end it, and say how many of its tokens were cached."""
    answer = manager.allocate("once", prompt, **how)
    assert answer
    manager.free("once")
    manager.audit()
    return answer.num_cached_tokens


def test_row_1_a_reused_block_forgets_its_old_hash() -> None:
    """A block was given to another prompt and kept its old hash in the map, so the
    first prompt "hit" the second one's K and V.

    Kind: the map holds a block under exactly the hash that the block carries.
    """
    manager = BlockManager(num_blocks=3, block_size=4)
    x, y = tokens(8), tokens(8, first=100)
    manager.allocate("x", x)
    manager.free("x")
    manager.allocate("y", y)
    assert manager.get_computed_blocks(x) == ()
    manager.audit()
    manager.free("y")
    assert manager.allocate("x", x).num_cached_tokens == 0
    manager.audit()


def test_row_2_free_hits_count_as_needed() -> None:
    """In a nearly full pool a request's own hits were counted as free blocks for its
    new ones, and one block stood twice in its table.

    Kind: a hit whose ref count is 0 leaves the free queue, so admission needs it too;
    and no table holds a block twice.
    """
    manager = BlockManager(num_blocks=4, block_size=4)
    p = tokens(4)
    manager.allocate("p", p)
    manager.free("p")
    manager.allocate("r", tokens(8, first=100))
    before = manager.snapshot(), manager.stats()

    q = [*p, *tokens(4, first=200)]
    refused = manager.allocate("q", q)
    assert refused.status is Status.LATER
    assert (refused.needed, refused.free) == (2, 1)
    assert (manager.snapshot(), manager.stats()) == before

    manager.free("r")
    answer = manager.allocate("q", q)
    assert answer.num_cached_tokens == 4
    table = manager.block_table("q")
    assert len(table) == len(set(table)) == 2
    manager.audit()


def test_row_3_one_token_is_always_left_to_compute() -> None:
    """A prompt that was cached to its end left nothing to compute, and the engine
    crashed for want of an output.

    Kind: at most (ceil(n/B)-1)*B of n tokens are cached.
    """
    manager = BlockManager(num_blocks=5, block_size=4)
    prompts = [tokens(8), tokens(8), tokens(9), tokens(4), tokens(4)]
    assert [served(manager, prompt) for prompt in prompts] == [0, 4, 8, 0, 0]


@FIXED
@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 20))
def test_row_3_holds_for_every_length(block_size: int, n: int, more: int) -> None:
    manager = BlockManager(num_blocks=99, block_size=block_size)
    served(manager, tokens(n + more))
    cached = served(manager, tokens(n))
    assert cached == (-(-n // block_size) - 1) * block_size


def test_row_5_a_refused_append_changes_nothing() -> None:
    """An allocation that ran out half-way was not undone, or its undo dropped blocks
    that the sequence had before.

    Kind: capacity is checked before the first change. (The part of the report that
    forks comes with forking.)
    """
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(4))
    before = manager.snapshot(), manager.stats()
    answer = manager.append("a", tokens(12, first=50))
    assert answer.status is Status.NEVER  # 16 tokens are 4 blocks, and 3 are usable
    assert (answer.needed, answer.free) == (3, 2)
    assert (manager.snapshot(), manager.stats()) == before
    manager.audit()


def test_row_5_the_pool_refuses_with_numbers() -> None:
    pool = BlockPool(4)
    pool.get_new_blocks(1)
    queue = list(pool.free_queue)
    with pytest.raises(OutOfBlocks, match="free or preempt") as caught:
        pool.get_new_blocks(3)
    assert (caught.value.needed, caught.value.free) == (3, 2)
    assert list(pool.free_queue) == queue
    assert [block.ref_cnt for block in queue] == [0, 0]


Misuse = Callable[[BlockPool, list[Any]], object]
ROW_7: dict[str, tuple[Misuse, type[Exception], str]] = {
    "one block twice": (
        lambda pool, held: pool.free_blocks([held[0], held[0]]),
        InvalidFree,
        "more often than it was taken",
    ),
    "one block twice, behind a good one": (
        lambda pool, held: pool.free_blocks([held[1], held[0], held[0]]),
        InvalidFree,
        "more often than it was taken",
    ),
    "the null block": (
        lambda pool, held: pool.free_blocks([held[0], pool.null_block]),
        InvalidFree,
        "null block",
    ),
    "a free block": (
        lambda pool, held: pool.free_blocks([held[0], pool.blocks[5]]),
        InvalidFree,
        "free each reference once",
    ),
    "take -1 blocks": (
        lambda pool, held: pool.get_new_blocks(-1),
        InvalidRequest,
        "at least 0, got -1",
    ),
    "share a block that holds nothing": (
        lambda pool, held: pool.touch([held[0], pool.blocks[5]]),
        InvalidRequest,
        "take a block with get_new_blocks",
    ),
    "share the null block": (
        lambda pool, held: pool.touch([pool.null_block]),
        InvalidRequest,
        "holds nothing",
    ),
}


@pytest.mark.parametrize(("misuse", "error", "says"), ROW_7.values(), ids=ROW_7.keys())
def test_row_7_no_wrong_reference_is_accepted(
    misuse: Misuse, error: type[Exception], says: str
) -> None:
    """Duplicate, null or free blocks given back, or a negative number taken, made the
    free count larger than the pool.

    Kind: a reference that nobody holds can't be given back, and then nothing changes.
    """
    pool = BlockPool(6)
    held = pool.get_new_blocks(2)
    before = list(pool.free_queue), [block.ref_cnt for block in pool.blocks]
    with pytest.raises(error, match=says):
        misuse(pool, held)
    after = list(pool.free_queue), [block.ref_cnt for block in pool.blocks]
    assert after == before


def test_row_7_a_sequence_is_freed_once() -> None:
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(4))
    manager.free("a")
    before = manager.snapshot()
    with pytest.raises(UnknownSequence, match="no sequence 'a'"):
        manager.free("a")
    assert manager.snapshot() == before


def test_row_11_the_tail_of_a_cached_chain_goes_first() -> None:
    """The head of a cached chain was evicted before its tail, so the whole chain was
    lost: nothing behind a missing block can be found.

    Kind: a table is freed tail first, and the queue gives out what was freed first.
    """
    manager = BlockManager(num_blocks=4, block_size=4)
    manager.allocate("a", tokens(12))
    table = manager.block_table("a")
    manager.free("a")
    assert manager.allocate("b", [7]).new_blocks == table[-1:]
    assert manager.get_computed_blocks(tokens(13)) == table[:2]


def test_row_12_equal_tokens_after_another_start_are_no_hit() -> None:
    """Equal tokens were found although other tokens stood before them.

    Kind: a block's hash covers everything from the start to its end.
    """
    manager = BlockManager(num_blocks=9, block_size=4)
    served(manager, [1, 2, 3, 4, 9, 9, 9, 9])
    assert manager.get_computed_blocks([5, 6, 7, 8, 9, 9, 9, 9, 0]) == ()
    assert len(manager.get_computed_blocks([1, 2, 3, 4, 9, 9, 9, 9, 0])) == 2
    served(manager, [5, 6, 7, 8])  # now both halves are cached, but not as one
    assert len(manager.get_computed_blocks([5, 6, 7, 8, 9, 9, 9, 9, 0])) == 1


def test_row_12_nothing_is_found_behind_a_hole() -> None:
    """Blocks behind a missing one were counted as hits.

    Kind: a lookup stops at the first miss.
    """
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(8))
    manager.evict_blocks(manager.block_table("a")[:1])
    assert manager.get_computed_blocks(tokens(9)) == ()
    assert manager.allocate("b", tokens(9)).num_cached_tokens == 0
    manager.audit()


def test_row_15_what_decides_k_and_v_decides_the_hit() -> None:
    """The K and V of another adapter, image or tenant was used.

    Kind: the extra keys are part of the hash, each with its type and length.
    """
    manager = BlockManager(num_blocks=40, block_size=4)
    ways: list[dict[str, Any]] = [
        {},
        {"lora": ("a", "/a")},
        {"lora": ("b", "/b")},
        {"cache_salt": "a"},
        {"mm": (MultiModal("a", 0, 2),)},
        {"mm": (MultiModal("b", 0, 2),)},
        {"mm": (MultiModal("a", 1, 2),)},
    ]
    assert [served(manager, tokens(5), **way) for way in ways] == [0] * len(ways)
    assert [served(manager, tokens(5), **way) for way in ways] == [4] * len(ways)


LOOK_ALIKES = [
    ({"lora": ("ab", "c")}, {"lora": ("a", "bc")}),
    ({"lora": ("a", "")}, {"lora": ("", "a")}),
    ({"cache_salt": ""}, {}),
    ({"cache_salt": "s1:a"}, {"cache_salt": "a"}),
    ({"cache_salt": "salt"}, {"lora": ("salt", "salt")}),
    ({"mm": (MultiModal("1", 0, 4),)}, {"mm": (MultiModal("10", 0, 4),)}),
    (
        {"mm": (MultiModal("a", 0, 2), MultiModal("b", 2, 2))},
        {"mm": (MultiModal("b", 0, 2), MultiModal("a", 2, 2))},
    ),
    ({"lora": ("a", "b"), "cache_salt": "c"}, {"lora": ("a", "b")}),
    ({"cache_salt": "\u00e9"}, {"cache_salt": "e\u0301"}),  # equal to the eye only
]


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKES)
def test_row_15_keys_that_look_alike_are_different(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    for first, second in ((one, other), (other, one)):
        manager = BlockManager(num_blocks=9, block_size=4)
        assert served(manager, tokens(5), **first) == 0
        assert served(manager, tokens(5), **second) == 0
        assert served(manager, tokens(5), **first) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"cache_salt": 5},
        {"cache_salt": b"a"},
        {"lora": "ab"},
        {"lora": ("a",)},
        {"lora": ("a", None)},
        {"lora": ["a", "b"]},
        {"mm": 5},
        {"mm": (("a", 0, 2),)},
        {"mm": (MultiModal("a", -1, 2),)},
        {"mm": (MultiModal("a", 0, 0),)},
        {"mm": (MultiModal("a", 0.5, 2),)},
        {"mm": MultiModal("a", 0, 2)},
    ],
    ids=str,
)
def test_row_15_keys_of_another_kind_are_refused(wrong: dict[str, Any]) -> None:
    """As bytes, the number 5 and an object that prints as 5 would be one key."""
    manager = BlockManager(num_blocks=9, block_size=4)
    before = manager.snapshot()
    for call in (
        lambda: manager.allocate("a", tokens(5), **wrong),
        lambda: manager.get_computed_blocks(tokens(5), **wrong),
    ):
        with pytest.raises(InvalidRequest, match="must be"):
            call()
    assert manager.snapshot() == before


def constant(content: bytes) -> bytes:
    """The worst hash there is: everything collides."""
    return b"same"


def one_byte(content: bytes) -> bytes:
    """A hash of 256 values, so that a few hundred blocks collide all the time."""
    return hashlib.sha256(content).digest()[:1]


def two_bits(content: bytes) -> bytes:
    """A hash of 4 values."""
    return bytes([hashlib.sha256(content).digest()[0] & 3])


def test_row_16_a_collision_is_no_hit() -> None:
    """Two prompts had one hash, and one was served with the other's K and V
    (CVE-2025-25183).

    Kind: on a hit the content is compared, so a collision costs a hit and gives none.
    """
    manager = BlockManager(num_blocks=9, block_size=4, hash_fn=constant)
    assert served(manager, tokens(5)) == 0
    assert served(manager, tokens(5, first=50)) == 0
    assert served(manager, tokens(5)) == 4  # what is really there is still found
    manager.audit()


def test_row_16_parents_that_collide_do_not_lend_each_other_their_children() -> None:
    """The same one step deeper: the blocks themselves are equal and have one hash, but
    the blocks before them only *collide*.

    First a start and a rest are cached, then the start is evicted, and another start
    with the same digest is cached in its place. The rest must not be found behind it.
    """
    one, other = [1, 1, 1, 1], [2, 2, 2, 2]
    rest = [9, 9, 9, 9]

    def collide(content: bytes) -> bytes:
        first = content[0]  # the low byte of a block's first token
        return b"start" if first in (1, 2) else hashlib.sha256(content).digest()

    manager = BlockManager(num_blocks=9, block_size=4, hash_fn=collide)
    manager.allocate("a", [*one, *rest, 0])
    manager.evict_blocks(manager.block_table("a")[:1])
    manager.allocate("b", [*other, 0])
    assert manager.get_computed_blocks([*other, 0]) == manager.block_table("b")[:1]
    assert manager.get_computed_blocks([*other, *rest, 0]) == (
        manager.block_table("b")[0],
    )


weak_hashes = st.sampled_from([constant, one_byte, two_bits])
small_prompts = st.lists(st.integers(0, 2), min_size=1, max_size=9)


@FIXED
@given(weak_hashes, st.lists(small_prompts, min_size=2, max_size=25))
def test_row_16_no_weak_hash_gives_a_wrong_hit(
    weak: Callable[[bytes], bytes], prompts: list[list[int]]
) -> None:
    """Whatever the hash: what is read through a table is what was written for exactly
    this start. Every third sequence stays, and one block is evicted each time."""
    manager = BlockManager(num_blocks=12, block_size=2, hash_fn=weak)
    memory = KVStandIn()
    for i, prompt in enumerate(prompts):
        answer = manager.allocate(f"r{i}", prompt)
        if not answer:
            continue
        seq = PlainSequence(prompt)
        cached = answer.num_cached_tokens
        memory.write(manager.slot_mapping(f"r{i}", cached), seq, cached)
        table = manager.block_table(f"r{i}")
        read = memory.read(table, 2, len(prompt))
        assert read == [seq.content_at(k) for k in range(len(prompt))]
        if i % 3:
            manager.free(f"r{i}")
        manager.evict_blocks(table[:1] if i % 2 else [])
        manager.audit()


def test_row_17_another_tenants_prompt_can_not_be_timed() -> None:
    """A quick answer told one tenant that another had sent the same prompt
    (CVE-2025-46570).

    Kind: a salt is part of the first block's hash, and so of every later one's.
    """
    manager = BlockManager(num_blocks=20, block_size=4)
    assert served(manager, tokens(9), cache_salt="u1") == 0
    assert served(manager, tokens(9), cache_salt="u1") == 8
    assert served(manager, tokens(9), cache_salt="u2") == 0
    assert served(manager, tokens(9)) == 0


def test_row_19_the_cache_is_no_leak() -> None:
    """Blocks that only remember something were reported as leaked.

    Kind: the gauges are separate, and live + cached + empty = usable.
    """
    manager = BlockManager(num_blocks=9, block_size=4)
    for i in range(3):
        manager.allocate(f"r{i}", tokens(5, first=10 * i))
    for i in range(3):
        manager.free(f"r{i}")
    stats = manager.stats()
    assert (stats.live, stats.cached, stats.empty) == (0, 3, 5)
    assert stats.allocatable == stats.usable == manager.num_free_blocks == 8
    assert manager.usage == 0.0
    assert manager.allocate("all", tokens(32, first=100)).status is Status.OK


@pytest.mark.parametrize(
    ("length", "ahead", "new"),
    [(3, 0, 0), (3, 1, 1), (3, 4, 1), (3, 9, 3), (4, 0, 1), (4, 8, 3)],
)
def test_row_28_every_draft_token_has_a_slot(length: int, ahead: int, new: int) -> None:
    """Draft tokens were written outside the block table.

    Kind: a table has a slot for every token and for every look-ahead token.
    """
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(length))
    answer = manager.append("a", [50], num_lookahead=ahead)
    assert len(answer.new_blocks) == new
    slots = manager.slot_mapping("a", 0, length + 1 + ahead)
    assert len(set(slots)) == length + 1 + ahead


def test_row_28_look_ahead_blocks_are_used_later() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(3), num_lookahead=9)
    assert len(manager.block_table("a")) == 3
    table = manager.block_table("a")
    assert manager.append("a", tokens(9, first=50)).new_blocks == ()
    assert manager.block_table("a") == table


def test_row_28_rejected_drafts_are_never_cached() -> None:
    """The model guessed 3 4 5 6 and one guess was right: only what was appended may be
    found by others."""
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", [1, 2], num_lookahead=6)
    assert manager.stats().cached == len(manager.snapshot().cache) == 0
    manager.append("a", [3, 9], num_lookahead=4)
    assert len(manager.snapshot().cache) == 1
    assert manager.get_computed_blocks([1, 2, 3, 4, 5]) == ()
    assert manager.get_computed_blocks([1, 2, 3, 9, 5]) == manager.block_table("a")[:1]


@pytest.mark.parametrize(
    ("length", "grows"),
    [(3, False), (4, True), (5, False), (7, False), (8, True), (9, False)],
)
def test_row_29_a_block_comes_exactly_at_the_edge(length: int, grows: bool) -> None:
    """A block came one token too early or too late.

    Kind: a table has ceil(tokens / B) blocks.
    """
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(length))
    assert bool(manager.append("a", [50]).new_blocks) is grows


@FIXED
@given(st.integers(1, 5), st.lists(st.integers(1, 7), min_size=1, max_size=12))
def test_row_29_holds_for_every_growth(block_size: int, growth: list[int]) -> None:
    manager = BlockManager(num_blocks=200, block_size=block_size)
    manager.allocate("a", [0])
    length = 1
    for n in growth:
        length += n
        answer: Allocation = manager.append("a", tokens(n))
        assert answer.num_scheduled_tokens == n
        assert len(manager.block_table("a")) == -(-length // block_size)


def test_row_33_a_reset_says_whether_it_was_done() -> None:
    """A reset that could not be done said nothing, and old K and V was used.

    Kind: False means that nothing changed; True means that nothing is found.
    """
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", tokens(9))
    before = manager.snapshot()
    assert manager.reset_prefix_cache() is False
    assert manager.snapshot() == before
    manager.free("a")
    queue = manager.snapshot().free_queue
    assert manager.get_computed_blocks(tokens(9)) != ()
    assert manager.reset_prefix_cache() is True
    assert manager.get_computed_blocks(tokens(9)) == ()
    assert manager.snapshot().free_queue == queue
    manager.audit()
