"""The invariants: what must hold after every operation, written as code.

`audit(snapshot)` looks at a state from outside, so it works on any moment of a
recorded run. `audit_living` adds what only the living manager can show, and raises.

In vLLM the same facts are spread over assertions and tests; `check_integrity()` in
mini-sglang's radix cache is a relative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.errors import AuditError
from blockmgr.events import EventLog, Ids, Snapshot
from blockmgr.pool import BlockPool

Finding = tuple[list[str], str]


class Check(NamedTuple):
    """One invariant on one state: its name, whether it holds, and the first thing that
    breaks it (or the figures that show that it holds)."""

    name: str
    ok: bool
    detail: str


def audit(snapshot: Snapshot) -> tuple[Check, ...]:
    """Every invariant of a state, in the order in which they build on each other, and
    the same ones for the host's pool if there is one."""
    host = snapshot.host_side()
    checks = [_check(snapshot, name, look) for name, look in INVARIANTS.items()]
    if host:
        checks += [_check(host, f"host: {n}", look) for n, look in INVARIANTS.items()]
    return tuple(checks)


def _check(s: Snapshot, name: str, look: Callable[[Snapshot], Finding]) -> Check:
    broken, held = look(s)
    return Check(name, not broken, broken[0] if broken else held)


# Each of these answers (what breaks it, what to say when nothing does).


def _null_block(s: Snapshot) -> Finding:
    broken = []
    if s.ref_cnt[NULL_BLOCK_ID] or s.block_hash[NULL_BLOCK_ID]:
        broken.append("block 0 has a user or a hash")
    if NULL_BLOCK_ID in s.free_queue:
        broken.append("block 0 stands in the free queue")
    return broken, "block 0 is in no queue and has no hash"


def _free_or_used(s: Snapshot) -> Finding:
    times = Counter(s.free_queue)
    broken = [
        f"block {b} has {n} users and stands {times[b]} times in the free queue"
        for b, n in enumerate(s.ref_cnt)
        if b != NULL_BLOCK_ID and times[b] != (n == 0)
    ]
    return broken, "each free block stands once in the queue, no block in use does"


def _accounting(s: Snapshot) -> Finding:
    used = sum(count > 0 for count in s.ref_cnt)
    named = {b for b, key in enumerate(s.block_hash) if key is not None}
    cached = sum(b in named for b in s.free_queue)
    figures = (
        f"{s.num_usable} usable = {used} in use + {s.num_free} free "
        f"({cached} of them cached)"
    )
    return [figures] * (used + s.num_free != s.num_usable), figures


def _ref_counts(s: Snapshot) -> Finding:
    tables = [table for view in s.sequences.values() for table in view.tables]
    users = Counter(b for table in tables for b in set(table) - {NULL_BLOCK_ID})
    broken = [
        f"block {b} counts {n} users, and {users[b]} tables hold it"
        for b, n in enumerate(s.ref_cnt)
        if n != users[b]
    ]
    held = f"{sum(users.values())} table entries, {sum(s.ref_cnt)} references"
    return broken, held


def _tables(s: Snapshot) -> Finding:
    broken = []
    for name, view in s.sequences.items():
        real = [b for table in view.tables for b in table if b != NULL_BLOCK_ID]
        shortest, length = min(map(len, view.tables)), len(view.token_ids)
        if len(set(real)) != len(real):
            broken.append(f"{name} holds a block twice: {real}")
        if not all(0 < b < s.num_blocks for b in real):
            broken.append(f"{name} holds blocks that do not exist: {real}")
        if length > shortest * s.block_size:
            where = f"{shortest} blocks of {s.block_size}"
            broken.append(f"{name} has {length} tokens in {where}")
    tokens = sum(len(view.token_ids) for view in s.sequences.values())
    held = f"{tokens} tokens in {len(s.sequences)} tables, no block twice in one"
    return broken or _sharers(s), held


def _sharers(s: Snapshot) -> list[str]:
    """Who shares a block has the same tokens in it."""
    content: dict[int, tuple[str, Ids]] = {}
    broken = []
    for name, view in s.sequences.items():
        for i, b in ((i, b) for table in view.tables for i, b in enumerate(table) if b):
            tokens = view.token_ids[i * s.block_size : (i + 1) * s.block_size]
            other, theirs = content.setdefault(b, (name, tokens))
            if tokens != theirs:
                broken.append(f"{other} and {name} have other tokens in block {b}")
    return broken


def _cache(s: Snapshot) -> Finding:
    in_map = [(b, key) for key, ids in s.cache.items() for b in ids]
    on_blocks = [(b, key) for b, key in enumerate(s.block_hash) if key is not None]
    broken = [
        f"block {b} with hash {key[:8]} is only "
        + ("in the map" if (b, key) in in_map else "on the block")
        for b, key in sorted(set(on_blocks) ^ set(in_map))
    ]
    if not broken and len(in_map) != len(on_blocks):
        broken = ["the map lists a block twice under one hash"]
    return broken, f"{len(in_map)} registered blocks under {len(s.cache)} hashes"


INVARIANTS: dict[str, Callable[[Snapshot], Finding]] = {
    "the null block is nobody's": _null_block,
    "every block is free or in use": _free_or_used,
    "free + in use = usable": _accounting,
    "ref counts = table entries": _ref_counts,
    "tables hold their tokens": _tables,
    "map and blocks agree": _cache,
}


def audit_living(
    pools: list[BlockPool], now: Snapshot, log: EventLog | None
) -> list[Check]:
    """Audit a manager from inside: its state, its pools' lists of blocks, its log.

    Raises `AuditError` that names the first invariant that does not hold.
    """
    checks = [*audit(now), *map(_blocks_in_place, pools)]
    if log is not None:
        same = log.snapshots()[-1] == now
        where = "this state" if same else "another state than this one"
        detail = f"{len(log)} events lead to {where}"
        checks.append(Check("the log tells the state", same, detail))
    for check in checks:
        if not check.ok:
            raise AuditError(f"{check.name}: {check.detail}")
    return checks


def _blocks_in_place(pool: BlockPool) -> Check:
    wrong = [i for i, block in enumerate(pool.blocks) if block.block_id != i]
    detail = f"{len(pool.blocks)} blocks, out of place: {wrong[:3] or 'none'}"
    return Check("no block lost", not wrong, detail)
