"""The HTML of the playground: its controls, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from figures.playground.commands import BLOCKS, HOST_BLOCKS, MOST_NAME, MOST_TEXT, SIZES
from figures.playground.scenarios import SCENARIOS
from figures.words import esc

STYLE = (Path(__file__).parent / "playground.css").read_text(encoding="utf-8")


def _button(act: str, text: str, label: str = "") -> str:
    """A button; `label` is its name where `text` is a sign."""
    name = f" aria-label='{label}'" if label else ""
    return f"<button type='button' data-act='{act}'{name}>{text}</button>"


def _select(act: str, label: str, options: str) -> str:
    return f"<select data-act='{act}' aria-label='{label}'>{options}</select>"


def options(texts: Iterable[tuple[int, str]]) -> str:
    """The options of a `<select>`: the value of each, and its text, escaped already."""
    return "".join(f"<option value='{v}'>{text}</option>" for v, text in texts)


def _counted(numbers: Iterable[int]) -> str:
    return options((n, str(n)) for n in numbers)


def _group(name: str, inside: str, shown: str = "") -> str:
    caption = f"<b aria-hidden='true'>{shown}</b>" if shown else ""
    return f"<div role='group' aria-label='{name}'>{caption}{inside}</div>"


_SCENARIOS = _select(
    "scenario",
    "ready-made scenario",
    options([(-1, "a scenario …"), *enumerate(esc(s.title) for s in SCENARIOS)]),
)
_POOL = (
    f"<label>{_select('blocks', 'blocks of a new pool', _counted(BLOCKS))} blocks"
    f"</label><label>of {_select('size', 'slots of a block', _counted(SIZES))}</label>"
    f"<label>host {_select('host', 'host blocks', _counted(HOST_BLOCKS))}</label>"
    "<label><input type='checkbox' data-act='cache'>cache</label>"
    f"{_button('new', 'New pool')}"
)
_FILE = (
    "<a class='file' data-act='save' download='playground.json'>Save</a>"
    "<label class='file'>Load<input type='file' data-act='load' "
    "accept='.json,application/json' aria-label='load a saved log'></label>"
)
_REQUESTS = (
    f"<input type='text' data-act='text' data-enter='request' maxlength='{MOST_TEXT}' "
    "placeholder='a prompt, or a length such as 12' aria-label='prompt or length' "
    "autocomplete='off' spellcheck='false'>"
    f"<input type='text' data-act='name' data-enter='request' maxlength='{MOST_NAME}' "
    "aria-label='name of the new sequence' title='its name' "
    "autocomplete='off' spellcheck='false'>"
    "<button type='button' class='main' data-act='request'>New request</button>"
    f"{_button('append', 'Append it')}"
)
_ALL = f"{_button('step', 'Decode step')}{_button('reset', 'Reset cache')}"
_ONE = (
    _select("choose", "chosen sequence", "")
    + _button("token", "+1 token")
    + _button("fork", "Fork")
    + _button("finish", "Finish")
    + _button("pause", "Preempt")
    + _button("swap", "Swap out")
)
_TIME = (
    f"{_button('undo', '↶', 'undo')}{_button('redo', '↷', 'redo')}"
    "<input type='range' data-act='moment' min='0' value='0' aria-label='step'>"
    "<span class='count' data-part='count'></span>"
)

CONTROLS = (
    "<div class='kvplay'>"
    f"{_group('begin', _SCENARIOS, 'begin')}{_group('new pool', _POOL, 'pool')}"
    f"{_group('file', _FILE)}"
    f"{_group('requests', _REQUESTS, 'ask')}{_group('everybody', _ALL, 'all')}"
    f"{_group('the chosen sequence', _ONE, 'one')}{_group('time', _TIME, 'time')}"
    "</div><div data-part='look'></div>"
)
"""Three rows of groups where there is room for them."""
