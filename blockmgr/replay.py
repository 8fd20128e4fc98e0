"""Replaying recorded runs: the proof that our manager decides what vLLM decides.

There are three kinds of recordings: of the V1 block manager, of the V1 scheduler, and
of the V0 block manager, which had fork and swap. `replay_file` reads the first line and
does the right thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from blockmgr import replay_sched, replay_v0, replay_v1
from blockmgr.errors import BadTrace
from blockmgr.events import EventLog
from blockmgr.recording import SCHED, V0, V1, Difference, Step, carry_out, read_trace

RECORDINGS = Path(__file__).parent / "recordings"
"""The recordings that ship with the project: data of our own, see the README there."""

REPLAYS: dict[str, Callable[[Step, list[Step]], Iterator[Difference | None]]] = {
    V1: replay_v1.replay_steps,
    V0: replay_v0.replay_steps,
    SCHED: replay_sched.replay_steps,
}


class ReplayResult(NamedTuple):
    """How one file went. `steps` are those that were compared; `no_counterpart` says
    why there was nothing to compare."""

    name: str
    steps: int
    difference: Difference | None = None
    no_counterpart: str = ""

    def __str__(self) -> str:
        if self.no_counterpart:
            return f"--  {self.name}  no counterpart: {self.no_counterpart}"
        if self.difference is None:
            return f"ok  {self.name}  {self.steps} steps"
        return f"DIFFERS  {self.name}  {self.difference}"


def replay_file(path: str | Path) -> ReplayResult:
    """Replay one recording and compare it, stopping at the first difference.

    Raises `BadTrace` for a file that is no recording, or not a whole one.
    """
    header, steps = read_trace(path)
    name = str(header.get("name", Path(path).name))
    if header["format"] == V0 and header.get("caching"):
        return ReplayResult(name, 0, None, replay_v0.NO_COUNTERPART)
    replay_steps = REPLAYS[header["format"]]
    for difference in replay_steps(header, steps):
        if difference is not None:
            return ReplayResult(name, difference.step, difference)
    return ReplayResult(name, len(steps))


def replay_log(path: str | Path, num_steps: int | None = None) -> EventLog:
    """The first steps of a recording as an event log of our manager, to look at.

    Raises `BadTrace`.
    """
    header, steps = read_trace(path)
    if header["format"] == SCHED:
        raise BadTrace(f"{path}: a scheduler's run has no log of single operations")
    started = list(enumerate(steps[:num_steps], 1))
    if header["format"] == V0:
        space = replay_v0.manager_for(header, record=True)
        for number, step in started:
            carry_out(replay_v0.OPERATIONS, space, number, step)
        manager = space.manager
    else:
        manager = replay_v1.manager_for(header, record=True)
        for number, step in started:
            carry_out(replay_v1.OPERATIONS, manager, number, step)
    assert manager.log is not None
    return manager.log
