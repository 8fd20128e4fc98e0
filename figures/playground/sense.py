"""What makes sense at a moment: why a command can't be done, and what to do instead.

Every sentence stands on a button that is disabled, and is what a press on it answers.
"""

from __future__ import annotations

from figures.playground.commands import MOST_SEQUENCES, MOST_TOKENS, Command, Pool
from figures.playground.moments import Moment
from figures.words import isolate, plural

_IS = {
    "running": "is running",
    "preempted": "is preempted",
    "swapped": "is on the host",
}
_FIRST = {
    "running": {"preempted": ": resume it first", "swapped": ": swap it in first"},
    "preempted": {"running": ", not preempted", "swapped": ": swap it in"},
    "swapped": {"running": " already", "preempted": ": resume it"},
}
"""State that is needed -> state that there is -> what to do."""


def why_not(pool: Pool, now: Moment, command: Command) -> str:
    """Why a well-formed command can't be done now; nothing if it can."""
    op, name = command.op, command.name or ""
    if op in ("request", "numbers"):
        return _why_nobody_more(now, name)
    if op == "step":
        return _why_no_step(now)
    if op == "reset":
        return "" if pool.enable_caching else "this pool has no cache"
    if op in ("swap_out", "swap_in") and not pool.num_host_blocks:
        return "this pool has no host blocks: choose some for a new pool"
    if name not in now.sequences:
        return "there is no such sequence: choose one that is here"
    return _why_not_this(now, command, name)


def _why_nobody_more(now: Moment, name: str) -> str:
    """Why nobody of this name can come in."""
    if len(now.sequences) >= MOST_SEQUENCES:
        return f"{MOST_SEQUENCES} sequences are the most here: finish one first"
    if name in now.sequences:
        return f"{isolate(name)} is here already: choose another name"
    return ""


def _why_not_this(now: Moment, command: Command, name: str) -> str:
    op, status = command.op, now.sequences[name].status
    wanted = {"resume": "preempted", "swap_in": "swapped"}.get(op, "running")
    if op != "finish" and status != wanted:
        return f"{isolate(name)} {_IS[status]}{_FIRST[wanted][status]}"
    if op == "fork":
        return _why_nobody_more(now, command.child or "")
    return _why_too_long(now, command, name)


def _why_too_long(now: Moment, command: Command, name: str) -> str:
    """Why a sequence can't have so many tokens more."""
    if command.op == "generate" and now.waiting(name):
        return ""  # these are tried again, and none is added
    if command.op in ("append", "generate") and _is_full(now, name):
        return f"{isolate(name)} has {MOST_TOKENS} tokens, the most here: finish it"
    more = command.length or len((command.text or "").split())
    if now.lengths[name] + more > MOST_TOKENS:
        count = plural(now.lengths[name] + more, "token")
        return f"{count} are too many: at most {MOST_TOKENS}"
    return ""


def _is_full(now: Moment, name: str) -> bool:
    """Whether a sequence has all tokens that it may have, each with a slot."""
    return now.lengths[name] >= MOST_TOKENS and not now.waiting(name)


def _why_no_step(now: Moment) -> str:
    running = [n for n, view in now.sequences.items() if view.status == "running"]
    if not running:
        return "nobody is running: send a request first, or resume one"
    if all(_is_full(now, name) for name in running):
        return f"everybody has {MOST_TOKENS} tokens, the most here: finish one"
    return ""
