"""QueueRibbon: a time machine that puts the free queue in the foreground."""

from __future__ import annotations

from blockmgr import BlockManager
from blockmgr.events import EventLog
from figures.film import Film, Frame
from figures.machine import TimeMachine, bar
from figures.page import page
from figures.player import every_step, log_of
from figures.ribbon.story import Chronicle, story_html
from figures.ribbon.svg import ribbon_svg
from figures.ribbon.table import SUMMARY, ribbon_tables
from figures.stage import shell
from figures.words import Labels, esc

KEY = (
    "<p class='kvnote'>The point of a ribbon is the head of the queue: the next "
    "block to be taken. Dashed edge: blank. Hatched: remembered, with the first 4 "
    "digits of its hash. A line joins a block with itself.</p>"
)
"""How to read the picture."""

_STYLE = (
    ".kvstage [data-part='story']{min-height:9em}"
    ".kvstage [data-part='story'] :is(p,ul){margin:4px 0}"
)
_BELOW = f"<style>{_STYLE}</style><div data-part='story'></div>{KEY}"


class QueueRibbon(TimeMachine):
    """Steps through a recorded run and shows the free queue before and after a step.

    It takes what a `Player` takes, and its buttons and keys are the same. A click on
    a block selects it in all its places and tells its story. A page without a kernel
    shows step `at`, or without it the step in which most blocks moved.

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
        self._chronicle = Chronicle(self.film)
        opening = self.film.frame(at or 0).step
        self._still = self._liveliest() if at is None else opening
        super().__init__(shell(SUMMARY, bar(), _BELOW, stays=True))
        self._go(opening, playing=False)

    def __repr__(self) -> str:
        return f"QueueRibbon({len(self.film) - 1} steps)"

    @property
    def last_step(self) -> int:
        """The number of the last step; the log may still grow."""
        return len(self.film) - 1

    def draw(self) -> None:
        """Place the frame of the present step, and the chosen block's story."""
        frame = self.film.frame(self.step)
        parts = {
            "count": self.count,
            "say": esc(frame.sentence),
            "space": esc(self.film.longest_sentence()),
            "picture": self.svg(frame, prefix=self.prefix, interactive=True),
            "story": self.story(frame),
            "tables": ribbon_tables(frame),
        }
        self.place(parts, self.step_controls(), self.tick)

    def story(self, frame: Frame) -> str:
        """The chosen block's story so far, as HTML."""
        return story_html(self._chronicle, frame.after, frame.step, self.selected)

    def svg(
        self, frame: Frame, *, prefix: str | None = None, interactive: bool = False
    ) -> str:
        """The picture of one frame."""
        return ribbon_svg(
            frame,
            plan=self.film.plan,
            selected=self.selected if interactive else None,
            prefix=prefix,
            interactive=interactive,
            words=frame.sentence,
        )

    def _liveliest(self) -> int:
        """The last of the steps in which most blocks moved: the best still."""
        moved = [
            sum(len(getattr(change, "block_ids", ())) for change in event.changes)
            for event in self.film.log
        ]
        best = max(range(len(moved)), key=lambda i: (moved[i], i), default=-1)
        return best + 1

    def page(self) -> str:
        """One frame, its tables and the whole story as a list."""
        frame = self.film.frame(self._still)
        tables = (
            f"<details><summary>{SUMMARY}</summary>{ribbon_tables(frame)}</details>"
        )
        return page(
            self.svg(frame),
            frame.after,
            sentence=f"Step {frame.step}: {frame.sentence}",
            tables=False,
            more=KEY + tables + every_step(self.film),
        )
