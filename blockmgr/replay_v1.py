"""Replaying recordings of vLLM's V1 `KVCacheManager` (`kvtrace-v1/1`).

We give our manager the same operations and compare every field of every step: the
answer, every table, every reference count, the free queue in its order, which blocks
hold a hash, how many distinct hashes there are, and (where recorded) the published
cache events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blockmgr.answers import Allocation
from blockmgr.errors import BadTrace
from blockmgr.events import Ids
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVEvent,
    kv_events,
)
from blockmgr.manager import BlockManager
from blockmgr.recording import Difference, Step, carry_out, first_difference, first_line

# --- our side -----------------------------------------------------------------------


def _answer(manager: BlockManager, allocation: Allocation) -> Step:
    answer: Step = {"ok": bool(allocation)}
    if allocation:
        answer["new"] = _by_group(manager, allocation.new_blocks)
    return answer


def _admission(manager: BlockManager, allocation: Allocation) -> Step:
    answer = {
        "hit": allocation.num_cached_tokens,
        "hb": _by_group(manager, allocation.hit_blocks),
        **_answer(manager, allocation),
    }
    if allocation:
        answer["n"] = allocation.num_scheduled_tokens
    return answer


def _by_group(manager: BlockManager, ids: Ids) -> list[Any]:
    """Blocks as a recording has them: a list, or a list for each group of a hybrid
    model. All groups have equally many, for their tables are equally long."""
    if len(manager.groups) == 1:
        return list(ids)
    each = len(ids) // len(manager.groups)
    return [list(ids[i * each : (i + 1) * each]) for i in range(len(manager.groups))]


def _admit(manager: BlockManager, step: Step) -> Step:
    return _admission(
        manager,
        manager.allocate(
            step["r"], step["t"], cache_salt=step.get("salt"), **_options(step)
        ),
    )


def _resume(manager: BlockManager, step: Step) -> Step:
    return _admission(manager, manager.resume(step["r"], **_options(step)))


def _options(step: Step) -> dict[str, Any]:
    return {
        "num_tokens": step.get("n"),
        "num_lookahead": step.get("la", 0),
        "full_sequence_must_fit": step["fit"],
    }


def _append(manager: BlockManager, step: Step) -> Step:
    return _answer(
        manager, manager.append(step["r"], step["t"], num_lookahead=step.get("la", 0))
    )


def _extend(manager: BlockManager, step: Step) -> Step:
    return _answer(
        manager,
        manager.allocate_slots(
            step["r"], step.get("n"), num_lookahead=step.get("la", 0)
        ),
    )


def _lookup(manager: BlockManager, step: Step) -> Step:
    salt, groups = step.get("salt"), range(len(manager.groups))
    hits = [
        manager.get_computed_blocks(step["t"], cache_salt=salt, group=i) for i in groups
    ]
    flat = tuple(block_id for found in hits for block_id in found)
    return {
        "hit": len(hits[0]) * manager.block_size,
        "hb": _by_group(manager, flat),
    }


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
    with first_line():
        described = len((header["init"] or {"rc": ()})["rc"])
        if described != header["num_blocks"]:
            raise BadTrace(
                f"the recording's first line speaks of {header['num_blocks']!r} blocks "
                f"and describes {described} of them in 'init'"
            )
        return BlockManager(
            header["num_blocks"],
            header["block_size"],
            groups=tuple(_group_of(group) for group in header["groups"]),
            enable_caching=header["caching"],
            watermark=header["watermark"],
            max_model_len=header["max_model_len"],
            record=record or header["events"],
        )


def _group_of(described: Step) -> FullAttention:
    kind = described["kind"]
    if kind == "full":
        return FullAttention()
    if kind == "sliding_window":
        return SlidingWindow(described["window"])
    raise BadTrace(f"a group of kind {kind!r}: known are full and sliding_window")


def state_of(manager: BlockManager) -> Step:
    """The state of a manager in a recording's words."""
    snapshot = manager.snapshot()
    return {
        "tb": {
            view.seq_id: _by_group(manager, tuple(b for t in view.tables for b in t))
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
    yield first_difference(0, header["init"], state_of(manager))
    for number, step in enumerate(steps, 1):
        got = {"res": carry_out(OPERATIONS, manager, number, step), **state_of(manager)}
        if header["events"]:
            got["ev"] = _compare_events(manager, step, names)
        yield first_difference(number, step, got)
