"""How large K and V are: the four numbers about a model that byte addresses need.

They can be given by hand, or read from a `storage.KVCacheSpec` or `storage.KVCache`
that is there already. No torch is imported for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockmgr.checks import check_count
from blockmgr.errors import InvalidRequest
from blockmgr.events import Snapshot
from figures.words import isolate


@dataclass(frozen=True, slots=True)
class KVShape:
    """What one token leaves behind: K and V of `kv_heads` x `head_size` numbers of
    `itemsize` bytes, in each of `layers` layers."""

    layers: int
    kv_heads: int
    head_size: int
    itemsize: int

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_size", "itemsize"):
            check_count(name, getattr(self, name), 1)

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's K (or V) in one layer: one row of the tensor."""
        return self.kv_heads * self.head_size * self.itemsize

    @classmethod
    def of(cls, spec: object) -> KVShape:
        """From a `KVShape`, a `storage.KVCacheSpec`, or a `storage.KVCache`.

        Only their attributes are read, so that this module needs no torch.
        """
        spec = getattr(spec, "spec", spec)
        if isinstance(spec, cls):
            return spec
        try:
            return cls(
                spec.num_layers,  # type: ignore[attr-defined]
                spec.num_kv_heads,  # type: ignore[attr-defined]
                spec.head_size,  # type: ignore[attr-defined]
                spec.dtype.itemsize,  # type: ignore[attr-defined]
            )
        except AttributeError:
            raise InvalidRequest(
                "spec says how large K and V are: give a KVShape(layers, kv_heads, "
                f"head_size, itemsize), a KVCacheSpec or a KVCache, not {shown(spec)}"
            ) from None


def fitting_shape(snapshot: Snapshot, spec: object) -> KVShape:
    """The shape that `spec` says; `InvalidRequest` if it is that of another pool."""
    inner = getattr(spec, "spec", spec)
    pairs = (
        ("block_size", getattr(inner, "block_size", None), snapshot.block_size),
        ("num_blocks", getattr(spec, "num_blocks", None), snapshot.num_blocks),
    )
    for name, theirs, ours in pairs:
        if theirs is not None and theirs != ours:
            raise InvalidRequest(
                f"spec has {name} {theirs}, the manager has {ours}: "
                "their slots would not be the same"
            )
    return KVShape.of(spec)


def check_plane(shape: KVShape | None, layer: object, half: object) -> None:
    """Raise `InvalidRequest` unless the tensor has that layer and that half."""
    layers = 1 if shape is None else shape.layers
    if type(layer) is not int or layer not in range(layers):
        raise InvalidRequest(
            f"layer {shown(layer)} is not there: choose from 0 to {layers - 1:,}"
        )
    if type(half) is not int or half not in (0, 1):
        raise InvalidRequest(f"half is 0 for K or 1 for V, got {shown(half)}")


def shown(value: object) -> str:
    """`value` for a message: its repr, cut, and no error where there is none."""
    try:
        return isolate(repr(value))
    except ValueError:  # Python refuses to write whole numbers of 4,300 digits
        return "so large a number"
