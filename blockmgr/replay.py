"""Replaying recorded runs: the proof that our manager decides what vLLM decides.

A recording (`kvtrace-v1/1`) is one header line with the configuration, then one line a
step: the operation, vLLM's answer, and vLLM's whole state afterwards. We give our
manager the same operations and compare every field of every step: the answer, every
table, every reference count, the free queue in its order, which blocks hold a hash, how
many distinct hashes there are, and (where recorded) the published cache events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from blockmgr.answers import Allocation
from blockmgr.errors import BadTrace, BlockManagerError, InvalidRequest
from blockmgr.events import EventLog
from blockmgr.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVEvent,
    kv_events,
)
from blockmgr.manager import BlockManager
from blockmgr.textfile import bad_line, numbered_lines

FORMAT = "kvtrace-v1/1"
RECORDINGS = Path(__file__).parent / "recordings"
"""The recordings that ship with the project: data of our own, see the README there."""

Step = dict[str, Any]


class Difference(NamedTuple):
    """The first thing that differs: where, what vLLM had, what we have."""

    step: int
    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return (
            f"step {self.step}, {self.field}: expected {self.expected!r}, "
            f"got {self.got!r}"
        )


class ReplayResult(NamedTuple):
    """How one file went. `steps` are those that were compared."""

    name: str
    steps: int
    difference: Difference | None = None

    def __str__(self) -> str:
        if self.difference is None:
            return f"ok  {self.name}  {self.steps} steps"
        return f"DIFFERS  {self.name}  {self.difference}"


# --- reading ------------------------------------------------------------------------


def read_trace(path: str | Path) -> tuple[Step, list[Step]]:
    """The header and the steps of a recording, gzipped or plain.

    Raises `BadTrace` for a file that can't be read, is no recording, or was cut.
    """
    path, records, line = Path(path), [], ""
    for number, line in numbered_lines(path):
        records.append(_record(path, number, line))
    if not records or records[0].get("format") != FORMAT:
        found = records[0].get("format") if records else "an empty file"
        raise BadTrace(
            f"{path} is not a recording this command knows: expected a first line "
            f'with "format": "{FORMAT}", got {found!r}'
        )
    if not line.endswith("\n"):
        raise BadTrace(f"{path} was cut in line {len(records)}: get the file again")
    if len(records) == 1:
        raise BadTrace(f"{path} has a first line and no steps: nothing to compare")
    return records[0], records[1:]


def _record(path: Path, number: int, line: str) -> Step:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise bad_line(path, number, "a JSON object")
    return record


# --- our side -----------------------------------------------------------------------


def _answer(allocation: Allocation) -> Step:
    answer: Step = {"ok": bool(allocation)}
    if allocation:
        answer["new"] = list(allocation.new_blocks)
    return answer


def _admission(allocation: Allocation) -> Step:
    answer = {
        "hit": allocation.num_cached_tokens,
        "hb": list(allocation.hit_blocks),
        **_answer(allocation),
    }
    if allocation:
        answer["n"] = allocation.num_scheduled_tokens
    return answer


def _admit(manager: BlockManager, step: Step) -> Step:
    return _admission(
        manager.allocate(
            step["r"], step["t"], cache_salt=step.get("salt"), **_options(step)
        )
    )


def _resume(manager: BlockManager, step: Step) -> Step:
    return _admission(manager.resume(step["r"], **_options(step)))


def _options(step: Step) -> dict[str, Any]:
    return {
        "num_tokens": step.get("n"),
        "num_lookahead": step.get("la", 0),
        "full_sequence_must_fit": step["fit"],
    }


def _append(manager: BlockManager, step: Step) -> Step:
    return _answer(
        manager.append(step["r"], step["t"], num_lookahead=step.get("la", 0))
    )


def _extend(manager: BlockManager, step: Step) -> Step:
    return _answer(
        manager.allocate_slots(
            step["r"], step.get("n"), num_lookahead=step.get("la", 0)
        )
    )


def _lookup(manager: BlockManager, step: Step) -> Step:
    hits = manager.get_computed_blocks(step["t"], cache_salt=step.get("salt"))
    return {"hit": len(hits) * manager.block_size, "hb": list(hits)}


def _free(manager: BlockManager, step: Step) -> Step:
    manager.free(step["r"])
    return {}


def _preempt(manager: BlockManager, step: Step) -> Step:
    manager.preempt(step["r"])
    return {}


def _evict(manager: BlockManager, step: Step) -> Step:
    # vLLM was given a set, and published the removals in the order of that set.
    manager.evict_blocks(set(step["b"]))
    return {}


def _reset(manager: BlockManager, step: Step) -> Step:
    return {"ok": manager.reset_prefix_cache()}


OPERATIONS: dict[str, Callable[[BlockManager, Step], Step]] = {
    "admit": _admit,
    "append": _append,
    "evict": _evict,
    "extend": _extend,
    "free": _free,
    "lookup": _lookup,
    "preempt": _preempt,
    "reset": _reset,
    "resume": _resume,
    "retry": _extend,
}


def manager_for(header: Step, *, record: bool = False) -> BlockManager:
    """A fresh manager with a recording's configuration. Raises `BadTrace`."""
    try:
        kinds = [group["kind"] for group in header["groups"]]
        if kinds != ["full"]:
            raise BadTrace(
                f"{header['name']}: groups {kinds}: only one group with full "
                "attention can be replayed so far"
            )
        described = len((header["init"] or {"rc": ()})["rc"])
        if described != header["num_blocks"]:
            raise BadTrace(
                f"the recording's first line speaks of {header['num_blocks']!r} blocks "
                f"and describes {described} of them in 'init'"
            )
        return BlockManager(
            header["num_blocks"],
            header["block_size"],
            enable_caching=header["caching"],
            watermark=header["watermark"],
            max_model_len=header["max_model_len"],
            record=record or header["events"],
        )
    except KeyError as error:
        raise BadTrace(f"the recording's first line lacks {error}") from None
    except (TypeError, InvalidRequest) as error:
        raise BadTrace(f"the recording's first line makes no sense: {error}") from None


def _state(manager: BlockManager) -> Step:
    """Our state in the recording's words."""
    snapshot = manager.snapshot()
    return {
        "tb": {
            view.seq_id: list(view.block_table)
            for view in snapshot.sequences.values()
            if view.block_table
        },
        "rc": list(snapshot.ref_cnt),
        "fq": list(snapshot.free_queue),
        "cb": [b for b, name in enumerate(snapshot.block_hash) if name],
        "ck": len(snapshot.cache),
    }


# --- comparing ----------------------------------------------------------------------


class _Renaming:
    """A one-to-one renaming between vLLM's hashes and ours, grown as they appear.

    `seen` is the number of our events that were compared already.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.ours: dict[str, str] = {}
        self.theirs: dict[str, str] = {}

    def translate(self, ours: str | None, theirs: str | None) -> str | None:
        """Our hash in vLLM's words, or itself if the two can't be the same."""
        if ours is None or theirs is None:
            return ours
        fits = self.ours.setdefault(ours, theirs) == theirs
        fits &= self.theirs.setdefault(theirs, ours) == ours
        return theirs if fits else f"ours: {ours[:16]}"


def _in_their_words(event: KVEvent, theirs: Any, names: _Renaming) -> Any:
    """One of our cache events in the recording's form, for comparison."""
    match event:
        case AllBlocksCleared():
            return "clear"
        case BlockRemoved(hashes, group):
            return {"remove": _translate(hashes, theirs, "remove", names), "g": group}
        case BlockStored(hashes, parent, token_ids, _, extra, group):
            their_parent = theirs.get("parent") if isinstance(theirs, dict) else None
            stored: Step = {
                "store": _translate(hashes, theirs, "store", names),
                "parent": names.translate(parent, their_parent),
                "t": list(token_ids),
                "g": group,
            }
            if any(extra):
                stored["xk"] = [[k[-1] for k in keys] or None for keys in extra]
            return stored


def _translate(
    hashes: tuple[str, ...], theirs: Any, key: str, names: _Renaming
) -> list[str | None]:
    other = theirs.get(key) if isinstance(theirs, dict) else None
    if not isinstance(other, list) or len(other) != len(hashes):
        return list(hashes)
    return [names.translate(a, b) for a, b in zip(hashes, other, strict=True)]


def _compare_events(manager: BlockManager, step: Step, names: _Renaming) -> Any:
    assert manager.log is not None  # manager_for records when events were recorded
    expected = step.get("ev")
    if not isinstance(expected, list):
        raise BadTrace(f"a step has no list of events, but {expected!r}")
    fresh = manager.log.events[names.seen :]
    names.seen += len(fresh)
    ours = [e for event in fresh for e in kv_events(event, manager.block_size)]
    padded = expected + [None] * len(ours)
    return [_in_their_words(e, t, names) for e, t in zip(ours, padded, strict=False)]


def replay_steps(header: Step, steps: list[Step]) -> Iterator[Difference | None]:
    """Carry out every step and say, step by step, the first field that differs.

    Raises `BadTrace` for a step that lacks a field or asks for something unknown.
    """
    manager, names = manager_for(header), _Renaming()
    yield _first_difference(0, header["init"], _state(manager))
    for number, step in enumerate(steps, 1):
        got = {"res": _carry_out(manager, number, step), **_state(manager)}
        if header["events"]:
            got["ev"] = _compare_events(manager, step, names)
        yield _first_difference(number, step, got)


def _carry_out(manager: BlockManager, number: int, step: Step) -> Any:
    operation = OPERATIONS.get(str(step.get("op")))
    if operation is None:
        known = ", ".join(OPERATIONS)
        raise BadTrace(f"step {number} asks for {step.get('op')!r}: known are {known}")
    try:
        return operation(manager, step)
    except KeyError as error:
        raise BadTrace(f"step {number} lacks the field {error}") from None
    except TypeError as error:
        raise BadTrace(f"step {number} has a field of another kind: {error}") from None
    except BlockManagerError as error:  # vLLM did it and we refuse: a difference
        return f"{type(error).__name__}: {error}"


def _first_difference(number: int, step: Step, got: Step) -> Difference | None:
    for field, value in got.items():
        if field not in step:
            raise BadTrace(f"step {number} lacks the field {field!r}")
        if step[field] != value:
            return Difference(number, field, step[field], value)
    return None


def replay_file(path: str | Path) -> ReplayResult:
    """Replay one recording and compare it, stopping at the first difference.

    Raises `BadTrace` for a file that is no recording, or not a whole one.
    """
    header, steps = read_trace(path)
    name = str(header.get("name", Path(path).name))
    for difference in replay_steps(header, steps):
        if difference is not None:
            return ReplayResult(name, difference.step, difference)
    return ReplayResult(name, len(steps))


def replay_log(path: str | Path, num_steps: int | None = None) -> EventLog:
    """The first steps of a recording as an event log of our manager, to look at.

    Raises `BadTrace`.
    """
    header, steps = read_trace(path)
    manager = manager_for(header, record=True)
    for number, step in enumerate(steps[:num_steps], 1):
        _carry_out(manager, number, step)
    assert manager.log is not None
    return manager.log
