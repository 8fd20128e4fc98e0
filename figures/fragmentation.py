"""Fragmentation: the same tokens in the same memory, cut into blocks of another size.

A slider chooses the block size. Behind it stands a real manager whose pool has the same
number of slots each time, so that only the cut differs: small blocks waste little and
make long tables, large ones waste much and may even leave somebody outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import traitlets

from blockmgr.errors import InvalidRequest
from figures.cuts import LONGEST, NAMES, SIZES, SLOTS, Cut, cut, sentence
from figures.page import page
from figures.scene import Plan
from figures.stage import Stage, shell
from figures.svg import block_map
from figures.text import state_tables
from figures.words import esc, plural

SUMMARY = "Every block size, and the state drawn above, as tables"


class Fragmentation(Stage):
    """Sequences of `lengths` tokens in a pool of `SLOTS` slots, with a slider for the
    block size and one for each length.

    `block_size` and `lengths` can be set from Python too; what is not possible becomes
    the nearest that is. `state` is what the manager says, as a `Cut`.

    Raises `InvalidRequest` for no sequence, or for more than four.
    """

    _css = Stage._css + (
        ".kvstage [data-part='room']{overflow:hidden}"
        ".kvstage [data-part='room'] div{width:100%;min-width:812px}"
        ".kvstage .bar .of{min-width:8.6em;font-variant-numeric:tabular-nums}"
        ".kvstage tr.here{background:var(--kv-inset);font-weight:700}"
    )

    block_size = traitlets.Int(4)
    lengths: Any = traitlets.Tuple()

    def __init__(
        self, lengths: Sequence[int] = (5, 12, 22), *, block_size: int = 4
    ) -> None:
        if not 1 <= len(lengths) <= len(NAMES):
            raise InvalidRequest(
                f"give 1 to {len(NAMES)} lengths, one for each sequence; "
                f"got {len(lengths)}"
            )
        room = "<div data-part='room' aria-hidden='true'></div>"
        super().__init__(shell(SUMMARY, _bars(len(lengths)), room, stays=True))
        self._tallest = _ROOM
        self._plan = Plan(NAMES[: len(lengths)])
        self.lengths = tuple(lengths)
        self.block_size = block_size
        self.state = cut(self.lengths, self.block_size)
        self.observe(self._changed, names=["block_size", "lengths"])
        self.draw()

    def __repr__(self) -> str:
        return (
            f"Fragmentation({list(self.lengths)}, block_size={self.block_size}: "
            f"{self.state.wasted} of {self.state.taken} slots wasted)"
        )

    # --- choosing -------------------------------------------------------------------

    @traitlets.validate("block_size")
    def _known_size(self, proposal: Any) -> int:
        return min(SIZES, key=lambda size: abs(size - proposal["value"]))

    @traitlets.validate("lengths")
    def _possible(self, proposal: Any) -> tuple[int, ...]:
        kept = [min(max(int(n), 1), LONGEST) for n in proposal["value"]]
        return tuple(kept[: len(self._plan.order)]) or self.lengths

    def act(self, name: str, value: float | None) -> None:
        """Move a slider: the block size, or the length of one sequence."""
        place = int(value or 0)
        if name == "size":
            size, lengths = SIZES[min(max(place, 0), len(SIZES) - 1)], self.lengths
        else:
            index = NAMES.index(name.removeprefix("length-"))
            size = self.block_size
            lengths = (*self.lengths[:index], place, *self.lengths[index + 1 :])
        names = ["block_size", "lengths"]
        self.unobserve(self._changed, names=names)
        self.block_size, self.lengths = size, lengths
        self.observe(self._changed, names=names)
        self._changed(None)

    def _changed(self, _change: object) -> None:
        self.state = cut(self.lengths, self.block_size)
        self.safely(self.draw)

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the present cut."""
        parts = {
            f"of-{name}": f"{name}: {plural(length, 'token')}"
            for name, length in zip(self._plan.order, self.lengths, strict=True)
        }
        picture = self.svg(prefix=self.prefix, interactive=True)
        self.place(
            {
                **parts,
                "count": f"block size {self.block_size}",
                "say": esc(sentence(self.state)),
                "space": esc(max(map(sentence, self._all()), key=len)),
                "picture": picture,
                "room": self._room_below(picture),
                "tables": self._tables(),
            },
            self._controls(),
        )

    def _room_below(self, picture: str) -> str:
        """What this picture leaves of the room of the tallest one so far: what stands
        below gives way once, and then stays where it is."""
        wide, high = _box_of(picture)
        self._tallest = max(self._tallest, high)
        left = self._tallest - high
        return f"<div style='aspect-ratio:{wide:g}/{left:g}'></div>" if left else ""

    def _controls(self) -> dict[str, dict[str, Any]]:
        size = f"block size {self.block_size}"
        controls = {"size": _slider(SIZES.index(self.block_size), size)}
        for name, length in zip(self._plan.order, self.lengths, strict=True):
            controls[f"length-{name}"] = _slider(length, plural(length, "token"))
        return controls

    def _all(self) -> Iterator[Cut]:
        return (cut(self.lengths, size) for size in SIZES)

    def _tables(self) -> str:
        """The numbers of every block size, then the state of the one that is drawn."""
        rows = "".join(
            _row(one, one.block_size == self.block_size) for one in self._all()
        )
        head = "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
        return (
            f"<table><caption>The same sequences in {SLOTS} slots</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            f"{state_tables(self.state.snapshot)}"
        )

    def svg(self, *, prefix: str | None = None, interactive: bool = False) -> str:
        """The picture as it is now. Who waits is drawn as the last row."""
        return block_map(
            self.state.snapshot,
            event=self.state.event if self.state.waiting else None,
            selected=self.selected if interactive else None,
            plan=self._plan,
            prefix=prefix,
            interactive=interactive,
        )

    def page(self) -> str:
        """The same for a page without a kernel."""
        tables = f"<details><summary>{SUMMARY}</summary>{self._tables()}</details>"
        return page(
            self.svg(),
            self.state.snapshot,
            sentence=sentence(self.state),
            tables=False,
            more=tables,
        )


# --- pieces of the page ---------------------------------------------------------------

_COLUMNS = (
    *("block size", "blocks in use", "slots taken", "tokens", "wasted"),
    *("share wasted", "table entries", "waiting"),
)


def _row(state: Cut, here: bool) -> str:
    values = (
        *(state.snapshot.num_used, state.taken, state.tokens, state.wasted),
        *(f"{state.share:.0%}", state.entries, ", ".join(state.waiting) or "–"),
    )
    cells = "".join(f"<td>{value}</td>" for value in values)
    mark = " class='here' aria-current='true'" if here else ""
    return f"<tr{mark}><th scope='row'>{state.block_size}</th>{cells}</tr>"


_ROOM = 620.0
"""Height of a picture for which room is kept from the start."""


def _box_of(picture: str) -> tuple[float, float]:
    """Width and height of an SVG, as its viewBox says."""
    found = re.search(r"viewBox='0 0 (\S+) (\S+)'", picture)
    assert found, "every picture has a viewBox"
    return float(found[1]), float(found[2])


def _slider(value: int, text: str) -> dict[str, Any]:
    return {"value": value, "valueText": text}


def _bars(count: int) -> str:
    """A slider for the block size, and below it one for each sequence."""
    lengths = "".join(
        f"<label><span class='of' data-part='of-{name}'></span>"
        f"<input type='range' data-act='length-{name}' min='1' max='{LONGEST}' "
        f"value='1' aria-label='tokens of {name}'></label>"
        for name in NAMES[:count]
    )
    return (
        "<div class='bar' role='group' aria-label='choose a block size'>"
        "<span class='count' data-part='count'></span>"
        f"<input type='range' data-act='size' min='0' max='{len(SIZES) - 1}' value='0' "
        "aria-label='block size'></div>"
        f"<div class='bar' role='group' aria-label='choose lengths'>{lengths}</div>"
    )
