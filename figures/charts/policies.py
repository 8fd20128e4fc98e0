"""What taking blocks in batches buys and what it costs: calls, and slots left empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figures.charts.chart import COLOUR, Chart, make_chart, shown

COLUMNS = ("trace", "policy", "calls per request", "empty slots per request")
"""What `records()` of the chart names. A policy is a batch size (`"k = 4"`) or another
name, drawn at the right."""

Row = tuple[str, str, float, float]

_LINES = (("blue", "o", "-"), ("vermilion", "s", "--"), ("green", "^", ":"))
"""Colour, marker and stroke of each trace, in their order."""


def policy_chart(rows: Sequence[Row], title: str) -> Chart:
    """Calls that take blocks, and beside them the slots that stand empty in a running
    request's table, for each policy and each trace. Both axes of numbers are
    logarithmic. A line joins the batch sizes; other policies stand apart at the right.
    `title` says in a sentence what there is to see.
    """
    policies = list(dict.fromkeys(policy for _, policy, _, _ in rows))
    kept = [(trace, policy, round(c, 2), round(e, 1)) for trace, policy, c, e in rows]

    def plot(calls: Any, empty: Any) -> None:
        for axes, column, name in ((calls, 2, COLUMNS[2]), (empty, 3, COLUMNS[3])):
            _lines(axes, kept, policies, column)
            _axes(axes, policies, name)
        calls.legend(loc="upper right")

    return make_chart(title, COLUMNS, kept, plot, panels=2)


def _lines(
    axes: Any, rows: Sequence[Row], policies: Sequence[str], column: int
) -> None:
    """One line for each trace; the number stands at its ends."""
    traces = list(dict.fromkeys(row[0] for row in rows))
    told = set()
    for trace, (colour, marker, stroke) in zip(traces, _LINES, strict=False):
        points = [
            (policies.index(row[1]), float(row[column]))
            for row in rows
            if row[0] == trace
        ]
        x, y = zip(*points, strict=True)
        n = sum(policies[place].startswith("k = ") for place in x)
        style = {"marker": marker, "color": COLOUR[colour]}
        axes.plot(x[:n], y[:n], stroke, label=trace, **style)
        axes.plot(x[n:], y[n:], linestyle="", **style)
        for place in (0, -1):
            if (x[place], y[place]) in told:
                continue
            told.add((x[place], y[place]))
            axes.annotate(
                shown(y[place]),
                (x[place], y[place]),
                textcoords="offset points",
                xytext=(0, 9),
                ha="center",
                color=COLOUR["ink"],
            )


def _axes(axes: Any, policies: Sequence[str], name: str) -> None:
    axes.set_yscale("log")
    axes.set_xticks(range(len(policies)), policies)
    axes.set_title(f"{name} (log scale)", fontsize=13)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.margins(x=0.09, y=0.16)
