"""What all time machines have in common: a step, a speed, and the controls for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import traitlets

from figures.stage import Stage

SPEEDS = {0.5: 2400, 1.0: 1200, 2.0: 600, 4.0: 300}
"""Speed -> ms between two steps while it plays."""

# Signs that the most common fonts have (DejaVu Sans does): no empty boxes.
_BUTTONS = (
    ("first", "⇤", "first step"),
    ("back", "←", "one step back"),
    ("play", "▶", "play"),
    ("forward", "→", "one step forward"),
    ("last", "⇥", "last step"),
)


def bar() -> str:
    """The controls of a time machine, as HTML."""
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


class TimeMachine(Stage):
    """A widget that steps through something: by buttons, slider, keys, or by itself.

    A subclass has `bar()` in its shell, and says with `last_step` how far it goes; its
    `draw` places the part `count` and gives `place` the `step_controls` and the `tick`.
    """

    step = traitlets.Int(0)
    speed = traitlets.Float(1.0)
    playing = traitlets.Bool(False)

    def __init__(self, shell: str) -> None:
        super().__init__(shell)
        self.observe(self._changed, names=["step", "speed", "playing"])

    @property
    def last_step(self) -> int:
        """The number of the last step; the first is 0."""
        raise NotImplementedError

    # --- moving ---------------------------------------------------------------------

    @traitlets.validate("step")
    def _in_range(self, proposal: Any) -> int:
        return int(min(max(proposal["value"], 0), self.last_step))

    @traitlets.validate("speed")
    def _known_speed(self, proposal: Any) -> float:
        return min(SPEEDS, key=lambda speed: abs(speed - float(proposal["value"])))

    def act(self, name: str, value: float | None) -> None:
        """Do what a control says. Touching anything but the speed stops the playing."""
        last = self.last_step
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
        at_end = self.step == self.last_step
        self._go(0 if at_end and not self.playing else self.step, not self.playing)

    def _tick(self) -> None:
        if self.playing:
            self._go(self.step + 1, playing=self.step + 1 < self.last_step)

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

    # --- what the page shows of it --------------------------------------------------

    @property
    def count(self) -> str:
        """Where it stands, in words: `step 3 of 45`."""
        return f"step {self.step} of {self.last_step}"

    @property
    def tick(self) -> int:
        """In how many ms the page is to call back; 0 if it does not play."""
        return SPEEDS[self.speed] if self.playing else 0

    def step_controls(self) -> Mapping[str, Mapping[str, Any]]:
        """The state of the controls in `bar()`."""
        at_start, at_end = self.step == 0, self.step == self.last_step
        sign, label = ("❚❚", "pause") if self.playing else ("▶", "play")
        # A button that is disabled loses the focus: tell, and let it do nothing.
        return {
            "first": {"ariaDisabled": str(at_start).lower()},
            "back": {"ariaDisabled": str(at_start).lower()},
            "forward": {"ariaDisabled": str(at_end).lower()},
            "last": {"ariaDisabled": str(at_end).lower()},
            "play": {"textContent": sign, "label": label, "title": label},
            "step": {
                "max": self.last_step,
                "value": self.step,
                "valueText": self.count,
            },
            "speed": {"value": f"{self.speed:g}"},
        }
