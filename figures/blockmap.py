"""BlockMap: the picture of a living manager, to click on and to walk through by key."""

from __future__ import annotations

from blockmgr import BlockManager
from blockmgr.events import Event, EventLog, Snapshot
from figures.film import Film, Frame
from figures.page import page, repr_of
from figures.scene import Plan
from figures.stage import Stage, shell
from figures.svg import block_map
from figures.text import SUMMARY, state_tables
from figures.words import Labels, esc

Source = BlockManager | EventLog | Snapshot
"""What can be drawn: a manager (its state now), a recorded run, or one state."""


def latest(source: Source, labels: Labels, at: int | None = None) -> tuple[Frame, Plan]:
    """The last frame of `source` (or frame `at`) and the plan it is drawn by.

    Raises `TypeError` for anything that can't be drawn, and `ValueError` if `at` is
    asked of a source without a record.
    """
    if isinstance(source, BlockManager) and source.log is not None:
        source = source.log
    if isinstance(source, EventLog):
        film = Film(source, labels)
        return film.frame(-1 if at is None else at), film.plan
    if isinstance(source, BlockManager):
        source = source.snapshot()
    if not isinstance(source, Snapshot):
        raise TypeError(
            "can draw a BlockManager, an EventLog or a Snapshot, "
            f"not {type(source).__name__}"
        )
    if at is not None:
        raise ValueError("only a recorded run has steps: BlockManager(record=True)")
    return Frame(0, None, None, source, ""), Plan()


class BlockMap(Stage):
    """A clickable block map of `source`.

    Call `refresh()` after the manager has changed, or `show(snapshot)` to draw another
    state: what moved is animated. Clicks and keys set `selected` to `"block:5"`,
    `"seq:r0"` or `"seq:r0:logical:1"`; observe it to react.
    """

    def __init__(
        self, source: Source, *, labels: Labels = None, selected: str = ""
    ) -> None:
        super().__init__(shell(SUMMARY))
        self.labels = labels
        self.source = source
        self._frame, plan = latest(source, labels)
        self._plan = plan.joined(self._frame.after.sequences)
        self.set_trait("selected", selected)
        self.draw()

    def __repr__(self) -> str:
        return f"BlockMap({repr_of(self._frame.after)})"

    def refresh(self) -> None:
        """Draw the source as it is now."""
        self._take(*latest(self.source, self.labels))

    def show(
        self,
        snapshot: Snapshot,
        *,
        event: Event | None = None,
        before: Snapshot | None = None,
        sentence: str = "",
    ) -> None:
        """Draw this state, with `sentence` above it."""
        self._take(Frame(0, event, before, snapshot, sentence), Plan())

    def _take(self, frame: Frame, plan: Plan) -> None:
        order = tuple(dict.fromkeys((*self._plan.order, *plan.order)))
        grown = Plan(order, plan.longest, plan.most).joined(frame.after.sequences)
        self._frame, self._plan = frame, grown
        self.draw()

    def draw(self) -> None:
        """Place the present frame."""
        self.place(
            {
                "say": esc(self._frame.sentence),
                "picture": self.svg(prefix=self.prefix, interactive=True),
                "tables": state_tables(self._frame.after, self.labels),
            }
        )

    def act(self, name: str, value: float | None) -> None:
        """A block map has no controls but its picture."""

    def svg(self, *, prefix: str | None = None, interactive: bool = False) -> str:
        """The picture as it is now."""
        return block_map(
            self._frame.after,
            event=self._frame.event,
            before=self._frame.before,
            labels=self.labels,
            selected=self.selected,
            plan=self._plan,
            prefix=prefix,
            interactive=interactive,
        )

    def page(self) -> str:
        """The same picture for a page without a kernel."""
        return page(
            self.svg(),
            self._frame.after,
            sentence=self._frame.sentence,
            labels=self.labels,
        )
