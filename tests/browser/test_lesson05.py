"""Lesson 05 in a real JupyterLab: the beam tree by click, key, slider and word.

The tests share one running notebook; each begins with a tree that was reset.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from .axe import expect_accessible
from .lab import Lab, part

pytestmark = pytest.mark.browser

LESSON = "notebooks/05_sharing.ipynb"
TREE = "[v for _, v in sorted(Out.items()) if type(v).__name__ == 'BeamTree'][-1]"


@pytest.fixture
def tree(lab: Lab) -> Locator:
    lab.use(LESSON)
    index = lab.find_cell("BeamTree(")
    lab.scroll_to(index)
    cell = lab.cell(index)
    cell.get_by_role("button", name="Reset").click()
    expect(part(cell, "say")).to_contain_text("One beam, A, holds the prompt")
    cell.get_by_role("slider", name="beam width").fill("3")
    expect(part(cell, "count")).to_have_text("3 beams")
    return cell


def press(cell: Locator, name: str) -> None:
    cell.get_by_role("button", name=name, exact=True).click()


def beams(lab: Lab) -> list[str]:
    return list(lab.kernel_eval(f"list({TREE}.search.beams)"))


def chosen(lab: Lab) -> str:
    return str(lab.kernel_eval(f"{TREE}.chosen"))


def test_steps_grow_and_prune_and_undo_takes_them_back(lab: Lab, tree: Locator) -> None:
    press(tree, "Step")
    expect(part(tree, "say")).to_contain_text("B, a fork of A, with “fox”")
    expect(part(tree, "say")).to_contain_text("block 2 to 3 and 2 to 4")
    expect(part(tree, "gauge")).to_contain_text("blocks in use 4 · without sharing 6")
    assert beams(lab) == ["A", "B", "C"]
    press(tree, "Step")
    expect(part(tree, "say")).to_contain_text("Pruned: C.")
    assert beams(lab) == ["A", "B", "D"]
    lab.screenshot("beams-light", of=tree)
    press(tree, "Undo")
    expect(part(tree, "gauge")).to_contain_text("copied so far 2")
    assert beams(lab) == ["A", "B", "C"]


def test_a_dragged_slider_counts_where_it_stops(lab: Lab, tree: Locator) -> None:
    slider = tree.get_by_role("slider", name="beam width")
    for width in ("1", "4", "2", "3", "1", "4"):
        slider.fill(width)
    expect(part(tree, "count")).to_have_text("4 beams")
    slider.press("ArrowLeft")
    slider.press("ArrowLeft")
    expect(part(tree, "count")).to_have_text("2 beams")
    press(tree, "Step")
    expect(part(tree, "say")).to_contain_text("Kept the best 2")
    assert beams(lab) == ["A", "B"]


def test_a_beam_is_chosen_by_click_by_key_and_from_the_list(
    lab: Lab, tree: Locator
) -> None:
    press(tree, "Step")
    expect(part(tree, "say")).to_contain_text("Kept the best 3")
    beam = tree.get_by_role("combobox", name="beam")
    tags = part(tree, "picture").locator(".kvbeams [data-key]")
    tags.nth(1).click()
    expect(beam).to_have_value("1")
    assert chosen(lab) == "B"
    expect(tags.nth(1)).to_be_focused()
    lab.page.keyboard.press("ArrowRight")
    expect(beam).to_have_value("2")
    lab.page.keyboard.press("ArrowDown")  # from the tree into the map below it
    expect(part(tree, "picture").locator(".kvmap:not(.kvbeams) :focus")).to_have_count(
        1
    )
    part(tree, "picture").locator("[data-key='seq:A']").last.click()
    expect(beam).to_have_value("0")
    beam.select_option("C")
    expect(part(tree, "picture").locator(".pick")).to_contain_text("C")
    assert chosen(lab) == "C"


def test_fork_word_and_prune(lab: Lab, tree: Locator) -> None:
    press(tree, "Fork it")
    expect(part(tree, "say")).to_contain_text("B is a fork of A: it shares 2 blocks")
    tree.get_by_role("combobox", name="beam").select_option("B")
    word = tree.get_by_role("textbox", name="next word")
    word.press_sequentially("<b>owl")
    word.press("Enter")
    expect(part(tree, "say")).to_contain_text("B got token “<b>owl”")
    expect(part(tree, "say")).to_contain_text("block 2 is shared with A")
    expect(word).to_have_value("")
    expect(tree.locator("b", has_text="owl")).to_have_count(0)
    expect(part(tree, "picture")).to_contain_text("<b>owl")
    lab.theme("dark")
    lab.screenshot("beams-dark", of=tree)
    press(tree, "Prune it")
    expect(part(tree, "say")).to_contain_text("B has finished")
    assert beams(lab) == ["A"]
    lab.theme("light")


def test_what_is_too_much_is_said_in_words(lab: Lab, tree: Locator) -> None:
    press(tree, "Prune it")
    expect(part(tree, "say")).to_contain_text("A is the last beam")
    press(tree, "Give it the word")
    expect(part(tree, "say")).to_contain_text("Type a word first")
    word = tree.get_by_role("textbox", name="next word")
    word.fill("two words")
    press(tree, "Give it the word")
    expect(part(tree, "say")).to_contain_text("that is 2 words")
    for _ in range(6):
        press(tree, "Fork it")
    expect(part(tree, "say")).to_contain_text("6 living beams are the most")
    assert len(beams(lab)) == 6
    expect(part(tree, "error")).to_be_empty()
    assert lab.console_errors() == []


def test_the_picture_does_not_jump(lab: Lab, tree: Locator) -> None:
    def tops() -> list[int]:
        boxes = [
            part(tree, "picture").locator("svg").nth(i).bounding_box() for i in (0, 1)
        ]
        return [round(box["y"]) for box in boxes if box]

    before = tops()
    for _ in range(4):
        press(tree, "Step")
    expect(part(tree, "say")).to_contain_text("“the”")
    assert tops() == before and len(before) == 2


def test_the_text_alternative_tells_tables_and_counts(lab: Lab, tree: Locator) -> None:
    press(tree, "Step")
    tree.get_by_text("The same beams and blocks as tables").click()
    tables = part(tree, "tables")
    expect(tables.get_by_role("row", name="A")).not_to_have_count(0)
    expect(tables).to_contain_text("block 1 (ref count 3), block 3 (ref count 1)")
    tree.get_by_text("Every event of this move").click()
    expect(part(tree, "story").get_by_role("listitem")).to_have_count(5)
    tree.get_by_text("The same beams and blocks as tables").click()
    tree.get_by_text("Every event of this move").click()


def test_it_keeps_nobody_out(lab: Lab) -> None:
    expect_accessible(lab, LESSON)
