"""A stage by itself: whatever is typed, pressed, pasted or chosen reaches Python.

The widget of these tests writes down what it heard. `SLOW` lets it answer late, as a
busy kernel does: then the page has to keep what comes meanwhile, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Locator, expect

from .lab import Lab, write

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

ECHO = '''
from time import sleep
from figures.stage import Stage, shell
from figures.words import esc

class Echo(Stage):
    """Hears everything; its parts are made anew with each answer."""

    def __init__(self):
        self.diary, self.text, self.number, self.slow = [], "", 3, 0
        self.buttons = [1, 2, 3]
        super().__init__(shell("tables", CONTROLS, "<div data-part='row'></div>"))
        self.draw()

    def act(self, name, value):
        sleep(self.slow)
        self.diary.append([name, value])
        if name == "gone":
            self.buttons = [b for b in self.buttons if b != value]
        if name == "number":
            self.number = int(value)
        self.draw()

    def typed(self, name, text):
        sleep(self.slow)
        self.diary.append([name, text])
        if name == "text":
            self.text = text[:100_000]
        self.draw()

    def page(self):
        return "no kernel here"

    def draw(self):
        row = "".join(
            f"<button data-act='gone' data-value='{b}'>gone {b}</button>"
            for b in self.buttons
        ) + f"<button data-act='add' data-value='7'>add {len(self.diary)}</button>"
        say = f"{len(self.diary)} heard, {len(self.text)} characters"
        self.place(
            {"say": say, "picture": "", "tables": esc(self.text), "row": row},
            {"text": {"value": self.text}, "number": {"value": self.number}},
        )

CONTROLS = (
    "<div class='bar'><button data-act='step'>step</button>"
    "<input type='text' data-act='line' data-enter='give' aria-label='line'>"
    "<input type='number' data-act='number' aria-label='number'>"
    "<input type='checkbox' data-act='tick' aria-label='tick'>"
    "<input type='file' data-act='load' aria-label='load'></div>"
    "<textarea data-act='text' data-enter='give' aria-label='text'></textarea>"
)
'''


@pytest.fixture
def stage(lab: Lab) -> Iterator[Locator]:
    """A fresh `Echo` in the page, as `echo` in the kernel."""
    if lab.in_use != "stage.ipynb":
        write(lab, "stage.ipynb", ECHO, "echo = Echo()\necho")
        lab.use("stage.ipynb")
    lab.scroll_to(1)
    cell = lab.cell(1)
    cell.get_by_role("textbox", name="line").fill("")
    lab.wait_idle()
    lab.kernel_exec(
        "echo.diary.clear(); echo.slow = 0; echo.text = ''; echo.buttons = [1, 2, 3];"
        "echo.draw()"
    )
    expect(cell.locator("[data-part=say]")).to_have_text("0 heard, 0 characters")
    yield cell
    lab.wait_idle()


def heard(lab: Lab) -> list[Any]:
    lab.wait_idle()
    log: list[Any] = lab.kernel_eval("echo.diary")
    return log


def heard_up_to(lab: Lab, last: list[Any]) -> list[Any]:
    """What Python heard, once `last` has reached it."""
    for _ in range(100):
        log = heard(lab)
        if log[-1:] == [last]:
            return log
        lab.page.wait_for_timeout(50)
    raise AssertionError(f"{last} never came: {heard(lab)}")


def settled(stage: Locator, count: int) -> None:
    expect(stage.locator("[data-part=say]")).to_contain_text(f"{count} heard")


def last_text(lab: Lab, stage: Locator, text: str) -> None:
    """Page and kernel agree on the text, in the end."""
    count = f", {len(text)} characters"
    expect(stage.locator("[data-part=say]")).to_contain_text(count)
    expect(stage.get_by_role("textbox", name="text")).to_have_value(text)
    assert lab.kernel_eval("echo.text") == text


@pytest.mark.parametrize("slow", [0, 0.15])
def test_nothing_typed_fast_is_lost(lab: Lab, stage: Locator, slow: float) -> None:
    """And the field is never set back to what Python knew a moment ago."""
    lab.kernel_exec(f"echo.slow = {slow}")
    text = "the cat sat on the mat, and then it did so again"
    box = stage.get_by_role("textbox", name="text")
    box.focus()
    lab.page.keyboard.type(text, delay=12)
    expect(box).to_have_value(text)
    last_text(lab, stage, text)
    lab.page.keyboard.press("ControlOrMeta+ArrowLeft")
    lab.page.keyboard.type("X", delay=12)  # in the middle: the caret stays there
    lab.page.keyboard.type("Y", delay=12)
    last_text(lab, stage, text.replace("again", "XYagain"))
    assert len(heard(lab)) <= len(text) + 2


def test_a_kernel_that_is_silent_for_long_hears_all_in_order(
    lab: Lab, stage: Locator
) -> None:
    """Longer than the page's patience: then it goes on sending, oldest first."""
    lab.kernel_exec("echo.slow = 1.7")
    box = stage.get_by_role("textbox", name="text")
    box.focus()
    lab.page.keyboard.type("abc")
    lab.page.wait_for_timeout(3100)
    lab.page.keyboard.type("d")
    lab.page.wait_for_timeout(200)
    lab.page.keyboard.type("e")
    last_text(lab, stage, "abcde")
    texts = [text for _, text in heard(lab)]
    assert texts == sorted(texts, key=len) and texts[-1] == "abcde"


def test_five_quick_presses_of_a_button_that_says_which(
    lab: Lab, stage: Locator
) -> None:
    lab.kernel_exec("echo.slow = 0.1")
    stage.get_by_role("button", name="add").evaluate(
        "one => { for (let i = 0; i < 5; i++) one.click(); }"
    )
    stage.get_by_role("button", name="step").evaluate(
        "one => { for (let i = 0; i < 5; i++) one.click(); }"
    )
    settled(stage, 6)
    log = heard(lab)
    assert log == [["add", 7]] * 5 + [["step", 5]]


def test_the_focus_stays_with_a_button_that_was_made_anew(
    lab: Lab, stage: Locator
) -> None:
    add = stage.get_by_role("button", name="add")
    add.focus()
    for count in range(1, 6):
        lab.page.keyboard.press("Enter")
        settled(stage, count)
        expect(add).to_be_focused()
        expect(add).to_have_text(f"add {count}")
    assert heard(lab) == [["add", 7]] * 5


def test_the_focus_goes_to_the_neighbour_of_a_button_that_is_gone(
    lab: Lab, stage: Locator
) -> None:
    stage.get_by_role("button", name="gone 2").focus()
    for left in ("gone 3", "add", None):
        lab.page.keyboard.press("Space")
        if left is None:
            break
        expect(stage.get_by_role("button", name=left)).to_be_focused()
    cells = len(lab.sources())
    lab.kernel_exec("echo.buttons = []; echo.draw()")
    for key in ("d", "d", "b"):
        lab.page.keyboard.press(key)
    assert len(lab.sources()) == cells
    assert [value for _, value in heard(lab)] == [2, 3, 7]


def test_where_no_button_is_left_the_focus_rests_on_the_stage(
    lab: Lab, stage: Locator
) -> None:
    lab.kernel_exec(
        "echo.place({'row': \"<button data-act='last' data-value='1'>last</button>\"})"
    )
    stage.get_by_role("button", name="last").focus()
    lab.kernel_exec("echo.place({'row': 'nothing is left'})")
    expect(stage.locator(".kvstage")).to_be_focused()
    cells = len(lab.sources())
    for key in ("d", "d", "b"):
        lab.page.keyboard.press(key)
    assert len(lab.sources()) == cells
    stage.get_by_role("textbox", name="line").focus()
    expect(stage.locator(".kvstage")).not_to_have_attribute("tabindex", "-1")


def test_enter_sends_what_was_typed_before_it(lab: Lab, stage: Locator) -> None:
    line = stage.get_by_role("textbox", name="line")
    line.focus()
    lab.page.keyboard.type("go")
    lab.page.keyboard.press("Enter")
    log = heard_up_to(lab, ["give", None])
    assert log[-2:] == [["line", "go"], ["give", None]]
    expect(line).to_be_focused()
    box = stage.get_by_role("textbox", name="text")
    box.focus()
    lab.page.keyboard.type("a")
    lab.page.keyboard.press("Shift+Enter")  # a new line, and the cell is not run
    lab.page.keyboard.type("b")
    last_text(lab, stage, "a\nb")
    assert heard(lab).count(["give", None]) == 1
    box.evaluate("one => one.removeAttribute('data-enter')")
    lab.page.keyboard.press("Enter")  # JupyterLab would swallow this one
    last_text(lab, stage, "a\nb\n")
    assert lab.execution_counts() == [1, 2]


def test_an_input_method_is_left_alone_until_it_is_done(
    lab: Lab, stage: Locator
) -> None:
    box = stage.get_by_role("textbox", name="text")
    box.focus()
    lab.page.keyboard.type("a")
    last_text(lab, stage, "a")
    ime = lab.page.context.new_cdp_session(lab.page)
    for half in ("に", "にほ", "日本"):
        ime.send(
            "Input.imeSetComposition",
            {"text": half, "selectionStart": len(half), "selectionEnd": len(half)},
        )
        lab.kernel_exec("echo.draw()")  # an answer that knows nothing of it
        expect(box).to_have_value(f"a{half}")
    assert lab.kernel_eval("echo.text") == "a"
    ime.send("Input.insertText", {"text": "日本"})
    last_text(lab, stage, "a日本")
    assert [text for _, text in heard(lab)] == ["a", "a日本"]


def test_100_kB_are_pasted_at_once(lab: Lab, stage: Locator) -> None:
    text = "<b>&'\"\u202e" + "x" * 100_000
    box = stage.get_by_role("textbox", name="text")
    box.focus()
    lab.page.keyboard.insert_text(text)
    last_text(lab, stage, text[:100_000])
    assert [len(text) for _, text in heard(lab)] == [100_007]
    expect(stage.locator("[data-part=tables] b")).to_have_count(0)


def test_a_file_is_read_and_can_be_chosen_again(lab: Lab, stage: Locator) -> None:
    picker = stage.get_by_label("load")
    file: FilePayload = {
        "name": "log.json",
        "mimeType": "application/json",
        "buffer": '{"é": 1}'.encode(),
    }
    for count in (1, 2):
        picker.set_input_files(file)
        settled(stage, count)
    large: FilePayload = {**file, "buffer": b"y" * (5 << 20)}
    picker.set_input_files(large)
    settled(stage, 3)
    assert lab.kernel_eval("[len(text) for _, text in echo.diary]") == [8, 8, 4 << 20]
    assert lab.kernel_eval("echo.diary[0]") == ["load", '{"é": 1}']


def test_a_number_is_typed_and_a_box_ticked(lab: Lab, stage: Locator) -> None:
    number = stage.get_by_role("spinbutton", name="number")
    number.focus()
    lab.page.keyboard.press("ControlOrMeta+A")
    lab.page.keyboard.press("Delete")  # an empty field is no number yet
    lab.page.keyboard.type("12345", delay=10)
    expect(number).to_have_value("12345")
    expect(stage.locator("[data-part=say]")).to_contain_text("heard")
    tick = stage.get_by_role("checkbox", name="tick")
    tick.check()
    tick.uncheck()
    lab.wait_idle()
    log = heard(lab)
    assert log[-3:] == [["number", 12345], ["tick", 1], ["tick", 0]]
    assert ["number", 0] not in log
    assert lab.kernel_eval("echo.number") == 12345
