"""Lesson 04's race in a real JupyterLab: stepped, played, dragged, by mouse and key.

The lesson itself measures for several seconds, so its race stands in a notebook of its
own here.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab, part, write

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

NAME = "race.ipynb"
CELLS = ("from figures import PolicyRace", "race = PolicyRace(k=3)\nrace")


@pytest.fixture
def race(lab: Lab) -> Locator:
    """The cell with the race, at its start, with batches of 3."""
    if lab.in_use != NAME:
        write(lab, NAME, *CELLS)
        lab.use(NAME)
    cell = lab.cell(1)
    lab.kernel_exec("race.playing, race.k, race.step, race.speed = False, 3, 0, 1")
    expect(part(cell, "count")).to_have_text("step 0 of 23")
    return cell


def expect_step(lab: Lab, cell: Locator, step: int) -> None:
    """Page and kernel agree."""
    expect(part(cell, "count")).to_have_text(f"step {step} of 23")
    expect(part(cell, "say")).to_have_text(
        lab.kernel_eval("race.film.headline(race.step)")
    )
    expect(cell.get_by_role("slider", name="step", exact=True)).to_have_value(str(step))
    assert lab.kernel_eval("race.step") == step
    expect(part(cell, "error")).to_be_empty()


def test_buttons_and_slider_move_all_lanes(lab: Lab, race: Locator) -> None:
    for name, step in [
        *(("one step forward", 1), ("last step", 23), ("one step back", 22)),
        ("first step", 0),
    ]:
        race.get_by_role("button", name=name).click()
        expect_step(lab, race, step)
    slider = race.get_by_role("slider", name="step", exact=True)
    for step in (20, 3, 22, 7):  # to and fro
        slider.fill(str(step))
    expect_step(lab, race, 7)
    picture = part(race, "picture")
    expect(picture).to_contain_text("D stalls: no block is free.")
    expect(picture).to_contain_text("D waits: it asks for 3, and 1 block is free.")
    expect(picture.get_by_text("✓7")).to_have_count(6)  # A and C; one is the legend's
    lab.screenshot("race-light", of=race)
    lab.theme("dark")
    expect(lab.page.locator("#jupyterlab-splash")).to_have_count(0)
    lab.screenshot("race-dark", of=race)


def test_keys_and_play_move_it(lab: Lab, race: Locator) -> None:
    race.get_by_role("button", name="one step forward").focus()
    for _ in range(4):  # faster than the kernel answers: none may be lost
        lab.page.keyboard.press("ArrowRight")
    expect_step(lab, race, 4)
    for key, step in [("ArrowLeft", 3), ("End", 23), ("Home", 0)]:
        lab.page.keyboard.press(key)
        expect_step(lab, race, step)
    race.get_by_role("combobox", name="speed").select_option("4×")
    race.get_by_role("button", name="play", exact=True).click()
    expect(part(race, "say")).not_to_contain_text("Before the first step")
    race.get_by_role("button", name="pause").click()
    expect(race.get_by_role("button", name="play", exact=True)).to_be_visible()
    assert lab.kernel_eval("race.playing") is False


def test_another_batch_size_runs_the_race_again(lab: Lab, race: Locator) -> None:
    lab.kernel_exec("race.step = 7")
    expect_step(lab, race, 7)
    top = part(race, "picture").bounding_box()
    batch = race.get_by_role("slider", name="batch size k")
    for k in (6, 1, 5, 2, 6, 1):  # to and fro
        batch.fill(str(k))
    expect(part(race, "k")).to_have_text("1 block")
    expect(part(race, "picture")).to_contain_text("1 block whenever one is needed")
    lines = part(race, "picture").locator("text", has_text="D stalls")
    expect(lines).to_have_count(2)
    expect_step(lab, race, 7)
    batch.press("ArrowRight")
    expect(part(race, "k")).to_have_text("2 blocks")
    assert lab.kernel_eval("race.k") == 2
    now = part(race, "picture").bounding_box()
    assert top is not None and now is not None
    assert (now["y"], now["height"]) == (top["y"], top["height"])  # nothing jumped


def test_a_block_belongs_to_its_own_lane(lab: Lab, race: Locator) -> None:
    lab.kernel_exec("race.step = 7")
    expect_step(lab, race, 7)
    part(race, "picture").locator("[data-b='3']").nth(1).hover()
    expect(part(race, "picture").locator(".hot")).to_have_count(1)


def test_the_race_has_a_text_alternative(lab: Lab, race: Locator) -> None:
    lab.kernel_exec("race.step = 7")
    race.get_by_text("The same step as tables").click()
    tables = part(race, "tables")
    expect(tables.get_by_role("table")).to_have_count(2)
    expect(tables.get_by_role("cell", name="A and C fill slots")).to_be_visible()
    expect(tables.get_by_role("cell", name="step 7").first).to_be_visible()
    race.get_by_text("The same step as tables").click()
