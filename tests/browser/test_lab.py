"""The lessons in a real JupyterLab: what the page shows and what the kernel then holds.

All in one module, so that `--dist loadscope` gives them one server and one browser. The
tests of a lesson share its running notebook (`lab.use`); each brings it to the state it
needs first. What they look at is also photographed, into `screenshots/`.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from .axe import expect_accessible
from .lab import SHOTS, CellFailed, Lab, part, write
from .server import ROOT
from .static import open_without_kernel

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

START = "notebooks/00_start_here.ipynb"
TABLE = "notebooks/03_the_block_table.ipynb"
SAVED = sorted((ROOT / "notebooks").glob("*.ipynb"))
Do = Callable[[], object]

ODD = {
    "nothing": "",
    "words": "three blocks, I think",
    "a tag": '<img src=x onerror="window.owned = 1"><script>owned = 1</script>',
    "emoji": "🧱🧱🧱",
    "right to left": "\u202eשלוש\u202c",
    "100 kB": "9" * 100_000,
}


def shown(kind: str) -> str:
    """An expression for the widget of this class that the kernel displayed last."""
    return f"[v for _, v in sorted(Out.items()) if type(v).__name__ == '{kind}'][-1]"


# --- the harness itself ---------------------------------------------------------------


def test_the_harness_sees_a_failing_cell_and_a_complaint(lab: Lab) -> None:
    lab.close_all()
    lab.open_notebook(write(lab, "broken.ipynb", "x = 1", "1 / 0"))
    with pytest.raises(CellFailed, match="cell 1 raised ZeroDivisionError"):
        lab.run_all()
    assert lab.kernel_eval("x") == 1
    with pytest.raises(CellFailed, match="NameError"):
        lab.kernel_eval("y")
    lab.page.evaluate("console.error('something is wrong')")
    assert "something is wrong" in lab.console_errors()[0]
    lab.console.clear()


# --- lesson 00: the Player ------------------------------------------------------------


@pytest.fixture
def player(lab: Lab) -> Locator:
    """The cell with lesson 00's Player, at its first step."""
    lab.use(START)
    cell = lab.cell(lab.find_cell("player = Player("))
    lab.kernel_exec("player.playing, player.step, player.selected = False, 0, ''")
    lab.kernel_exec("player.speed = 1")
    expect(part(cell, "count")).to_have_text("step 0 of 45")
    return cell


def expect_step(lab: Lab, cell: Locator, step: int) -> None:
    """Page and kernel agree on the step, and the page says what happened in it."""
    expect(part(cell, "count")).to_have_text(f"step {step} of 45")
    assert lab.kernel_eval("player.step") == step
    expect(part(cell, "say")).to_have_text(
        lab.kernel_eval("player.film.sentence(player.step)")
    )
    expect(part(cell, "audit")).to_contain_text("every invariant holds")
    expect(cell.get_by_role("slider", name="step")).to_have_value(str(step))


def press_shortcuts(lab: Lab) -> None:
    """JupyterLab's one-key shortcuts must not reach it from within a widget."""
    cells = len(lab.sources())
    for key in ("b", "d", "d", "d", "d"):  # a new cell below; delete the cell, twice
        lab.page.keyboard.press(key)
        assert len(lab.sources()) == cells, f"the key {key!r} changed the notebook"


def test_buttons_step_the_player(lab: Lab, player: Locator) -> None:
    expect_step(lab, player, 0)
    for name, step in [
        ("one step forward", 1),
        ("one step forward", 2),
        ("one step back", 1),
        ("last step", 45),
        ("first step", 0),
    ]:
        player.get_by_role("button", name=name).click()
        expect_step(lab, player, step)
    back = player.get_by_role("button", name="one step back")
    expect(back).to_be_disabled()  # says so, but keeps the focus
    back.press("Enter")
    expect(back).to_be_focused()
    expect_step(lab, player, 0)
    player.get_by_role("slider", name="step").fill("20")
    expect_step(lab, player, 20)
    lab.screenshot("player-light", of=player)
    lab.theme("dark")
    lab.screenshot("player-dark", of=player)


def test_keys_step_the_player(lab: Lab, player: Locator) -> None:
    player.get_by_role("button", name="one step forward").focus()
    for _ in range(5):  # faster than the kernel answers: none may be lost
        lab.page.keyboard.press("ArrowRight")
    expect_step(lab, player, 5)
    for key, step in [("ArrowLeft", 4), ("End", 45), ("Home", 0)]:
        lab.page.keyboard.press(key)
        expect_step(lab, player, step)
    press_shortcuts(lab)


def test_the_player_plays_and_stops(lab: Lab, player: Locator) -> None:
    player.get_by_role("combobox", name="speed").select_option("4×")
    player.get_by_role("button", name="play", exact=True).click()
    expect(part(player, "count")).to_have_text(re.compile(r"step ([3-9]|\d\d) of 45"))
    player.get_by_role("button", name="pause").click()
    expect(player.get_by_role("button", name="play", exact=True)).to_be_visible()
    assert lab.kernel_eval("player.playing") is False
    expect_step(lab, player, lab.kernel_eval("player.step"))


def test_a_block_can_be_clicked_and_walked_from(lab: Lab, player: Locator) -> None:
    player.get_by_role("slider", name="step").fill("20")
    expect_step(lab, player, 20)
    picture = part(player, "picture")
    ways: list[tuple[Do, str]] = [
        (lambda: picture.locator("[data-key='block:3']").click(), "block:3"),
        (lambda: lab.page.keyboard.press("ArrowRight"), "block:4"),
        (lambda: lab.page.keyboard.press("Home"), "block:0"),
        (lambda: lab.page.keyboard.press("Escape"), ""),
    ]
    for do, key in ways:
        do()
        chosen = picture.locator("[data-key][aria-selected=true]")
        if key:
            expect(chosen).to_have_attribute("data-key", key)
            expect(chosen).to_be_focused()
        else:
            expect(chosen).to_have_count(0)
        assert lab.kernel_eval("player.selected") == key


def test_the_player_has_a_text_alternative(lab: Lab, player: Locator) -> None:
    player.get_by_role("slider", name="step").fill("20")
    expect_step(lab, player, 20)
    player.get_by_text("The same state as tables").click()
    tables = part(player, "tables")
    expect(tables.get_by_role("table").first).to_be_visible()
    expect(tables.get_by_role("cell", name="Ada").first).to_be_visible()
    lab.screenshot("player-tables", of=player)
    player.get_by_text("The same state as tables").click()


_STEP_TIMES = """async ([forward, count]) => {
    const times = [];
    const changed = () => new Promise(done => {
        const eye = new MutationObserver(() => { eye.disconnect(); done(); });
        eye.observe(count, {childList: true, subtree: true, characterData: true});
    });
    for (let i = 0; i < 20; i++) {
        const start = performance.now();
        const answer = changed();
        forward.click();
        await answer;
        times.push(performance.now() - start);
        await new Promise(requestAnimationFrame);
    }
    return times;
}"""


def test_the_time_of_a_step_is_reported(
    lab: Lab, player: Locator, record_property: Callable[[str, object], None]
) -> None:
    """Browser -> kernel -> browser. Reported, never asserted: machines differ."""
    forward = player.get_by_role("button", name="one step forward")
    places = [forward.element_handle(), part(player, "count").element_handle()]
    times = lab.page.evaluate(_STEP_TIMES, places)
    median = statistics.median(times)
    record_property("player_step_ms", round(median))
    print(f"Player step: median {median:.0f} ms, slowest {max(times):.0f} ms of 20")
    expect_step(lab, player, 20)


# --- lesson 00: predictions and checks ------------------------------------------------


def locked(lab: Lab, name: str) -> object:
    """What the kernel has locked for a prediction; None while it is open."""
    return lab.kernel_eval(f"progress.predictions['{name}'].guess")


def test_nonsense_is_answered_and_a_prediction_is_locked(lab: Lab) -> None:
    lab.use(START)
    cell = lab.cell(lab.find_cell('"00-nine-tokens"'))
    box = cell.get_by_role("textbox", name="Your prediction")
    button = cell.get_by_role("button", name="Lock my prediction")
    for kind, text in ODD.items():
        box.fill(text)
        button.click()
        expect(button).to_be_enabled()  # the kernel has answered
        expect(cell.get_by_role("status")).to_contain_text(
            "in the box" if text else " "
        )
        expect(box).to_have_value(text)
        assert locked(lab, "00-nine-tokens") is None, kind
    assert lab.page.evaluate("window.owned") is None
    lab.screenshot("prediction-nonsense", of=cell)
    box.fill("3")
    box.press("Enter")
    expect(cell).to_contain_text("Right.")
    expect(cell.get_by_role("textbox", name="Your prediction")).to_have_count(0)
    assert locked(lab, "00-nine-tokens") == "3"
    lab.screenshot("prediction-right", of=cell)


def test_a_choice_is_made_by_keyboard(lab: Lab) -> None:
    lab.use(START)
    cell = lab.cell(lab.find_cell('"00-who-is-preempted"'))
    cell.get_by_role("radio", name="Ada").focus()
    press_shortcuts(lab)
    lab.page.keyboard.press("ArrowDown")
    lab.page.keyboard.press("Enter")
    expect(cell).to_contain_text("Not this time.")
    assert locked(lab, "00-who-is-preempted") == "Ben"
    lab.theme("dark")
    lab.screenshot("prediction-wrong-dark", of=cell)


def test_an_exercise_is_solved_in_its_cell(lab: Lab) -> None:
    lab.use(START)
    cell = lab.cell(lab.find_cell('check("00-blocks-needed"'))
    expect(cell).to_contain_text("Not attempted.")
    code = lab.sources()[lab.find_cell('check("00-blocks-needed"')]
    lab.type_and_run(cell, code.replace(_STUB, "return num_tokens // block_size"))
    expect(cell).to_contain_text("Not yet.")
    lab.screenshot("check-not-yet", of=cell)
    lab.type_and_run(cell, code.replace(_STUB, "return -(-num_tokens // block_size)"))
    expect(cell).to_contain_text("Right.")
    lab.screenshot("check-right", of=cell)
    lab.type_and_run(cell, code)


_STUB = "raise NotImplementedError  # your code goes here"


def test_lesson_00_keeps_nobody_out(lab: Lab) -> None:
    expect_accessible(lab, START)


# --- again and again ------------------------------------------------------------------


def test_a_cell_run_twice_does_not_act_twice(lab: Lab) -> None:
    lab.use(START)
    index = lab.find_cell("player = Player(")
    cell = lab.cell(index)
    for _ in range(2):
        lab.type_and_run(cell, lab.sources()[index])
        expect(part(cell, "count")).to_have_text("step 0 of 45")
        cell.get_by_role("button", name="one step forward").click()
        expect_step(lab, cell, 1)
    expect(cell.locator(".kvstage")).to_have_count(1)


_LIVE = "len(__import__('ipywidgets').widgets.widget._instances)"
_STAGES = ".kvstage, .jp-OutputArea-output form"


def test_running_all_again_piles_nothing_up(lab: Lab) -> None:
    """In one kernel: as many widgets live after the second and third run as before."""
    for notebook in (START, TABLE):
        lab.use(notebook)
        live = []
        for _ in range(3):
            lab.run_all()
            live.append(lab.kernel_eval(_LIVE))
        assert live[0] == live[1] == live[2] > 0


def test_all_works_again_after_a_restart(lab: Lab) -> None:
    lab.use(START)
    seen = []
    for _ in range(2):
        lab.restart_and_run_all()
        cell = lab.cell(lab.find_cell("player = Player("))
        cell.get_by_role("button", name="one step forward").click()
        expect_step(lab, cell, 1)
        assert locked(lab, "00-nine-tokens") is None
        seen.append((lab.kernel_eval(_LIVE), lab.notebook.locator(_STAGES).count()))
    assert seen[0] == seen[1]
    assert lab.execution_counts() == list(range(1, len(lab.execution_counts()) + 1))


# --- lesson 03: the address explorer --------------------------------------------------


def test_a_token_is_followed_to_its_slot(lab: Lab) -> None:
    lab.use(TABLE)
    index = lab.find_cell("AddressExplorer(manager")
    cell = lab.cell(index)
    explorer = shown("AddressExplorer")
    lab.scroll_to(index)
    lab.screenshot("address-light", of=cell)
    ways: list[tuple[Do, int]] = [
        (lambda: cell.get_by_role("button", name="next token").click(), 10),
        (lambda: cell.get_by_role("button", name="previous token").click(), 9),
        (lambda: cell.get_by_role("slider", name="position").fill("2"), 2),
        (lambda: cell.locator("[data-key='token:7']").first.click(), 7),
        (lambda: lab.page.keyboard.press("ArrowRight"), 8),
    ]
    for do, position in ways:
        do()
        number = cell.get_by_role("spinbutton", name="position")
        expect(number).to_have_value(str(position))
        slot = lab.kernel_eval(f"{explorer}.slot")
        assert lab.kernel_eval(f"{explorer}.position") == position
        assert lab.kernel_eval(f"manager.slot_mapping('e')[{position}]") == slot
        expect(part(cell, "say")).to_contain_text(f"slot {slot}")


def test_a_position_that_is_not_there_is_explained(lab: Lab) -> None:
    lab.use(TABLE)
    cell = lab.cell(lab.find_cell("AddressExplorer(manager"))
    number = cell.get_by_role("spinbutton", name="position")
    number.fill("99")
    number.press("Enter")
    expect(part(cell, "error")).to_contain_text("99")
    lab.theme("dark")
    lab.screenshot("address-error-dark", of=cell)
    number.fill("3")
    number.press("Enter")
    expect(part(cell, "error")).to_be_empty()
    assert lab.kernel_eval(f"{shown('AddressExplorer')}.position") == 3


def test_lesson_03_keeps_nobody_out(lab: Lab) -> None:
    expect_accessible(lab, TABLE)


# --- a living manager -----------------------------------------------------------------

LIVE = """
from blockmgr import BlockManager
from figures import BlockMap

manager = BlockManager(num_blocks=8, block_size=4, record=True)
manager.allocate("<b>r0</b>", list(range(1, 10)))
picture = BlockMap(manager)
picture
"""


def test_a_block_map_follows_its_manager(lab: Lab) -> None:
    lab.close_all()
    lab.open_notebook(write(lab, "live.ipynb", LIVE))
    lab.run_all()
    cell = lab.cell(0)
    expect(cell.locator("b", has_text="r0")).to_have_count(0)  # escaped
    cell.locator("[data-key='block:2']").click()
    expect(cell.locator("[aria-selected=true]")).to_have_attribute(
        "data-key", "block:2"
    )
    assert lab.kernel_eval("picture.selected") == "block:2"
    lab.kernel_exec("manager.free('<b>r0</b>'); picture.refresh()")
    expect(cell.locator("[data-part=say]")).to_contain_text("finished")
    expect(cell.locator("[data-key^='seq:']")).to_have_count(0)
    lab.screenshot("block-map", of=cell)


# --- pages without a kernel -----------------------------------------------------------


def saved_pictures(path: Path) -> int:
    """How many pictures the outputs in the file hold."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    pages = ["".join(out.get("data", {}).get("text/html", "")) for out in outputs]
    return sum(len(re.findall(r"<(?:img|svg)\b", page)) for page in pages)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_a_saved_notebook_shows_its_pictures_without_a_kernel(
    chromium: Browser, tmp_path: Path, path: Path
) -> None:
    page = open_without_kernel(chromium, path, tmp_path)
    pictures = page.locator(".jp-OutputArea-output img, .jp-OutputArea-output svg")
    assert pictures.count() == saved_pictures(path) > 0
    assert page.evaluate(_BLIND) == []
    page.screenshot(path=SHOTS / f"static-{path.stem}.png", full_page=True)
    page.context.close()


def test_a_fresh_clone_shows_its_pictures_before_anything_ran(lab: Lab) -> None:
    """JupyterLab does not trust such a notebook: it strips scripts and inline SVG."""
    lab.close_all()
    lab.open_notebook(START)
    index = lab.find_cell("player = Player(")
    lab.scroll_to(index)
    # The first picture is the frame; the legend's stands folded below it.
    expect(lab.cell(index).locator("img").first).to_be_visible()
    assert lab.page.evaluate(_BLIND) == []
    lab.screenshot("fresh-clone")


_BLIND = """() => [...document.querySelectorAll(".jp-OutputArea-output img")]
    .filter(img => img.complete && !img.naturalWidth || !img.alt)
    .map(img => img.outerHTML.slice(0, 200))"""
