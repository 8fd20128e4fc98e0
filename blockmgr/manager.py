"""The block manager: which blocks each sequence gets, keeps and gives back.

Read `_allocate_slots` first: everything else prepares for it. It decides, in this
order, how many free blocks the call needs, whether there are that many, and only then
touches the hits, takes new blocks and registers the full ones (rules 9 to 11).

In vLLM: `KVCacheManager` in `vllm/v1/core/kv_cache_manager.py` (release 0.33), together
with the parts of `Scheduler` that decide what to ask it for.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockmgr.answers import Allocation, Stats, Status
from blockmgr.audit import Check, audit_living
from blockmgr.block import Block, ids_of
from blockmgr.checks import check_count, check_name, check_share, extra_keys
from blockmgr.errors import DuplicateSequence, InvalidRequest, UnknownSequence
from blockmgr.events import EventLog, Snapshot
from blockmgr.pool import BlockPool
from blockmgr.prefix import ExtraKeys, HashFn, MultiModal, extend_hashes, sha256
from blockmgr.recorder import event_of, note_of, snapshot_of
from blockmgr.sequence import Sequence, SequenceStatus, pack_tokens
from blockmgr.table import address


class BlockManager:
    """Gives blocks of one pool to sequences.

    `num_blocks` counts the null block. `watermark` is the share of all blocks kept free
    for the growth of running sequences when a new one asks to come in.
    `max_model_len` is the longest that a sequence may become, in tokens. With
    `record=True`, `log` holds every event since the start; it costs nothing when off.

    Raises `InvalidRequest` for sizes that can't work.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int = 16,
        *,
        enable_caching: bool = True,
        watermark: float = 0.0,
        max_model_len: int | None = None,
        record: bool = False,
        hash_fn: HashFn = sha256,
    ) -> None:
        check_count("block_size", block_size, 1)
        check_share("watermark", watermark)
        if max_model_len is not None:
            check_count("max_model_len", max_model_len, 1)
        self.pool = BlockPool(num_blocks, enable_caching)
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.watermark_blocks = int(watermark * num_blocks)
        self.hash_fn = hash_fn
        self.queried_tokens = 0
        self.hit_tokens = 0
        self._sequences: dict[str, Sequence] = {}
        self.log: EventLog | None = None
        if record:
            self.pool.changes = []
            self.log = EventLog(self.snapshot())

    def __repr__(self) -> str:
        return (
            f"BlockManager({len(self.pool.blocks)} blocks of {self.block_size}, "
            f"{self.num_free_blocks} free, {len(self._sequences)} sequences)"
        )

    # --- admit, grow ----------------------------------------------------------------

    def allocate(
        self,
        seq_id: str,
        token_ids: Iterable[int],
        *,
        num_tokens: int | None = None,
        num_lookahead: int = 0,
        full_sequence_must_fit: bool = False,
        cache_salt: str | None = None,
        lora: tuple[str, str] | None = None,
        mm: tuple[MultiModal, ...] = (),
    ) -> Allocation:
        """Admit a new sequence: look its prompt up, share the hits, take the rest.

        `num_tokens` caps the tokens scheduled now (chunked prefill); without it the
        whole prompt gets slots. `num_lookahead` adds slots for draft tokens.
        `full_sequence_must_fit` asks first whether the whole prompt would fit.
        When the answer is not OK, the manager has kept nothing of the sequence.

        Raises `DuplicateSequence` and `InvalidRequest`.
        """
        extra = extra_keys(lora, mm, cache_salt)
        seq = self._new_sequence(seq_id, token_ids, extra)
        if seq_id in self._sequences:
            raise DuplicateSequence(
                f"sequence {seq_id!r} is here already: free it first, "
                "or choose another name"
            )
        answer = self._admit(seq, num_tokens, num_lookahead, full_sequence_must_fit)
        if answer:
            self._sequences[seq_id] = seq
            self.queried_tokens += len(seq.token_ids)
            self.hit_tokens += answer.num_cached_tokens
        self._record("allocate", seq, answer)
        return answer

    def append(
        self, seq_id: str, token_ids: Iterable[int], *, num_lookahead: int = 0
    ) -> Allocation:
        """Add generated tokens to a running sequence and give them slots.

        When the answer is LATER, the sequence keeps the tokens without a slot, and
        `allocate_slots(seq_id)` tries again (rule 11): the model has produced them, so
        they can't be refused.

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        tokens = pack_tokens(token_ids)  # first: a generator may call us back
        seq = self._running(seq_id)
        check_count("num_lookahead", num_lookahead, 0)
        if not tokens:
            raise InvalidRequest("append needs at least 1 token, got none")
        self._check_length(len(seq.token_ids) + len(tokens))
        seq.token_ids += tokens
        self._hash(seq)
        return self._grow("append", seq, None, num_lookahead)

    def allocate_slots(
        self, seq_id: str, num_tokens: int | None = None, *, num_lookahead: int = 0
    ) -> Allocation:
        """Give slots to `num_tokens` more of the tokens that a sequence already has.

        This is the next chunk of a chunked prefill, or an append that failed tried
        again. None means all that have no slot yet.

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        seq = self._running(seq_id)
        check_count("num_lookahead", num_lookahead, 0)
        if num_tokens is not None:
            check_count("num_tokens", num_tokens, 1)
        return self._grow("allocate_slots", seq, num_tokens, num_lookahead)

    def _grow(
        self, op: str, seq: Sequence, num_tokens: int | None, num_lookahead: int
    ) -> Allocation:
        pending = len(seq.token_ids) - seq.num_computed_tokens
        n = pending if num_tokens is None else min(num_tokens, pending)
        answer = self._allocate_slots(seq, [], n, num_lookahead, reserve=0)
        self._record(op, seq, answer)
        return answer

    # --- leave, come back -----------------------------------------------------------

    def free(self, seq_id: str) -> None:
        """End a sequence. Its blocks lose one user each (rule 3).

        Raises `UnknownSequence`.
        """
        seq = self._known(seq_id)
        self._release(seq)
        del self._sequences[seq_id]
        self._record("free", seq, Allocation(Status.OK))

    def preempt(self, seq_id: str) -> None:
        """Take a running sequence's blocks away. Its tokens stay, to be computed again
        when it resumes; whatever of them is still cached by then is found (rule 12).

        Raises `UnknownSequence`, and `InvalidRequest` if it is preempted already.
        """
        seq = self._running(seq_id)
        self._release(seq)
        seq.status = SequenceStatus.PREEMPTED
        self._record("preempt", seq, Allocation(Status.OK))

    def resume(
        self,
        seq_id: str,
        *,
        num_tokens: int | None = None,
        num_lookahead: int = 0,
        full_sequence_must_fit: bool = False,
    ) -> Allocation:
        """Bring a preempted sequence back: like `allocate`, with all tokens it had.

        Raises `UnknownSequence`, and `InvalidRequest` if it is running.
        """
        seq = self._known(seq_id)
        if seq.status is not SequenceStatus.PREEMPTED:
            raise InvalidRequest(
                f"sequence {seq_id!r} is running: only a preempted one can resume"
            )
        answer = self._admit(seq, num_tokens, num_lookahead, full_sequence_must_fit)
        if answer:
            seq.status = SequenceStatus.RUNNING
        self._record("resume", seq, answer)
        return answer

    def _release(self, seq: Sequence) -> None:
        self.pool.free_blocks(seq.blocks[::-1])  # tail first
        seq.blocks = []
        seq.num_computed_tokens = seq.num_cached_blocks = 0

    # --- the prefix cache -----------------------------------------------------------

    def get_computed_blocks(
        self,
        token_ids: Iterable[int],
        *,
        cache_salt: str | None = None,
        lora: tuple[str, str] | None = None,
        mm: tuple[MultiModal, ...] = (),
    ) -> tuple[int, ...]:
        """Ids of the blocks that a prompt of these tokens would hit. Changes nothing.

        Raises `InvalidRequest`.
        """
        extra = extra_keys(lora, mm, cache_salt)
        seq = self._new_sequence("(lookup)", token_ids, extra)
        return ids_of(self._find_hits(seq))

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Make the cache forget these blocks. Users and queue stay (rule 14).

        Raises `InvalidRequest` for an id that is no usable block.
        """
        self.pool.evict_blocks(block_ids)
        self._record("evict", None, Allocation(Status.OK))

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block. False, and nothing done, while any is in use."""
        done = self.pool.reset_prefix_cache()
        status = Status.OK if done else Status.LATER
        self._record("reset", None, Allocation(status))
        return done

    def _find_hits(self, seq: Sequence) -> list[Block]:
        # At least one token must be computed, for its output is the next token: so
        # the block that holds the last token is never a hit (rule 8).
        limit = (len(seq.token_ids) - 1) // self.block_size
        return self.pool.get_cached_blocks(seq.block_hashes, limit)

    # --- the decision ---------------------------------------------------------------

    def _admit(
        self, seq: Sequence, num_tokens: int | None, num_lookahead: int, must_fit: bool
    ) -> Allocation:
        if num_tokens is not None:
            check_count("num_tokens", num_tokens, 1)
        check_count("num_lookahead", num_lookahead, 0)
        hits = self._find_hits(seq)
        waiting = len(seq.token_ids) - len(hits) * self.block_size
        n = waiting if num_tokens is None else min(num_tokens, waiting)
        # The watermark keeps room for those that run, so it needs somebody running.
        reserve = self.watermark_blocks if self._anybody_runs() else 0
        if must_fit:
            needed = self._blocks_needed(seq, hits, len(seq.token_ids)) + reserve
            if needed > self.num_free_blocks:
                num_slots = self._num_slots(seq, hits, n, num_lookahead)
                return self._refused(seq, hits, n, needed, num_slots)
        return self._allocate_slots(seq, hits, n, num_lookahead, reserve)

    def _allocate_slots(
        self, seq: Sequence, hits: list[Block], n: int, num_lookahead: int, reserve: int
    ) -> Allocation:
        """Give slots to the `n` next tokens of `seq`, behind its table and `hits`."""
        pool = self.pool
        num_slots = self._num_slots(seq, hits, n, num_lookahead)
        needed = self._blocks_needed(seq, hits, num_slots) + reserve
        free = pool.num_free_blocks
        if needed > free:
            return self._refused(seq, hits, n, needed, num_slots)

        # From here on nothing can fail. Touch first: a hit may be the very block that
        # the queue would give out next (rule 10).
        if hits:
            pool.touch(hits)
            seq.blocks += hits
            seq.num_cached_blocks = len(hits)
        num_new = self.blocks_for(num_slots) - len(seq.blocks)
        new = pool.get_new_blocks(num_new) if num_new > 0 else []
        seq.blocks += new
        seq.num_computed_tokens += len(hits) * self.block_size + n
        self._register(seq)
        return Allocation(
            Status.OK,
            hit_blocks=ids_of(hits),
            new_blocks=ids_of(new),
            num_cached_tokens=len(hits) * self.block_size,
            num_scheduled_tokens=n,
            needed=needed,
            free=free,
        )

    def _num_slots(
        self, seq: Sequence, hits: list[Block], n: int, num_lookahead: int
    ) -> int:
        """Slots that `seq` has once `n` more tokens and the drafts have theirs."""
        computed = seq.num_computed_tokens + len(hits) * self.block_size
        num_slots = computed + n + num_lookahead
        if self.max_model_len is None:
            return num_slots
        return min(num_slots, self.max_model_len)

    def _blocks_needed(self, seq: Sequence, hits: list[Block], num_slots: int) -> int:
        """Free blocks that `num_slots` slots ask for (rule 9): the new ones, and the
        hits that are free now, for they leave the queue as well."""
        new = self.blocks_for(num_slots) - len(hits) - len(seq.blocks)
        revived = sum(not block.ref_cnt for block in hits)
        return max(new, 0) + revived

    def _refused(
        self, seq: Sequence, hits: list[Block], n: int, needed: int, num_slots: int
    ) -> Allocation:
        # All its tokens need room one day, and the look-ahead of this call now.
        alone = self.blocks_for(max(len(seq.token_ids), num_slots))
        fits_alone = alone <= self.pool.num_usable_blocks
        return Allocation(
            Status.LATER if fits_alone else Status.NEVER,
            hit_blocks=ids_of(hits),
            num_cached_tokens=len(hits) * self.block_size,
            num_scheduled_tokens=n,
            needed=needed,
            free=self.num_free_blocks,
        )

    def _register(self, seq: Sequence) -> None:
        """Register the blocks that this call fills, now and not when the values are
        there: a request scheduled in the same step can already share them (rule 6)."""
        first = seq.num_cached_blocks
        last = seq.num_computed_tokens // self.block_size
        if last <= first or not self.pool.enable_caching:
            return
        note = None
        if self.log is not None:
            note = note_of(seq, first, last, self.block_size)
        blocks, names = seq.blocks[first:last], seq.block_hashes[first:last]
        self.pool.cache_blocks(blocks, names, note)
        seq.num_cached_blocks = last

    # --- sequences ------------------------------------------------------------------

    def _new_sequence(
        self, seq_id: str, token_ids: Iterable[int], extra: ExtraKeys
    ) -> Sequence:
        check_name(seq_id)
        tokens = pack_tokens(token_ids)
        if not tokens:
            raise InvalidRequest(
                "a prompt needs at least 1 token: there is nothing to compute for 0"
            )
        self._check_length(len(tokens))
        seq = Sequence(seq_id, tokens, extra)
        self._hash(seq)
        return seq

    def _hash(self, seq: Sequence) -> None:
        if self.pool.enable_caching:
            extend_hashes(
                seq.block_hashes,
                seq.token_ids,
                self.block_size,
                seq.extra,
                self.hash_fn,
            )

    def _check_length(self, length: int) -> None:
        if self.max_model_len is not None and length > self.max_model_len:
            raise InvalidRequest(
                f"{length} tokens are more than max_model_len={self.max_model_len}: "
                "shorten the prompt or end the sequence"
            )

    def _known(self, seq_id: str) -> Sequence:
        try:
            return self._sequences[seq_id]
        except (KeyError, TypeError):
            here = ", ".join(map(repr, self._sequences)) or "none"
            raise UnknownSequence(
                f"no sequence {seq_id!r} here (there are: {here})"
            ) from None

    def _running(self, seq_id: str) -> Sequence:
        seq = self._known(seq_id)
        if seq.status is not SequenceStatus.RUNNING:
            raise InvalidRequest(
                f"sequence {seq_id!r} is preempted and holds no blocks: resume it first"
            )
        return seq

    def _anybody_runs(self) -> bool:
        return any(
            seq.status is SequenceStatus.RUNNING for seq in self._sequences.values()
        )

    # --- looking in -----------------------------------------------------------------

    def _record(self, op: str, seq: Sequence | None, answer: Allocation) -> None:
        if self.log is not None:
            gone = seq is not None and seq.seq_id not in self._sequences
            self.log.events.append(event_of(self.pool, op, seq, gone, answer))

    def blocks_for(self, num_slots: int) -> int:
        """Blocks that hold `num_slots` slots: the division, rounded up."""
        return -(-num_slots // self.block_size)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be given out, remembered ones included."""
        return self.pool.num_free_blocks

    @property
    def usage(self) -> float:
        """Share of usable blocks in use, 0.0 to 1.0."""
        return self.pool.usage

    def block_table(self, seq_id: str) -> tuple[int, ...]:
        """Physical block ids of a sequence, logical block 0 first; empty if preempted.

        Raises `UnknownSequence`.
        """
        return self._known(seq_id).block_ids

    def slot_mapping(
        self, seq_id: str, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """The slot of each token from position `start` up to, not including, `stop`.

        None means up to the last token that has a slot.
        Raises `UnknownSequence`, and `InvalidRequest` for positions without a slot.
        """
        seq = self._known(seq_id)
        table = seq.block_ids
        end = seq.num_computed_tokens if stop is None else stop
        check_count("start", start, 0)
        check_count("stop", end, start)
        return [
            address(table, self.block_size, position).slot
            for position in range(start, end)
        ]

    def stats(self) -> Stats:
        """The gauges and counters of this moment."""
        free = self.num_free_blocks
        cached = sum(b.block_hash is not None for b in self.pool.free_queue)
        return Stats(
            usable=self.pool.num_usable_blocks,
            live=self.pool.num_usable_blocks - free,
            cached=cached,
            empty=free - cached,
            evictions=self.pool.num_evictions,
            queried_tokens=self.queried_tokens,
            hit_tokens=self.hit_tokens,
        )

    def snapshot(self) -> Snapshot:
        """The whole state as one value that never changes. O(blocks + tokens)."""
        return snapshot_of(self.pool, self.block_size, self._sequences.values())

    def audit(self) -> list[Check]:
        """Check every invariant, inside the manager as well as in its snapshot.

        Raises `AuditError` that names the broken one; returns the checks otherwise.
        """
        return audit_living(self.pool, self.snapshot(), self.log)
