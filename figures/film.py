"""A recorded run as frames: state, event and sentence of every step, made on demand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from blockmgr.events import Event, EventLog, Snapshot
from figures.layout import Room
from figures.scene import Plan
from figures.sentences import describe
from figures.svg import room_of
from figures.words import Labels

MOST_MEASURED = 400
"""Frames whose size is looked up before a run is shown."""

FIRST_SENTENCE = "The start of the record: nothing has happened yet."


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of a run: the event, the states around it, and the sentence for it.

    Frame 0 is the state at the start: it has no event.
    """

    step: int
    event: Event | None
    before: Snapshot | None
    after: Snapshot
    sentence: str


class Film:
    """The frames of an event log. The log may grow: so does the film.

    States are folded from the log once, in order, and kept; sentences are made when
    they are asked for.
    """

    def __init__(self, log: EventLog, labels: Labels = None) -> None:
        self.log = log
        self.labels = labels
        self._states = [log.initial]
        self._plan = Plan()
        self._planned = -1  # length of the log that the plan was made for
        self._rooms: tuple[Plan | None, list[Room]] = None, []

    def __len__(self) -> int:
        """Number of frames: the events, and the start."""
        return len(self.log) + 1

    @property
    def plan(self) -> Plan:
        """Colours and sizes that all frames share."""
        if self._planned != len(self.log):
            self._plan, self._planned = Plan.of(self.log), len(self.log)
        return self._plan

    def room_at(self, step: int) -> Room:
        """Room for the rows and the queue of this frame and of all before it.

        So a picture grows when somebody arrives and never shrinks when somebody leaves:
        it starts small, and what stands below it does not jump up again.
        """
        plan, looked_at = self.plan, self._looked_at()
        if self._rooms[0] is not plan:
            frames = map(self.frame, looked_at)
            rooms = (room_of(f.after, f.event, f.before, plan) for f in frames)
            self._rooms = plan, list(accumulate(rooms, Room.joined))
        return self._rooms[1][step // looked_at.step]

    def _looked_at(self) -> range:
        """Every step; of a long run enough of them to know it."""
        return range(0, len(self), 1 + len(self) // MOST_MEASURED)

    def longest_sentence(self) -> str:
        """The one that needs most room on the page."""
        return max(map(self.sentence, self._looked_at()), key=len)

    def state(self, step: int) -> Snapshot:
        """The state after `step` events. Raises `IndexError` if there is none."""
        if not 0 <= step < len(self):
            raise IndexError(f"step {step} is not in 0..{len(self) - 1}")
        while len(self._states) <= step:
            event = self.log.events[len(self._states) - 1]
            self._states.append(self._states[-1].after(event))
        return self._states[step]

    def sentence(self, step: int) -> str:
        """What happened in this step."""
        if step == 0:
            return FIRST_SENTENCE
        return describe(self.log.events[step - 1], self.state(step - 1), self.labels)

    def frame(self, step: int) -> Frame:
        """Everything about one step; negative steps count from the end."""
        if step < 0:
            step += len(self)
        after = self.state(step)
        if step == 0:
            return Frame(0, None, None, after, FIRST_SENTENCE)
        event, before = self.log.events[step - 1], self.state(step - 1)
        return Frame(step, event, before, after, self.sentence(step))

    def fullest(self) -> int:
        """The last of the steps at which most blocks were in use: the best still."""
        used = [self.state(step).num_used for step in range(len(self))]
        return max(range(len(self)), key=lambda step: (used[step], step))
