"""Block tables and slot mappings where the GPU needs them, sent once and then kept.

Attention on a GPU reads the block tables of all running sequences from one tensor:

    tables[row, logical block]     int32, a row for each sequence, -1 where it is unused

To send all of it before each step would be slow and pointless, for a step changes
little: each sequence gets a new block every B tokens. So the host keeps a copy, notes
where the two differ, and sends only those entries, all of them in one transfer.

The **slot mapping** says where the K and V of a step's tokens go. It is computed on the
device from the tables, so three numbers for each sequence are sent, however long its
prompt is.

In vLLM: `BlockTable` in `vllm/v1/worker/block_table.py`, and `BlockTables` in
`vllm/v1/worker/gpu/block_table.py`, which sends only what changed (release 0.33).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.checks import check_count, check_name
from blockmgr.errors import BlockManagerError, UnknownSequence
from blockmgr.storage import (
    PAD,
    InvalidAccess,
    check_ids,
    int64_ids,
    pick_device,
    to_device,
)

# After storage, which says in one line what to do where there is no PyTorch.
import torch  # isort: skip
from torch import Tensor  # isort: skip

Span = tuple[str, int, int]
"""A sequence's tokens from one position up to, not including, another."""


class TablesFull(BlockManagerError):
    """More sequences at once than the tensor has rows."""


class TableTooLong(BlockManagerError, ValueError):
    """A block table longer than a row. Cut off, it would lose blocks in silence."""


class BlockTables:
    """The block tables of up to `max_num_seqs` sequences, on the device.

    `num_blocks` and `block_size` are the pool's. `max_num_blocks` is the longest table,
    ceil(max_model_len / block_size). A model with several groups needs one of these for
    each. The tensor is made once and keeps its address, so that a CUDA graph can be
    captured over it.

    A call that raises has changed nothing.
    """

    def __init__(
        self,
        max_num_seqs: int,
        max_num_blocks: int,
        *,
        num_blocks: int,
        block_size: int = 16,
        device: str | torch.device | None = None,
    ) -> None:
        check_count("max_num_seqs", max_num_seqs, 1)
        check_count("max_num_blocks", max_num_blocks, 1)
        check_count("num_blocks (one is the null block)", num_blocks, 2)
        check_count("block_size", block_size, 1)
        self.num_blocks, self.block_size = num_blocks, block_size
        shape, where = (max_num_seqs, max_num_blocks), pick_device(device)
        self._tables = torch.full(shape, PAD, dtype=torch.int32, device=where)
        self._flat = self._tables.view(-1)
        self._rows: dict[str, int] = {}
        self._free_rows = list(reversed(range(max_num_seqs)))
        self._known: list[list[int]] = [[] for _ in range(max_num_seqs)]
        self._changed: dict[int, int] = {}  # place in the flat tensor -> new entry
        self.num_entries_sent = 0

    def __repr__(self) -> str:
        rows, width = self._tables.shape
        return f"BlockTables({len(self._rows)} of {rows} rows, {width} blocks each)"

    # --- what changes ---------------------------------------------------------------

    def assign(self, seq_id: str, block_ids: Sequence[int]) -> None:
        """Make `block_ids` the table of this sequence. The first call claims a row.

        For any change: new blocks, a copy-on-write in the middle, blocks that fell out
        of the window (0), the empty table of a preempted sequence. Compares the whole
        table; where only new blocks came, `append` is enough.

        Raises `TablesFull`, `TableTooLong`, `InvalidAccess` and `InvalidRequest`.
        """
        check_name(seq_id)
        if seq_id not in self._rows and not self._free_rows:
            raise TablesFull(
                f"all {len(self._rows)} rows are taken: release a sequence before "
                f"{seq_id!r}, or make the tables with a larger max_num_seqs"
            )
        table = self._checked(block_ids, 0)
        if seq_id not in self._rows:
            self._rows[seq_id] = self._free_rows.pop()
        self._change(self._rows[seq_id], table)

    def append(self, seq_id: str, block_ids: Sequence[int]) -> None:
        """Add these blocks, `Allocation.new_blocks`, at the end of the table.

        Raises `UnknownSequence`, `TableTooLong` and `InvalidAccess`.
        """
        row = self._row(seq_id)
        known = self._known[row]
        for block_id in self._checked(block_ids, len(known)):
            self._changed[row * self._tables.shape[1] + len(known)] = block_id
            known.append(block_id)

    def release(self, seq_id: str) -> None:
        """Give the row back. Its entries become -1. Raises `UnknownSequence`."""
        row = self._row(seq_id)
        self._change(row, [])
        self._free_rows.append(self._rows.pop(seq_id))

    # --- what the device reads ------------------------------------------------------

    def commit(self) -> Tensor:
        """Send what has changed and return the tensor: [max_num_seqs, max_num_blocks].

        It is always the same tensor, for reading only: the next commit changes it.
        """
        if self._changed:
            changes = torch.tensor([*self._changed.items()], dtype=torch.int64)
            places, entries = to_device(changes, self._flat.device).unbind(1)
            self._flat.index_copy_(0, places, entries.to(torch.int32))
            self.num_entries_sent += len(changes)
            self._changed.clear()
        return self._tables

    def rows(self, seq_ids: Sequence[str]) -> Tensor:
        """The row of each sequence, int64 on the device: `commit()[rows]` is a batch.

        Raises `UnknownSequence`.
        """
        found = torch.tensor([self._row(s) for s in seq_ids], dtype=torch.int64)
        return to_device(found, self._tables.device)

    def slot_mapping(self, spans: Sequence[Span], out: Tensor | None = None) -> Tensor:
        """The slot of each token of the spans (sequence, start, stop), int64, in order.

        A token in a null block has no slot: -1. With `out`, the slots are written to
        its beginning and -1 to the rest: a CUDA graph needs one length, one address.

        Raises `UnknownSequence`, and `InvalidAccess` for positions without a block or
        an `out` that is too short.
        """
        total, device = 0, self._tables.device
        numbers = []
        for seq_id, start, stop in spans:
            row = self._row(seq_id)
            room = len(self._known[row]) * self.block_size
            if not (type(start) is type(stop) is int and 0 <= start <= stop <= room):
                raise InvalidAccess(
                    f"span of {seq_id!r}: expected 0 <= start <= stop <= {room}, the "
                    f"slots of its table; got {start!r:.40} and {stop!r:.40}"
                )
            # Token i of the batch is token i + shift of its sequence.
            numbers.append((row, start - total, stop - start))
            total += stop - start
        if out is None:
            out = torch.empty(total, dtype=torch.int64, device=device)
        _check_out(out, total, device)
        sent = to_device(torch.tensor(numbers, dtype=torch.int64).view(-1, 3), device)
        # Told the total, `repeat_interleave` need not ask the device for it and wait.
        rows, shifts = (
            sent[:, :2]
            .repeat_interleave(sent[:, 2], dim=0, output_size=total)
            .unbind(1)
        )
        position = torch.arange(total, device=device) + shifts
        block = self.commit()[rows, position // self.block_size].to(torch.int64)
        slot = block * self.block_size + position % self.block_size
        out[:total] = slot.where(block != NULL_BLOCK_ID, PAD)
        out[total:] = PAD
        return out

    # --- inside -----------------------------------------------------------------------

    def _row(self, seq_id: str) -> int:
        try:
            return self._rows[seq_id]
        except (KeyError, TypeError):
            here = ", ".join(map(repr, self._rows)) or "none"
            raise UnknownSequence(
                f"no table of {seq_id!r:.40} here (there are: {here}): assign it first"
            ) from None

    def _checked(self, block_ids: Sequence[int], held: int) -> list[int]:
        """The ids as ints, or an error if they don't fit behind `held` others."""
        ids = int64_ids("block_ids", block_ids)
        check_ids(ids, "block", NULL_BLOCK_ID, self.num_blocks)
        length, width = held + len(ids), self._tables.shape[1]
        if length > width:
            raise TableTooLong(
                f"expected a table of at most {width} blocks; got {length}: cap the "
                f"sequence at {width * self.block_size} tokens with max_model_len, or "
                "make the tables with a larger max_num_blocks"
            )
        table: list[int] = ids.tolist()
        return table

    def _change(self, row: int, table: list[int]) -> None:
        """Note every entry in which the row's new table differs from the old one."""
        first = row * self._tables.shape[1]
        both = zip_longest(self._known[row], table, fillvalue=PAD)
        for i, (old, new) in enumerate(both):
            if old != new:
                self._changed[first + i] = new
        self._known[row] = table


def _check_out(out: Tensor, total: int, device: torch.device) -> None:
    got = (out.dtype, out.device, out.dim())
    if got != (expected := (torch.int64, device, 1)):
        raise InvalidAccess(f"out: expected {expected}; got {got}")
    if len(out) < total:
        raise InvalidAccess(f"out: expected room for {total} slots; got {len(out)}")
