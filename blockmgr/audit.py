"""The invariants: what must hold after every operation, written as code.

`audit(snapshot)` looks at a state from outside, so it works on any moment of a
recorded run. `audit_living` adds what only the living manager can show, and raises.

In vLLM the same facts are spread over assertions and tests; `check_integrity()` in
mini-sglang's radix cache is a relative.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.errors import AuditError
from blockmgr.events import EventLog, Snapshot
from blockmgr.pool import BlockPool


class Check(NamedTuple):
    """One invariant on one state: its name, whether it holds, and the first thing that
    breaks it (or the figures that show that it holds)."""

    name: str
    ok: bool
    detail: str


def audit(snapshot: Snapshot) -> tuple[Check, ...]:
    """Every invariant of a state, in the order in which they build on each other."""
    return tuple(
        Check(name, not broken, broken or held)
        for name, broken, held in (
            ("the null block is nobody's", *_null_block(snapshot)),
            ("every block is free or in use", *_free_or_used(snapshot)),
            ("free + in use = usable", *_accounting(snapshot)),
            ("ref counts = table entries", *_ref_counts(snapshot)),
            ("tables hold their tokens", *_tables(snapshot)),
            ("map and blocks agree", *_cache(snapshot)),
        )
    )


# Each of these answers (what breaks it, or nothing; what to say when it holds).


def _null_block(s: Snapshot) -> tuple[str, str]:
    broken = ""
    if s.ref_cnt[NULL_BLOCK_ID] or s.block_hash[NULL_BLOCK_ID]:
        broken = "block 0 has a user or a hash"
    elif NULL_BLOCK_ID in s.free_queue:
        broken = "block 0 stands in the free queue"
    return broken, "block 0 is in no queue and has no hash"


def _free_or_used(s: Snapshot) -> tuple[str, str]:
    places = Counter(s.free_queue)
    for block_id in range(s.num_blocks):
        if block_id == NULL_BLOCK_ID:
            continue
        expected = 1 if s.ref_cnt[block_id] == 0 else 0
        if places[block_id] != expected:
            return (
                f"block {block_id} has {s.ref_cnt[block_id]} users and stands "
                f"{places[block_id]} times in the free queue",
                "",
            )
    return "", "each free block stands once in the queue, no block in use does"


def _accounting(s: Snapshot) -> tuple[str, str]:
    used = sum(count > 0 for count in s.ref_cnt)
    named = {b for b, key in enumerate(s.block_hash) if key is not None}
    cached = sum(b in named for b in s.free_queue)
    figures = (
        f"{s.num_usable} usable = {used} in use + {s.num_free} free "
        f"({cached} of them cached)"
    )
    return ("" if used + s.num_free == s.num_usable else figures), figures


def _ref_counts(s: Snapshot) -> tuple[str, str]:
    users: Counter[int] = Counter()
    for view in s.sequences.values():
        users.update(set(view.block_table) - {NULL_BLOCK_ID})
    for block_id, count in enumerate(s.ref_cnt):
        if count != users[block_id]:
            return (
                f"block {block_id} counts {count} users, "
                f"and {users[block_id]} tables hold it",
                "",
            )
    return "", f"{sum(users.values())} table entries, {sum(s.ref_cnt)} references"


def _tables(s: Snapshot) -> tuple[str, str]:
    for view in s.sequences.values():
        real = [b for b in view.block_table if b != NULL_BLOCK_ID]
        if len(set(real)) != len(real):
            return f"{view.seq_id} holds a block twice: {list(real)}", ""
        if not all(0 < b < s.num_blocks for b in real):
            return f"{view.seq_id} holds blocks that do not exist: {list(real)}", ""
        if len(view.token_ids) > len(view.block_table) * s.block_size:
            return (
                f"{view.seq_id} has {len(view.token_ids)} tokens in "
                f"{len(view.block_table)} blocks of {s.block_size}",
                "",
            )
    tokens = sum(len(view.token_ids) for view in s.sequences.values())
    return "", f"{tokens} tokens in {len(s.sequences)} tables, no block twice in one"


def _cache(s: Snapshot) -> tuple[str, str]:
    in_map = [(b, key) for key, ids in s.cache.items() for b in ids]
    on_blocks = [(b, key) for b, key in enumerate(s.block_hash) if key is not None]
    for block_id, key in sorted(set(on_blocks) ^ set(in_map)):
        where = "in the map" if (block_id, key) in in_map else "on the block"
        return f"block {block_id} with hash {key[:8]} is only {where}", ""
    if len(in_map) != len(on_blocks):
        return "the map lists a block twice under one hash", ""
    return "", f"{len(in_map)} registered blocks under {len(s.cache)} hashes"


def audit_living(pool: BlockPool, now: Snapshot, log: EventLog | None) -> list[Check]:
    """Audit a manager from inside: its state, its pool's list of blocks, its log.

    Raises `AuditError` that names the first invariant that does not hold.
    """
    checks = [*audit(now), _blocks_in_place(pool)]
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
