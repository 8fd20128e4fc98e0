"""From a token's position to its slot; tokens in, checked."""

import pickle
from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr import Address, BlockManager, InvalidRequest, address
from blockmgr.checks import check_count
from blockmgr.sequence import Sequence, pack_tokens

FIXED = settings(derandomize=True, database=None, deadline=None, print_blob=True)


def test_the_lectures_example() -> None:
    """Position 9 with blocks of 4: logical block 2, offset 1, where the table says."""
    assert address((7, 1, 3), 4, 9) == Address(
        position=9, logical_block=2, offset=1, block_id=3, slot=13
    )


@FIXED
@given(st.integers(1, 9), st.lists(st.integers(1, 99), min_size=1, unique=True))
def test_every_position_has_its_own_slot(block_size: int, ids: list[int]) -> None:
    """The arithmetic can be turned round, so no two positions share a slot."""
    table = tuple(ids)
    slots = []
    for position in range(len(table) * block_size):
        where = address(table, block_size, position)
        assert where.logical_block * block_size + where.offset == position
        assert table.index(where.slot // block_size) == where.logical_block
        assert where.slot % block_size == where.offset
        slots.append(where.slot)
    assert len(set(slots)) == len(slots)


@pytest.mark.parametrize("position", [8, 10**30])
def test_a_position_behind_the_table_is_refused(position: int) -> None:
    with pytest.raises(InvalidRequest, match="2 blocks of 4 hold the first 8"):
        address((1, 2), 4, position)


@pytest.mark.parametrize("position", [-1, 1.5, "1", None, True, [1]])
def test_a_position_is_a_number_from_0_up(position: Any) -> None:
    with pytest.raises(InvalidRequest, match="position must be a whole number"):
        address((1, 2), 4, position)


def test_an_empty_table_has_no_position() -> None:
    with pytest.raises(InvalidRequest, match="0 blocks"):
        address((), 4, 0)


def test_a_slot_mapping_follows_the_table() -> None:
    manager = BlockManager(num_blocks=9, block_size=4, enable_caching=False)
    manager.allocate("x", [1] * 5)
    manager.allocate("a", [1] * 3)
    manager.free("x")
    manager.append("a", [1] * 3)
    first, second = manager.block_table("a")
    whole = [4 * first + i for i in range(4)] + [4 * second, 4 * second + 1]
    assert manager.slot_mapping("a") == whole
    assert manager.slot_mapping("a", 2) == whole[2:]
    assert manager.slot_mapping("a", 2, 5) == whole[2:5]
    assert manager.slot_mapping("a", 6) == []  # nothing new since position 6
    assert manager.slot_mapping("a", 6, 8) == [4 * second + 2, 4 * second + 3]


@pytest.mark.parametrize(
    ("start", "stop"),
    [(-1, None), (7, None), (0, 9), (3, 2), (0, -1), (0.0, None), (0, "3"), (True, 3)],
)
def test_slots_outside_a_table_are_refused(start: Any, stop: Any) -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", [1] * 6)
    with pytest.raises(InvalidRequest):
        manager.slot_mapping("a", start, stop)


def test_a_preempted_sequence_has_no_slots() -> None:
    manager = BlockManager(num_blocks=9, block_size=4)
    manager.allocate("a", [1] * 6)
    manager.preempt("a")
    assert manager.block_table("a") == ()
    assert manager.slot_mapping("a") == []


# --- tokens -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tokens",
    [
        [1, 2, 3],
        (1, 2, 3),
        iter([1, 2, 3]),
        (i for i in (1, 2, 3)),
        range(1, 4),
        array("i", [1, 2, 3]),
        np.array([1, 2, 3]),
        [np.int64(1), np.uint8(2), 3],
        {1: "a", 2: "b", 3: "c"}.keys(),
    ],
    ids=lambda tokens: type(tokens).__name__,
)
def test_tokens_come_in_any_row_of_whole_numbers(tokens: Any) -> None:
    assert list(pack_tokens(tokens)) == [1, 2, 3]


@pytest.mark.parametrize(
    "tokens",
    [
        [-1],
        [2**64],
        [10**40],
        [1.0],
        [float("nan")],
        [float("inf")],
        ["1"],
        [None],
        [[1]],
        [{}],
        ["\N{GRINNING FACE}"],
        "123",
        b"123",
        bytearray(b"123"),
        None,
        7,
        1.5,
        object(),
        np.array([1.0, 2.0]),
        np.array([[1, 2], [3, 4]]),
        np.array([-1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_no_token(tokens: Any) -> None:
    with pytest.raises(InvalidRequest, match="token ids are whole numbers"):
        pack_tokens(tokens)


def test_the_largest_token_is_kept() -> None:
    assert list(pack_tokens([0, 2**64 - 1])) == [0, 2**64 - 1]


def test_tokens_are_copied() -> None:
    given_tokens = array("Q", [1, 2, 3])
    packed = pack_tokens(given_tokens)
    given_tokens[0] = 9
    assert packed[0] == 1


@pytest.mark.parametrize("value", [3, 10**40])
def test_a_count_may_be_as_large_as_it_likes(value: int) -> None:
    check_count("n", value, 3)


@pytest.mark.parametrize("value", [2, -(10**40), 3.0, "3", None, True, [3], 3j])
def test_what_is_no_count_is_named(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="n must be a whole number of at least 3"):
        check_count("n", value, 3)


def test_a_sequence_shows_itself_in_one_line() -> None:
    assert (
        repr(Sequence("a", array("Q", [1, 2]))) == "Sequence('a', 2 tokens, blocks=[])"
    )


def test_an_address_can_be_stored_and_sent() -> None:
    where = address((7, 1, 3), 4, 9)
    assert pickle.loads(pickle.dumps(where)) == where
