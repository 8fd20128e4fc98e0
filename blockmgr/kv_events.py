"""The cache events that vLLM publishes, told from our log (rule 17).

A router that sends each request to the server with its prefix lives on these.

In vLLM: `vllm/distributed/kv_events.py` (release 0.33), with the same three names.
"""

from __future__ import annotations

from typing import NamedTuple

from blockmgr.events import Cleared, Event, Ids, Removed, Stored, Taken


class BlockStored(NamedTuple):
    """One registering call: the new hashes, what they follow and what they cover."""

    block_hashes: tuple[str, ...]
    parent_block_hash: str | None
    token_ids: Ids
    block_size: int
    extra_keys: tuple[tuple[tuple[str | int, ...], ...], ...] = ()
    group: int = 0


class BlockRemoved(NamedTuple):
    """One hash left the map."""

    block_hashes: tuple[str, ...]
    group: int = 0


class AllBlocksCleared(NamedTuple):
    """The whole prefix cache was reset."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared


def kv_events(event: Event, block_size: int) -> list[KVEvent]:
    """The cache events (rule 17) that vLLM would publish for one of our events."""
    published: list[KVEvent] = []
    for change in event.changes:
        match change:
            case Taken(_, pairs) | Removed(pairs):
                published += [BlockRemoved((key,), _group(key)) for _, key in pairs]
            case Stored(_, hashes, note):
                published.append(
                    BlockStored(
                        hashes,
                        note.parent,
                        note.token_ids,
                        block_size,
                        note.extra_keys,
                        _group(hashes[0]),
                    )
                )
            case Cleared():
                published.append(AllBlocksCleared())
    return published


def _group(key: str) -> int:
    """The group of layers in a hash as `BlockHash.hex` writes it."""
    return int(key.partition(":")[2] or 0)
