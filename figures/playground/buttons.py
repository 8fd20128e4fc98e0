"""The state of every control: what it shows, and why it can't be used now."""

from __future__ import annotations

from typing import Any

from figures.playground.file import to_link
from figures.playground.page import options
from figures.playground.session import Session
from figures.playground.workbench import Workbench, as_length
from figures.words import esc, isolate, named, plural, visible

Controls = dict[str, dict[str, Any]]


def controls(bench: Workbench) -> Controls:
    """What the page's controls show now, by their names."""
    return {**_fields(bench), **_asking(bench), **_one(bench), **_time(bench)}


def _button(can: str, why_not: str) -> dict[str, Any]:
    """A button: `can` says what it does, `why_not` why it can't. One that is disabled
    would lose the focus: so it tells, and does nothing."""
    tells = why_not or can
    return {"ariaDisabled": str(bool(why_not)).lower(), "title": visible(tells)}


def _fields(bench: Workbench) -> Controls:
    pool = bench.wanted
    return {
        "text": {"value": bench.text},
        "name": {"value": bench.name, "placeholder": bench.session.new_name()},
        "scenario": {"value": str(bench.scenario)},
        "blocks": {"value": str(pool.num_blocks), "title": "block 0 is one of them"},
        "size": {"value": str(pool.block_size)},
        "host": {"value": str(pool.num_host_blocks)},
        "cache": {"checked": pool.enable_caching},
        "new": _button(f"begin anew with {plural(pool.num_blocks, 'block')}", ""),
        "save": {"href": to_link(bench.desk.save()), "title": "save the log as a file"},
    }


def _asking(bench: Workbench) -> Controls:
    who, length = isolate(bench.chosen), as_length(bench.text)
    tokens = len(bench.text.split()) if length is None else length
    what = plural(tokens, "token")
    can = {
        "request": f"a new sequence with {what}",
        "append": f"append {what} to {who}",
        "step": "every running sequence gets one token",
        "reset": "forget every hash",
    }
    return {act: _button(can[act], bench.why_not(act)) for act in can}


def _one(bench: Workbench) -> Controls:
    """The chosen sequence, and what can be done with it."""
    session, who = bench.session, isolate(bench.chosen)
    names = list(session.now.sequences)
    pause, swap = bench.command("pause").op, bench.command("swap").op
    can = {
        "token": f"one token for {who}",
        "fork": f"a second sequence like {who}",
        "finish": f"{who} has finished",
        "pause": _DOES[pause] + who,
        "swap": _DOES[swap] + who,
    }
    made = {act: _button(can[act], bench.why_not(act)) for act in can}
    made["pause"]["textContent"] = _SAYS[pause]
    made["swap"]["textContent"] = _SAYS[swap]
    made["choose"] = {
        "innerHTML": options((i, _told(session, n)) for i, n in enumerate(names))
        or options([(-1, "nobody is here")]),
        "value": str(names.index(bench.chosen)) if names else "-1",
    }
    return made


_SAYS = {
    "preempt": "Preempt",
    "resume": "Resume",
    "swap_out": "Swap out",
    "swap_in": "Swap in",
}
_DOES = {
    "preempt": "take the blocks away from ",
    "resume": "bring back and compute again ",
    "swap_out": "move to host memory: ",
    "swap_in": "bring back from host memory: ",
}


def _told(session: Session, name: str) -> str:
    """A sequence in the list: `r0 · 12 tokens`, `r1 · preempted`. A name that runs from
    right to left would turn the number round, so it stands between marks of its own."""
    now = session.now
    waiting = now.waiting(name)
    words = {
        "running": f"{waiting} without slot" if waiting else "",
        "preempted": "preempted",
        "swapped": "on the host",
    }[now.sequences[name].status]
    words = words or plural(now.lengths[name], "token")
    return f"\u2068{esc(named(name))}\u2069 · {words}"


def _time(bench: Workbench) -> Controls:
    session, last = bench.session, len(bench.session.commands)
    place = f"step {session.at} of {last}"
    branch = "; what you do now replaces the later steps" if session.at < last else ""
    return {
        "undo": _button("undo", bench.desk.why_no_undo()),
        "redo": _button("redo", bench.desk.why_no_redo()),
        "moment": {
            "max": last,
            "value": session.at,
            "valueText": place,
            "title": place + branch,
        },
    }
