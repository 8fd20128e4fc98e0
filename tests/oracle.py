"""A plain second manager, to check the real one against.

It is written from the rules (`semantics.md`, 1 to 14) alone and shares no code with
`blockmgr`. Everything is a plain list or dict, and everything is slow. Where the real
one hashes, this one keeps **the whole content**: a block's name is the salt and every
token from the start of its sequence to the block's end. So two blocks have one name
exactly when their K and V are equal.

It also says what K and V stand for: the K and V at position i depend on the salt and on
the tokens 0..i. `content_at` is that, and `KVStandIn` is a device memory that stores it
slot by slot. What is read through a table must be what was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Content = tuple[str | None, tuple[int, ...]]
"""What decides K and V at one position: the salt, and every token up to it."""


@dataclass
class PlainSequence:
    """The tokens a sequence has, how many of them have a slot, and its table."""

    tokens: list[int]
    salt: str | None = None
    table: list[int] = field(default_factory=list)
    computed: int = 0
    registered: int = 0
    running: bool = True

    def content_at(self, position: int) -> Content:
        return self.salt, tuple(self.tokens[: position + 1])


@dataclass
class PlainManager:
    """The rules, one method an operation. `queue[0]` is the head of the free queue."""

    num_blocks: int
    block_size: int
    caching: bool = True
    watermark_blocks: int = 0
    max_model_len: int | None = None

    def __post_init__(self) -> None:
        self.users = [0] * self.num_blocks
        self.queue = list(range(1, self.num_blocks))
        self.names: dict[int, Content] = {}  # registered block -> its content
        self.equal: dict[Content, list[int]] = {}  # content -> blocks, earliest first
        self.sequences: dict[str, PlainSequence] = {}
        self.evictions = self.queried = self.hit = 0

    # --- small parts ----------------------------------------------------------------

    def blocks_for(self, slots: int) -> int:
        """Blocks that this many slots fill, the last one perhaps in part."""
        blocks = 0
        while blocks * self.block_size < slots:
            blocks += 1
        return blocks

    def forget(self, block: int) -> bool:
        if block not in self.names:
            return False
        name = self.names.pop(block)
        self.equal[name].remove(block)
        if not self.equal[name]:
            del self.equal[name]
        return True

    def take(self, n: int) -> list[int]:
        taken, self.queue = self.queue[:n], self.queue[n:]
        for block in taken:
            self.evictions += self.forget(block)
            self.users[block] = 1
        return taken

    def release(self, seq: PlainSequence) -> None:
        blank, remembered = [], []
        for block in reversed(seq.table):
            self.users[block] -= 1
            if self.users[block] == 0:
                (remembered if block in self.names else blank).append(block)
        self.queue = blank + self.queue + remembered
        seq.table, seq.computed, seq.registered = [], 0, 0

    def lookup(self, tokens: list[int], salt: str | None) -> list[int]:
        hits: list[int] = []
        end = self.block_size
        while self.caching and end < len(tokens):  # < : one token must be computed
            blocks = self.equal.get((salt, tuple(tokens[:end])))
            if not blocks:
                break
            hits.append(blocks[0])
            end += self.block_size
        return hits

    # --- operations -----------------------------------------------------------------

    def allocate(
        self, seq_id: str, tokens: list[int], salt: str | None, **how: Any
    ) -> dict[str, Any]:
        seq = PlainSequence(list(tokens), salt)
        answer = self.admit(seq, **how)
        if answer["status"] == "OK":
            self.sequences[seq_id] = seq
            self.queried += len(tokens)
            self.hit += answer["cached"]
        return answer

    def resume(self, seq_id: str, **how: Any) -> dict[str, Any]:
        seq = self.sequences[seq_id]
        answer = self.admit(seq, **how)
        seq.running = answer["status"] == "OK"
        return answer

    def admit(
        self, seq: PlainSequence, chunk: int | None, lookahead: int, must_fit: bool
    ) -> dict[str, Any]:
        hits = self.lookup(seq.tokens, seq.salt)
        reserve = 0
        if any(other.running for other in self.sequences.values() if other is not seq):
            reserve = self.watermark_blocks
        n = len(seq.tokens) - len(hits) * self.block_size
        if chunk is not None and chunk < n:
            n = chunk
        must_hold = len(seq.tokens) if must_fit else 0
        return self.give(seq, hits, n, lookahead, reserve, must_hold)

    def append(self, seq_id: str, tokens: list[int], lookahead: int) -> dict[str, Any]:
        self.sequences[seq_id].tokens += tokens
        return self.extend(seq_id, None, lookahead)

    def extend(self, seq_id: str, chunk: int | None, lookahead: int) -> dict[str, Any]:
        seq = self.sequences[seq_id]
        n = len(seq.tokens) - seq.computed
        if chunk is not None and chunk < n:
            n = chunk
        return self.give(seq, [], n, lookahead, 0)

    def give(
        self,
        seq: PlainSequence,
        hits: list[int],
        n: int,
        lookahead: int,
        reserve: int,
        must_hold: int = 0,
    ) -> dict[str, Any]:
        slots = self.slots(seq, hits, n, lookahead)
        needed = self.needed(seq, hits, max(slots, must_hold)) + reserve
        free = len(self.queue)
        if needed > free:
            return self.refused(seq, hits, n, lookahead, needed)
        for block in hits:
            if self.users[block] == 0:
                self.queue.remove(block)
            self.users[block] += 1
        seq.table += hits
        new = self.take(max(self.blocks_for(slots) - len(seq.table), 0))
        seq.table += new
        seq.computed += len(hits) * self.block_size + n
        seq.registered += len(hits)
        self.register(seq)
        return self.answer("OK", hits, new, n, needed, free)

    def register(self, seq: PlainSequence) -> None:
        while self.caching and (seq.registered + 1) * self.block_size <= seq.computed:
            seq.registered += 1
            block = seq.table[seq.registered - 1]
            name = seq.content_at(seq.registered * self.block_size - 1)
            self.names[block] = name
            self.equal.setdefault(name, []).append(block)

    def slots(self, seq: PlainSequence, hits: list[int], n: int, lookahead: int) -> int:
        slots = seq.computed + len(hits) * self.block_size + n + lookahead
        if self.max_model_len is not None and slots > self.max_model_len:
            return self.max_model_len
        return slots

    def needed(self, seq: PlainSequence, hits: list[int], slots: int) -> int:
        new = self.blocks_for(slots) - len(hits) - len(seq.table)
        waiting = [block for block in hits if self.users[block] == 0]
        return max(new, 0) + len(waiting)

    def refused(
        self, seq: PlainSequence, hits: list[int], n: int, lookahead: int, needed: int
    ) -> dict[str, Any]:
        most = max(len(seq.tokens), self.slots(seq, hits, n, lookahead))
        alone = self.blocks_for(most) <= self.num_blocks - 1
        status = "LATER" if alone else "NEVER"
        return self.answer(status, hits, [], n, needed, len(self.queue))

    def answer(
        self, status: str, hits: list[int], new: list[int], n: int, *counts: int
    ) -> dict[str, Any]:
        return {
            "status": status,
            "hits": hits,
            "new": new,
            "cached": len(hits) * self.block_size,
            "scheduled": n,
            "needed": counts[0],
            "free": counts[1] if counts[0] else 0,  # not looked up if none is needed
        }

    def free(self, seq_id: str) -> None:
        self.release(self.sequences.pop(seq_id))

    def preempt(self, seq_id: str) -> None:
        seq = self.sequences[seq_id]
        self.release(seq)
        seq.running = False

    def evict(self, blocks: list[int]) -> None:
        for block in blocks:
            self.forget(block)

    def reset(self) -> bool:
        if any(self.users):
            return False
        self.names, self.equal = {}, {}
        return True


class KVStandIn:
    """Device memory with one cell a slot, each holding the content that made it."""

    def __init__(self) -> None:
        self.cells: dict[int, Content] = {}

    def write(self, slots: list[int], seq: PlainSequence, start: int) -> None:
        """What the model computes for the tokens from `start` on, into their slots."""
        for position, slot in enumerate(slots, start):
            self.cells[slot] = seq.content_at(position)

    def read(self, table: tuple[int, ...], block_size: int, n: int) -> list[Content]:
        """The first `n` positions of a sequence, as an attention kernel reads them."""
        return [
            self.cells[table[i // block_size] * block_size + i % block_size]
            for i in range(n)
        ]
