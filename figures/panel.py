"""The audit panel: do the invariants hold in this state, and if not, which broke?"""

from __future__ import annotations

from blockmgr import Check, audit
from blockmgr.events import Snapshot
from figures.scene import scene
from figures.words import esc, plural


def slots_taken(snapshot: Snapshot) -> tuple[int, int]:
    """Slots of the blocks in use, and how many of these slots hold no token."""
    what = scene(snapshot)
    used = [b for b, count in enumerate(snapshot.ref_cnt) if count]
    slots = len(used) * snapshot.block_size
    return slots, slots - sum(what.filled[b] for b in used)


def waste(snapshot: Snapshot) -> str:
    """`waste: 5 of 20 slots`: slots of blocks in use that hold no token."""
    slots, empty = slots_taken(snapshot)
    return f"waste: {empty:,} of {plural(slots, 'slot')}"


def audit_panel(snapshot: Snapshot) -> str:
    """The panel as HTML: green with the accounts, or the invariant that broke."""
    checks = audit(snapshot)
    broken = [check for check in checks if not check.ok]
    if broken:
        count = plural(len(broken), "invariant")
        found = "".join(map(_broken, broken))
        return f"<div class='kvaudit bad'><b>✗ {count} broken</b>{found}</div>"
    accounts = next(c.detail for c in checks if c.name == "free + in use = usable")
    facts = f"{accounts} · ref counts = table entries · {waste(snapshot)}"
    return (
        f"<div class='kvaudit good'><b>✓ every invariant holds</b> "
        f"<span>{facts}</span></div>"
    )


def _broken(check: Check) -> str:
    return f"<p><b>{esc(check.name)}</b>: {esc(check.detail)}</p>"
