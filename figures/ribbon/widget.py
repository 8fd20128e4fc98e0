"""QueueRibbon: a time machine that puts the free queue in the foreground."""

from __future__ import annotations

from functools import cached_property

from figures.film import Frame
from figures.machine import bar
from figures.page import page
from figures.player import Player, every_step
from figures.ribbon.story import Chronicle, story_html
from figures.ribbon.svg import ribbon_svg
from figures.ribbon.table import SUMMARY, ribbon_tables
from figures.stage import shell

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


class QueueRibbon(Player):
    """Steps through a recorded run and shows the free queue before and after a step.

    It is a `Player` with another picture, and takes what that takes. A click on
    a block selects it in all its places and tells its story. A page without a kernel
    shows step `at`, or without it the step in which most blocks moved.

    Raises `ValueError` for a manager that recorded nothing, `IndexError` for a step
    that is not there.
    """

    def outline(self) -> str:
        """The widget's HTML, its parts still empty."""
        return shell(SUMMARY, bar(), _BELOW, stays=True)

    def below(self, frame: Frame) -> dict[str, str]:
        """The chosen block's story, and the queue as tables."""
        return {"story": self.story(frame), "tables": ribbon_tables(frame)}

    @cached_property
    def _chronicle(self) -> Chronicle:
        return Chronicle(self.film)

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

    def best_still(self) -> int:
        """The last of the steps in which most blocks moved."""
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
