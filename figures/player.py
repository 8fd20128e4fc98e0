"""Player: a time machine over a recorded run."""

from __future__ import annotations

from blockmgr import BlockManager
from blockmgr.events import EventLog
from figures.film import Film, Frame
from figures.layout import NO_ROOM
from figures.legend import legend_details
from figures.machine import TimeMachine, bar
from figures.page import page
from figures.panel import audit_panel
from figures.stage import shell
from figures.svg import block_map
from figures.text import SUMMARY, state_tables
from figures.words import Labels, esc


class Player(TimeMachine):
    """Steps through the run that `source` has recorded.

    `at` is the step it opens with: 0 is the state at the start, `k` the state after
    `k` events, and negative steps count from the end. `step`, `speed` and `playing`
    can be set from Python as well. A page without a kernel shows step `at` (without it,
    the step at which most blocks were in use) and the whole story as a list.

    Raises `ValueError` for a manager that recorded nothing, `IndexError` for a step
    that is not there.
    """

    def __init__(
        self,
        source: BlockManager | EventLog,
        *,
        labels: Labels = None,
        at: int | None = None,
    ) -> None:
        self.film = Film(log_of(source), labels)
        opening = self.film.frame(at or 0).step
        self._still = self.best_still() if at is None else opening
        super().__init__(self.outline())
        self._go(opening, playing=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.last_step} steps)"

    def outline(self) -> str:
        """The widget's HTML, its parts still empty."""
        extra = f"<div data-part='audit'></div>{legend_details()}"
        return shell(SUMMARY, bar(), extra, stays=True)

    def best_still(self) -> int:
        """The step for a page without a kernel."""
        return self.film.fullest()

    @property
    def last_step(self) -> int:
        """The number of the last step; the log may still grow."""
        return len(self.film) - 1

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the frame of the present step."""
        frame = self.film.frame(self.step)
        parts = {
            "count": self.count,
            "say": esc(frame.sentence),
            "space": esc(self.film.longest_sentence()),
            "picture": self.svg(frame, prefix=self.prefix, interactive=True),
        }
        self.place(parts | self.below(frame), self.step_controls(), self.tick)

    def below(self, frame: Frame) -> dict[str, str]:
        """The parts below the picture."""
        return {
            "audit": audit_panel(frame.after),
            "tables": state_tables(frame.after, self.film.labels),
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
        return page(
            self.svg(frame),
            frame.after,
            sentence=f"Step {frame.step}: {frame.sentence}",
            labels=self.film.labels,
            more=audit_panel(frame.after) + legend_details() + every_step(self.film),
        )


def every_step(film: Film) -> str:
    """The whole story as a list, folded away."""
    story = "".join(
        f"<li value='{step}'>{esc(film.sentence(step))}</li>"
        for step in range(len(film))
    )
    return f"<details><summary>Every step</summary><ol>{story}</ol></details>"


def log_of(source: BlockManager | EventLog) -> EventLog:
    """The record to play. Raises `ValueError` if nothing was recorded, and `TypeError`
    for what can't be played."""
    log = source.log if isinstance(source, BlockManager) else source
    if log is None:
        raise ValueError("nothing was recorded: make it BlockManager(record=True)")
    if not isinstance(log, EventLog):
        raise TypeError(
            f"can play a BlockManager or an EventLog, not {type(log).__name__}"
        )
    return log
