"""Lesson 02 in a real JupyterLab: the pool ruler and the fragmentation slider."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from .axe import expect_accessible
from .lab import Lab, part

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

POOL = "notebooks/02_the_memory_pool.ipynb"


def shown(kind: str) -> str:
    """An expression for the widget of this class that the kernel displayed last."""
    return f"[v for _, v in sorted(Out.items()) if type(v).__name__ == '{kind}'][-1]"


def to_and_fro(lab: Lab, slider: Locator, last: int, rounds: int = 3) -> None:
    """Arrow keys from end to end, much faster than the kernel answers."""
    slider.focus()
    for key in ("End", *["ArrowLeft"] * last, *["ArrowRight"] * last) * rounds:
        lab.page.keyboard.press(key)


@pytest.fixture
def ruler(lab: Lab) -> Locator:
    lab.use(POOL)
    index = lab.find_cell("PoolRuler(")
    lab.scroll_to(index)
    return lab.cell(index)


def test_the_ruler_is_worked_by_list_slider_number_and_text(
    lab: Lab, ruler: Locator
) -> None:
    lab.screenshot("pool-ruler-light", of=ruler)
    say = part(ruler, "say")
    ruler.get_by_role("combobox", name="model").select_option("OPT-13B")
    expect(say).to_contain_text("654 for requests, with room for 10,464 tokens")
    ruler.get_by_role("slider", name="block size").fill("3")
    expect(say).to_contain_text("a block of 8 tokens takes 6.25 MiB")
    ruler.get_by_role("slider", name="budget by slider").fill("28")
    expect(ruler.get_by_role("textbox", name="budget")).to_have_value("128 MiB")
    expect(say).to_contain_text("hold 20 blocks")
    ruler.get_by_role("combobox", name="bytes for each number").select_option(
        "fp8: 1 byte"
    )
    expect(say).to_contain_text("hold 40 blocks")
    ruler.get_by_role("spinbutton", name="layers").fill("20")
    expect(say).to_contain_text("a model of your own")
    blocks = lab.kernel_eval(f"{shown('PoolRuler')}.sums.num_blocks")
    expect(say).to_contain_text(f"hold {blocks} blocks")


def test_a_budget_is_typed_and_nonsense_is_answered(lab: Lab, ruler: Locator) -> None:
    box = ruler.get_by_role("textbox", name="budget")
    box.fill("")
    box.press_sequentially("3.5 MB")  # letter by letter, as fast as it goes
    expect(box).to_have_value("3.5 MB")
    expect(part(ruler, "say")).to_contain_text("3.338 MiB")
    assert lab.kernel_eval(f"{shown('PoolRuler')}.memory_bytes") == 3_500_000
    stood = part(ruler, "picture").bounding_box()
    assert stood is not None
    box.fill("<img src=x onerror='window.owned=1'>"[:24])
    expect(part(ruler, "error")).to_contain_text("can't read")
    box_now = part(ruler, "picture").bounding_box()
    assert box_now is not None
    assert box_now["y"] == stood["y"]  # an error moves nothing
    assert lab.page.evaluate("window.owned") is None
    lab.theme("dark")
    lab.screenshot("pool-ruler-error-dark", of=ruler)
    box.fill("40 GiB")
    expect(part(ruler, "error")).to_be_empty()


def test_dragging_the_budget_to_and_fro_ends_right(lab: Lab, ruler: Locator) -> None:
    slider = ruler.get_by_role("slider", name="budget by slider")
    to_and_fro(lab, slider, 12)
    slider.press("Home")
    expect(ruler.get_by_role("textbox", name="budget")).to_have_value("1 MiB")
    expect(slider).to_have_value("0")
    assert lab.kernel_eval(f"{shown('PoolRuler')}.memory_bytes") == 2**20


@pytest.fixture
def cut(lab: Lab) -> Locator:
    lab.use(POOL)
    lab.kernel_exec(f"{shown('Fragmentation')}.lengths = (5, 12, 22)")
    lab.kernel_exec(f"{shown('Fragmentation')}.block_size = 4")
    index = lab.find_cell("Fragmentation((5")
    lab.scroll_to(index)
    expect(part(lab.cell(index), "say")).to_contain_text("Wasted: 5 (11%)")
    return lab.cell(index)


def test_the_block_size_slides_and_the_manager_agrees(lab: Lab, cut: Locator) -> None:
    slider = cut.get_by_role("slider", name="block size")
    slider.focus()
    for wasted, entries in ((9, 6), (25, 4), (47, 2)):
        lab.page.keyboard.press("ArrowRight")
        expect(part(cut, "say")).to_contain_text(f"Wasted: {wasted}")
        expect(part(cut, "say")).to_contain_text(f"Table entries: {entries}.")
        assert lab.kernel_eval(f"{shown('Fragmentation')}.state.wasted") == wasted
    expect(part(cut, "say")).to_contain_text("c waits")
    lab.screenshot("fragmentation-light", of=cut)
    slider.fill("0")
    expect(part(cut, "say")).to_contain_text("39 tokens in 39 blocks")
    lab.theme("dark")
    lab.screenshot("fragmentation-dark", of=cut)


def test_sliding_to_and_fro_ends_right(lab: Lab, cut: Locator) -> None:
    slider = cut.get_by_role("slider", name="block size")
    to_and_fro(lab, slider, 5)
    slider.press("Home")
    expect(part(cut, "count")).to_have_text("block size 1")
    tall = cut.bounding_box()
    slider.press("End")
    expect(part(cut, "count")).to_have_text("block size 32")
    low = cut.bounding_box()
    assert tall is not None
    assert low is not None
    assert abs(tall["height"] - low["height"]) < 2  # the room is kept
    slider.press("Home")
    expect(part(cut, "count")).to_have_text("block size 1")
    expect(slider).to_have_value("0")
    assert lab.kernel_eval(f"{shown('Fragmentation')}.block_size") == 1
    cut.get_by_role("slider", name="tokens of b").fill("30")
    expect(part(cut, "of-b")).to_have_text("b: 30 tokens")
    expect(part(cut, "say")).to_contain_text("57 tokens in 57 blocks")


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ('"02-kv-budget"', "54 GiB"),
        ('"02-idle-bytes"', "as much as before they came"),
        ('"02-scattered-free"', "OK"),
        ('"02-wasted-share"', "about 9 %"),
    ],
)
def test_the_right_guesses_are_right(lab: Lab, text: str, guess: str) -> None:
    """Also after the whole lesson was run, which is when many people lock."""
    lab.use(POOL)
    cell = lab.cell(lab.find_cell(f"{text}"))
    cell.get_by_role("radio", name=guess, exact=True).check()
    cell.get_by_role("button", name="Lock my prediction").click()
    expect(cell).to_contain_text("Right.")


def test_it_keeps_nobody_out(lab: Lab) -> None:
    expect_accessible(lab, POOL)
