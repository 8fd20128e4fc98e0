"""A session: a pool, the commands so far, and a place among them.

Going back is choosing an earlier place; nothing is computed for it, because every
moment is kept. The manager itself can't go back. So when a command comes at an earlier
place, a new manager is made and does the commands up to there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from blockmgr import BlockManager
from blockmgr.events import Event, Snapshot
from figures.layout import NO_ROOM
from figures.playground.commands import (
    MOST_STEPS,
    MOST_TYPED,
    CantDo,
    Command,
    Pool,
    what_is_wrong,
)
from figures.playground.engine import Engine
from figures.playground.moments import Moment, following
from figures.playground.sense import why_not
from figures.scene import Plan
from figures.svg import room_of

MOST_MEASURED = 40
"""Moments whose room is looked up when many commands come at once."""


class Session:
    """A pool and what was done to it, with a place (`at`) to which one can go back.

    `note` says what there is to look at. `plan`, `room` and `host_room` keep the
    pictures of all moments in one form: they grow, and nothing in them moves up again.

    Raises `CantDo` if one of the `commands` can't be done, which says which one.
    """

    def __init__(
        self, pool: Pool, commands: Iterable[Command] = (), note: str = ""
    ) -> None:
        self.pool = pool
        self.note = note
        self.commands: list[Command] = []
        self._engine = Engine(pool)
        self._done: int | None = 0  # commands that it has done
        self.moments = [Moment(self._engine.manager.snapshot())]
        self.at = 0
        self.plan = Plan()
        self.room = self.host_room = NO_ROOM
        for command in commands:
            try:
                self._add(command)
            except CantDo as error:
                where = f"command {len(self.commands) + 1} ({command.op})"
                raise CantDo(f"{where}: {error}") from None
        self._measure(range(0, len(self), 1 + len(self) // MOST_MEASURED))

    def __len__(self) -> int:
        """Number of moments: the commands, and the start."""
        return len(self.moments)

    @property
    def now(self) -> Moment:
        """The moment at which we are."""
        return self.moments[self.at]

    @property
    def before(self) -> Snapshot | None:
        """The state before the last command; None at the start."""
        return self.moments[self.at - 1].state if self.at else None

    @property
    def labels(self) -> Mapping[int, str]:
        """Token id -> text."""
        return self._engine.labels

    # --- doing ----------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command at this place; what came after it is given up.

        An answer of LATER or NEVER is an answer: it is kept and told. Raises `CantDo`,
        with nothing changed, for what makes no sense now.
        """
        self._add(command)
        self._measure([self.at])

    def _add(self, command: Command) -> None:
        if why := self.why_not(command):
            raise CantDo(why)
        engine = self._at_this_place()
        self._done = None  # should it fail in the middle, the manager is made anew
        events = engine.do(command)
        moment = following(self.now, events, engine.lengths(), engine.labels)
        self._cut()
        self.commands.append(command)
        self.moments.append(moment)
        self.at = self._done = len(self.commands)
        self.plan = _joined(self.plan, moment)

    def _cut(self) -> None:
        """Give up what comes after this place."""
        if self.at == len(self.commands):
            return
        del self.commands[self.at :], self.moments[self.at + 1 :]
        self.plan = Plan()
        for moment in self.moments:
            self.plan = _joined(self.plan, moment)

    def _at_this_place(self) -> Engine:
        if self._done != self.at:
            self._engine = _engine(self.pool, self.commands[: self.at])
            self._done = self.at
        return self._engine

    def go(self, place: int) -> None:
        """To the moment after so many commands, or the nearest that there is."""
        self.at = min(max(place, 0), len(self.commands))

    def manager(self) -> BlockManager:
        """A manager of your own that has gone the same way up to here."""
        return _engine(self.pool, self.commands[: self.at]).manager

    # --- what makes sense now -------------------------------------------------------

    def why_not(self, command: Command) -> str:
        """Why this can't be done now, and what to do; nothing if it can."""
        return (
            what_is_wrong(command)
            or self._why_no_more(command)
            or why_not(self.pool, self.now, command)
        )

    def _why_no_more(self, command: Command) -> str:
        """Why the session has no room for the command."""
        if self.at >= MOST_STEPS:
            return (
                f"{MOST_STEPS} steps are as many as are kept here: save the log, go "
                "back a few steps, or begin with a new pool"
            )
        typed = sum(len(c.text or "") for c in self.commands[: self.at])
        if typed + len(command.text or "") > MOST_TYPED:
            return (
                f"{MOST_TYPED:,} typed characters are as many as are kept here: begin "
                "with a new pool"
            )
        return ""

    def new_name(self) -> str:
        """`r0`, `r1` and so on: the first that nobody has had in this session."""
        used = {n for m in self.moments[: self.at + 1] for n in m.sequences}
        return next(name for i in count() if (name := f"r{i}") not in used)

    # --- pictures -------------------------------------------------------------------

    def longest_sentence(self) -> str:
        """The one that needs most room on the page."""
        return max((moment.said for moment in self.moments), key=len)

    def _measure(self, places: Iterable[int]) -> None:
        """Keep the room that the pictures of these moments take."""
        for place in places:
            state, event = self.moments[place].state, self.moments[place].event
            before = self.moments[place - 1].state if place else None
            room = room_of(state, event, before, self.plan)
            self.room = self.room.joined(room)
            side = state.host_side()
            if side is not None:
                room = room_of(side, None, None, self.plan)
                self.host_room = self.host_room.joined(room)


def _engine(pool: Pool, commands: Iterable[Command]) -> Engine:
    engine = Engine(pool)
    for command in commands:
        engine.do(command)
    return engine


def _joined(plan: Plan, moment: Moment) -> Plan:
    """The plan, with room for this moment and for who asks in it."""
    event: Event | None = moment.event
    asker = (event.seq_id,) if event is not None and event.seq_id else ()
    order = tuple(dict.fromkeys((*plan.order, *moment.state.sequences, *asker)))
    asking = event is not None and not event.sequences and event.op == "allocate"
    grown = Plan(order, plan.longest, plan.most)
    grown = grown.joined(moment.state.sequences, asking=asking)
    return grown.joined(moment.state.host_sequences)
