"""A compact, complete block manager for the KV cache of an LLM server.

It decides block for block what vLLM decides. Read it in this order:

`errors.py`, `checks.py` errors with names, and looking before anything changes
`block.py` one block, and the queue of free ones
`prefix.py` naming the content of full blocks, and finding them again
`pool.py` take, touch, free, register
`table.py` from a token's position to its slot
`groups.py` full attention, sliding window or both: which blocks are still seen
`sequence.py` one request: its tokens, their hashes, its tables
`answers.py`, `manager.py` sequences: allocate, append, fork, swap, free, preempt
`events.py`, `recorder.py` what happened, and the states between
`audit.py` what must always hold
`policy.py` how much to take, and when
`request.py`, `scheduler.py` whose tokens the next step computes, and who has to wait

`storage.py` (torch) holds the bytes; `device_tables.py`, `swap.py` and `attention.py`
stand on it. They are not imported here, so that the bookkeeping starts in milliseconds
and runs where torch does not. Neither are the experiments of the lessons:
`contiguous.py`, `serving.py`, `waste.py` (why blocks), `contest.py` (policies),
`sampling.py` (sharing), `conversations.py`, `gauges.py` (recycling).
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
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.manager import BlockManager
from blockmgr.policy import Batched, OnDemand, PolicyAllocator, PreAllocate
from blockmgr.pool import BlockPool
from blockmgr.prefix import MultiModal
from blockmgr.table import Address, address

__all__ = [
    "Address",
    "Allocation",
    "AuditError",
    "BadTrace",
    "Batched",
    "Block",
    "BlockManager",
    "BlockManagerError",
    "BlockPool",
    "Check",
    "DuplicateSequence",
    "Event",
    "EventLog",
    "FullAttention",
    "InvalidFree",
    "InvalidRequest",
    "MultiModal",
    "OnDemand",
    "OutOfBlocks",
    "PolicyAllocator",
    "PreAllocate",
    "SequenceView",
    "SlidingWindow",
    "Snapshot",
    "Stats",
    "Status",
    "UnknownSequence",
    "address",
    "audit",
]
