"""Memory before paging: each request gets one piece, as long as it may ever need.

The systems before PagedAttention kept a request's K and V in one stretch of slots. Its
length had to be fixed when the request came, before anybody knew how long the answer
would be. Three ways to fix it, as in section 6.1 of the PagedAttention paper (Kwon et
al., SOSP 2023), which calls them three versions of Orca:

- `reserve_max`: the model's longest length, always;
- `reserve_pow2`: the prompt, and the output rounded up to a power of two ("the system
  over-reserves the space for outputs by at most 2x");
- `reserve_oracle`: exactly what will be needed. Nobody can know that.

`BuddyMemory` finds the piece, as the paper assumes for all three: sizes are powers of
two, a larger piece is halved until it fits, and two free halves become one again.
Knowlton, "A fast storage allocator", CACM 8 (1965).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from blockmgr.checks import check_count, check_new, unknown
from blockmgr.errors import InvalidRequest

Reserve = Callable[[int, int], int]
"""From tokens in the prompt and in the output to slots that are reserved."""


# --- how much to reserve --------------------------------------------------------------


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least `n`, which is at least 1."""
    check_count("n", n, 1)
    return 1 << (n - 1).bit_length()


def reserve_max(longest: int) -> Reserve:
    """Always `longest` slots: the only safe choice for who knows nothing."""
    check_count("longest", longest, 1)
    return lambda prompt, output: longest


def reserve_pow2(longest: int) -> Reserve:
    """The prompt and a power of two for the output, together at most `longest`."""
    check_count("longest", longest, 1)
    return lambda prompt, output: min(prompt + power_of_two(output), longest)


def reserve_oracle(prompt: int, output: int) -> int:
    """The exact length at the end, as if it were known at the start."""
    return prompt + output


# --- where to put it ------------------------------------------------------------------


class Piece(NamedTuple):
    """`size` slots in a row, the first of them `start`. A size is a power of two, and a
    start a multiple of its size."""

    start: int
    size: int


class BuddyMemory:
    """`num_slots` slots, given out in pieces whose sizes are powers of two.

    Every slot belongs to exactly one piece, held or free. The **buddy** of a piece is
    the one beside it that was cut from the same larger piece: its start differs in the
    one binary digit that stands for the size. No two free buddies lie side by side.

    A memory whose size is no power of two begins as several pieces, the largest first:
    15,700 = 8,192 + 4,096 + 2,048 + 1,024 + 256 + 64 + 16 + 4.
    """

    def __init__(self, num_slots: int) -> None:
        check_count("num_slots", num_slots, 1)
        self.num_slots = num_slots
        self.held: dict[str, Piece] = {}
        self._free: dict[int, set[int]] = {}
        start = 0
        while start < num_slots:
            size = 1 << (num_slots - start).bit_length() - 1
            self._put(Piece(start, size))
            start += size

    def __repr__(self) -> str:
        return (
            f"BuddyMemory({self.num_slots} slots, {self.num_free} free, "
            f"{len(self.held)} pieces held)"
        )

    @property
    def num_free(self) -> int:
        """Free slots, in however many pieces."""
        return sum(size * len(starts) for size, starts in self._free.items())

    def free_pieces(self) -> list[Piece]:
        """Every free piece, by its place."""
        return sorted(
            Piece(start, size)
            for size, starts in self._free.items()
            for start in starts
        )

    def allocate(self, name: str, num_slots: int) -> Piece | None:
        """Give `name` a piece of at least `num_slots` slots: the smallest free one that
        has them, the first of its size, halved while half is enough. None if there is
        none. Raises `DuplicateSequence` and `InvalidRequest`.
        """
        check_new(name, self.held)
        size = power_of_two(num_slots)
        fitting = [n for n, starts in self._free.items() if n >= size and starts]
        if not fitting:
            return None
        found = min(fitting)
        start = min(self._free[found])
        self._free[found].remove(start)
        while found > size:
            found //= 2
            self._put(Piece(start + found, found))  # the upper half stays free
        self.held[name] = Piece(start, size)
        return self.held[name]

    def free(self, name: str) -> None:
        """Give a piece back, and join it with its buddy as long as that is free.

        Raises `UnknownSequence`.
        """
        if name not in self.held:
            raise unknown(name, self.held)
        start, size = self.held.pop(name)
        while (buddy := start ^ size) in self._free.get(size, ()):
            self._free[size].remove(buddy)
            start, size = min(start, buddy), 2 * size
        self._put(Piece(start, size))

    def _put(self, piece: Piece) -> None:
        self._free.setdefault(piece.size, set()).add(piece.start)


def check_reserved(prompt: int, output: int, reserved: int) -> None:
    """Raise `InvalidRequest` for a reservation that the request would outgrow."""
    check_count("a reservation", reserved, 1)
    if reserved < prompt + output:
        raise InvalidRequest(
            f"{reserved} slots were reserved for {prompt} + {output} tokens: a piece "
            "can't grow later, so it must hold all of them from the start"
        )
