"""How much room to take ahead of need: three answers, and what each costs.

The manager gives slots for the tokens that are there. A **policy** may ask for more, as
look-ahead slots that a sequence keeps in its table and fills later:

- `PreAllocate`: room for the longest that the sequence may become, at once. Simple, and
  most of it is never used.
- `OnDemand`: nothing ahead. A block is taken when a token needs it, one at a time.
- `Batched`: on demand, but `num_blocks` at a time. Fewer calls that take, some waste.

`PolicyAllocator` runs one of them and counts, so that they can be compared.

In vLLM: on demand, with look-ahead slots for speculative tokens only, see
`num_lookahead_tokens` of `KVCacheManager.allocate_slots` (release 0.33). Systems before
PagedAttention took room for the longest length in advance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from blockmgr.answers import Allocation
from blockmgr.checks import check_count
from blockmgr.manager import BlockManager
from blockmgr.sequence import pack_tokens


class OnDemand:
    """Nothing ahead: a block is taken when its first token comes.

    `optional`: whether a sequence comes in though what it wants ahead does not fit.
    """

    optional = True

    def num_lookahead(self, num_tokens: int, num_slots: int, block_size: int) -> int:
        """How many slots to ask for beyond those of the tokens: `num_tokens` of these
        need a slot, `num_slots` are in the table already."""
        return 0


class PreAllocate(OnDemand):
    """Room for `max_tokens` at once. A sequence that outgrows it goes on on demand."""

    optional = False

    def __init__(self, max_tokens: int) -> None:
        check_count("max_tokens", max_tokens, 1)
        self.max_tokens = max_tokens

    def num_lookahead(self, num_tokens: int, num_slots: int, block_size: int) -> int:
        """All that is missing to the longest length."""
        return max(0, self.max_tokens - num_tokens)


class Batched(OnDemand):
    """Whenever a block is needed, `num_blocks` are taken: a reserve per sequence."""

    def __init__(self, num_blocks: int) -> None:
        check_count("num_blocks", num_blocks, 1)
        self.num_blocks = num_blocks

    def num_lookahead(self, num_tokens: int, num_slots: int, block_size: int) -> int:
        """None while there is room; else the rest of the batch after the blocks that
        the tokens need."""
        return 0 if num_tokens <= num_slots else (self.num_blocks - 1) * block_size


class Counters(NamedTuple):
    """What a policy has cost so far.

    `calls` took blocks from the pool, `blocks_taken` in all. `slots_wasted` stand in a
    table now with no token in them; `slots_given_back` were never used and are free
    again.
    """

    calls: int
    blocks_taken: int
    slots_wasted: int
    slots_given_back: int


class PolicyAllocator:
    """A `BlockManager` behind a policy: allocate, append, free, and the bill.

    The reserve is only a wish: if it does not fit and the tokens alone do, they get
    their slots without it. Not so for `PreAllocate`, whose promise is that a sequence
    once admitted never waits. At the end `free` gives the whole table back.
    """

    def __init__(self, manager: BlockManager, policy: OnDemand) -> None:
        self.manager = manager
        self.policy = policy
        self._calls = self._taken = self._given_back = 0

    def allocate(self, seq_id: str, token_ids: Iterable[int]) -> Allocation:
        """Admit a sequence. Raises as `BlockManager.allocate`."""
        tokens = pack_tokens(token_ids)
        ahead = self.policy.num_lookahead(len(tokens), 0, self.manager.block_size)
        answer = self.manager.allocate(seq_id, tokens, num_lookahead=ahead)
        if not answer and ahead and self.policy.optional:
            answer = self.manager.allocate(seq_id, tokens)
        return self._count(answer)

    def append(self, seq_id: str, token_ids: Iterable[int]) -> Allocation:
        """Add generated tokens. Raises as `BlockManager.append`."""
        tokens = pack_tokens(token_ids)
        ahead = self._ahead(seq_id, len(tokens))
        answer = self.manager.append(seq_id, tokens, num_lookahead=ahead)
        if not answer and ahead:  # the tokens are there already
            answer = self.manager.allocate_slots(seq_id)
        return self._count(answer)

    def retry(self, seq_id: str) -> Allocation:
        """Ask for the slots of tokens that have none yet, as after a LATER."""
        ahead = self._ahead(seq_id, 0)
        answer = self.manager.allocate_slots(seq_id, num_lookahead=ahead)
        if not answer and ahead:
            answer = self.manager.allocate_slots(seq_id)
        return self._count(answer)

    def _ahead(self, seq_id: str, num_new: int) -> int:
        size = self.manager.block_size
        held = len(self.manager.block_table(seq_id)) * size
        num_tokens = len(self.manager.sequences[seq_id].token_ids) + num_new
        return self.policy.num_lookahead(num_tokens, held, size)

    def free(self, seq_id: str) -> None:
        """End a sequence, its reserve included. Raises `UnknownSequence`."""
        wasted = self._wasted(seq_id)
        self.manager.free(seq_id)
        self._given_back += wasted

    def counters(self) -> Counters:
        """The bill of this moment."""
        wasted = sum(self._wasted(seq_id) for seq_id in self.manager.sequences)
        return Counters(self._calls, self._taken, wasted, self._given_back)

    def _wasted(self, seq_id: str) -> int:
        slots = len(self.manager.block_table(seq_id)) * self.manager.block_size
        return slots - self.manager.sequences[seq_id].num_computed_tokens

    def _count(self, answer: Allocation) -> Allocation:
        taken = len(answer.new) + len(answer.copies)
        self._calls += taken > 0
        self._taken += taken
        return answer
