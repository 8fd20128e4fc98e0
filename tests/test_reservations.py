"""Four memories side by side: what is drawn is what they hold; and Fig. 2 as bars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from blockmgr import BlockManager
from blockmgr.errors import InvalidRequest
from blockmgr.waste import PUBLISHED, Account, Average
from blockmgr.workloads import Lengths
from figures import Reservations
from figures.charts.waste import waste_by_system
from figures.reservations import ReservationFilm, reservations_svg
from figures.reservations.film import SLOTS
from tests.drawing import parsed, texts

PAIRS = [(1, 2), (1, 5), (4, 12), (3, 7), (3, 5), (5, 3), (3, 7), (1, 10), (1, 9)]
REQUESTS = [Lengths(*pair) for pair in PAIRS]
KINDS = ("token", "later", "never", "spare", "none")


@pytest.fixture
def widget() -> Iterator[Reservations]:
    made = Reservations(REQUESTS)
    yield made
    made.close()


def tell(widget: Any, act: str, value: object = None) -> None:
    """What the page sends."""
    widget._heard(widget, {"act": act, "value": value, "n": widget.frame["n"]}, [])


def part(widget: Any, name: str) -> str:
    return str(widget.frame["parts"][name])


# --- the film -----------------------------------------------------------------------


@pytest.mark.parametrize("longest", [32, 36, 64])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_pieces_tile_every_memory_and_add_up_to_its_account(
    longest: int, block_size: int
) -> None:
    film = ReservationFilm(REQUESTS, longest, block_size)
    for lane in range(4):
        for step in range(len(film)):
            now, end = film.frame(lane, step), 0
            for piece in now.pieces:
                assert piece.start == end
                assert min(piece.tokens, piece.later, piece.never) >= 0
                end += piece.size
            assert end == SLOTS
            held = [piece for piece in now.pieces if piece.owner]
            sums = [
                sum(piece.tokens for piece in held),
                sum(piece.later for piece in held),
                sum(piece.never for piece in held),
            ]
            assert list(now.account) == [*sums, SLOTS - sum(sums)]
            assert len({piece.owner for piece in held}) == now.running
        assert film.done(lane, len(film) - 1) == len(REQUESTS)


def test_the_paged_lane_is_what_the_manager_says() -> None:
    frame = ReservationFilm(REQUESTS, 32, 4).frame(3, 1)
    manager = BlockManager(SLOTS // 4 + 1, 4, enable_caching=False)
    for n, (prompt, _) in enumerate(PAIRS):
        assert manager.allocate(f"r{n}", range(prompt))
    for piece in frame.pieces:
        owners = manager.snapshot().owners(piece.start // 4 + 1)
        assert (piece.owner,) == owners if owners else piece.owner is None


def test_headlines_tell_the_numbers() -> None:
    film = ReservationFilm(REQUESTS, 32, 4)
    ends = [len(frames) - 1 for frames in film.lanes]
    assert ends == sorted(ends, reverse=True) and len(film) == ends[0] + 1
    assert film.headline(0).startswith("Before the first step: 9 requests wait")
    a, b, c, d = (film.frame(lane, 4).account.used for lane in range(4))
    assert film.headline(4) == (
        f"Step 4: tokens fill {a} under Orca (Max), {b} under Orca (Pow2), {c} under "
        f"Orca (Oracle), and {d} of the same 64 slots with paging."
    )
    a, b, c, d = ends
    assert film.headline(a) == (
        f"The last has left: in step {a} under Orca (Max), in step {b} under Orca "
        f"(Pow2), in step {c} under Orca (Oracle), in step {d} with paging."
    )
    assert film.sentence(0, 1) == "r0 and r1 come in"
    assert film.sentence(0, 2) == "one token more for each"


@pytest.mark.parametrize(
    "requests",
    [[], [Lengths(1, 1)] * 15, [Lengths(0, 3)], [Lengths(3, 0)], [Lengths(20, 13)]],
)
def test_what_has_no_room_is_refused(requests: list[Lengths]) -> None:
    with pytest.raises(InvalidRequest):
        Reservations(requests)


# --- the picture --------------------------------------------------------------------


def test_as_many_boxes_of_each_kind_as_slots() -> None:
    film = ReservationFilm(REQUESTS, 32, 4)
    for step in (0, 3, 9, len(film) - 1):
        svg = reservations_svg(film, step)
        drawn = {
            kind: sum(
                d.count("M")
                for d in re.findall(rf"<path class='{kind}' d='([^']*)'", svg)
            )
            for kind in KINDS
        }
        accounts = [film.frame(lane, step).account for lane in range(4)]
        # Each legend has one of every kind, each lane one of four.
        assert drawn["token"] == sum(a.used for a in accounts) + 5
        assert drawn["later"] == sum(a.reserved for a in accounts) + 5
        assert drawn["never"] == sum(a.internal for a in accounts) + 5
        external = sum(a.external for a in accounts) + 6
        assert drawn["spare"] + drawn["none"] == external
        names = {name for name in texts(parsed(svg)) if re.fullmatch(r"r\d+", name)}
        held = {p.owner for lane in range(4) for p in film.frame(lane, step).pieces}
        assert names == held - {None}


def test_the_same_film_and_step_the_same_picture() -> None:
    one, other = (ReservationFilm(REQUESTS, 40, 8) for _ in range(2))
    assert reservations_svg(one, 5) == reservations_svg(other, 5)


def test_owners_beyond_seven_have_a_stripe() -> None:
    film = ReservationFilm([Lengths(2, 2)] * 9, 32, 1)
    assert "class='o0 striped" in reservations_svg(film, 1)


# --- the widget ---------------------------------------------------------------------


def test_controls_choose_and_keep_the_step(widget: Reservations) -> None:
    assert repr(widget) == "Reservations(9 requests, longest=32, block_size=4)"
    tell(widget, "step", 5)
    tell(widget, "longest", 40)
    assert (widget.step, widget.longest) == (5, 40)
    assert "reserves 40 slots" in part(widget, "picture")
    assert part(widget, "longest") == "40 slots"
    tell(widget, "size", 0)
    assert widget.block_size == 1 and part(widget, "size") == "1 slot"
    assert widget.frame["controls"]["size"] == {"value": 0, "valueText": "1 slot"}
    widget.longest, widget.block_size = 1_000, 11  # the nearest that is possible
    assert (widget.longest, widget.block_size) == (64, 8)
    assert "blocks of 8 slots" in part(widget, "picture")
    tell(widget, "size", 99)
    assert widget.block_size == 16
    tell(widget, "longest")
    assert widget.longest == 32


def test_a_choice_with_fewer_steps_ends_at_its_last_one() -> None:
    widget = Reservations([Lengths(3, 29)] * 4, longest=64)
    tell(widget, "last")
    slow = widget.step
    tell(widget, "longest", 32)
    assert widget.step == widget.last_step < slow
    assert widget.frame["controls"]["step"]["max"] == widget.last_step
    widget.close()


def test_it_plays_to_the_end_and_stops(widget: Reservations) -> None:
    tell(widget, "step", widget.last_step - 1)
    tell(widget, "play")
    assert widget.playing and widget.frame["tick"]
    tell(widget, "tick")
    assert widget.step == widget.last_step and not widget.playing


def test_the_page_without_a_kernel_shows_the_fullest_step(widget: Reservations) -> None:
    page, film = widget.page(), widget.film
    used = [frame.account.used for frame in film.lanes[3]]
    assert film.headline(used.index(max(used))) in page
    assert page.count("<li ") == len(film) and "data-act" not in page
    assert Reservations(REQUESTS, at=2).page().count(film.headline(2)) == 3


# --- the chart ----------------------------------------------------------------------


def test_bars_stand_beside_what_was_published() -> None:
    averages = {
        name: Average(Account(20 + i, 10, 50, 20 - i), 1, 7.0)
        for i, name in enumerate(PUBLISHED)
    }
    chart = waste_by_system(averages, "How memory is used")
    rows = chart.records()
    assert [row["whose"] for row in rows] == ["ours", "published"] * 4
    assert [row["used"] for row in rows[::2]] == [20, 21, 22, 23]
    assert [row["used"] for row in rows[1::2]] == [20.4, 26.8, 38.2, 96.3]
    assert rows[-1]["external"] is None
    for number in ("57.3", "41.6", "96.3", "Orca (Pow2), ours"):
        assert number in texts(parsed(chart.svg))
