"""Names for what can be selected in a picture, and what belongs together."""

from __future__ import annotations

from blockmgr.events import Snapshot


def block_key(block_id: int) -> str:
    """The name of a physical block in `selected`: `block:5`."""
    return f"block:{block_id}"


def sequence_key(seq_id: str) -> str:
    """The name of a sequence in `selected`: `seq:r0`."""
    return f"seq:{seq_id}"


def logical_key(seq_id: str, index: int) -> str:
    """The name of a logical block in `selected`: `seq:r0:logical:1`."""
    return f"seq:{seq_id}:logical:{index}"


def related(snapshot: Snapshot, selected: str | None) -> frozenset[str]:
    """The selected thing and what it maps to; nothing if it is not in the picture."""
    if not selected:
        return frozenset()
    pairs = [
        (sequence_key(seq_id), logical_key(seq_id, i), block_key(b))
        for seq_id, view in snapshot.sequences.items()
        for i, b in enumerate(view.block_table)
    ]
    lit = {key for trio in pairs if selected in trio for key in trio[1:]}
    named = {sequence_key(seq_id) for seq_id in snapshot.sequences}
    named |= {block_key(b) for b in range(snapshot.num_blocks)}
    return frozenset(lit | ({selected} & named))
