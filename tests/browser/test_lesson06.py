"""Lesson 06 in a real JupyterLab: the ribbon clicked, dragged, walked by keyboard.

The lesson itself measures for several seconds, so its ribbon and its last exercise
stand in a notebook of their own here.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab, part, write

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

NAME = "ribbon.ipynb"
SETUP = """
from blockmgr import BlockManager
from classroom import check
from figures import QueueRibbon

run = BlockManager(num_blocks=8, block_size=4, record=True)
run.allocate("a", range(10))
run.allocate("b", range(100, 104))
run.free("b")
run.free("a")
run.allocate("c", [*range(4), *range(50, 54)])
run.allocate("d", range(200, 214))
"""
RIBBON = "ribbon = QueueRibbon(run, at=6)\nribbon"
EXERCISE = """
def worth(age, hits, place):
    raise NotImplementedError


check("06-beat-lru", worth)
"""


def use(lab: Lab) -> None:
    """Have the notebook open and run."""
    if lab.in_use != NAME:
        write(lab, NAME, SETUP.strip(), RIBBON, EXERCISE.strip())
        lab.use(NAME)


@pytest.fixture
def ribbon(lab: Lab) -> Locator:
    """The cell with the ribbon of the small run: six steps, nothing chosen."""
    use(lab)
    lab.scroll_to(1)
    lab.kernel_exec("ribbon.selected, ribbon.step = '', 4")
    expect(part(lab.cell(1), "count")).to_have_text("step 4 of 6")
    expect(part(lab.cell(1), "story")).to_contain_text("Click a block")
    return lab.cell(1)


def expect_queue(cell: Locator, kind: str, *ids: int) -> None:
    """The blocks of the ribbon `p` (before) or `q` (after), head first."""
    cells = part(cell, "picture").locator(f"g[id*='-{kind}'][data-key]")
    expect(cells).to_have_count(len(ids))
    for place, block_id in enumerate(ids):
        expect(cells.nth(place)).to_have_attribute("data-key", f"block:{block_id}")


def test_buttons_and_slider_move_the_queue(lab: Lab, ribbon: Locator) -> None:
    expect_queue(ribbon, "p", 5, 6, 7, 4)
    expect_queue(ribbon, "q", 3, 5, 6, 7, 4, 2, 1)
    lab.screenshot("ribbon-light", of=ribbon)
    ribbon.get_by_role("button", name="one step forward").click()
    expect(part(ribbon, "count")).to_have_text("step 5 of 6")
    expect(part(ribbon, "picture")).to_contain_text("hit")
    expect_queue(ribbon, "q", 5, 6, 7, 4, 2)
    slider = ribbon.get_by_role("slider", name="step")
    for step in (6, 1, 6, 0, 6):  # to and fro
        slider.fill(str(step))
    expect(part(ribbon, "count")).to_have_text("step 6 of 6")
    expect(part(ribbon, "picture")).to_contain_text("taken, forgets")
    expect_queue(ribbon, "q", 2)
    assert lab.kernel_eval("ribbon.step") == 6


def test_a_click_selects_a_block_in_all_its_places(lab: Lab, ribbon: Locator) -> None:
    expect(part(ribbon, "story")).to_contain_text("The next to be taken is block 3")
    part(ribbon, "picture").locator("[data-key='block:4']").first.click()
    expect(part(ribbon, "story")).to_contain_text("Number 5 of 7 in the queue")
    expect(part(ribbon, "story")).to_contain_text("Step 3: b let go of it")
    chosen = part(ribbon, "picture").locator("[aria-selected=true]")
    expect(chosen).to_have_count(2)
    lab.theme("dark")
    lab.screenshot("ribbon-story-dark", of=ribbon)
    part(ribbon, "picture").locator("svg").click(position={"x": 5, "y": 5})
    expect(chosen).to_have_count(0)
    assert lab.kernel_eval("ribbon.selected") == ""


def test_all_of_it_works_by_keyboard(lab: Lab, ribbon: Locator) -> None:
    ribbon.get_by_role("button", name="one step forward").focus()
    for key, step in [("ArrowRight", 5), ("End", 6), ("Home", 0), ("ArrowRight", 1)]:
        lab.page.keyboard.press(key)
        expect(part(ribbon, "count")).to_have_text(f"step {step} of 6")
    lab.kernel_exec("ribbon.step = 4")
    expect(part(ribbon, "count")).to_have_text("step 4 of 6")
    first = part(ribbon, "picture").locator("g[id*='-q'][data-key]").first
    first.focus()
    for key, block in [("Enter", "3"), ("ArrowRight", "5"), ("End", "1")]:
        lab.page.keyboard.press(key)
        expect(part(ribbon, "story")).to_contain_text(f"Block {block}.")
    lab.page.keyboard.press("Escape")
    expect(part(ribbon, "story")).to_contain_text("Click a block")
    cells = len(lab.sources())
    for key in ("b", "d", "d"):  # JupyterLab's own keys stay out
        lab.page.keyboard.press(key)
    assert len(lab.sources()) == cells


def test_the_queue_is_told_in_tables_too(lab: Lab, ribbon: Locator) -> None:
    ribbon.get_by_text("The same queue as tables").click()
    tables = part(ribbon, "tables")
    expect(tables.get_by_role("table").first).to_contain_text("came to the head")
    ribbon.get_by_text("The same queue as tables").click()
    assert lab.console_errors() == []


def test_the_target_is_beaten_in_its_cell(lab: Lab) -> None:
    use(lab)
    cell = lab.cell(2)
    for answer, said in [
        ("return -age", "It finds 97 blocks."),
        ("return hits, -age", "It finds 169 blocks."),
        ("return hits, -place, -age", "Right."),
    ]:
        source = EXERCISE.strip().replace("raise NotImplementedError", answer)
        lab.type_and_run(cell, source)
        expect(cell).to_contain_text(said)
