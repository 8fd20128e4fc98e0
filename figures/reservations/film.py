"""Four memories serving the same requests: where each stands after each step.

Three give every request one piece (`blockmgr.contiguous`), the fourth is the real
`BlockManager`. Nothing is drawn that one of them does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blockmgr.contiguous import reserve_max, reserve_oracle, reserve_pow2
from blockmgr.errors import InvalidRequest
from blockmgr.serving import Contiguous, Memory, Moment, Paged, Running, serve
from blockmgr.waste import Account, account
from blockmgr.workloads import Lengths
from figures.words import listed, plural

SLOTS = 64
"""So many slots can be told apart on a page."""

MOST_REQUESTS = 14
MOST_TOKENS = 32
"""Of one request, prompt and output together."""


class Piece(NamedTuple):
    """Slots in a row that belong together: a request's piece, one of its blocks, or
    free ones. From `start`: `tokens` of them are filled, then `later` will be, `never`
    won't, and what remains of `size` nobody was promised. `owner` is None if free."""

    start: int
    size: int
    owner: str | None = None
    tokens: int = 0
    later: int = 0
    never: int = 0


class Frame(NamedTuple):
    """One memory after one step."""

    pieces: tuple[Piece, ...]
    account: Account
    running: int
    waiting: int
    came: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    sent_back: tuple[str, ...] = ()


class ReservationFilm:
    """All four lanes, from empty memories to empty memories.

    `longest` is what the first lane reserves for everybody, `block_size` is that of the
    fourth. Raises `InvalidRequest` for requests that the picture has no room for.
    """

    def __init__(
        self, requests: Sequence[Lengths], longest: int, block_size: int
    ) -> None:
        self.requests = tuple(requests)
        check_requests(self.requests)
        slots = plural(block_size, "slot")
        lanes: dict[tuple[str, str], Memory] = {
            ("Orca (Max)", f"reserves {longest} slots, always"): Contiguous(
                SLOTS, reserve_max(longest)
            ),
            ("Orca (Pow2)", "rounds the output up to a power of two"): Contiguous(
                SLOTS, reserve_pow2(longest)
            ),
            ("Orca (Oracle)", "knows the exact length"): Contiguous(
                SLOTS, reserve_oracle
            ),
            ("Paged", f"blocks of {slots}, taken when needed"): Paged(
                SLOTS, block_size
            ),
        }
        self.titles = list(lanes)
        self.lanes = [self._frames(memory) for memory in lanes.values()]

    def _frames(self, memory: Memory) -> list[Frame]:
        """The empty memory, then one frame for each step."""
        frames = [_frame(memory, Moment(0, (), len(self.requests), (), (), ()))]
        frames += [_frame(memory, moment) for moment in serve(self.requests, memory)]
        return frames

    def __len__(self) -> int:
        """Number of frames: of the slowest lane."""
        return max(map(len, self.lanes))

    def frame(self, lane: int, step: int) -> Frame:
        """A lane after `step`; one that is through stays empty."""
        return self.lanes[lane][min(step, len(self.lanes[lane]) - 1)]

    def done(self, lane: int, step: int) -> int:
        """How many requests have left a lane."""
        now = self.frame(lane, step)
        return len(self.requests) - now.running - now.waiting

    # --- in words ---------------------------------------------------------------------

    def headline(self, step: int) -> str:
        """The step in one sentence, for all lanes."""
        names = [title for title, _ in self.titles[:3]]
        if step == 0:
            return (
                f"Before the first step: {plural(len(self.requests), 'request')} wait "
                f"before four empty memories of {SLOTS} slots."
            )
        if step == len(self) - 1:
            ends = [len(frames) - 1 for frames in self.lanes]
            told = [f"in step {n} under {w}" for n, w in zip(ends, names, strict=False)]
            return (
                f"The last has left: {', '.join(told)}, in step {ends[3]} with paging."
            )
        used = [self.frame(lane, step).account.used for lane in range(4)]
        told = [f"{n} under {name}" for n, name in zip(used, names, strict=False)]
        return (
            f"Step {step}: tokens fill {', '.join(told)}, and {used[3]} of the same "
            f"{SLOTS} slots with paging."
        )

    def longest_headline(self) -> str:
        """The one that needs most room on the page."""
        return max(map(self.headline, range(len(self))), key=len)

    def sentence(self, lane: int, step: int) -> str:
        """What happened in one lane."""
        now = self.frame(lane, step)
        if step >= len(self.lanes[lane]):
            return f"empty since step {len(self.lanes[lane]) - 1}"
        return "; ".join(_told(now)) or ("one token more for each" if step else "")


def check_requests(requests: Sequence[Lengths]) -> None:
    """Raise `InvalidRequest` for requests that the picture has no room for."""
    if not 1 <= len(requests) <= MOST_REQUESTS:
        raise InvalidRequest(
            f"give 1 to {MOST_REQUESTS} requests, got {len(requests)}: "
            "each needs room for its name"
        )
    for request in requests:
        prompt, output = request.prompt_tokens, request.output_tokens
        if prompt < 1 or output < 1 or prompt + output > MOST_TOKENS:
            raise InvalidRequest(
                "a request has at least one token in its prompt and in its output, "
                f"and up to {MOST_TOKENS} together; got {prompt} and {output}"
            )


def _told(now: Frame) -> Iterator[str]:
    for names, one, many in (
        (now.left, "leaves", "leave"),
        (now.sent_back, "goes back to wait", "go back to wait"),
        (now.came, "comes in", "come in"),
    ):
        if names:
            yield f"{listed(names, 5)} {one if len(names) == 1 else many}"


# --- where everybody lies -----------------------------------------------------------


def _frame(memory: Memory, moment: Moment) -> Frame:
    pieces = _blocks if isinstance(memory, Paged) else _pieces
    return Frame(
        tuple(sorted(pieces(memory, moment.running))),  # type: ignore[arg-type]
        account(moment.running, SLOTS),
        len(moment.running),
        moment.waiting,
        moment.came,
        moment.left,
        moment.sent_back,
    )


def _pieces(memory: Contiguous, running: Sequence[Running]) -> Iterator[Piece]:
    """A piece for each request, and those that are free."""
    for r in running:
        start, size = memory.buddy.held[r.name]
        yield Piece(
            start, size, r.name, r.tokens, r.final - r.tokens, r.given - r.final
        )
    for start, size in memory.buddy.free_pieces():
        yield Piece(start, size)


def _blocks(memory: Paged, running: Sequence[Running]) -> Iterator[Piece]:
    """A block after the other, from the state of the manager. Block 0 is never used and
    not drawn: slot 0 of the picture is the first of block 1."""
    state, size = memory.manager.snapshot(), memory.manager.block_size
    final = {r.name: r.final for r in running}
    used = set()
    for name, view in state.sequences.items():
        for place, block in enumerate(view.block_table):
            tokens = min(len(view.token_ids) - place * size, size)
            reach = min(final[name] - place * size, size)
            used.add(block)
            start = (block - 1) * size
            yield Piece(start, size, name, tokens, reach - tokens, size - reach)
    for block in set(range(1, state.num_blocks)) - used:
        yield Piece((block - 1) * size, size)
