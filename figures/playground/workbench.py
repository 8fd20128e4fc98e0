"""What the buttons of the playground do, without a page: fields, choice, presses."""

from __future__ import annotations

from figures.keys import block_key, logical_key, sequence_key
from figures.playground.commands import (
    MOST_NAME,
    MOST_TEXT,
    CantDo,
    Command,
)
from figures.playground.desk import Desk
from figures.playground.file import BadLog, clean
from figures.playground.scenarios import SCENARIOS
from figures.playground.session import Session

MOST_PRESSES = 20
"""Quick presses of one button that arrive together; more of them are not done."""

FIRST_TEXT = "You are a kind tutor . Why is the sky blue ?"

_CHOICES = ("choose", "moment", "scenario", "blocks", "size", "host", "cache")
"""What arrives with a value that was chosen, and not with a number of presses."""


class Workbench:
    """A desk, and what stands in the fields around it.

    `text` and `name` are the text fields, `wanted` is the pool that "New pool" makes.
    `notice` says why the last press did nothing; it is empty if it did something.
    """

    def __init__(self, session: Session) -> None:
        self.desk = Desk(session)
        self.wanted = session.pool
        self.text, self.name = FIRST_TEXT, ""
        self.notice = ""
        self._chosen = ""

    @property
    def session(self) -> Session:
        """The session on the desk."""
        return self.desk.session

    @property
    def chosen(self) -> str:
        """The sequence that the buttons are about; the last one if none was chosen,
        and no text if nobody is there."""
        here = self.session.now.sequences
        return self._chosen if self._chosen in here else next(reversed(here), "")

    @property
    def chosen_status(self) -> str:
        """`running`, `preempted` or `swapped`; no text if nobody is there."""
        view = self.session.now.sequences.get(self.chosen)
        return view.status if view is not None else ""

    @property
    def scenario(self) -> int:
        """The place of the scenario that is on the desk as it was offered; -1 if
        something was added, so that it can be chosen anew."""
        on_desk = self.session.note, tuple(self.session.commands)
        offered = [(one.note, one.commands) for one in SCENARIOS]
        return offered.index(on_desk) if on_desk in offered else -1

    # --- what a button asks for -----------------------------------------------------

    def command(self, act: str) -> Command:
        """What a press of this button asks for now, whether it makes sense or not."""
        who, new, length = self.chosen, self._new_name(), as_length(self.text)
        match act:
            case "request" if length is None:
                return Command("request", new, text=self.text)
            case "request":
                return Command("numbers", new, length=length)
            case "append" if length is None:
                return Command("append", who, text=self.text)
            case "append":
                return Command("generate", who, length=length)
            case "token":
                return Command("generate", who, length=1)
            case "fork":
                return Command("fork", who, child=new)
            case "finish":
                return Command("finish", who)
            case "pause":
                back = self.chosen_status == "preempted"
                return Command("resume" if back else "preempt", who)
            case "swap":
                back = self.chosen_status == "swapped"
                return Command("swap_in" if back else "swap_out", who)
            case "step" | "reset":
                return Command(act)
        raise CantDo("there is no such button")

    def why_not(self, act: str) -> str:
        """Why a press of this button would do nothing now; nothing if it would."""
        command = self.command(act)
        if command.name == "":
            return "nobody is here: send a request first"
        return self.session.why_not(command)

    def _new_name(self) -> str:
        return self.name.strip() or self.session.new_name()

    # --- from outside ---------------------------------------------------------------

    def press(self, act: str, value: int | None = None) -> None:
        """A button was pressed (`value` times), or something was chosen (`value`)."""
        self.notice, before = "", self.session
        try:
            if act in _CHOICES:
                self._choose(act, value or 0)
            else:
                for _ in range(min(max(value or 1, 1), MOST_PRESSES)):
                    self._press(act)
        except CantDo as error:
            self.notice = str(error)
        self._follow(before)

    def type(self, field: str, text: str) -> None:
        """This is what stands in a field now, or in a file that was chosen."""
        self.notice, before = "", self.session
        if field == "text":
            self.text = clean(text[:MOST_TEXT])
        elif field == "name":
            self.name = clean(text[:MOST_NAME])
        elif field == "load":
            self._load(text)
        self._follow(before)

    def choose_by_key(self, key: str) -> None:
        """Choose the sequence to which a clicked thing belongs; of several that share a
        block, the one that is chosen already, or the first."""
        views = self.session.now.state.sequences.items()
        owners = [n for n, view in views if key in _keys(n, view.block_table)]
        if owners and self.chosen not in owners:
            self._chosen = owners[0]

    # --- doing it -------------------------------------------------------------------

    def _press(self, act: str) -> None:
        match act:
            case "undo":
                self.desk.undo()
            case "redo":
                self.desk.redo()
            case "new":
                self.desk.begin(Session(self.wanted))
            case _:
                self._do(act)

    def _do(self, act: str) -> None:
        if why := self.why_not(act):
            raise CantDo(why)
        command = self.command(act)
        self.desk.do(command)
        new = command.child if act == "fork" else command.name
        if act in ("request", "fork") and new in self.session.now.sequences:
            self._chosen, self.name = new, ""  # else it can ask again

    def _choose(self, act: str, value: int) -> None:
        match act:
            case "choose":
                self._choose_sequence(value)
            case "moment":
                self.session.go(value)
            case "scenario":
                if value in range(len(SCENARIOS)):
                    self.desk.begin(SCENARIOS[value].session())
            case "blocks":
                self.wanted = self.wanted._replace(num_blocks=value).checked()
            case "size":
                self.wanted = self.wanted._replace(block_size=value).checked()
            case "host":
                self.wanted = self.wanted._replace(num_host_blocks=value).checked()
            case "cache":
                self.wanted = self.wanted._replace(enable_caching=bool(value))

    def _choose_sequence(self, place: int) -> None:
        names = list(self.session.now.sequences)
        if not 0 <= place < len(names):
            raise CantDo("there is no such sequence: choose one that is here")
        self._chosen = names[place]

    def _load(self, text: str) -> None:
        try:
            self.desk.load(text)
        except BadLog as error:
            self.notice = f"nothing was loaded: {error}"

    def _follow(self, before: Session) -> None:
        """If another session lies on the desk now, the fields are about that."""
        if self.session is not before:
            self._chosen, self.wanted = "", self.session.pool


def as_length(text: str) -> int | None:
    """The length that stands in the prompt's field; None if it is a prompt."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits[:6])


def _keys(name: str, table: tuple[int, ...]) -> set[str]:
    """Everything in a picture that belongs to a sequence."""
    logical = {logical_key(name, i) for i in range(len(table))}
    return {sequence_key(name), *logical, *map(block_key, table)}
