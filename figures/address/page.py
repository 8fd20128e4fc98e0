"""The HTML around an address picture: its controls, its table, its page at rest."""

from __future__ import annotations

from collections.abc import Sequence

from blockmgr.events import Snapshot
from figures import page as stills
from figures.address.layout import WIDTH
from figures.address.sums import sentence
from figures.address.trail import Trail
from figures.tables import html_table
from figures.theme import MIN_SCALE
from figures.words import Labels, esc, isolate

WIDEST = 680
"""An address picture grows with its page up to this, so that it fits on one screen."""

SUMMARY = "The same address as a table"

STYLE = (
    f".kvstage svg.kvaddr{{max-width:{WIDEST}px!important;"
    f"min-width:{int(WIDTH * MIN_SCALE)}px!important}}"
)
"""What the widget needs beyond the style sheet of every stage."""

CONTROLS = (
    "<div class='bar' role='group' aria-label='choose a token'>"
    "<button type='button' data-act='back' aria-label='previous token' "
    "title='previous token'>←</button>"
    "<button type='button' data-act='forward' aria-label='next token' "
    "title='next token'>→</button>"
    "<input type='range' data-act='slide' min='0' value='0' "
    "aria-label='position'>"
    "<label>position <input type='number' data-act='position' min='0' "
    "step='1' value='0'></label>"
    "<select data-act='sequence' aria-label='sequence'></select>"
    "<select data-act='half' aria-label='K or V'></select>"
    "<select data-act='layer' aria-label='layer'></select></div>"
)


def options(names: Sequence[str]) -> str:
    """The options of a `<select>`; each one's value is its place."""
    return "".join(
        f"<option value='{i}'>{esc(isolate(name))}</option>"
        for i, name in enumerate(names)
    )


def table(way: Trail) -> str:
    """Every step of the way: the rule, the numbers, what comes out."""
    name = f"<bdi>{esc(isolate(way.seq_id))}</bdi>"
    return html_table(
        f"Position {way.address.position} of {name}",
        ("what", "rule", "in numbers"),
        (map(esc, (e.outcome, e.rule, e.text)) for e in way.equations()),
    )


def page(
    way: Trail, svg: str, snapshot: Snapshot, labels: Labels, error: str = ""
) -> str:
    """Sentence, picture and table for a page without a kernel; `error` is HTML."""
    alert = f"<p role='alert'>{error}</p>" if error else ""
    details = f"<details><summary>{SUMMARY}</summary>{table(way)}</details>"
    return stills.page(
        svg,
        snapshot,
        sentence=sentence(way, labels),
        tables=False,
        more=alert + details,
        width=WIDTH,
        widest=WIDEST,
    )
