"""The playground in a real JupyterLab: clicked wildly, typed into, dragged, fed files.

The tests share one running notebook. After each of them page and kernel agree, every
invariant holds, and no widget and no callback has been added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from .axe import expect_accessible
from .lab import Lab, part

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

NOTEBOOK = "notebooks/playground.ipynb"
COUNTS = """(
    len(playground._msg_callbacks.callbacks),
    sum(len(found) for kinds in playground._trait_notifiers.values()
        for found in kinds.values()),
    len(__import__("ipywidgets").widgets.widget._instances),
)"""
WILD = """async ([root, seed, clicks]) => {
    const luck = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
    const pressed = {};
    const answered = () => new Promise(done => {
        const eye = new MutationObserver(() => { eye.disconnect(); done(); });
        eye.observe(root, {subtree: true, childList: true, attributes: true});
        setTimeout(done, 500);
    });
    for (let i = 0; i < clicks; i++) {
        const buttons = [...root.querySelectorAll("button[data-act]")];
        const button = buttons[Math.floor(luck() * buttons.length)];
        pressed[button.dataset.act] = (pressed[button.dataset.act] ?? 0) + 1;
        const answer = answered();
        button.click();
        await (luck() < 0.5 ? answer : null); // half of them before it has answered
    }
    return pressed;
}"""


@pytest.fixture
def stage(lab: Lab) -> Iterator[Locator]:
    """The playground with its first scenario; at the end it must be in order."""
    lab.use(NOTEBOOK)
    stage = lab.cell(lab.find_cell("playground = Playground(0)")).locator(".kvstage")
    lab.kernel_exec(
        "playground.typed('text', 'seven words that are said two times ' * 2)"
    )
    lab.kernel_exec("playground.act('scenario', 0)")
    expect(part(stage, "count")).to_have_text("step 3 of 3")
    before = lab.kernel_eval(COUNTS)
    yield stage
    expect_in_order(lab, stage)
    assert lab.kernel_eval(COUNTS) == before


def press(stage: Locator, name: str) -> None:
    stage.get_by_role("button", name=name, exact=True).click()


def settle(lab: Lab) -> None:
    """Wait until the page has sent all that waits there, and has its answers."""
    before, now = -1, lab.kernel_eval("playground.frame['n']")
    while before != now:
        lab.page.wait_for_timeout(120)
        lab.wait_idle()
        before, now = now, lab.kernel_eval("playground.frame['n']")


def expect_in_order(lab: Lab, stage: Locator) -> None:
    """Page and kernel show the same moment, and every invariant holds in it."""
    settle(lab)
    lab.kernel_exec("playground.manager.audit()")
    at, last = lab.kernel_eval(
        "(playground.session.at, len(playground.session.commands))"
    )
    expect(part(stage, "count")).to_have_text(f"step {at} of {last}")
    expect(part(stage, "audit")).to_contain_text("every invariant holds")
    expect(part(stage, "error")).to_be_empty()
    slider = stage.get_by_role("slider", name="step")
    expect(slider).to_have_value(str(at))


def test_five_hundred_random_clicks_leave_it_right(lab: Lab, stage: Locator) -> None:
    pressed: dict[str, int] = {}
    start = lab.kernel_eval("playground.frame['n']")
    for seed, scenario in [(1, 0), (2, 3)]:
        lab.kernel_exec(f"playground.act('scenario', {scenario})")
        arguments = [stage.element_handle(), seed, 250]
        found: dict[str, int] = lab.page.evaluate(WILD, arguments)
        expect_in_order(lab, stage)
        for act, times in found.items():
            pressed[act] = pressed.get(act, 0) + times
    assert sum(pressed.values()) == 500
    assert len(pressed) == stage.locator("button[data-act]").count() == 12
    frames = lab.kernel_eval("playground.frame['n']") - start
    assert 250 < frames <= 520, "each is answered once, or with its likes"


def test_typing_fast_loses_no_letter_and_enter_sends_it(
    lab: Lab, stage: Locator
) -> None:
    prompt = "the quick <b>brown</b> fox & co. jumps over 🧱 lazy dogs " * 3
    stage.get_by_role("combobox", name="blocks of a new pool").select_option("24")
    press(stage, "New pool")
    expect(part(stage, "count")).to_have_text("step 0 of 0")
    field = stage.get_by_role("textbox", name="prompt or length")
    field.fill("")
    field.press_sequentially(prompt, delay=0)
    name = stage.get_by_role("textbox", name="name of the new sequence")
    name.press_sequentially("<i>Eve</i>", delay=0)
    name.press("Enter")
    expect(part(stage, "say")).to_contain_text("<i>Eve</i> arrived with 33 tokens")
    assert lab.kernel_eval("playground.session.commands[-1].text") == prompt
    expect(field).to_have_value(prompt)
    expect(name).to_have_value("")
    expect(stage.get_by_role("combobox", name="chosen sequence")).to_have_value("0")
    assert stage.locator("i, :not(.kvplay div) > b:has-text('brown')").count() == 0


def test_dragging_the_slider_to_and_fro_ends_where_it_is_left(
    lab: Lab, stage: Locator
) -> None:
    lab.kernel_exec("playground.act('scenario', 1)")
    slider = stage.get_by_role("slider", name="step")
    expect(slider).to_have_attribute("max", "10")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    lab.page.mouse.move(box["x"] + box["width"] - 6, middle)
    lab.page.mouse.down()
    for share in [abs(i) / 20 for i in range(-20, 21)]:
        lab.page.mouse.move(box["x"] + 6 + (box["width"] - 12) * share, middle)
    lab.page.mouse.move(box["x"] + 6 + (box["width"] - 12) * 0.6, middle)
    lab.page.mouse.up()
    expect(part(stage, "count")).to_have_text("step 6 of 10")
    expect(part(stage, "say")).to_contain_text("LATER")
    press(stage, "undo")
    press(stage, "redo")
    press(stage, "Decode step")  # from here on, the later steps are given up
    expect(part(stage, "count")).to_have_text("step 7 of 7")


def test_it_is_worked_by_keyboard_and_the_notebook_stays(
    lab: Lab, stage: Locator
) -> None:
    cells = len(lab.sources())
    step = stage.get_by_role("button", name="Decode step")
    step.focus()
    lab.page.keyboard.press("Enter")
    expect(part(stage, "count")).to_have_text("step 4 of 4")
    expect(step).to_be_focused()
    for key in ("b", "d", "d", "a"):
        lab.page.keyboard.press(key)
    assert len(lab.sources()) == cells
    picture = part(stage, "picture")
    picture.locator("[data-key='seq:Ada']").focus()
    lab.page.keyboard.press("Enter")
    expect(picture.locator("[aria-selected=true]")).to_have_attribute(
        "data-key", "seq:Ada"
    )
    chosen = stage.get_by_role("combobox", name="chosen sequence")
    expect(chosen).to_have_value("0")
    chosen.select_option("1")
    expect(picture.locator("[aria-selected=true]")).to_have_attribute(
        "data-key", "seq:Ben"
    )
    swap = stage.get_by_role("button", name="Swap out")
    expect(swap).to_be_disabled()
    swap.press("Enter")
    expect(part(stage, "say")).to_contain_text("this pool has no host blocks")
    for act in ("undo", "undo", "undo", "undo"):
        stage.get_by_role("button", name=act, exact=True).press(" ")
    expect(part(stage, "count")).to_have_text("step 0 of 4")


def test_a_log_is_saved_loaded_and_a_bad_one_refused(lab: Lab, stage: Locator) -> None:
    press(stage, "Fork")
    expect(part(stage, "count")).to_have_text("step 4 of 4")
    state = lab.kernel_eval("repr(tuple(playground.session.now.state))")
    with lab.page.expect_download() as download:
        stage.get_by_role("link", name="Save").click()
    assert download.value.suggested_filename == "playground.json"
    text = download.value.path().read_bytes()
    assert json.loads(text)["commands"][-1] == {
        "op": "fork",
        "name": "Ben",
        "child": "r0",
    }
    press(stage, "New pool")
    expect(part(stage, "count")).to_have_text("step 0 of 0")
    for bad, why in [
        (b"", "the file is not JSON, or was cut off"),
        (b"[" * 50_000, "the file is JSON that no log would hold"),
        (b"\x89PNG\r\n\x00\xff", "the file is not JSON, or was cut off (line 1"),
        (b" " * 5_000_000, "the file is too long"),
        (text[:-9], "the file is not JSON, or was cut off (line"),
    ]:
        _load(stage, bad)
        say = f"Not done: nothing was loaded: {why}"
        expect(part(stage, "say")).to_contain_text(say)
    expect(part(stage, "count")).to_have_text("step 0 of 0")
    _load(stage, text)
    expect(part(stage, "count")).to_have_text("step 4 of 4")
    assert lab.kernel_eval("repr(tuple(playground.session.now.state))") == state


def _load(stage: Locator, content: bytes) -> None:
    file: Any = {"name": "a.json", "mimeType": "application/json", "buffer": content}
    stage.get_by_label("load a saved log").set_input_files(file)


def test_a_new_pool_has_the_sizes_that_were_chosen(lab: Lab, stage: Locator) -> None:
    for name, value in [
        ("blocks of a new pool", "9"),
        ("slots of a block", "3"),
        ("host blocks", "5"),
    ]:
        stage.get_by_role("combobox", name=name).select_option(value)
    stage.get_by_role("checkbox", name="cache").uncheck()
    press(stage, "New pool")
    expect(part(stage, "picture")).to_contain_text("0 of 8")
    assert lab.kernel_eval("list(playground.session.pool)") == [9, 3, 5, False]
    press(stage, "New request")
    press(stage, "Swap out")
    expect(part(stage, "host")).to_contain_text("5 of 5")
    expect(stage.get_by_role("button", name="Swap in")).to_be_visible()
    stage.get_by_role("combobox", name="ready-made scenario").select_option("3")
    expect(part(stage, "look")).to_contain_text("Swap out and in. At step 4")
    for _ in range(4):
        press(stage, "undo")
    expect(part(stage, "count")).to_have_text(re.compile("step 4 of 8"))
    lab.screenshot("playground-light", of=stage)
    lab.theme("dark")
    lab.screenshot("playground-dark", of=stage)


def test_it_keeps_nobody_out(lab: Lab) -> None:
    expect_accessible(lab, NOTEBOOK)


def test_after_a_restart_it_says_so_and_a_saved_log_goes_on(lab: Lab) -> None:
    lab.use(NOTEBOOK)
    stage = lab.cell(lab.find_cell("playground = Playground(0)")).locator(".kvstage")
    saved = lab.kernel_eval("playground._bench.desk.save()")
    lab.in_use = None
    lab.restart_kernel()
    press(stage, "Decode step")
    expect(part(stage, "error")).to_contain_text("Python was restarted")
    lab.run_all()
    press(stage, "New pool")
    _load(stage, saved.encode())
    expect(part(stage, "look")).to_contain_text("This is the log that you loaded")
    expect_in_order(lab, stage)
