"""A compact, complete block manager for the KV cache of an LLM server.

It decides block for block what vLLM decides. Read it in this order:

`errors.py`, `checks.py` errors with names, and looking before anything changes
`block.py` one block, and the queue of free ones
`prefix.py` naming the content of full blocks, and finding them again
`pool.py` take, touch, free, register
`table.py` from a token's position to its slot
`sequence.py` one request: its tokens, their hashes, its table
`answers.py`, `manager.py` sequences: allocate, append, free, preempt, resume
`events.py`, `recorder.py` what happened, and the states between
`audit.py` what must always hold

`storage.py` (torch) holds the bytes. It is not imported here, so that the bookkeeping
starts in milliseconds and runs where torch does not.
"""

from blockmgr.answers import Allocation, Stats, Status
from blockmgr.audit import Check, audit
from blockmgr.block import Block
from blockmgr.errors import (
    AuditError,
    BadTrace,
    BlockManagerError,
    DuplicateSequence,
    InvalidFree,
    InvalidRequest,
    OutOfBlocks,
    UnknownSequence,
)
from blockmgr.events import Event, EventLog, SequenceView, Snapshot
from blockmgr.manager import BlockManager
from blockmgr.pool import BlockPool
from blockmgr.prefix import MultiModal
from blockmgr.table import Address, address

__all__ = [
    "Address",
    "Allocation",
    "AuditError",
    "BadTrace",
    "Block",
    "BlockManager",
    "BlockManagerError",
    "BlockPool",
    "Check",
    "DuplicateSequence",
    "Event",
    "EventLog",
    "InvalidFree",
    "InvalidRequest",
    "MultiModal",
    "OutOfBlocks",
    "SequenceView",
    "Snapshot",
    "Stats",
    "Status",
    "UnknownSequence",
    "address",
    "audit",
]
