"""The sessions of one playground: the present one, those before it, those undone.

Undo goes back command by command, then from a new pool to what was there before it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from figures.playground.commands import CantDo, Command, Pool
from figures.playground.file import BadLog, from_text, to_text
from figures.playground.session import Session

MOST_POOLS = 50
"""Sessions that are kept for undo; then the oldest is forgotten."""


class _Kept(NamedTuple):
    """A session that is not on the desk: enough to make it again."""

    pool: Pool
    commands: tuple[Command, ...]
    at: int
    note: str

    @classmethod
    def of(cls, session: Session) -> _Kept:
        return cls(session.pool, tuple(session.commands), session.at, session.note)

    def session(self) -> Session:
        made = Session(self.pool, self.commands, self.note)
        made.go(self.at)
        return made


class Desk:
    """What a playground works on: a session, and the way back to those before it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._past: deque[_Kept] = deque(maxlen=MOST_POOLS)
        self._future: list[_Kept] = []
        self._forgot = False

    def why_no_undo(self) -> str:
        """Why there is no step or session to go back to; nothing if there is one."""
        if self.session.at or self._past:
            return ""
        if self._forgot:
            return f"only {MOST_POOLS} pools are kept, and those before are forgotten"
        return "there is nothing to undo"

    def why_no_redo(self) -> str:
        """Why nothing can be done again; nothing if something can."""
        more = self.session.at < len(self.session.commands) or self._future
        return "" if more else "there is nothing to do again"

    def do(self, command: Command) -> None:
        """Carry out a command; what was undone is given up. Raises `CantDo`."""
        self.session.do(command)
        self._future.clear()

    def begin(self, session: Session) -> None:
        """Put another session in place of this one; undo brings this one back. Another
        empty pool like this one would be nothing to undo: so it is not kept."""
        if not self.session.commands and _Kept.of(session) == _Kept.of(self.session):
            return
        self._forgot = self._forgot or len(self._past) == MOST_POOLS
        self._past.append(_Kept.of(self.session))
        self._future.clear()
        self.session = session

    def undo(self) -> None:
        """One step back, or one session. Raises `CantDo` if there is none."""
        if self.session.at:
            self.session.go(self.session.at - 1)
        elif self._past:
            self._future.append(_Kept.of(self.session))
            self.session = self._past.pop().session()
        else:
            raise CantDo(self.why_no_undo())

    def redo(self) -> None:
        """Take the last undo back. Raises `CantDo` if there is none."""
        if self.session.at < len(self.session.commands):
            self.session.go(self.session.at + 1)
        elif self._future:
            self._past.append(_Kept.of(self.session))
            self.session = self._future.pop().session()
        else:
            raise CantDo(self.why_no_redo())

    def save(self) -> str:
        """The log up to the present moment, as the text of a file."""
        return to_text(self.session.pool, self.session.commands[: self.session.at])

    def load(self, text: str) -> None:
        """Go on from a file. Raises `BadLog`, with nothing changed."""
        pool, commands = from_text(text)
        try:
            session = Session(pool, commands, "This is the log that you loaded.")
        except CantDo as error:
            raise BadLog(str(error)) from None
        self.begin(session)
