"""Internal fragmentation against block size, on the lengths of real requests.

The manager itself is asked: each request takes its blocks in an empty pool, and the
slots of these blocks that hold no token are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes

from blockmgr import BlockManager
from figures.charts.chart import COLOUR, Cell, Chart, make_chart

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

COLUMNS = (
    *("lengths", "block size", "wasted slots per request", "wasted share, %"),
    "table entries per request",
)
_STYLES = (("blue", "o"), ("vermilion", "s"), ("green", "^"), ("purple", "D"))


def blocks_taken(lengths: Iterable[int], block_size: int) -> list[int]:
    """How many blocks the manager gives to a request of each of these lengths."""
    lengths = list(lengths)
    longest = max(lengths, default=1)
    manager = BlockManager(longest + 2, block_size, enable_caching=False)
    taken = []
    for length in lengths:
        taken.append(len(manager.allocate("r", range(length)).new_blocks))
        manager.free("r")
    return taken


def waste_row(name: str, lengths: Sequence[int], block_size: int) -> tuple[Cell, ...]:
    """One row of the chart, under `COLUMNS`."""
    blocks = sum(blocks_taken(lengths, block_size))
    slots, count = blocks * block_size, len(lengths)
    wasted = slots - sum(lengths)
    return name, block_size, wasted / count, 100 * wasted / slots, blocks / count


def waste_by_block_size(
    lengths: Mapping[str, Sequence[int]],
    sizes: Sequence[int] = SIZES,
    *,
    title: str = "About half a block of each request is wasted: much of a short one",
    note: str = "",
) -> Chart:
    """Wasted slots per request (left) and as a share of the slots taken (right).

    `lengths` are the tokens of each request, by the name of where they come from. The
    dashed line on the left is half a block less half a slot, (B - 1) / 2: what lengths
    that end anywhere in a block would waste on average.
    """
    rows = [
        waste_row(name, some, size) for name, some in lengths.items() for size in sizes
    ]

    def plot(left: Axes, right: Axes) -> None:
        for name, (colour, marker) in zip(lengths, _STYLES, strict=False):
            own = [row for row in rows if row[0] == name]
            for axes, column in ((left, 2), (right, 3)):
                axes.plot(
                    range(len(sizes)),
                    [float(row[column] or 0) for row in own],
                    marker=marker,
                    color=COLOUR[colour],
                    label=name,
                )
        half = [(size - 1) / 2 for size in sizes]
        left.plot(
            range(len(sizes)), half, "--", color=COLOUR["muted"], label="(B − 1) / 2"
        )
        left.set_title("wasted slots per request", loc="left")
        right.set_title("share of the slots taken, %", loc="left")
        for axes in (left, right):
            axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
            axes.set_xlabel("block size B, slots")
            axes.set_ylim(bottom=0)
        left.legend()

    return make_chart(title, COLUMNS, rows, plot, panels=2, note=note)
