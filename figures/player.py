"""Player: a time machine over a recorded run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import traitlets

from blockmgr import BlockManager
from blockmgr.events import EventLog
from figures.film import Film, Frame
from figures.layout import NO_ROOM
from figures.legend import legend_details
from figures.page import page
from figures.panel import audit_panel
from figures.stage import Stage, shell
from figures.svg import block_map
from figures.text import SUMMARY, state_tables
from figures.words import Labels, esc

SPEEDS = {0.5: 2400, 1.0: 1200, 2.0: 600, 4.0: 300}
"""Speed -> ms between two steps while it plays."""

_BUTTONS = (
    ("first", "⏮", "first step"),
    ("back", "◀", "one step back"),
    ("play", "▶", "play"),
    ("forward", "▶▏", "one step forward"),
    ("last", "⏭", "last step"),
)


def _bar() -> str:
    buttons = "".join(
        f"<button type='button' data-act='{act}' aria-label='{name}' title='{name}'>"
        f"{sign}</button>"
        for act, sign, name in _BUTTONS
    )
    speeds = "".join(
        f"<option value='{speed:g}'{' selected' if speed == 1 else ''}>{speed:g}×"
        "</option>"
        for speed in SPEEDS
    )
    return (
        f"<div class='bar' role='toolbar' aria-label='time machine'>{buttons}"
        "<input type='range' data-act='step' min='0' value='0' aria-label='step'>"
        "<span class='count' data-part='count'></span>"
        f"<label>speed <select data-act='speed'>{speeds}</select></label></div>"
    )


class Player(Stage):
    """Steps through the run that `source` has recorded.

    `at` is the step it opens with: 0 is the state at the start, `k` the state after
    `k` events, and negative steps count from the end. `step`, `speed` and `playing`
    can be set from Python as well. A page without a kernel shows step `at` (without it,
    the step at which most blocks were in use) and the whole story as a list.

    Raises `ValueError` for a manager that recorded nothing, `IndexError` for a step
    that is not there.
    """

    step = traitlets.Int(0)
    speed = traitlets.Float(1.0)
    playing = traitlets.Bool(False)

    def __init__(
        self,
        source: BlockManager | EventLog,
        *,
        labels: Labels = None,
        at: int | None = None,
    ) -> None:
        self.film = Film(_log_of(source), labels)
        opening = self.film.frame(at or 0).step
        self._still = self.film.fullest() if at is None else opening
        extra = f"<div data-part='audit'></div>{legend_details()}"
        super().__init__(shell(SUMMARY, _bar(), extra, stays=True))
        self.step = opening
        self.observe(self._changed, names=["step", "speed", "playing"])
        self.draw()

    def __repr__(self) -> str:
        return f"Player({len(self.film) - 1} steps)"

    # --- moving ---------------------------------------------------------------------

    @traitlets.validate("step")
    def _in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), len(self.film) - 1))

    @traitlets.validate("speed")
    def _known_speed(self, proposal: Any) -> float:
        return min(SPEEDS, key=lambda speed: abs(speed - float(proposal["value"])))

    def act(self, name: str, value: float | None) -> None:
        """Do what a control says. Touching anything but the speed stops the playing."""
        last = len(self.film) - 1
        if name == "tick":
            self._tick()
        elif name == "play":
            self.toggle()
        elif name == "speed":
            self.speed = value if value is not None else 1.0
        else:
            by = int(value or 1)  # quick presses arrive together
            to = {"first": 0, "back": self.step - by, "forward": self.step + by}
            step = to.get(name, last if name == "last" else int(value or 0))
            self._go(step, playing=False)

    def toggle(self) -> None:
        """Play, or stop. At the end, play again from the start."""
        at_end = self.step == len(self.film) - 1
        self._go(0 if at_end and not self.playing else self.step, not self.playing)

    def _tick(self) -> None:
        if self.playing:
            self._go(self.step + 1, playing=self.step + 1 < len(self.film) - 1)

    def _go(self, step: int, playing: bool) -> None:
        """Several traits at once, one frame. An answer goes out even if none changed:
        the page waits for it."""
        self._set(step, playing)
        self.draw()

    def _set(self, step: int, playing: bool) -> None:
        names = ["step", "speed", "playing"]
        self.unobserve(self._changed, names=names)
        self.step, self.playing = step, playing
        self.observe(self._changed, names=names)

    def complain(self, error: Exception) -> None:
        """Show `error`, and stop playing."""
        self._set(self.step, False)
        super().complain(error)

    def _changed(self, _change: object) -> None:
        self.safely(self.draw)

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the frame of the present step."""
        frame = self.film.frame(self.step)
        parts = {
            "count": f"step {self.step} of {len(self.film) - 1}",
            "say": esc(frame.sentence),
            "space": esc(self.film.longest_sentence()),
            "picture": self.svg(frame, prefix=self.prefix, interactive=True),
            "audit": audit_panel(frame.after),
            "tables": state_tables(frame.after, self.film.labels),
        }
        tick = SPEEDS[self.speed] if self.playing else 0
        self.place(parts, self._controls(), tick)

    def _controls(self) -> Mapping[str, Mapping[str, Any]]:
        at_start, at_end = self.step == 0, self.step == len(self.film) - 1
        sign, label = ("❚❚", "pause") if self.playing else ("▶", "play")
        # A button that is disabled loses the focus: tell, and let it do nothing.
        return {
            "first": {"ariaDisabled": str(at_start).lower()},
            "back": {"ariaDisabled": str(at_start).lower()},
            "forward": {"ariaDisabled": str(at_end).lower()},
            "last": {"ariaDisabled": str(at_end).lower()},
            "play": {"textContent": sign, "label": label, "title": label},
            "step": {
                "max": len(self.film) - 1,
                "value": self.step,
                "valueText": f"step {self.step} of {len(self.film) - 1}",
            },
            "speed": {"value": f"{self.speed:g}"},
        }

    def svg(
        self, frame: Frame, *, prefix: str | None = None, interactive: bool = False
    ) -> str:
        """The picture of one frame."""
        return block_map(
            frame.after,
            event=frame.event,
            before=frame.before,
            labels=self.film.labels,
            selected=self.selected if interactive else None,
            plan=self.film.plan,
            prefix=prefix,
            interactive=interactive,
            room=self.film.room_at(frame.step) if interactive else NO_ROOM,
        )

    def page(self) -> str:
        """One frame, its audit and the whole story as a list."""
        frame = self.film.frame(self._still)
        story = "".join(
            f"<li value='{step}'>{esc(self.film.sentence(step))}</li>"
            for step in range(len(self.film))
        )
        list_ = f"<details><summary>Every step</summary><ol>{story}</ol></details>"
        return page(
            self.svg(frame),
            frame.after,
            sentence=f"Step {frame.step}: {frame.sentence}",
            labels=self.film.labels,
            more=audit_panel(frame.after) + legend_details() + list_,
        )


def _log_of(source: BlockManager | EventLog) -> EventLog:
    log = source.log if isinstance(source, BlockManager) else source
    if log is None:
        raise ValueError("nothing was recorded: make it BlockManager(record=True)")
    if not isinstance(log, EventLog):
        raise TypeError(
            f"can play a BlockManager or an EventLog, not {type(log).__name__}"
        )
    return log
