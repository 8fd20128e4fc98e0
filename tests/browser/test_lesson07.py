"""Lesson 07's explorer in a real JupyterLab: prompts typed side by side, fast and odd.

It stands in a notebook of its own here; test_accessibility.py runs the whole lesson.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab, part, write

expect.set_options(timeout=15_000)

pytestmark = pytest.mark.browser

NAME = "prefixes.ipynb"
SETUP = "from figures import PrefixExplorer\nfrom figures.prefixes.story import tally"
START = "You are a kind tutor . Answer in one line . Why is the sky blue ?"
ODD = "<script>owned = 1</script> \u202eשלום\u202c 🧱🧱 " + "x" * 100_000


@pytest.fixture
def prefixes(lab: Lab) -> Locator:
    """The cell with the explorer, as the lesson opens it."""
    if lab.in_use != NAME:
        write(lab, NAME, SETUP, "w = PrefixExplorer()\nw")
        lab.use(NAME)
    lab.kernel_exec("w.act('examples', None); w.act('size', 4.0); w.act('tokens', 0.0)")
    expect_state(lab, lab.cell(1), [0, 8])
    return lab.cell(1)


def expect_state(lab: Lab, cell: Locator, hit_tokens: list[int]) -> None:
    """The manager found this, and page and kernel say the same."""
    fields = cell.locator("textarea:visible, .kvprompt:not([hidden]) input[type=text]")
    for _ in range(100):  # until the kernel has what stands in the fields
        typed = fields.evaluate_all("all => all.map((field) => field.value)")
        if lab.kernel_eval("[t for p in w.prompts for t in (p.salt, p.text)]") == typed:
            break
        lab.page.wait_for_timeout(50)
    found = "[chain.hit_tokens for chain in w.study.chains]"
    told = part(cell, "picture").locator("text", has_text="need no computing")
    expect(told).to_have_text(lab.kernel_eval("list(map(tally, w.study.chains))"))
    assert lab.kernel_eval(found) == hit_tokens
    expect(part(cell, "say")).to_have_text(lab.kernel_eval("w._sentence()"))
    expect(part(cell, "error")).to_be_empty()


def test_one_letter_at_the_start_renames_the_whole_chain(
    lab: Lab, prefixes: Locator
) -> None:
    lab.screenshot("prefixes-light", of=prefixes)
    prompt = prefixes.get_by_role("textbox", name="prompt A")
    prompt.press("Control+Home")
    prompt.press("x")
    expect(part(prefixes, "say")).to_contain_text("4 of A's 4 hashes are new")
    expect_state(lab, prefixes, [0, 0])
    expect(part(prefixes, "picture").locator(".chip.other")).to_have_count(4)
    expect(prompt).to_be_focused()
    prompt.press("Backspace")
    expect_state(lab, prefixes, [0, 8])
    lab.theme("dark")
    lab.screenshot("prefixes-dark", of=prefixes)


def test_typing_fast_ends_right(lab: Lab, prefixes: Locator) -> None:
    prompt = prefixes.get_by_role("textbox", name="prompt B")
    prompt.fill("")
    prompt.press_sequentially(START, delay=4)  # faster than the kernel answers
    expect(prompt).to_have_value(START)
    expect_state(lab, prefixes, [0, 16])
    for _ in range(12):
        prompt.press("Backspace")
    prompt.press_sequentially(" sky blue ?", delay=2)
    expect(prompt).to_have_value(START[:-12] + " sky blue ?")
    expect_state(lab, prefixes, [0, 12])
    assert lab.kernel_eval("w.prompts[1].text") == START[:-12] + " sky blue ?"


def test_whatever_is_pasted_is_cut_and_harmless(lab: Lab, prefixes: Locator) -> None:
    prompt = prefixes.get_by_role("textbox", name="prompt A")
    prompt.fill(ODD)
    expect(part(prefixes, "count0")).to_have_text(
        "400 of 400 characters; the rest was cut off"
    )
    assert len(prompt.input_value()) == 400
    expect_state(lab, prefixes, [0, 0])
    assert lab.page.evaluate("window.owned") is None
    assert lab.console_errors() == []


def test_salt_size_tokens_and_prompts_can_be_chosen(
    lab: Lab, prefixes: Locator
) -> None:
    salt = prefixes.get_by_role("textbox", name="salt of B")
    salt.press_sequentially("tenant", delay=2)
    expect(part(prefixes, "say")).to_contain_text("another salt stands in its chain")
    expect_state(lab, prefixes, [0, 0])
    prefixes.get_by_role("button", name="add a prompt").click()
    expect_state(lab, prefixes, [0, 0, 16])
    prefixes.get_by_role("button", name="remove prompt B").click()
    expect_state(lab, prefixes, [0, 0])
    expect(prefixes.get_by_role("textbox", name="prompt C")).to_be_hidden()
    prefixes.get_by_role("button", name="back to the start").click()
    prefixes.get_by_label("block size").select_option("2")
    expect_state(lab, prefixes, [0, 10])
    prefixes.get_by_label("a token is a").select_option("character")
    expect_state(lab, prefixes, [0, 46])


def test_blocks_can_be_walked_and_told_by_key(lab: Lab, prefixes: Locator) -> None:
    picture = part(prefixes, "picture")
    picture.locator("[data-key='link:A:0']").click()
    expect(part(prefixes, "say")).to_contain_text("used by A and B (ref count 2)")
    lab.page.keyboard.press("ArrowRight")
    expect(picture.locator("[aria-selected=true]")).to_be_focused()
    assert lab.kernel_eval("w.selected") == "link:A:1"
    expect(picture.locator(".lit")).to_have_count(1)
    lab.page.keyboard.press("ArrowDown")
    expect(part(prefixes, "say")).to_contain_text("B's block 1 lies in physical")
    lab.page.keyboard.press("Escape")
    expect(part(prefixes, "say")).to_contain_text("B: 2 hits, then block 2")
    prefixes.get_by_text("The same blocks as a table").click()
    expect(part(prefixes, "tables").get_by_role("row")).to_have_count(11)
    prefixes.get_by_text("The same blocks as a table").click()
