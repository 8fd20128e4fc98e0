"""A chart of matplotlib in the colours of the block maps, with its numbers as a table.

Every chart is made of rows: they are what is drawn, what the table below says and what
a cell can assert. matplotlib draws in the colours of the light page; on the way out
each of them becomes a variable, so that the chart follows the page like every figure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from figures.layout import WIDTH
from figures.page import STYLE, image
from figures.theme import COLOURS, SANS, TOKENS, base_css
from figures.words import esc, plural

Cell = str | int | float | None
"""What stands in one field of the table; None is a dash."""

HEIGHT = 330
"""Height of a chart in px, at the width of a block map."""

COLOUR = {colour.name: colour.edge[0] for colour in COLOURS} | {
    role: TOKENS[role][0] for role in ("ink", "muted", "line", "inset", "hatch", "edge")
}
"""Colours for `plot`: the palette by name (`"blue"`), and the roles of a page."""

_FORM: Any = {  # matplotlib's types know each name
    "svg.fonttype": "none",  # text stays text: it can be read out and searched
    "svg.hashsalt": "chart",  # the same chart gives the same file
    "font.size": 13.0,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOUR["edge"],
    "axes.labelcolor": COLOUR["ink"],
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": COLOUR["line"],
    "text.color": COLOUR["ink"],
    "xtick.color": COLOUR["edge"],
    "ytick.color": COLOUR["edge"],
    "xtick.labelcolor": COLOUR["ink"],
    "ytick.labelcolor": COLOUR["ink"],
    "legend.frameon": False,
    "hatch.color": COLOUR["ink"],
    "hatch.linewidth": 1.0,
    "lines.linewidth": 2.4,
    "lines.markersize": 7.0,
    "figure.facecolor": TOKENS["paper"][0],
    "axes.facecolor": TOKENS["paper"][0],
    "savefig.facecolor": TOKENS["paper"][0],
    "axes.prop_cycle": cycler(color=[c.edge[0] for c in COLOURS]),
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, the sentence that says what there is to see, and its numbers.

    `rows` are the numbers (a tuple for each row, under `columns`); `records()` gives
    them as dicts, `csv()` as text for a spreadsheet. `note` names sources.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    svg: str = field(repr=False)
    note: str = ""

    def records(self) -> list[dict[str, Cell]]:
        """The numbers, a dict from column to value for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def csv(self) -> str:
        """The numbers as comma-separated text, with a head."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def __repr__(self) -> str:
        return f"Chart({self.title!r}, {plural(len(self.rows), 'row')})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text("\n".join([self.title, *_aligned(self.columns, self.rows)]))

    def _repr_html_(self) -> str:
        note = f"<p class='kvnote'><small>{esc(self.note)}</small></p>"
        return (
            f"<div class='kvpage'>{STYLE}<p class='kvsay'><b>{esc(self.title)}</b></p>"
            f"{image(self.svg, self.title)}{note if self.note else ''}"
            "<details><summary>The same numbers as a table</summary>"
            f"{table(self.columns, self.rows, self.title)}</details></div>"
        )


def make_chart(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    plot: Callable[..., None],
    *,
    panels: int = 1,
    height: int = HEIGHT,
    note: str = "",
) -> Chart:
    """Draw a chart. `plot` gets the matplotlib `Axes` (as many as there are `panels`,
    side by side) and draws what is in `rows`, in colours from `COLOUR`.

    `title` is the sentence above it: what there is to see, in plain words.
    """
    kept = tuple(tuple(row) for row in rows)
    with rc_context(_FORM):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
        plot(*axes)
        svg = _svg(figure, title)
    return Chart(title, tuple(columns), kept, svg, note)


# --- from matplotlib's file to a figure of ours ---------------------------------------


def _svg(figure: Figure, title: str) -> str:
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(text, metadata=nothing)
    whole = text.getvalue()
    body = whole[whole.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    head, _, rest = body.partition(">")
    box = re.search(r'viewBox="([^"]*)"', head)
    assert box is not None, "matplotlib writes a viewBox"
    rest = rest.replace("'DejaVu Sans'", SANS.replace('"', "'"))
    for colour, name in _VARIABLES.items():
        rest = rest.replace(colour, name)
    return (
        "<svg xmlns='http://www.w3.org/2000/svg' "
        "xmlns:xlink='http://www.w3.org/1999/xlink' class='kvfig kvchart' role='img' "
        f"aria-label='{esc(title)}' viewBox='{box[1]}'><style>{base_css()}</style>"
        + re.sub(r"\n\s*", "\n", rest).strip()
    )


def _variables() -> Iterator[tuple[str, str]]:
    for role in ("ink", "muted", "line", "inset", "hatch", "edge", "paper"):
        yield TOKENS[role][0], f"var(--{role})"
    for colour in COLOURS:
        light, dark = colour.edge
        yield light, light if light == dark else f"light-dark({light},{dark})"


_VARIABLES: Mapping[str, str] = dict(_variables())


# --- the same as a table --------------------------------------------------------------


def shown(value: Cell) -> str:
    """A number as people write it: `15,700`, `20.4`; text as it is; None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str) -> str:
    """An HTML table: the first column says what a row is about."""
    head = "".join(f"<th scope='col'>{esc(name)}</th>" for name in columns)
    body = "".join(
        f"<tr><th scope='row'>{esc(shown(row[0]))}</th>"
        + "".join(f"<td>{esc(shown(value))}</td>" for value in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{esc(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _aligned(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    lines = [list(columns), *([shown(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [value.rjust(w) for value, w in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
