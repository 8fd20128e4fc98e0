"""PolicyRace without a browser: what it draws, says, and does when told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib import font_manager

from blockmgr import InvalidRequest
from blockmgr.contest import Job, Place
from figures import PolicyRace
from figures.charts.policies import policy_chart
from figures.machine import bar
from figures.race import JOBS, RaceFilm, race_svg
from tests.drawing import NASTY, SVG, parsed, svg_of, texts


@pytest.fixture
def race() -> Iterator[PolicyRace]:
    made = PolicyRace()
    yield made
    made.close()


def film(jobs: tuple[Job, ...] = JOBS, k: int = 3, num_blocks: int = 13) -> RaceFilm:
    return RaceFilm(jobs, k=k, max_tokens=24, num_blocks=num_blocks, block_size=4)


def tell(widget: Any, act: str, value: object = None) -> None:
    """What the page sends."""
    widget._heard(widget, {"act": act, "value": value, "n": widget.frame["n"]}, [])


def part(widget: Any, name: str) -> str:
    return str(widget.frame["parts"][name])


def blocks(svg: str, lane: int) -> dict[str, ElementTree.Element]:
    """The blocks of a lane's pool, by their number."""
    found = {}
    for g in parsed(svg).iter(f"{SVG}g"):
        match = re.fullmatch(rf"k\w+-{lane}-b(\d+)", g.get("id", ""))
        if match:
            found[match[1]] = g
    return found


def marks(svg: str, kind: str) -> int:
    """Squares of this kind on the three axes; the legend has one more."""
    return sum(kind in (r.get("class") or "") for r in parsed(svg).iter(f"{SVG}rect"))


# --- what is drawn --------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 3, 7, 23])
def test_the_pools_are_those_of_the_managers(step: int) -> None:
    one = film()
    svg = race_svg(one, step)
    for lane in range(3):
        state = one.turn(lane, step).snapshot
        drawn = blocks(svg, lane)
        assert len(drawn) == 13
        for block_id in range(1, 13):
            names = texts(drawn[str(block_id)], "who")
            assert names == list(state.owners(block_id))
            full = [
                path.get("d", "").count("M")
                for path in drawn[str(block_id)].iter(f"{SVG}path")
                if path.get("class") == "bar"
            ]
            assert sum(full) == state.filled(block_id)


@pytest.mark.parametrize("step", [0, 1, 5, 7, 12, 23])
def test_the_axes_show_every_step_of_every_job(step: int) -> None:
    one = film()
    svg = race_svg(one, step)
    count = dict.fromkeys(Place, 0)
    for lane in range(3):
        for n in range(1, min(step, len(one.turns[lane]) - 1) + 1):
            for name, place in one.turn(lane, n).places.items():
                last = place is Place.DONE and n == one.finish(lane, name)
                count[Place.RUNNING if last else place] += 1
    assert marks(svg, "did") - 1 == count[Place.RUNNING]
    assert marks(svg, "idle") - 1 == count[Place.WAITING]
    assert marks(svg, "stuck") - 1 == count[Place.STALLED]
    ends = {f"✓{one.finish(lane, job.name)}" for lane in range(3) for job in JOBS}
    shown = {f"✓{t}" for t in range(1, step + 1)} & ends
    assert set(texts(parsed(svg), "ends")) == shown


def test_the_counters_stand_beside_each_lane() -> None:
    one = film()
    numbers = [
        [t.text for t in parsed(race_svg(one, 7)).iter(f"{SVG}tspan")][
            3 * n : 3 * n + 3
        ]
        for n in range(3)
    ]
    told = [[str(n) for n in one.turn(lane, 7).counters[:3]] for lane in range(3)]
    assert numbers == told == [["2", "12", "28"], ["8", "12", "5"], ["3", "11", "13"]]


def test_what_a_step_did_to_a_block_is_marked() -> None:
    svg = race_svg(film(), 7)
    demand = blocks(svg, 1)
    assert texts(demand["12"])[-1] == "new"
    assert texts(demand["10"])[-1] == "+1"
    assert "chg" not in (demand["1"].get("class") or "")


def test_the_same_film_gives_the_same_picture() -> None:
    assert race_svg(film(), 9) == race_svg(film(), 9)


def test_names_are_made_safe() -> None:
    race = PolicyRace((Job(NASTY, 1, 5, 3), Job("<b>" * 400, 1, 5, 3)))
    for step in range(race.last_step + 1):
        race.step = step
        parsed(part(race, "picture"))
        everything = "".join(race.frame["parts"].values()) + race.page()
        assert "<script" not in everything and "<b><b>" not in everything
        assert len(part(race, "picture")) < 60_000
    race.close()


# --- in words -------------------------------------------------------------------------


def test_a_step_in_words() -> None:
    one = film()
    assert one.headline(3) == (
        "Step 3. D arrives. Not served: C and D ahead of time, nobody on demand, "
        "D in batches."
    )
    assert one.sentence(0, 3) == (
        "A and B fill slots they have. C waits: it asks for 6, and none is free. "
        "D waits in line."
    )
    assert one.sentence(1, 7) == (
        "A and C fill slots they have. B takes 1 block. D stalls: no block is free."
    )
    assert one.sentence(2, 8) == (
        "A and C leave. B fills a slot it has. D comes in and takes 5 blocks."
    )
    assert one.headline(23) == (
        "The race is over. The last token came in step 22 ahead of time, in step 15 on "
        "demand, in step 16 in batches."
    )
    assert one.sentence(1, 20) == "Everybody has left: empty since step 16."
    assert one.headline(one.turns[0][-1].step - 1).startswith("Step 22. Everybody")


def test_giving_way_is_told() -> None:
    one = film((Job("A", 1, 4, 4), Job("B", 1, 4, 4)), k=1, num_blocks=9)
    crowd = film(tuple(Job(n, 1, 4, 20) for n in "ABC"))
    told = [crowd.sentence(1, step) for step in range(len(crowd))]
    assert any("C gives all its blocks back: nobody could move." in t for t in told)
    assert not any("gives" in one.sentence(1, step) for step in range(len(one)))


def test_the_longest_headline_has_its_room() -> None:
    one = film()
    longest = max((one.headline(step) for step in range(len(one))), key=len)
    assert one.longest_headline() == longest


# --- the widget -----------------------------------------------------------------------


def test_it_steps_like_a_player(race: PolicyRace) -> None:
    for act, value, step in (
        *(("forward", None, 1), ("forward", 3, 4), ("back", None, 3)),
        *(("last", None, 23), ("forward", None, 23), ("first", None, 0)),
        ("step", 7, 7),
    ):
        tell(race, act, value)
        assert race.step == step
        assert part(race, "count") == f"step {step} of 23"
    assert "D stalls" in part(race, "tables")
    tell(race, "play")
    assert race.playing and race.frame["tick"] > 0
    tell(race, "tick")
    assert race.step == 8


def test_another_k_runs_the_third_lane_again(race: PolicyRace) -> None:
    tell(race, "step", 22)
    tell(race, "k", 5)
    assert (race.k, race.step, part(race, "k")) == (5, 22, "5 blocks")
    assert "5 blocks whenever one is needed" in part(race, "picture")
    assert race.film.turns[:2] == film().turns[:2]
    assert race.film.turns[2] == film(k=5).turns[2]
    tell(race, "k", 1)
    assert part(race, "k") == "1 block"
    assert race.film.turns[2] == race.film.turns[1]
    for value in (0, -4, 99):
        tell(race, "k", value)
        assert race.k in (1, 6)
        assert part(race, "error") == ""


def test_a_step_that_is_no_more_becomes_the_last() -> None:
    """Alone in its lane, the larger batch has the longer race."""
    jobs = (Job("A", 1, 4, 12), Job("B", 1, 4, 12), Job("C", 1, 4, 12))
    race = PolicyRace(jobs, k=6, max_tokens=16)
    race.step = race.last_step
    slow = race.step
    tell(race, "k", 1)
    assert race.last_step < slow
    assert race.step == race.last_step
    race.close()


def test_every_request_is_answered_by_one_frame(race: PolicyRace) -> None:
    seen = []
    race.observe(lambda change: seen.append(change["new"]["n"]), names="frame")
    for act, value in (("k", 2), ("k", 2), ("forward", None), ("first", None)):
        tell(race, act, value)
    assert seen == list(range(seen[0], seen[0] + 4))
    race.k = 4  # from Python
    assert "4 blocks whenever" in part(race, "picture")


def test_a_slider_dragged_to_and_fro_leaves_it_right(race: PolicyRace) -> None:
    for value in (1, 6, 2, 5, 3, 4) * 20:
        tell(race, "k", value)
        tell(race, "step", value * 3)
    assert (race.k, race.step) == (4, 12)
    assert part(race, "picture") == race_svg(film(k=4), 12, race.prefix)


def test_the_page_without_a_kernel_tells_the_whole_story(race: PolicyRace) -> None:
    html = race._repr_mimebundle_()[0]["text/html"]
    assert svg_of(html) == race_svg(race.film, 7)  # where most are not served
    assert html.count("<li") == 24
    assert "<table>" in html and "C waits: it asks for 6" in html
    fixed = PolicyRace(at=3)
    assert svg_of(fixed.page()) == race_svg(fixed.film, 3)
    assert fixed.step == 3
    fixed.close()


def test_it_has_a_short_stable_text_and_serialises(race: PolicyRace) -> None:
    assert repr(race) == "PolicyRace(4 jobs, k=3, 23 steps)"
    json.dumps(race.frame)


@pytest.mark.parametrize(
    ("jobs", "how", "error", "what"),
    [
        ((), {}, ValueError, "1 to 6 jobs, got 0"),
        (JOBS, {"num_blocks": 40}, ValueError, "up to 17 blocks, got 40"),
        ((Job("A", 1, 4, 100),), {"block_size": 16}, ValueError, "takes 102 steps"),
        (
            JOBS,
            {"num_blocks": 5},
            InvalidRequest,
            "17 tokens, and the whole pool has 16",
        ),
        (JOBS, {"max_tokens": 60}, InvalidRequest, "can never come in"),
    ],
)
def test_a_race_that_cannot_be_is_named(
    jobs: tuple[Job, ...], how: dict[str, int], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        PolicyRace(jobs, **how)


# --- its controls ---------------------------------------------------------------------


def test_the_signs_on_the_buttons_are_in_the_commonest_font() -> None:
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    signs = [*re.findall(r">([^<>]+)</button>", bar()), "❚❚"]
    assert len(signs) == 6 and len(set(signs)) == 6
    assert {ord(sign) for sign in "".join(signs)} <= font.get_charmap().keys()


# --- the chart ------------------------------------------------------------------------


def test_the_chart_says_what_it_was_given() -> None:
    rows = [
        ("t", "k = 1", 4.504, 7.51),
        ("t", "ahead", 1.0, 474.06),
        ("u", "k = 1", 35.0, 7.5),
    ]
    chart = policy_chart(rows, "Fewer calls")
    assert chart.records()[0] == {
        "trace": "t",
        "policy": "k = 1",
        "calls per request": 4.5,
        "empty slots per request": 7.5,
    }
    assert [row[3] for row in chart.rows] == [7.5, 474.1, 7.5]
    assert ">474.1<" in chart.svg and ">ahead<" in chart.svg
