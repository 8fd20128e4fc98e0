"""One token's way from its position to its bytes, as numbers.

A `Trail` holds every station of that way, and the equations between them. It is worked
out once; the picture, the sentence and the table under it all read it from here. Needs
no torch: a `KVShape` says the four numbers about the model that the bytes depend on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from blockmgr.block import NULL_BLOCK_ID
from blockmgr.errors import InvalidRequest, UnknownSequence
from blockmgr.events import SequenceView, Snapshot
from blockmgr.table import Address, address
from figures.address.shape import KVShape, check_plane, fitting_shape, shown

HALVES = ("K", "V")
"""The first dimension of the tensor: keys, then values."""


# --- equations ----------------------------------------------------------------------


class Quantity(StrEnum):
    """The stations of a trail; each value is the name that stands in the picture."""

    POSITION = "position"
    LOGICAL = "logical block"
    OFFSET = "offset"
    BLOCK = "physical block"
    SLOT = "slot"
    BYTE = "byte offset"


class Number(NamedTuple):
    """A number in an equation, and what it is: the picture marks both alike."""

    quantity: Quantity
    value: int

    @property
    def text(self) -> str:
        """The number as it is written: only bytes are large enough for commas."""
        return f"{self.value:,}" if self.quantity is Quantity.BYTE else f"{self.value}"


Part = str | Number


class Equation(NamedTuple):
    """One step: the rule in words, the same in numbers, and a word on the outcome."""

    rule: str
    parts: tuple[Part, ...]
    note: str = ""

    @property
    def outcome(self) -> str:
        """What comes out: the note, or else the name of the last number."""
        last = self.parts[-1]
        return self.note or ("" if isinstance(last, str) else last.quantity)

    @property
    def text(self) -> str:
        """The equation as one line of text."""
        return "".join(p if isinstance(p, str) else p.text for p in self.parts)


# --- the trail ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trail:
    """Every station of one token. Make it with `trail(...)`.

    `half` is 0 for K and 1 for V. The tensor is `storage.KVCache.kv`, of shape
    `[2, layers, num_blocks, block_size, kv_heads, head_size]` and contiguous.
    """

    seq_id: str
    token_id: int
    address: Address
    block_size: int
    num_blocks: int
    shape: KVShape | None = None
    layer: int = 0
    half: int = 0

    @property
    def num_slots(self) -> int:
        """Slots of the whole pool, those of the null block included."""
        return self.num_blocks * self.block_size

    @property
    def plane(self) -> int:
        """Which of the `2 * layers` equal parts of the tensor: K's layers, then V's."""
        return self.half * self.known_shape.layers + self.layer

    @property
    def byte(self) -> int:
        """Where this token's row begins, in bytes from the start of the tensor."""
        row = self.plane * self.num_slots + self.address.slot
        return row * self.known_shape.row_bytes

    @property
    def total_bytes(self) -> int:
        """Size of the whole tensor."""
        shape = self.known_shape
        return 2 * shape.layers * self.num_slots * shape.row_bytes

    @property
    def index(self) -> tuple[int, int, int, int]:
        """The tensor index: `kv[index]` is [kv_heads, head_size], this token's row."""
        return self.half, self.layer, self.address.block_id, self.address.offset

    @property
    def known_shape(self) -> KVShape:
        """The shape; `InvalidRequest` if none was given."""
        if self.shape is None:
            raise InvalidRequest("bytes need spec=KVShape(...): none was given")
        return self.shape

    @property
    def numbers(self) -> dict[Quantity, int]:
        """Station -> its number, in the order of the way."""
        found = dict(zip(Quantity, self.address, strict=False))
        return found if self.shape is None else found | {Quantity.BYTE: self.byte}

    def equations(self) -> list[Equation]:
        """The way in numbers, a step a line."""
        position, logical, offset, block, slot = self._stations()
        size = self.block_size
        steps = [
            Equation("position // block size", (position, f" // {size} = ", logical)),
            Equation("position % block size", (position, f" % {size} = ", offset)),
            Equation("table[logical block]", ("table[", logical, "] = ", block)),
            Equation(
                "block × block size + offset",
                (block, f" × {size} + ", offset, " = ", slot),
            ),
        ]
        return steps if self.shape is None else [*steps, *self._in_memory(self.shape)]

    def _stations(self) -> list[Number]:
        return [Number(q, n) for q, n in zip(Quantity, self.address, strict=False)]

    def _in_memory(self, shape: KVShape) -> list[Equation]:
        *_, offset, block, slot = self._stations()
        row, plane, half = f"{shape.row_bytes:,}", f"{self.plane}", HALVES[self.half]
        numbers = f"{shape.kv_heads} × {shape.head_size} × {shape.itemsize}"
        before = f"({plane} × {self.num_slots} + "
        return [
            Equation("KV heads × head size × bytes", (f"{numbers} = {row}",), "a row"),
            Equation(
                "K or V × layers + layer",
                (f"{self.half} × {shape.layers} + {self.layer} = {plane}",),
                f"plane: {half} of layer {self.layer}",
            ),
            Equation(
                "(plane × slots + slot) × row",
                (before, slot, f") × {row} = ", Number(Quantity.BYTE, self.byte)),
            ),
            Equation(
                "kv[K or V, layer, block, offset]",
                (f"kv[{self.half}, {self.layer}, ", block, ", ", offset, "]"),
                f"{shape.kv_heads} × {shape.head_size} numbers",
            ),
        ]


def trail(
    snapshot: Snapshot,
    seq_id: str,
    position: int,
    *,
    spec: object = None,
    layer: int = 0,
    half: int = 0,
) -> Trail:
    """Follow the token at `position` of `seq_id` to its slot, and with a `spec` (see
    `KVShape.of`) on to its bytes in `layer`, of K (`half` 0) or V (1).

    Raises `UnknownSequence` or `InvalidRequest`; both say what there is to choose from.
    """
    view = _view(snapshot, seq_id)
    check_position(view, position)
    where = address(view.block_table, snapshot.block_size, position)
    if where.block_id == NULL_BLOCK_ID:
        raise InvalidRequest(
            f"position {position} of {shown(seq_id)} stands in the null block: "
            "its K and V were given up, choose a later position"
        )
    shape = None if spec is None else fitting_shape(snapshot, spec)
    check_plane(shape, layer, half)
    return Trail(
        seq_id=seq_id,
        token_id=view.token_ids[position],
        address=where,
        block_size=snapshot.block_size,
        num_blocks=snapshot.num_blocks,
        shape=shape,
        layer=layer,
        half=half,
    )


def _view(snapshot: Snapshot, seq_id: str) -> SequenceView:
    try:
        return snapshot.sequences[seq_id]
    except (KeyError, TypeError):
        names = ", ".join(f"{shown(name)}" for name in list(snapshot.sequences)[:8])
        raise UnknownSequence(
            f"no sequence {shown(seq_id)} here; there is: {names or 'none at all'}"
        ) from None


def check_position(view: SequenceView, position: object) -> None:
    """Raise `InvalidRequest` unless `position` is that of a token with a slot."""
    name, count = shown(view.seq_id), len(view.token_ids)
    if not view.block_table or not count:
        state = "is preempted" if view.status == "preempted" else "has no tokens"
        raise InvalidRequest(f"{name} {state}: no slot is its own, so nothing to find")
    if type(position) is not int or position not in range(count):
        raise InvalidRequest(
            f"{shown(position)} is no position of a token of {name}: "
            f"choose a whole number from 0 to {count - 1:,}"
        )
