"""Groups of sequences, as vLLM had them up to 0.6.3: the rules of parallel samples,
beams and swap (rules 20 to 24).

A **group** is one request with several answers: its sequences start from one prompt in
one set of blocks, part at the first token that differs, and are swapped together. All
the work is done by `BlockManager`; here stand the conditions under which version 0 did
it. They are coarser than ours: they reserve a block for each sequence, needed or not.

In vLLM: `BlockSpaceManagerV1` in `vllm/core/block_manager_v1.py` (release 0.6.3), same
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blockmgr.answers import Allocation, Status
from blockmgr.errors import InvalidRequest
from blockmgr.groups import FullAttention, SlidingWindow
from blockmgr.manager import BlockManager


class RingWindow(SlidingWindow):
    """A window of version 0: the newest block writes over the oldest.

    A sequence holds ceil(window/B) blocks and never more, which is fewer than a sliding
    window needs. The price: what lies under a hash changes, so there is no prefix
    caching, asked for or not. Its logical blocks go around and around in the same
    physical ones.
    """

    cacheable = False

    def num_blocks(self, num_slots: int, block_size: int) -> int:
        """Enough for the slots, or for the window if that is less."""
        return -(-min(num_slots, self.window) // block_size)

    def places(
        self, first: int, last: int, num_blocks: int, block_size: int
    ) -> Sequence[int]:
        """Around and around, as far as the table has blocks by now."""
        around = self.num_blocks(self.window, block_size)
        return [i % around for i in range(first, last) if i % around < num_blocks]

    def num_skipped_blocks(self, num_computed: int, block_size: int) -> int:
        """None: a block that nobody reads any more is written again."""
        return 0


class BlockSpaceManager:
    """Version 0's rules for groups of sequences, over a `BlockManager`.

    `num_gpu_blocks` are all usable: version 0 had no null block, so the pool beneath
    has one more.

    Raises `InvalidRequest` for sizes that can't work.
    """

    def __init__(
        self,
        block_size: int,
        num_gpu_blocks: int,
        num_cpu_blocks: int,
        watermark: float = 0.01,
        sliding_window: int | None = None,
        record: bool = False,
    ) -> None:
        attention = RingWindow(sliding_window) if sliding_window else FullAttention()
        self.manager = BlockManager(
            num_gpu_blocks + 1,
            block_size,
            num_host_blocks=num_cpu_blocks,
            groups=(attention,),
            enable_caching=False,
            record=record,
        )
        self.watermark_blocks = int(watermark * num_gpu_blocks)
        self.groups: dict[str, list[str]] = {}

    def can_allocate(self, num_tokens: int) -> Status:
        """Whether a prompt fits and leaves the watermark free (rule 20)."""
        pool, attention = self.manager.pool, self.manager.groups[0]
        need = attention.num_blocks(num_tokens, self.manager.block_size)
        if pool.num_usable_blocks - need < self.watermark_blocks:
            return Status.NEVER
        enough = pool.num_free_blocks - need >= self.watermark_blocks
        return Status.OK if enough else Status.LATER

    def allocate(
        self, group: str, seq_ids: Sequence[str], token_ids: Sequence[int]
    ) -> Status:
        """Admit a group: one set of blocks, of which each sequence is a user (rule 21).

        Raises `InvalidRequest` and `DuplicateSequence`.
        """
        if not seq_ids or len(set(seq_ids)) < len(seq_ids) or group in self.groups:
            raise InvalidRequest(
                f"a new group needs a new name and one sequence or more, each with its "
                f"own name: got {group!r} with {list(seq_ids)}"
            )
        status = self.can_allocate(len(token_ids))
        if status is Status.OK:
            first, *others = seq_ids
            self.manager.allocate(first, token_ids)
            for other in others:
                self.manager.fork(first, other)
            self.groups[group] = list(seq_ids)
        return status

    def can_append_slots(self, group: str) -> bool:
        """Whether each sequence of a group could take a block (rule 22)."""
        return len(self.groups[group]) <= self.manager.num_free_blocks

    def add_tokens(self, group: str, token_ids: Iterable[int]) -> None:
        """The tokens just generated, one for each sequence of a group, still without
        slots."""
        for seq_id, token in zip(self.groups[group], token_ids, strict=True):
            self.manager.add_tokens(seq_id, [token])

    def append_slots(self, group: str) -> list[Allocation]:
        """Give a group's new tokens their slots; the answers name the copies to do."""
        return [self.manager.allocate_slots(seq_id) for seq_id in self.groups[group]]

    def fork(self, group: str, parent: str, child: str) -> None:
        """A further sequence in the group, in its parent's blocks (rule 21)."""
        self.manager.fork(parent, child)
        self.groups[group].append(child)

    def free_seq(self, group: str, seq_id: str) -> None:
        """End one sequence of a group, and with the last one the group."""
        self.manager.free(seq_id)
        self.groups[group].remove(seq_id)
        if not self.groups[group]:
            del self.groups[group]

    def free(self, group: str) -> None:
        """End a whole group."""
        for seq_id in list(self.groups[group]):
            self.free_seq(group, seq_id)

    def swap_out(self, group: str) -> Allocation:
        """Move a group to the host, if that has room for all of it (rule 23)."""
        return self.manager.swap_out(self.groups[group])

    def can_swap_in(self, group: str) -> Status:
        """Whether a group could come back and grow, the watermark left free."""
        tables = [self.manager.block_table(seq_id) for seq_id in self.groups[group]]
        distinct = len({block_id for table in tables for block_id in table})
        need = distinct + len(tables)
        if need > self.manager.pool.num_usable_blocks:
            return Status.NEVER
        enough = self.manager.num_free_blocks - need >= self.watermark_blocks
        return Status.OK if enough else Status.LATER

    def swap_in(self, group: str) -> Allocation:
        """Bring a group back from the host."""
        status = self.can_swap_in(group)
        if status is not Status.OK:
            return Allocation(status)
        return self.manager.swap_in(self.groups[group])
