"""A chart of matplotlib in the colours of the block maps, with its numbers as a table.

Every chart is made of rows: they are what is drawn, what the table below says and what
a cell can assert. `form.py` says how charts look, `svg.py` makes them follow the page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.charts.form import COLOUR, FORM, HEIGHT, SERIES, Series
from figures.charts.svg import UnreadableChart, chart_svg
from figures.layout import WIDTH
from figures.page import STYLE, image
from figures.tables import html_table
from figures.words import esc, plural, visible

__all__ = [
    "COLOUR",
    "HEIGHT",
    "SERIES",
    "Cell",
    "Chart",
    "Series",
    "UnreadableChart",
    "make_chart",
    "shown",
    "table",
]

Cell = str | int | float | None
"""What stands in one field of the table; None is a dash."""


SUMMARY = "The same numbers as a table"
ELSEWHERE = "The numbers stand in the table below."


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
        lines = [self.title, *_aligned(self.columns, self.rows)]
        printer.text("\n".join(map(visible, lines)))

    def _repr_html_(self) -> str:
        note = f"<p class='kvnote'><small>{esc(self.note)}</small></p>"
        return (
            f"<div class='kvpage'>{STYLE}<p class='kvsay'><b>{esc(self.title)}</b></p>"
            f"{image(self.svg, f'{self.title} {ELSEWHERE}')}{note if self.note else ''}"
            f"<details><summary>{SUMMARY}</summary>"
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
    side by side) and draws what is in `rows`, in colours from `COLOUR`. Where there are
    several series, `SERIES` gives each a pattern, a marker and a stroke of its own.

    `title` is the sentence above it: what there is to see, in plain words. Text is
    drawn as it is: `$x$` is no formula.

    Raises `ValueError` for a row that does not fit the columns, and `UnreadableChart`
    for a colour that is none of ours or text that is too small.
    """
    kept = tuple(tuple(row) for row in rows)
    _check(columns, kept)
    with style.context(["default", FORM]):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
        plot(*axes)
        svg = chart_svg(figure, title)
    return Chart(title, tuple(columns), kept, svg, note)


def _check(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if not columns:
        raise ValueError("a chart needs columns: they name what stands in its rows")
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(
                f"row {number} has {plural(len(row), 'value')}, and there are "
                f"{plural(len(columns), 'column')}: {', '.join(columns)}"
            )


# --- the same as a table --------------------------------------------------------------


def shown(value: object) -> str:
    """A number as people write it: `15,700`, `20.4`; text as it is; None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool | str) or not isinstance(value, Real):
        return str(value)
    if isinstance(value, Integral) or abs(float(value)) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str) -> str:
    """An HTML table: the first column says what a row is about."""
    head = [esc(name) for name in columns]
    return html_table(esc(caption), head, ([esc(shown(c)) for c in r] for r in rows))


def _aligned(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    lines = [list(columns), *([shown(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [value.rjust(w) for value, w in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
