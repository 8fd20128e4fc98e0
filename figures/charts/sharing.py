"""How much memory sharing saves when one prompt has several answers, as bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from blockmgr.sampling import Saving
from figures.charts.chart import SERIES, Chart, Series, make_chart

COLUMNS = (
    "sequences",
    "blocks alone, at the end",
    "blocks shared, at the end",
    "ours, over time (%)",
    "ours, at the end (%)",
    "published (%)",
)
"""What `records()` of the chart names: counts of blocks, and savings in per cent."""

SOURCE = "Published: PagedAttention (SOSP 2023), Fig. 15, OPT-13B, Alpaca, B = 16."

_WIDTH = 0.27
_BARS = (
    ("ours, over time", SERIES[0]),
    ("ours, at the end", SERIES[1]),
    ("published", SERIES[3]),
)
"""Name and look of the bars of each group, from left to right."""


def sharing_chart(
    savings: Iterable[Saving], published: Mapping[int, float], title: str
) -> Chart:
    """Per cent of blocks that sharing saved, for each number of sequences: ours over
    all steps, ours when all was generated, and what was published.

    `published` maps the number of sequences to per cent; where it has none, there is no
    bar and a dash in the table. `title` says in a sentence what there is to see.
    """
    rows = [
        (
            saving.n,
            saving.alone_at_end,
            saving.held_at_end,
            round(saving.over_time, 2),
            round(saving.at_end, 2),
            published.get(saving.n),
        )
        for saving in savings
    ]

    def plot(axes: Any) -> None:
        for place, (name, series) in enumerate(_BARS):
            _bars(axes, place, [row[3 + place] for row in rows], name, series)
        axes.set_xticks(range(len(rows)), [f"{row[0]} sequences" for row in rows])
        axes.set_ylabel("blocks saved, %")
        axes.margins(y=0.22)
        axes.legend(ncols=3, loc="upper left")

    return make_chart(title, COLUMNS, rows, plot, note=SOURCE)


def _bars(
    axes: Any,
    place: int,
    heights: Sequence[float | None],
    name: str,
    series: Series,
) -> None:
    """One bar of each group, with its number above it."""
    there = [(x, height) for x, height in enumerate(heights) if height is not None]
    bars = axes.bar(
        [x + (place - 1) * _WIDTH for x, _ in there],
        [height for _, height in there],
        width=_WIDTH * 0.92,
        label=name,
        **series.bar(),
    )
    axes.bar_label(bars, fmt="%.1f", padding=3)
