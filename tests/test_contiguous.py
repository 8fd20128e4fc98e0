"""Memory before paging: buddies, a busy server, and the waste of Fig. 2."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockmgr.contiguous import (
    BuddyMemory,
    Piece,
    power_of_two,
    reserve_max,
    reserve_oracle,
    reserve_pow2,
)
from blockmgr.errors import DuplicateSequence, InvalidRequest, UnknownSequence
from blockmgr.serving import Contiguous, Memory, Moment, Paged, serve
from blockmgr.waste import (
    PUBLISHED,
    SLOTS,
    Account,
    account,
    average,
    figure2,
    sharegpt,
)
from blockmgr.workloads import Lengths

FIXED = settings(
    max_examples=100, derandomize=True, database=None, deadline=None, print_blob=True
)

# --- how much to reserve ------------------------------------------------------------


def test_powers_of_two() -> None:
    assert [power_of_two(n) for n in range(1, 10)] == [1, 2, 4, 4, 8, 8, 8, 8, 16]
    with pytest.raises(InvalidRequest, match="at least 1"):
        power_of_two(0)


def test_three_reservations_for_one_request() -> None:
    # "If the true output length is 25, it reserves 32 positions for outputs."
    assert reserve_pow2(2048)(100, 25) == 132
    assert reserve_max(2048)(100, 25) == 2048
    assert reserve_oracle(100, 25) == 125
    assert reserve_pow2(2048)(1500, 520) == 2048  # not 2,524


# --- the buddies --------------------------------------------------------------------


def check_tiles(memory: BuddyMemory) -> None:
    """Every slot in exactly one piece, each as a buddy has to be, and no two free ones
    that should have become one."""
    pieces = sorted([*memory.held.values(), *memory.free_pieces()])
    end = 0
    for piece in pieces:
        assert piece.start == end, "a hole, or two pieces that overlap"
        assert piece.size == power_of_two(piece.size)
        assert piece.start % piece.size == 0
        end += piece.size
    assert end == memory.num_slots
    free = set(memory.free_pieces())
    assert not any(Piece(start ^ size, size) in free for start, size in free)
    assert memory.num_free == sum(size for _, size in free)


@FIXED
@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 40)), max_size=60),
)
def test_pieces_tile_the_memory_whatever_happens(
    num_slots: int, calls: list[tuple[int, int]]
) -> None:
    memory = BuddyMemory(num_slots)
    start = memory.free_pieces()
    for number, slots in calls:
        name = f"r{number}"
        if name in memory.held:
            memory.free(name)
        else:
            largest = max((size for _, size in memory.free_pieces()), default=0)
            piece = memory.allocate(name, slots)
            assert (piece is None) == (power_of_two(slots) > largest)
            assert piece is None or slots <= piece.size < 2 * slots
        check_tiles(memory)
    for name in list(memory.held):
        memory.free(name)
    assert memory.free_pieces() == start  # all halves found each other again


def test_a_piece_is_halved_until_it_fits() -> None:
    memory = BuddyMemory(16)
    assert memory.allocate("a", 3) == Piece(0, 4)
    assert memory.free_pieces() == [Piece(4, 4), Piece(8, 8)]
    assert memory.allocate("b", 4) == Piece(4, 4)  # the smallest that fits
    assert memory.allocate("c", 9) is None  # 8 are free, and 16 would be needed
    memory.free("a")
    assert memory.free_pieces() == [Piece(0, 4), Piece(8, 8)]
    memory.free("b")
    assert memory.free_pieces() == [Piece(0, 16)]


def test_free_memory_in_pieces_is_of_no_use() -> None:
    memory = BuddyMemory(16)
    for name in "abcd":
        memory.allocate(name, 4)
    memory.free("a")
    memory.free("c")
    assert memory.num_free == 8
    assert memory.allocate("e", 8) is None  # external fragmentation
    assert memory.allocate("e", 4) == Piece(0, 4)  # the first of its size


def test_the_papers_memory_is_no_power_of_two() -> None:
    sizes = [piece.size for piece in BuddyMemory(SLOTS).free_pieces()]
    assert sizes == [8192, 4096, 2048, 1024, 256, 64, 16, 4]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda memory: memory.allocate("a", 1), DuplicateSequence),
        (lambda memory: memory.allocate("b", 0), InvalidRequest),
        (lambda memory: memory.allocate("", 1), InvalidRequest),
        (lambda memory: memory.free("b"), UnknownSequence),
    ],
)
def test_misuse_changes_nothing(
    call: Callable[[BuddyMemory], object], error: type[Exception]
) -> None:
    memory = BuddyMemory(16)
    memory.allocate("a", 4)
    before = memory.held.copy(), memory.free_pieces()
    with pytest.raises(error):
        call(memory)
    assert (memory.held, memory.free_pieces()) == before
    with pytest.raises(InvalidRequest):
        BuddyMemory(0)


# --- a busy server ------------------------------------------------------------------

LONGEST = 32
SMALL: list[Callable[[], Memory]] = [
    lambda: Contiguous(64, reserve_max(LONGEST)),
    lambda: Contiguous(64, reserve_pow2(LONGEST)),
    lambda: Contiguous(64, reserve_oracle),
    lambda: Paged(64, 4),
    lambda: Paged(64, 1),
]
requests = st.lists(
    st.builds(Lengths, st.integers(1, 16), st.integers(1, 16)), min_size=1, max_size=20
)


@pytest.mark.parametrize("make", SMALL)
@FIXED
@given(requests)
def test_everybody_is_served_and_every_slot_accounted_for(
    make: Callable[[], Memory], asked: list[Lengths]
) -> None:
    memory, served, here = make(), list[str](), set[str]()
    for moment in serve(asked, memory):
        served += moment.left
        here = (here | set(moment.came)) - set(moment.left) - set(moment.sent_back)
        assert here == {r.name for r in moment.running}
        assert moment.waiting == len(asked) - len(served) - len(here)
        now = account(moment.running, 64)
        assert sum(now) == 64 and min(now) >= 0
        assert now.used == sum(r.tokens for r in moment.running)
        check_memory(memory, moment)
    assert sorted(served) == sorted(f"r{i}" for i in range(len(asked)))
    if isinstance(memory, Contiguous):
        assert not memory.buddy.held and memory.buddy.num_free == 64
    else:
        assert isinstance(memory, Paged)
        assert memory.manager.num_free_blocks * memory.manager.block_size == 64


def check_memory(memory: Memory, moment: Moment) -> None:
    """What the requests were promised is what the memory has given."""
    for request in moment.running:
        if isinstance(memory, Contiguous):
            assert memory.buddy.held[request.name].size == power_of_two(request.given)
        else:
            assert isinstance(memory, Paged)
            size = memory.manager.block_size
            table = memory.manager.block_table(request.name)
            assert request.given == len(table) * size
            assert request.tokens <= request.given < request.tokens + size
            assert len(memory.manager.sequences[request.name].token_ids) == (
                request.tokens
            )
    if isinstance(memory, Contiguous):
        check_tiles(memory.buddy)
        assert not moment.sent_back
    else:
        assert isinstance(memory, Paged) and all(memory.manager.audit())


def test_a_request_step_by_step() -> None:
    memory = Contiguous(64, reserve_pow2(LONGEST))
    accounts = [account(m.running, 64) for m in serve([Lengths(3, 5)], memory)]
    # 3 + 8 slots are promised, and the piece is rounded up to 16.
    assert accounts[:2] == [Account(3, 5, 3, 53), Account(4, 4, 3, 53)]
    assert accounts[5:] == [Account(8, 0, 3, 53), Account(0, 0, 0, 64)]


def test_waste_of_blocks_is_less_than_a_block_for_each_sequence() -> None:
    for moment in serve([Lengths(5, 9)] * 6, Paged(64, 4)):
        now = account(moment.running, 64)
        assert now.reserved + now.internal <= 3 * len(moment.running)


def test_when_the_pool_is_full_the_last_goes_back() -> None:
    moments = list(serve([Lengths(4, 12)] * 6, Paged(64, 4)))
    sent_back = [name for moment in moments for name in moment.sent_back]
    assert sent_back and sent_back[0] == moments[0].running[-1].name == "r5"
    assert [m.came for m in moments if m.sent_back] == [()] * len(
        [m for m in moments if m.sent_back]
    )


@pytest.mark.parametrize("make", SMALL[2:4])
def test_who_can_never_fit_is_named(make: Callable[[], Memory]) -> None:
    with pytest.raises(InvalidRequest, match=r"r0 with 60 \+ 9 tokens does not fit"):
        list(serve([Lengths(60, 9)], make()))
    with pytest.raises(InvalidRequest, match=r"r1 with 70 \+ 9 tokens does not fit"):
        list(serve([Lengths(1, 1), Lengths(70, 9)], make()))


def test_a_reservation_must_hold_the_whole_request() -> None:
    memory = Contiguous(64, lambda prompt, output: prompt)
    with pytest.raises(InvalidRequest, match=r"4 slots were reserved for 4 \+ 2"):
        list(serve([Lengths(4, 2)], memory))
    assert not memory.buddy.held


def test_an_average_needs_somebody_who_waits() -> None:
    with pytest.raises(InvalidRequest, match="nobody ever waited"):
        average(serve([Lengths(1, 1)], Paged(64, 4)), 64)


# --- Fig. 2 of PagedAttention -------------------------------------------------------

OURS = {
    "Orca (Max)": (21.39, 14.29, 55.63, 8.69),
    "Orca (Pow2)": (25.29, 16.93, 11.4, 46.39),
    "Orca (Oracle)": (37.92, 25.41, 0.0, 36.66),
    "paged": (96.91, 1.51, 0.02, 1.57),
}


def test_the_shares_are_those_of_the_paper_within_four_points() -> None:
    drawn = sharegpt()
    assert len(drawn) == 970
    assert 1_900 < max(n.prompt_tokens + n.output_tokens for n in drawn) <= 2_048
    averages = figure2(drawn)
    for name, ours in averages.items():
        percent = ours.slots.percent()
        assert sum(percent) == pytest.approx(100)
        assert [round(n, 2) for n in percent] == list(OURS[name])  # everywhere the same
        assert abs(percent[0] - PUBLISHED[name][0]) < 4
    assert averages["Orca (Max)"].batched == pytest.approx(7, abs=0.01)  # Fig. 13: 7.00
