"""Who has a GPU's memory: weights, the largest step, the KV pool, and nobody."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from blockmgr.errors import InvalidRequest
from figures.charts.chart import COLOUR, Cell, Chart, make_chart

PARTS = (
    *("weights", "largest step", "KV pool, in use", "KV pool, free"),
    "outside the cap",
)
_LOOKS = (
    ("muted", ""),
    ("orange", "\\\\"),
    ("blue", ""),
    ("paper", ""),
    ("inset", ""),
)


def gpu_shares(
    total: float, utilization: float, weights: float, peak: float
) -> dict[str, float]:
    """How an engine shares a GPU out, in the unit of `total` (GiB, say).

    `utilization` caps the engine's share of the *total* memory. Of that, `weights` and
    the `peak` that the largest step needs besides are taken off; the KV cache gets the
    rest. In vLLM: `request_memory` and `determine_available_memory`.

    Raises `InvalidRequest` if nothing is left.
    """
    cap = total * utilization
    rest = cap - weights - peak
    if rest <= 0 or not 0 < utilization <= 1:
        raise InvalidRequest(
            f"no room for a KV cache: {utilization:g} × {total:g} - {weights:g} - "
            f"{peak:g} = {rest:g}"
        )
    return {
        "weights": weights,
        "largest step": peak,
        "KV cache": rest,
        "outside the cap": total - cap,
    }


def gpu_memory(
    shares: Mapping[str, float],
    usage: Mapping[str, float],
    *,
    title: str = "The pool is taken at the start, and stays taken",
) -> Chart:
    """A bar for each moment in `usage` (its name and the share of the pool that is in
    use then, 0.0 to 1.0), cut into what `gpu_shares` says."""
    parts = [_parts(shares, used) for used in usage.values()]

    def plot(axes: Axes) -> None:
        for i, (part, (colour, hatch)) in enumerate(zip(PARTS, _LOOKS, strict=True)):
            axes.barh(
                list(usage),
                [sizes[i] for sizes in parts],
                left=[sum(sizes[:i]) for sizes in parts],
                label=part,
                facecolor=COLOUR[colour],
                hatch=hatch,
                edgecolor=COLOUR["edge"],
                height=0.55,
            )
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_xlabel("GiB of the GPU's memory")
        axes.set_xlim(0, sum(shares.values()))
        axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1))

    rows: list[tuple[Cell, ...]] = [
        (moment, *sizes) for moment, sizes in zip(usage, parts, strict=True)
    ]
    return make_chart(title, ("when", *PARTS), rows, plot, height=250)


def _parts(shares: Mapping[str, float], used: float) -> tuple[float, ...]:
    """The sizes of `PARTS` while that share of the pool is in use."""
    pool = shares["KV cache"]
    return (
        *(shares["weights"], shares["largest step"]),
        *(pool * used, pool * (1 - used), shares["outside the cap"]),
    )
