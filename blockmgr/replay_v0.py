"""Replaying recordings of vLLM's V0 block manager (`kvtrace-v0/1`), with fork and swap.

V0 had no null block, and took and freed blocks in another order than V1. So ours can
only agree **up to a renaming of blocks**: at every step there must be a one-to-one
renaming under which all tables are the same, with the same reference counts; and the
answers, the numbers of copies and of free blocks must be equal (rule 24).

Recordings made with V0's prefix caching have no counterpart here: V0 found its blocks
by hash and by the order of an evictor, and computed hits again at every step, and V1,
whose decisions ours are, replaced all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blockmgr.answers import Status
from blockmgr.errors import BadTrace
from blockmgr.recording import Difference, Step, carry_out, first_difference, first_line
from blockmgr.v0 import BlockSpaceManager

NO_COUNTERPART = "V0's own prefix caching, which V1 replaced: ours is V1's"


def manager_for(header: Step, *, record: bool = False) -> BlockSpaceManager:
    """A fresh manager with a recording's configuration. Raises `BadTrace`."""
    with first_line():
        return BlockSpaceManager(
            header["block_size"],
            header["num_gpu"],
            header["num_cpu"],
            header["watermark"],
            header["sliding_window"],
            record,
        )


# --- the operations -----------------------------------------------------------------


def _admit(space: BlockSpaceManager, step: Step) -> Step:
    status = space.allocate(step["r"], [str(s) for s in step["s"]], step["t"])
    return {"st": status.value, **({"computed": []} if status is Status.OK else {})}


def _append(space: BlockSpaceManager, step: Step) -> Step:
    # A failed append keeps its tokens, and is tried again without naming them.
    if "t" in step:
        space.add_tokens(step["r"], step["t"])
    if not space.can_append_slots(step["r"]):
        return {"ok": False}
    answers = space.append_slots(step["r"])
    return {"ok": all(answers), "cow": sum(len(answer.copies) for answer in answers)}


def _fork(space: BlockSpaceManager, step: Step) -> Step:
    space.fork(step["r"], str(step["s"]), str(step["c"]))
    return {}


def _free_seq(space: BlockSpaceManager, step: Step) -> Step:
    space.free_seq(step["r"], str(step["s"]))
    return {}


def _free(space: BlockSpaceManager, step: Step) -> Step:
    space.free(step["r"])
    return {}


def _swap_out(space: BlockSpaceManager, step: Step) -> Step:
    answer = space.swap_out(step["r"])
    return {"ok": True, "map": len(answer.copies)} if answer else {"ok": False}


def _swap_in(space: BlockSpaceManager, step: Step) -> Step:
    answer = space.swap_in(step["r"])
    moved = {"map": len(answer.copies)} if answer else {}
    return {"st": answer.status.value, **moved}


OPERATIONS: dict[str, Callable[[BlockSpaceManager, Step], Step]] = {
    "admit": _admit,
    "append": _append,
    "fork": _fork,
    "free": _free,
    "free_seq": _free_seq,
    "swap_in": _swap_in,
    "swap_out": _swap_out,
}


# --- comparing ----------------------------------------------------------------------


def replay_steps(header: Step, steps: list[Step]) -> Iterator[Difference | None]:
    """Carry out every step and say, step by step, the first field that differs.

    Raises `BadTrace` for a step that lacks a field or asks for something unknown.
    """
    space = manager_for(header)
    yield first_difference(0, _expected(header["init"]), _state(space))
    for number, step in enumerate(steps, 1):
        got = {"res": carry_out(OPERATIONS, space, number, step), **_state(space)}
        yield first_difference(number, _expected(step), got)


def _expected(step: Step) -> Step:
    """A recorded step with its blocks renamed: see `_renamed`. Of the copies made and
    the blocks moved, only the number can be equal."""
    try:
        answer = dict(step.get("res", {}))
        for field in ("cow", "map"):
            if field in answer:
                answer[field] = len(answer[field])
        tables = {
            seq: [("c" if str(b)[0] == "c" else "g", b) for b in table]
            for seq, table in step["tb"].items()
        }
        counts = {("g", b): n for b, n in step["rc"]}
        counts |= {("c", f"c{b}"): n for b, n in step["crc"]}
        return {"res": answer, "nf": step["nf"], **_renamed(tables, counts)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadTrace(f"a step lacks or garbles a field: {error!r}") from None


def _state(space: BlockSpaceManager) -> Step:
    """Our state in the recording's words, renamed alike."""
    manager = space.manager
    tables: dict[str, list[Any]] = {}
    for seq_id, seq in manager.sequences.items():
        tier = "c" if seq.status.value == "swapped" else "g"
        tables[seq_id] = [(tier, b) for b in manager.block_table(seq_id)]
    counts = {("g", b.block_id): b.ref_cnt for b in manager.pool.blocks if b.ref_cnt}
    free = [manager.num_free_blocks, 0]
    if manager.host is not None:
        used = (b for b in manager.host.blocks if b.ref_cnt)
        counts |= {("c", b.block_id): b.ref_cnt for b in used}
        free[1] = manager.host.num_free_blocks
    return {"nf": free, **_renamed(tables, counts)}


def _renamed(tables: dict[str, list[Any]], counts: dict[Any, int]) -> Step:
    """Tables and counts with every block named by the order in which it first stands in
    a table, and c in front on the host. Two states that differ only in the choice of
    blocks become equal, and no others do."""
    names: dict[Any, str] = {}
    for seq_id in sorted(tables):
        for block in tables[seq_id]:
            names.setdefault(block, f"{block[0]}{len(names)}")
    return {
        "tb": {seq_id: [names[b] for b in tables[seq_id]] for seq_id in sorted(tables)},
        "rc": sorted(
            (names.get(block, "in no table"), n) for block, n in counts.items()
        ),
    }
