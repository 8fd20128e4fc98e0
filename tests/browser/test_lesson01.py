"""Lesson 01 in a real JupyterLab: four memories, stepped, slid and played."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from .axe import expect_accessible
from .lab import Lab, part

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

WHY = "notebooks/01_why_blocks.ipynb"
WIDGET = "[v for v in Out.values() if type(v).__name__ == 'Reservations'][-1]"


@pytest.fixture
def four(lab: Lab) -> Locator:
    """The cell with the four memories, as the lesson opens it."""
    lab.use(WHY)
    lab.kernel_exec(f"w = {WIDGET}")
    lab.kernel_exec("w.playing, w.longest, w.block_size, w.step = False, 32, 4, 5")
    index = lab.find_cell("Reservations(small")
    lab.scroll_to(index)
    expect_step(lab, lab.cell(index), 5)
    return lab.cell(index)


def expect_step(lab: Lab, cell: Locator, step: int) -> None:
    """Page and kernel agree on the step, and the page says what it shows."""
    last = lab.kernel_eval("w.last_step")
    expect(part(cell, "count")).to_have_text(f"step {step} of {last}")
    assert lab.kernel_eval("w.step") == step
    headline = lab.kernel_eval("w.film.headline(w.step)")
    expect(part(cell, "say")).to_have_text(headline)
    expect(part(cell, "error")).to_be_empty()
    expect(cell.get_by_role("slider", name="step")).to_have_value(str(step))


def test_buttons_keys_and_slider_step_through_the_memories(
    lab: Lab, four: Locator
) -> None:
    lab.screenshot("reservations-light", of=four)
    expect(part(four, "picture")).to_contain_text("25 external")
    for name, step in (("one step forward", 6), ("one step back", 5)):
        four.get_by_role("button", name=name).click()
        expect_step(lab, four, step)
    for _ in range(4):  # faster than the kernel answers: none may be lost
        lab.page.keyboard.press("ArrowRight")
    expect_step(lab, four, 9)
    four.get_by_role("slider", name="step").fill("20")
    expect_step(lab, four, 20)
    lab.theme("dark")
    lab.screenshot("reservations-dark", of=four)
    four.get_by_role("button", name="last step").click()
    expect_step(lab, four, 58)
    expect(part(four, "say")).to_contain_text("in step 23 with paging")


def test_the_longest_length_and_the_block_size_slide(lab: Lab, four: Locator) -> None:
    longest = four.get_by_role("slider", name="longest length")
    longest.press("ArrowRight")
    expect(part(four, "picture")).to_contain_text("reserves 36 slots, always")
    expect(part(four, "picture")).to_contain_text("1 run · 11 wait · 0 served")
    expect_step(lab, four, 5)
    size = four.get_by_role("slider", name="block size")
    for key in ("End", *["ArrowLeft"] * 4, *["ArrowRight"] * 4) * 3:
        size.press(key)  # to and fro, faster than the kernel answers
    longest.press("ArrowRight")  # answered after all of these
    expect(part(four, "picture")).to_contain_text("reserves 40 slots, always")
    expect(part(four, "picture")).to_contain_text("blocks of 16 slots")
    assert lab.kernel_eval("[w.longest, w.block_size]") == [40, 16]
    size.press("Home")
    expect(part(four, "picture")).to_contain_text("blocks of 1 slot,")
    expect_step(lab, four, 5)


def test_it_plays_stops_and_tells_it_in_tables(lab: Lab, four: Locator) -> None:
    four.get_by_role("combobox", name="speed").select_option("4×")
    four.get_by_role("button", name="play", exact=True).click()
    expect(part(four, "count")).to_have_text(re.compile(r"step ([7-9]|\d\d) of 58"))
    four.get_by_role("button", name="pause").click()
    expect(four.get_by_role("button", name="play", exact=True)).to_be_visible()
    step = lab.kernel_eval("w.step")
    expect_step(lab, four, step)
    four.get_by_text("The same step as tables").click()
    table = four.get_by_role(
        "table", name=f"Four memories of 64 slots after step {step}"
    )
    expect(table.get_by_role("row")).to_have_count(5)
    four.get_by_text("The same step as tables").click()


def test_it_keeps_nobody_out(lab: Lab) -> None:
    expect_accessible(lab, WHY)
