"""Errors with names. Each message says what was expected, what came, what to do.

An operation that raises one of these has changed nothing: every check stands before
the first mutation. Running out of blocks during normal service is not an error but an
answer (see `Allocation` in `answers.py`); `OutOfBlocks` is for callers of the pool
itself, who must look before they take.
"""

from __future__ import annotations


class BlockManagerError(Exception):
    """Base of every error of this package: `except BlockManagerError` catches all."""


class InvalidRequest(BlockManagerError, ValueError):
    """An argument can't mean anything: no tokens, a negative id, a block size of 0."""


class UnknownSequence(BlockManagerError, LookupError):
    """The manager holds no sequence of this name."""


class DuplicateSequence(BlockManagerError, ValueError):
    """The manager holds a sequence of this name already."""


class InvalidFree(BlockManagerError, ValueError):
    """A reference that nobody holds was given back: a double free, or block 0."""


class OutOfBlocks(BlockManagerError):
    """The pool has fewer free blocks than were asked for.

    `needed` and `free` are block counts, so that a caller can wait, preempt or refuse.
    """

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(needed, free)  # as `args`, so that a copy can be made
        self.needed = needed
        self.free = free

    def __str__(self) -> str:
        return (
            f"{self.needed} blocks were asked for and {self.free} are free: "
            "free or preempt a sequence first, or ask for fewer"
        )


class AuditError(BlockManagerError):
    """An invariant does not hold. The message names it and the block that shows it."""


class BadTrace(BlockManagerError, ValueError):
    """A file is not a recorded trace, or is one that was cut in the middle."""
