"""What becomes of each slot under four systems: PagedAttention's Fig. 2, as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blockmgr.waste import PUBLISHED, Average
from figures.charts.chart import COLOUR, Cell, Chart, make_chart

COLUMNS = ("system", "whose", "used", "reserved", "internal", "external")
"""What `records()` of the chart names; the shares are per cent of all slots."""

SOURCE = (
    "Published: PagedAttention (Kwon et al., SOSP 2023), Fig. 2, OPT-13B, ShareGPT; of "
    "vLLM it gives only the share that is used."
)

_KINDS = (
    ("used: a token's K and V", "blue", ""),
    ("reserved: filled later", "sky", "//"),
    ("internal: never filled", "orange", "xx"),
    ("external and others", "line", ".."),
)
"""Name, colour and pattern of the parts of each bar, from left to right."""

_LEAST = 5.5
"""A smaller part has no room for its number."""


def waste_by_system(averages: Mapping[str, Average], title: str) -> Chart:
    """Per cent of slots by what they are good for: ours, and below it what was
    published, for each system of `blockmgr.waste.figure2`.

    `title` says in a sentence what there is to see.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, average in averages.items():
        ours = [round(share, 1) for share in average.slots.percent()]
        rows += [(name, "ours", *ours), (name, "published", *PUBLISHED[name])]

    def plot(axes: Any) -> None:
        places = [1.15 * (i // 2) + 0.46 * (i % 2) for i in range(len(rows))]
        for kind in range(len(_KINDS)):
            _part(axes, places, rows, kind)
        names = [f"{row[0]}, ours" if row[1] == "ours" else "published" for row in rows]
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of all slots, on average")
        axes.grid(axis="y", visible=False)
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.42, 1.0))

    return make_chart(title, COLUMNS, rows, plot, height=420, note=SOURCE)


def _part(
    axes: Any, places: Sequence[float], rows: Sequence[Sequence[Cell]], kind: int
) -> None:
    """One part of every bar, with its number in it."""
    name, colour, hatch = _KINDS[kind]
    widths = [_number(row[2 + kind]) for row in rows]
    starts = [sum(map(_number, row[2 : 2 + kind])) for row in rows]
    bars = axes.barh(
        places,
        widths,
        left=starts,
        height=0.4,
        color=COLOUR[colour],
        edgecolor=COLOUR["ink"],
        linewidth=[0.8 if width else 0.0 for width in widths],
        hatch=hatch,
        label=name,
    )
    paper = {"boxstyle": "round,pad=0.15", "fc": COLOUR["paper"], "ec": "none"}
    texts = [f"{width:.1f}" if width >= _LEAST else "" for width in widths]
    for label in axes.bar_label(bars, texts, label_type="center"):
        if label.get_text():
            label.set_bbox(paper)


def _number(value: Cell) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
