"""The legend under a picture: what each kind of block looks like."""

from __future__ import annotations

from figures.layout import LEFT

LEGEND_HEIGHT = 22

_LEGEND = (
    ("free", "", "free"),
    ("free kept", "", "free, still cached"),
    ("used", "2", "shared (ref count)"),
    ("null", "∅", "null block"),
    ("used chg", "", "changed in this step"),
)


def draw_legend(top: float) -> str:
    """One line of samples with their names."""
    x, parts = float(LEFT), []
    for kind, sign, text in _LEGEND:
        badge = (
            f"<circle class='badge' cx='10' cy='10' r='9.5'/>"
            f"<text class='refs' x='10' y='14.5'>{sign}</text>"
        )
        empty = f"<text class='sign small' x='10' y='15'>{sign}</text>"
        inside = {"2": badge, "∅": empty}.get(sign, "")
        parts.append(
            f"<g class='blk {kind}' transform='translate({x:g} {top:g})'>"
            f"<rect class='edge' width='20' height='20' rx='4'/>{inside}</g>"
            f"<text class='note' x='{x + 28:g}' y='{top + 15:g}'>{text}</text>"
        )
        x += 28 + 7.4 * len(text) + 22
    return "".join(parts)
