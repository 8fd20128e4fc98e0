"""The three gauges of a pool over time, one upon the other: together they fill it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from blockmgr.gauges import Gauges
from figures.charts.chart import COLOUR, Chart, make_chart
from figures.theme import TOKENS
from figures.words import plural

MOST_ROWS = 100
"""Readings that are drawn; of more, so many, evenly spaced, the last one among them."""

NAMES = ("in use", "free, remembered", "free, blank")
"""The gauges from the bottom up, as the legend and the table call them."""

PAPER = TOKENS["paper"][0]


def gauges_chart(
    readings: Sequence[Gauges],
    *,
    times: Sequence[float] | None = None,
    unit: str = "readings",
    title: str = "",
    note: str = "",
) -> Chart:
    """Draw gauges over `times` (without them, over the number of the reading), which
    `unit` names. Without a `title`, it says what the gauges show first and last.

    Raises `ValueError` for no readings, or for another number of times.
    """
    when = list(range(len(readings))) if times is None else list(times)
    if not readings or len(when) != len(readings):
        raise ValueError(f"can't draw {len(readings)} readings at {len(when)} times")
    shown = _thinned(len(readings))
    rows = [(when[i], *readings[i]) for i in shown]

    def plot(ax: Axes) -> None:
        _areas(ax, rows)
        ax.set(xlabel=unit, ylabel="blocks", xlim=(rows[0][0], rows[-1][0] or 1))
        ax.set_ylim(0, readings[0].usable)

    return make_chart(title or _said(readings), (unit, *NAMES), rows, plot, note=note)


def _thinned(count: int) -> list[int]:
    """Which of so many readings to draw."""
    if count <= MOST_ROWS:
        return list(range(count))
    return [i * (count - 1) // (MOST_ROWS - 1) for i in range(MOST_ROWS)]


def _said(readings: Sequence[Gauges]) -> str:
    last = readings[-1]
    return (
        f"{plural(last.usable, 'block')}: at the end {last.live:,} in use, "
        f"{last.cached:,} free and remembered, {last.empty:,} blank"
    )


def _areas(ax: Axes, rows: Sequence[tuple[float, int, int, int]]) -> None:
    """Each gauge looks as its blocks do in a block map: coloured, hatched, white."""
    when = [row[0] for row in rows]
    floor = [0.0] * len(rows)
    looks: tuple[dict[str, Any], ...] = (
        {"facecolor": COLOUR["blue"], "edgecolor": COLOUR["blue"]},
        {"facecolor": PAPER, "edgecolor": COLOUR["edge"], "hatch": "///"},
        {"facecolor": PAPER, "edgecolor": COLOUR["edge"], "linestyle": (0, (3, 3))},
    )
    for place, (name, look) in enumerate(zip(NAMES, looks, strict=True), start=1):
        top = [low + row[place] for low, row in zip(floor, rows, strict=True)]
        ax.fill_between(
            when, floor, top, step="post", label=name, linewidth=1.2, **look
        )
        floor = top
    ax.grid(visible=False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
