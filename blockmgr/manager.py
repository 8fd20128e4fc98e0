"""The block manager: which blocks each sequence gets, keeps, shares and gives back.

Read `_admit` and `_grow` first: everything else prepares for them. Both decide, in this
order, how many free blocks the call needs, whether there are that many, and only then
touch the hits or copy what is shared, take new blocks and register the full ones.

In vLLM: `KVCacheManager` in `vllm/v1/core/kv_cache_manager.py` (release 0.33), together
with the parts of `Scheduler` that decide what to ask it for. Fork, copy-on-write and
swap are from `vllm/core/block_manager_v1.py` (release 0.6.3), which had them last.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from blockmgr import checks, recorder
from blockmgr.answers import Allocation, Stats, Status
from blockmgr.audit import Check, audit_living
from blockmgr.block import Block, ids_of
from blockmgr.checks import check_count, check_group
from blockmgr.errors import InvalidRequest
from blockmgr.events import EventLog, Snapshot
from blockmgr.groups import FullAttention, check_groups, find_hits
from blockmgr.pool import BlockPool
from blockmgr.prefix import ExtraKeys, HashFn, MultiModal, extend_hashes, sha256
from blockmgr.sequence import Sequence, SequenceStatus, Table, pack_tokens
from blockmgr.table import address

RUNNING, PREEMPTED, SWAPPED = SequenceStatus
OK, LATER, NEVER = Status
DONE = Allocation(OK)
IN_PLACE = Allocation(OK, num_scheduled_tokens=1)


class BlockManager:
    """Gives blocks of one pool to sequences.

    `num_blocks` counts the null block. `num_host_blocks` is the room in host memory for
    sequences that are swapped out (none by default). `groups` says what the layers can
    see (`groups.py`). `watermark` is the share of all blocks kept free for the growth
    of running sequences when another asks to come in. `max_model_len` is the longest
    that a sequence may become, in tokens. With `record=True`, `log` holds every event
    since the start; it costs nothing when off.

    Raises `InvalidRequest` for sizes that can't work.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int = 16,
        *,
        num_host_blocks: int = 0,
        groups: tuple[FullAttention, ...] = (FullAttention(),),
        enable_caching: bool = True,
        watermark: float = 0.0,
        max_model_len: int | None = None,
        record: bool = False,
        hash_fn: HashFn = sha256,
    ) -> None:
        check_count("block_size", block_size, 1)
        check_count("num_host_blocks", num_host_blocks, 0)
        check_count("max_model_len", 1 if max_model_len is None else max_model_len, 1)
        checks.check_share("watermark", watermark)
        check_groups(groups)
        if not callable(hash_fn):
            raise InvalidRequest(f"hash_fn is a function of bytes, got {hash_fn!r}")
        caching = bool(enable_caching) and groups[0].cacheable
        self.pool = BlockPool(num_blocks, caching, hash_fn is not sha256)
        # The host's pool has a null block of its own, and no prefix cache.
        self.host = BlockPool(num_host_blocks + 1, False) if num_host_blocks else None
        self.block_size = block_size
        self.groups = groups
        self.max_model_len = max_model_len
        self.watermark_blocks = int(watermark * num_blocks)
        self.hash_fn = hash_fn
        self.queried_tokens = self.hit_tokens = 0
        self.sequences: dict[str, Sequence] = {}
        self.log: EventLog | None = None
        self._pools = [self.pool, self.host] if self.host else [self.pool]
        self._no_hits: list[list[Block]] = [[] for _ in groups]
        self._plain = [type(group) for group in groups] == [FullAttention]
        self._short_ways = self._plain and not record  # see `append`
        if record:
            for pool in self._pools:
                pool.changes = []
            self.log = EventLog(self.snapshot())

    def __repr__(self) -> str:
        return (
            f"BlockManager({len(self.pool.blocks)} blocks of {self.block_size}, "
            f"{self.num_free_blocks} free, {len(self.sequences)} sequences)"
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
        extra = checks.extra_keys(lora, mm, cache_salt)
        seq = self._new_sequence(seq_id, token_ids, extra)
        checks.check_new(seq_id, self.sequences)
        answer = self._admit(seq, num_tokens, num_lookahead, full_sequence_must_fit)
        if answer:
            self.sequences[seq_id] = seq
            self.queried_tokens += len(seq.token_ids)
            self.hit_tokens += answer.num_cached_tokens
        return self._record("allocate", answer, seq)

    def append(
        self, seq_id: str, token_ids: Iterable[int], *, num_lookahead: int = 0
    ) -> Allocation:
        """Add generated tokens to a running sequence and give them slots.

        When the answer is LATER, the sequence keeps the tokens without a slot, and
        `allocate_slots(seq_id)` tries again (rule 11): the model has produced them, so
        they can't be refused. If a block that they are written into is shared, the
        sequence gets a copy of its own (`copies` in the answer, rule 22).

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        if type(token_ids) is list and num_lookahead == 0:
            # The short way: the last block has room, so there is nothing to decide.
            try:
                seq = self.sequences[seq_id]
                place, last = seq.num_computed_tokens, seq.short_until
                (token,) = token_ids
                short = place <= last and type(token) is int
                if short:
                    seq.token_ids.append(token)
            except (KeyError, TypeError, ValueError, OverflowError):
                short = False  # not one token; or what is wrong is named below
            if short:
                if place == last:  # it is full now
                    self._hash(seq, 1)
                    seq.num_computed_tokens = place + 1
                    self._register(seq)
                else:
                    seq.num_computed_tokens = place + 1
                return IN_PLACE
        tokens = pack_tokens(token_ids)  # first: a generator may call us back
        seq = self._in_state(seq_id, RUNNING)
        if num_lookahead != 0:
            check_count("num_lookahead", num_lookahead, 0)
        self._add(seq, tokens)
        n = len(seq.token_ids) - seq.num_computed_tokens
        answer = self._grow(seq, n, num_lookahead)
        return answer if self.log is None else self._record("append", answer, seq)

    def add_tokens(self, seq_id: str, token_ids: Iterable[int]) -> None:
        """Add generated tokens to a sequence, without slots for now.

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        tokens = pack_tokens(token_ids)
        self._add(self._known(seq_id), tokens)

    def allocate_slots(
        self, seq_id: str, num_tokens: int | None = None, *, num_lookahead: int = 0
    ) -> Allocation:
        """Give slots to `num_tokens` more of the tokens that a sequence already has.

        This is the next chunk of a chunked prefill, or an append that failed tried
        again. None means all that have no slot yet.

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        seq = self._in_state(seq_id, RUNNING)
        check_count("num_lookahead", num_lookahead, 0)
        n = len(seq.token_ids) - seq.num_computed_tokens
        if num_tokens is not None:
            check_count("num_tokens", num_tokens, 1)
            n = min(n, num_tokens)
        return self._record("allocate_slots", self._grow(seq, n, num_lookahead), seq)

    def fork(self, seq_id: str, child_id: str) -> None:
        """Start a second sequence with the same tokens, in the very same blocks.

        Each block gains a user (rule 21). The two part at the first token that one of
        them appends: then, and only then, a block is copied. Beams and parallel samples
        are made of this.

        Raises `UnknownSequence`, `DuplicateSequence` and `InvalidRequest`.
        """
        parent = self._in_state(seq_id, RUNNING)
        checks.check_new(child_id, self.sequences)
        child = parent.copy(child_id, self.blocks_for(parent.num_computed_tokens))
        for table in child.tables:
            self.pool.touch(table.held()[::-1])
        parent.short_until = -1
        self.sequences[child_id] = child
        self._record("fork", DONE, child)

    # --- leave, come back -----------------------------------------------------------

    def free(self, seq_id: str) -> None:
        """End a sequence, wherever it is. Its blocks lose one user each (rule 3).

        Raises `UnknownSequence`.
        """
        seq = self._known(seq_id)
        self._release(seq)
        del self.sequences[seq_id]
        self._record("free", DONE, seq)

    def preempt(self, seq_id: str) -> None:
        """Take a running sequence's blocks away. Its tokens stay, to be computed again
        when it resumes; whatever of them is still cached by then is found (rule 12).

        Raises `UnknownSequence`, and `InvalidRequest` if it is preempted already.
        """
        seq = self._in_state(seq_id, RUNNING)
        self._release(seq)
        seq.status = PREEMPTED
        self._record("preempt", DONE, seq)

    def resume(
        self,
        seq_id: str,
        *,
        num_tokens: int | None = None,
        num_lookahead: int = 0,
        full_sequence_must_fit: bool = False,
    ) -> Allocation:
        """Bring a preempted sequence back: like `allocate`, with all tokens it had.

        Raises `UnknownSequence`, and `InvalidRequest` if it is not preempted.
        """
        seq = self._in_state(seq_id, PREEMPTED)
        answer = self._admit(seq, num_tokens, num_lookahead, full_sequence_must_fit)
        if answer.status is OK:
            seq.status = RUNNING
        return answer if self.log is None else self._record("resume", answer, seq)

    def _release(self, seq: Sequence) -> None:
        for table in seq.tables:
            self._home(seq).free_blocks(table.held())
            table.blocks, table.num_cached_blocks = [], 0
        seq.num_computed_tokens, seq.short_until = 0, -1

    # --- swap -----------------------------------------------------------------------

    def swap_out(self, seq_ids: Iterable[str]) -> Allocation:
        """Move running sequences to the host: their K and V are kept, not computed
        again. Shared blocks move once and stay shared (rule 23).

        `copies` in the answer are (device block, host block). NEVER says that the host
        has not that many blocks at all: preempt instead.

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        group = [self._in_state(seq_id, RUNNING) for seq_id in check_group(seq_ids)]
        if self.host is None:
            raise InvalidRequest("nothing to swap to: give the manager num_host_blocks")
        return self._swap("swap_out", group, self.pool, self.host)

    def swap_in(self, seq_ids: Iterable[str]) -> Allocation:
        """Bring sequences back from the host; `copies` are (host block, device block).

        Each of them must be able to grow by a block, and the watermark counts as in
        `allocate` (rule 23).

        Raises `UnknownSequence` and `InvalidRequest`.
        """
        group = [self._in_state(seq_id, SWAPPED) for seq_id in check_group(seq_ids)]
        return self._swap("swap_in", group, self._home(group[0]), self.pool)

    def _swap(
        self, op: str, group: list[Sequence], source: BlockPool, to: BlockPool
    ) -> Allocation:
        """Move whole sequences, all or none. The destination is taken first and the
        source freed last: a block that is still to be read is never given out."""
        tables = [table for seq in group for table in seq.tables]
        old = list(dict.fromkeys(b for table in tables for b in table.held()[::-1]))
        alone = len(old) + (len(group) if to is self.pool else 0)
        needed = alone + (self._reserve() if to is self.pool else 0)
        free = to.num_free_blocks
        if needed > free:
            status = LATER if alone <= to.num_usable_blocks else NEVER
            answer = Allocation(status, needed=needed, free=free)
            return self._record(op, answer, *group)
        new = to.get_new_blocks(len(old))
        moved = dict(zip(old, new, strict=True))
        for table in tables:
            held = table.held()
            to.touch([moved[block] for block in held])
            table.blocks = [moved.get(b, self.pool.null_block) for b in table.blocks]
            table.num_cached_blocks = 0
            source.free_blocks(held)
        to.free_blocks(new)  # taking them gave a reference that no table has
        for seq in group:
            seq.short_until = -1
            seq.status = RUNNING if to is self.pool else SWAPPED
            if seq.status is RUNNING:
                self._register(seq)
        copies = tuple((a.block_id, b.block_id) for a, b in moved.items())
        answer = Allocation(OK, needed=needed, free=free, copies=copies)
        return self._record(op, answer, *group)

    # --- the prefix cache -----------------------------------------------------------

    def get_computed_blocks(
        self,
        token_ids: Iterable[int],
        *,
        cache_salt: str | None = None,
        lora: tuple[str, str] | None = None,
        mm: tuple[MultiModal, ...] = (),
        group: int = 0,
    ) -> tuple[int, ...]:
        """Ids of the blocks that a prompt of these tokens would hit. Changes nothing.

        Raises `InvalidRequest`.
        """
        extra = checks.extra_keys(lora, mm, cache_salt)
        seq = self._new_sequence("(lookup)", token_ids, extra)
        checks.check_index("group", group, len(self.groups))
        return ids_of(self._find_hits(seq)[group])

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Make the cache forget these blocks. Users and queue stay (rule 14).

        Raises `InvalidRequest` for an id that is no usable block.
        """
        self.pool.evict_blocks(block_ids)
        self._record("evict", DONE)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block. False, and nothing done, while any is in use."""
        done = self.pool.reset_prefix_cache()
        self._record("reset", DONE if done else Allocation(LATER))
        return done

    def _find_hits(self, seq: Sequence) -> list[list[Block]]:
        if not self.pool.enable_caching:
            return self._no_hits
        # At least one token must be computed, for its output is the next token: so
        # the block that holds the last token is never a hit (rule 8).
        limit = (len(seq.token_ids) - 1) // self.block_size
        names = seq.block_hashes
        return find_hits(self.groups, self.pool, names, limit, self.block_size)

    # --- the decision ---------------------------------------------------------------

    def _admit(
        self, seq: Sequence, num_tokens: int | None, num_lookahead: int, must_fit: bool
    ) -> Allocation:
        """Room for a sequence that holds no blocks yet (rules 9 and 10)."""
        if num_tokens is not None:
            check_count("num_tokens", num_tokens, 1)
        if num_lookahead != 0:
            check_count("num_lookahead", num_lookahead, 0)
        pool, size, length = self.pool, self.block_size, len(seq.token_ids)
        hits = self._find_hits(seq)
        cached = len(hits[0]) * size
        n = length - cached if num_tokens is None else min(num_tokens, length - cached)
        num_slots = self._limited(cached + n + num_lookahead)
        must_hold = max(num_slots, length) if must_fit else num_slots
        needed = self._reserve()
        for group, blocks in zip(self.groups, hits, strict=True):
            needed += group.num_blocks(must_hold, size) - len(blocks)
        found = hits[0] if self._plain else [b for blocks in hits for b in blocks]
        free = pool.num_free_blocks
        if needed + len(found) > free:  # hits that are free now leave the queue as well
            revived = len([b for b in found if not b.ref_cnt and b.block_id])
            if needed + revived > free:
                needed += revived
                status = self._later_or_never(seq, cached, n, num_lookahead, must_hold)
                return Allocation(status, found, (), cached, n, needed, free)
        # From here on nothing can fail. Touch first: a hit may be the very block that
        # the queue would give out next.
        for table, blocks in zip(seq.tables, hits, strict=True) if cached else ():
            table.blocks += blocks
            table.num_cached_blocks = len(blocks)
            needed += pool.touch(blocks if self._plain else table.held()[::-1])
        seq.num_computed_tokens = cached
        new = self._give(seq, n, num_slots)
        return Allocation._make(
            (OK, found, new, cached, n, needed, needed and free, ())
        )

    def _grow(self, seq: Sequence, n: int, num_lookahead: int) -> Allocation:
        """Room for the `n` next tokens of a running sequence (rules 11, 15 and 22)."""
        pool, size, start = self.pool, self.block_size, seq.num_computed_tokens
        num_slots = self._limited(start + n + num_lookahead)
        # Drafts are written too, so they count; for nothing at all, nothing is copied.
        first, last = start // size, (start + n - 1) // size + 1
        last = last if n or num_lookahead else first
        needed, shared = 0, []
        for table in seq.tables:
            group, blocks = table.group, table.blocks
            skipped = group.num_skipped_blocks(start, size)
            if skipped:  # they go before counting, and even if the answer is no
                pool.free_blocks(table.drop(skipped, pool.null_block))
            missing = group.num_blocks(num_slots, size) - len(blocks)
            needed += missing if missing > 0 else 0
            for place in group.places(first, last, len(blocks), size):
                if blocks[place].ref_cnt > 1 and (table, place) not in shared:
                    shared.append((table, place))
        needed += len(shared)
        if not needed:
            self._give(seq, n, num_slots)
            return IN_PLACE if n == 1 else Allocation(OK, num_scheduled_tokens=n)
        free = pool.num_free_blocks
        if needed > free:
            status = self._later_or_never(seq, start, n, num_lookahead)
            return Allocation(status, (), (), 0, n, needed, free)
        copies = [self._copy_on_write(*where) for where in shared]
        new = self._give(seq, n, num_slots)
        return Allocation._make((OK, (), new, 0, n, needed, free, tuple(copies)))

    def _give(self, seq: Sequence, n: int, num_slots: int) -> list[Block]:
        """Lengthen the tables to `num_slots` slots, of which `n` are for tokens now."""
        size = self.block_size
        new: list[Block] = []
        for table in seq.tables:
            count = table.group.num_blocks(num_slots, size) - len(table.blocks)
            if count > 0:
                taken = self.pool.get_new_blocks(count)
                table.blocks += taken
                new = new + taken if new else taken
        computed = seq.num_computed_tokens = seq.num_computed_tokens + n
        if self.pool.enable_caching and computed // size > table.num_cached_blocks:
            self._register(seq)
        # Up to which place can tokens be appended with nothing to decide? To the end of
        # the last block, if all tokens have a slot and nobody shares that block.
        filled = computed % size
        short = filled and self._short_ways and len(seq.token_ids) == computed
        if short and table.blocks[computed // size].ref_cnt == 1:
            seq.short_until = self._limited(computed - filled + size) - 1
        return new

    def _limited(self, num_slots: int) -> int:
        longest = self.max_model_len
        return num_slots if longest is None else min(num_slots, longest)

    def _reserve(self) -> int:
        """The watermark keeps room for those that run, so it needs somebody running."""
        wanted = self.watermark_blocks
        return wanted if wanted and self._anybody_runs() else 0

    def _anybody_runs(self) -> bool:
        return any(seq.status is RUNNING for seq in self.sequences.values())

    def _later_or_never(
        self, seq: Sequence, start: int, n: int, num_lookahead: int, must_hold: int = 0
    ) -> Status:
        """Whether a refused call would fit with nobody else there, and after it all
        calls of its size until each token has a slot. A window may need more for one of
        these than for the last."""
        most, length, size = 0, len(seq.token_ids), self.block_size
        for s in range(start, max(length, start + 1), max(n, 1)):
            num_slots = self._limited(min(s + n, length) + num_lookahead)
            alone = sum(
                group.num_blocks(max(num_slots, must_hold), size)
                - group.num_skipped_blocks(s, size)
                for group in self.groups
            )
            most = max(most, alone)
            num_lookahead = must_hold = 0  # they are asked for in the first call only
        return LATER if most <= self.pool.num_usable_blocks else NEVER

    # --- copy-on-write --------------------------------------------------------------

    def _copy_on_write(self, table: Table, place: int) -> tuple[int, int]:
        """Take a new block where the sequence is about to write; the shared one loses a
        user. The storage copies the content: (source, destination)."""
        old, (new,) = table.blocks[place], self.pool.get_new_blocks(1)
        table.blocks[place] = new
        self.pool.free_blocks([old])
        return old.block_id, new.block_id

    # --- registering ----------------------------------------------------------------

    def _register(self, seq: Sequence) -> None:
        """Register the blocks that this call fills, now and not when the values are
        there: a request scheduled in the same step can already share them (rule 6)."""
        last = seq.num_computed_tokens // self.block_size
        for i, table in enumerate(seq.tables):
            first = table.num_cached_blocks
            if first < last <= len(seq.block_hashes):  # no hashes, no caching
                names = seq.block_hashes[first:last]
                if i:
                    names = [name.in_group(i) for name in names]
                note = None
                if self.log is not None:
                    note = recorder.note_of(seq, first, last, self.block_size, i)
                self.pool.cache_blocks(table.blocks[first:last], names, note)
                table.num_cached_blocks = last

    # --- sequences ------------------------------------------------------------------

    def _new_sequence(
        self, seq_id: str, token_ids: Iterable[int], extra: ExtraKeys
    ) -> Sequence:
        checks.check_name(seq_id)
        tokens = pack_tokens(token_ids)
        if not tokens:
            raise InvalidRequest("a prompt needs at least 1 token, got none")
        checks.check_length(len(tokens), self.max_model_len)
        seq = Sequence(seq_id, tokens, extra, self.groups)
        self._hash(seq)
        return seq

    def _add(self, seq: Sequence, tokens: array[int]) -> None:
        if not tokens:
            raise InvalidRequest("expected at least 1 token, got none")
        if self.max_model_len is not None:
            length = len(seq.token_ids) + len(tokens)
            checks.check_length(length, self.max_model_len)
        seq.token_ids += tokens
        self._hash(seq, len(tokens))
        seq.short_until = -1

    def _hash(self, seq: Sequence, num_added: int = 0) -> None:
        """Hash what is full now. Should that fail, the added tokens go again."""
        tokens, hashes, size = seq.token_ids, seq.block_hashes, self.block_size
        if self.pool.enable_caching and len(tokens) // size > len(hashes):
            try:
                extend_hashes(hashes, tokens, size, seq.extra, self.hash_fn)
            except BaseException:
                del tokens[len(tokens) - num_added :]
                raise

    def _known(self, seq_id: str) -> Sequence:
        try:
            return self.sequences[seq_id]
        except (KeyError, TypeError):
            raise checks.unknown(seq_id, self.sequences) from None

    def _in_state(self, seq_id: str, status: SequenceStatus) -> Sequence:
        seq = self._known(seq_id)
        if seq.status is not status:
            checks.check_status(seq_id, seq.status, status)
        return seq

    def _home(self, seq: Sequence) -> BlockPool:
        """The pool in which the blocks of a sequence lie."""
        return self._pools[seq.status is SWAPPED]

    # --- looking in -----------------------------------------------------------------

    def _record(self, op: str, answer: Allocation, *sequences: Sequence) -> Allocation:
        if self.log is not None:
            event = recorder.event_of(self, op, answer, sequences)
            self.log.events.append(event)
        return answer

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

    def block_table(self, seq_id: str, group: int = 0) -> tuple[int, ...]:
        """Physical block ids of a sequence, logical block 0 first; empty if preempted,
        host blocks if swapped. `group` chooses the table in a hybrid model.

        Raises `UnknownSequence`.
        """
        seq = self._known(seq_id)
        length = self.blocks_for(seq.num_computed_tokens)
        checks.check_index("group", group, len(self.groups))
        return seq.tables[group].logical_ids(length, self.block_size)

    def slot_mapping(
        self, seq_id: str, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """The slot of each token from position `start` up to, not including, `stop`.

        None means up to the last token that has a slot. A token that fell out of the
        window has none any more: -1, which the storage skips.
        Raises `UnknownSequence`, and `InvalidRequest` for positions without a slot.
        """
        end = self._known(seq_id).num_computed_tokens if stop is None else stop
        check_count("start", start, 0)
        check_count("stop", end, start)
        table = self.block_table(seq_id)
        places = [address(table, self.block_size, i) for i in range(start, end)]
        return [place.slot if place.block_id else -1 for place in places]

    def stats(self) -> Stats:
        """The gauges and counters of this moment."""
        return recorder.stats_of(self)

    def snapshot(self) -> Snapshot:
        """The whole state as one value that never changes. O(blocks + tokens)."""
        return recorder.snapshot_of(self)

    def audit(self) -> list[Check]:
        """Check every invariant, inside the manager as well as in its snapshot.

        Raises `AuditError` that names the broken one; returns the checks otherwise.
        """
        return audit_living(self._pools, self.snapshot(), self.log)
