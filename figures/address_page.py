"""The HTML around an address picture: its controls, its table, its page at rest."""

from __future__ import annotations

from collections.abc import Sequence

from blockmgr.events import Snapshot
from figures import page as stills
from figures.address_layout import WIDTH
from figures.address_sums import sentence
from figures.addressing import Trail
from figures.layout import WIDTH as MAP_WIDTH
from figures.theme import MIN_SCALE
from figures.words import Labels, esc, isolate

WIDEST = 680
"""An address picture grows with its page up to this, so that it fits on one screen."""

SUMMARY = "The same address as a table"

_STYLE = (
    "<style>.kvstage .bar input[type=number]{font:inherit;width:5.5em;height:34px;"
    "box-sizing:border-box;padding:0 6px;border-radius:6px;color:var(--kv-ink);"
    "background:var(--kv-inset);border:1px solid light-dark(#6b7a89,#8492a0)}"
    f".kvstage svg.kvaddr{{max-width:{WIDEST}px!important;"
    f"min-width:{int(WIDTH * MIN_SCALE)}px!important}}</style>"
)

SHELL = (
    f"{_STYLE}<div class='bar' role='group' aria-label='choose a token'>"
    "<button type='button' data-act='back' aria-label='previous token' "
    "title='previous token'>◀</button>"
    "<button type='button' data-act='forward' aria-label='next token' "
    "title='next token'>▶</button>"
    "<input type='range' data-act='slide' min='0' value='0' "
    "aria-label='position'>"
    "<label>position <input type='number' data-act='position' min='0' "
    "step='1' value='0'></label>"
    "<select data-act='sequence' aria-label='sequence'></select>"
    "<select data-act='half' aria-label='K or V'></select>"
    "<select data-act='layer' aria-label='layer'></select></div>"
    "<div data-part='say' aria-live='polite'></div>"
    "<div data-part='error' role='alert'></div>"
    "<div data-part='picture'></div>"
    f"<details><summary>{SUMMARY}</summary><div data-part='tables'></div>"
    "</details>"
)


def options(names: Sequence[str]) -> str:
    """The options of a `<select>`; each one's value is its place."""
    return "".join(
        f"<option value='{i}'>{esc(isolate(name))}</option>"
        for i, name in enumerate(names)
    )


def table(way: Trail) -> str:
    """Every step of the way: the rule, the numbers, what comes out."""
    rows = "".join(
        f"<tr><th scope='row'>{esc(step.outcome)}</th><td>{esc(step.rule)}</td>"
        f"<td>{esc(step.text)}</td></tr>"
        for step in way.equations()
    )
    return (
        f"<table><caption>Position {way.address.position} of "
        f"<bdi>{esc(isolate(way.seq_id))}</bdi></caption><thead><tr>"
        "<th scope='col'>what</th><th scope='col'>rule</th>"
        f"<th scope='col'>in numbers</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def page(
    way: Trail, svg: str, snapshot: Snapshot, labels: Labels, error: str = ""
) -> str:
    """Sentence, picture and table for a page without a kernel; `error` is HTML."""
    alert = f"<p role='alert'>{error}</p>" if error else ""
    details = f"<details><summary>{SUMMARY}</summary>{table(way)}</details>"
    whole = stills.page(
        svg,
        snapshot,
        sentence=sentence(way, labels),
        tables=False,
        more=alert + details,
    )
    return _at_own_width(whole)


def _at_own_width(html: str) -> str:
    """`page` shows every picture at the width of a block map: ours is narrower."""
    least, ours = int(MAP_WIDTH * MIN_SCALE), int(WIDTH * MIN_SCALE)
    return (
        html.replace(f"width='{MAP_WIDTH}'", f"width='{WIDTH}'")
        .replace(f"max-width:{MAP_WIDTH}px", f"max-width:{WIDEST}px")
        .replace(f"min-width:{least}px", f"min-width:{ours}px")
    )
