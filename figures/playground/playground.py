"""Playground: a living block manager with buttons."""

from __future__ import annotations

from typing import Any

from blockmgr import BlockManager
from figures.keys import sequence_key
from figures.layout import NO_ROOM, Room
from figures.legend import legend_details
from figures.page import page, repr_of
from figures.panel import audit_panel
from figures.playground.buttons import controls
from figures.playground.commands import CantDo, Pool
from figures.playground.moments import on_host
from figures.playground.page import CONTROLS, STYLE
from figures.playground.scenarios import SCENARIOS
from figures.playground.session import Session
from figures.playground.workbench import Workbench
from figures.stage import Stage, shell
from figures.svg import TITLE_SIZE, block_map
from figures.text import SUMMARY, state_tables
from figures.words import esc

HINT = "Type a prompt or a length, or choose a scenario: it says what to look at."
_NO_KERNEL = (
    "<p>The buttons need Python: open this notebook in JupyterLab and run the cell.</p>"
)
_TOLD = (
    "<details><summary>This step, event by event</summary>"
    "<div data-part='told'></div></details>"
)


class Playground(Stage):
    """A living block manager with buttons, undo, scenarios and files.

    `scenario` is the place of a ready-made one in `SCENARIOS`; without it, it opens
    with an empty pool of these sizes. All that is shown is the state of a real manager,
    and `manager` gives one like it to look into.

    Raises `CantDo` for a scenario that is not there and for sizes that it does not
    offer.
    """

    _css = Stage._css + STYLE

    def __init__(
        self,
        scenario: int | None = None,
        *,
        num_blocks: int = 12,
        block_size: int = 4,
        num_host_blocks: int = 0,
        enable_caching: bool = True,
    ) -> None:
        pool = Pool(num_blocks, block_size, num_host_blocks, bool(enable_caching))
        self._bench = Workbench(_opening(scenario, pool))
        self._quiet = False
        extra = (
            "<div data-part='host'></div><div data-part='audit'></div>"
            f"{_TOLD}{legend_details()}"
        )
        super().__init__(shell(SUMMARY, CONTROLS, extra, stays=True))
        self.draw()

    def __repr__(self) -> str:
        return f"Playground({repr_of(self.session.now.state)})"

    @property
    def session(self) -> Session:
        """The pool, the commands so far, and the moment that is shown."""
        return self._bench.session

    @property
    def manager(self) -> BlockManager:
        """A manager of your own in the state that is shown, with its log. What you do
        with it does not change the playground."""
        return self.session.manager()

    # --- from the page --------------------------------------------------------------

    def act(self, name: str, value: float | None) -> None:
        """Do what a control says. What makes no sense now is said, and not done."""
        session = self.session
        try:
            self._bench.press(name, None if value is None else int(value))
            if name == "choose":
                self._select(sequence_key(self._bench.chosen))
            elif self.session is not session:
                self._select("")
        finally:
            self.draw()

    def typed(self, name: str, text: str) -> None:
        """Take what stands in a text field now, or the text of a file."""
        session = self.session
        self._bench.type(name, text)
        if self.session is not session:
            self._select("")
        self.draw()

    def _select(self, key: str) -> None:
        """Mark something in the picture, without a frame of its own."""
        self._quiet = True
        try:
            self.selected = key
        finally:
            self._quiet = False

    def _selected(self, change: Any) -> None:
        """A click on a name, a logical block or a block chooses its sequence."""
        if not self._quiet:
            self._bench.notice = ""
            self._bench.choose_by_key(str(change["new"]))
            super()._selected(change)

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the moment that is shown, and the state of every control."""
        self.place({**self._parts(), **self._words()}, controls(self._bench))

    def _parts(self) -> dict[str, str]:
        session, now = self.session, self.session.now
        return {
            "picture": self.svg(prefix=self.prefix, interactive=True),
            "host": self._host(),
            "audit": audit_panel(now.state),
            "told": _list(now.told),
            "tables": state_tables(now.state, session.labels),
        }

    def _words(self) -> dict[str, str]:
        session, notice = self.session, self._bench.notice
        say = esc(session.now.said)
        if notice:
            say = f"<span class='no'>Not done:</span> {esc(notice)}."
        return {
            "say": say,
            "space": esc(session.longest_sentence()),
            "look": esc(session.note or HINT),
            "count": f"step {session.at} of {len(session.commands)}",
        }

    def svg(self, *, prefix: str | None = None, interactive: bool = False) -> str:
        """The picture of the moment that is shown."""
        session = self.session
        return block_map(
            session.now.state,
            event=session.now.event,
            before=session.before,
            labels=session.labels,
            selected=self.selected if interactive else None,
            plan=session.plan,
            prefix=prefix,
            interactive=interactive,
            room=session.room if interactive else NO_ROOM,
        )

    def _host(self) -> str:
        """The host's pool, drawn like the other one; nothing if there is none."""
        session, now = self.session, self.session.now
        side = now.state.host_side()
        if side is None:
            return ""
        svg = block_map(
            side,
            event=on_host(now.event) if now.event else None,
            before=session.before.host_side() if session.before else None,
            labels=session.labels,
            plan=session.plan,
            title="Host memory",
            prefix=f"{self.prefix}h",
            room=self._host_room(),
        )
        return (
            "<div class='kvroom' role='group' tabindex='0' aria-label='host memory'>"
            f"{svg}</div>"
        )

    def _host_room(self) -> Room:
        """What was measured, and the title above it."""
        room = self.session.host_room
        return Room(room.pool + TITLE_SIZE + 20, room.queue)

    def page(self) -> str:
        """The same for a page without a kernel."""
        session, now = self.session, self.session.now
        return page(
            self.svg(),
            now.state,
            sentence=f"{session.note} {now.said}".strip(),
            labels=session.labels,
            more=_NO_KERNEL + audit_panel(now.state) + legend_details(),
        )


def _list(sentences: tuple[str, ...]) -> str:
    items = "".join(f"<li>{esc(sentence)}</li>" for sentence in sentences)
    return f"<ol>{items}</ol>" if items else "<p>Nothing has happened yet.</p>"


def _opening(scenario: int | None, pool: Pool) -> Session:
    """The session that a playground opens with."""
    if scenario is None:
        return Session(pool.checked())
    if scenario not in range(len(SCENARIOS)):
        raise CantDo(f"scenarios are 0 to {len(SCENARIOS) - 1}, got {scenario!r}")
    return SCENARIOS[scenario].session()
