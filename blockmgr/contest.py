"""A race of allocation policies: the same jobs, each policy with a pool of its own.

A `Lane` is one policy at work. In each step of its clock

1. those that are done leave, and their blocks go back;
2. each one inside gets a token, and a slot for it; where no block is free it
   **stalls**, keeps what it holds and asks again in the next step;
3. if nobody inside stalls, those at the door come in, in the order of their arrival, up
   to the first that does not fit: it **waits**, and everybody behind it.

If in a whole step nobody inside could move, the last to come in gives all its blocks
back and goes to the head of the line, to compute its tokens again when it fits.

Two things are simpler than in a server: each prompt is computed in one step, and the
last token gets a slot too. vLLM does not let anybody stall, it sends one back at once
(`Scheduler.schedule` in `vllm/v1/core/sched/scheduler.py`, release 0.33).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from blockmgr.answers import Allocation, Status
from blockmgr.checks import check_count, check_name
from blockmgr.errors import InvalidRequest
from blockmgr.events import Snapshot
from blockmgr.manager import BlockManager
from blockmgr.policy import Counters, OnDemand, PolicyAllocator


class Job(NamedTuple):
    """A request of the race: it arrives in step `arrives` (the first is 1), with
    `prompt` tokens, and is done when `output` more have a slot."""

    name: str
    arrives: int
    prompt: int
    output: int

    @property
    def total(self) -> int:
        """Tokens at the end."""
        return self.prompt + self.output


class Place(StrEnum):
    """Where a job is after a step."""

    COMING = "coming"  # not here yet
    WAITING = "waiting"  # at the door, holds nothing
    RUNNING = "running"  # each of its tokens has a slot
    STALLED = "stalled"  # inside, but its newest token has no slot
    DONE = "done"


class Move(NamedTuple):
    """What happened to one job in a step: it "left", "came in", "got a token",
    "stalled", "waited" or "gave way". `new` are the blocks that it took; of one that
    was refused, `needed` is how many it asked for and `free` how many there were."""

    name: str
    what: str
    new: tuple[int, ...] = ()
    needed: int = 0
    free: int = 0

    @classmethod
    def after(cls, name: str, answer: Allocation, granted: str, refused: str) -> Move:
        """The move that an answer of the manager means."""
        if answer:
            return cls(name, granted, answer.new_blocks)
        return cls(name, refused, (), answer.needed, answer.free)


class Turn(NamedTuple):
    """A lane after step number `step` (0: before the first)."""

    step: int
    moves: tuple[Move, ...]
    places: dict[str, Place]
    counters: Counters
    snapshot: Snapshot


class Lane:
    """One policy and its own manager, working through the jobs step by step.

    Raises `InvalidRequest` for jobs that can't be served: two of one name, lengths
    below 1 (outputs below 0), or more tokens than the whole pool has slots.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        policy: OnDemand,
        num_blocks: int,
        block_size: int = 16,
        watermark: float = 0.0,
    ) -> None:
        manager = BlockManager(
            num_blocks, block_size, enable_caching=False, watermark=watermark
        )
        self.jobs = {job.name: job for job in _checked(list(jobs), manager)}
        self.allocator = PolicyAllocator(manager, policy)
        self.step_number = 0
        self.moves: list[Move] = []
        self.running: dict[str, int] = {}
        """Who is inside, in the order of coming in: how many tokens it has."""
        self.stalled: set[str] = set()
        self.done: dict[str, int] = {}
        """Who has all its tokens, in that order: in which step it got the last."""
        self._coming = deque(sorted(self.jobs.values(), key=lambda job: job.arrives))
        self._door: deque[tuple[str, int]] = deque()

    def __repr__(self) -> str:
        what = type(self.allocator.policy).__name__
        return f"Lane({what}, step {self.step_number}, {len(self.done)} done)"

    @property
    def waiting(self) -> tuple[str, ...]:
        """Who stands at the door, first in line first."""
        return tuple(name for name, _ in self._door)

    @property
    def finished(self) -> bool:
        """Whether everybody has come, been served and left."""
        return not (self._coming or self._door or self.running)

    def place(self, name: str) -> Place:
        """Where a job is now."""
        if name in self.done:
            return Place.DONE
        if name in self.stalled:
            return Place.STALLED
        if name in self.running:
            return Place.RUNNING
        return Place.WAITING if name in self.waiting else Place.COMING

    def turn(self) -> Turn:
        """The lane as it is now, as one value that never changes."""
        return Turn(
            self.step_number,
            tuple(self.moves),
            {name: self.place(name) for name in self.jobs},
            self.allocator.counters(),
            self.allocator.manager.snapshot(),
        )

    # --- one step -------------------------------------------------------------------

    def step(self) -> None:
        """Let one step pass. Raises `InvalidRequest` if the policy asks for more than
        the whole pool before somebody may come in."""
        self.step_number += 1
        self.moves = []
        self._leave()
        self._advance()
        self._arrive()
        while self._door and not self.stalled and self._admit(*self._door[0]):
            pass
        told = {move.name for move in self.moves}
        self.moves += [Move(n, "waited") for n in self.waiting if n not in told]

    def _leave(self) -> None:
        for name in [name for name in self.running if name in self.done]:
            self.allocator.free(name)
            del self.running[name]
            self.moves.append(Move(name, "left"))

    def _advance(self) -> None:
        """A token for each one inside; a stalled one has its token and needs a slot."""
        for name in self.running:
            if name in self.stalled:
                answer = self.allocator.retry(name)
            else:
                answer = self.allocator.append(name, [0])
                self.running[name] += 1
            if answer:
                self.stalled.discard(name)
                self._count(name)
            else:
                self.stalled.add(name)
            self.moves.append(Move.after(name, answer, "got a token", "stalled"))
        if self.stalled and len(self.stalled) == len(self.running):
            self._give_way(next(reversed(self.running)))

    def _give_way(self, name: str) -> None:
        self.allocator.free(name)
        self.stalled.remove(name)
        self._door.appendleft((name, self.running.pop(name)))
        self.moves.append(Move(name, "gave way"))

    def _arrive(self) -> None:
        while self._coming and self._coming[0].arrives <= self.step_number:
            job = self._coming.popleft()
            self._door.append((job.name, job.prompt))

    def _admit(self, name: str, length: int) -> bool:
        """Let the first in line come in, with the tokens that it has by now."""
        answer = self.allocator.allocate(name, [0] * length)
        if answer.status is Status.NEVER:
            raise InvalidRequest(
                f"{name!r} can never come in: the policy asks for {answer.needed} "
                f"blocks at once, more than there are. Give it a larger pool"
            )
        self.moves.append(Move.after(name, answer, "came in", "waited"))
        if answer:
            self._door.popleft()
            self.running[name] = length
            self._count(name)
        return bool(answer)

    def _count(self, name: str) -> None:
        if self.running[name] == self.jobs[name].total:
            self.done[name] = self.step_number


def race(
    jobs: Iterable[Job],
    policies: Mapping[str, OnDemand],
    num_blocks: int,
    block_size: int = 16,
) -> dict[str, list[Turn]]:
    """Run every policy to its end on the same jobs: each one's turns, from turn 0 to
    the one after which the pool is empty. Raises as `Lane` and `Lane.step`."""
    jobs = list(jobs)
    turns = {}
    for name, policy in policies.items():
        lane = Lane(jobs, policy, num_blocks, block_size)
        turns[name] = [lane.turn()]
        while not lane.finished:
            lane.step()
            turns[name].append(lane.turn())
    return turns


def _checked(jobs: list[Job], manager: BlockManager) -> list[Job]:
    """The jobs, or an error that says what is wrong with one of them."""
    for job in jobs:
        check_name(job.name)
        check_count(f"arrives of {job.name!r}", job.arrives, 1)
        check_count(f"prompt of {job.name!r}", job.prompt, 1)
        check_count(f"output of {job.name!r}", job.output, 0)
        usable = manager.pool.num_usable_blocks
        if manager.blocks_for(job.total) > usable:
            raise InvalidRequest(
                f"{job.name!r} ends with {job.total:,} tokens, and the whole pool has "
                f"{usable * manager.block_size:,} slots: shorten it or enlarge the pool"
            )
    if len({job.name for job in jobs}) < len(jobs):
        raise InvalidRequest("two jobs have the same name: give each its own")
    return jobs
