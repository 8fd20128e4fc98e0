"""A busy server in one memory: requests come, grow by one token a step, and leave.

`serve` is the loop, the same for each way to give out memory: `Contiguous`, a piece for
each request (see `contiguous.py`), or `Paged`, the real `BlockManager`. It is simpler
than `scheduler.py`: a step takes one unit of time however much it computes, and one
step is enough for any prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from blockmgr.answers import Allocation
from blockmgr.checks import check_count
from blockmgr.contiguous import BuddyMemory, Reserve, check_reserved
from blockmgr.errors import InvalidRequest
from blockmgr.manager import BlockManager
from blockmgr.workloads import Lengths


@dataclass(slots=True)
class Running:
    """A request that holds memory: `tokens` are stored, `final` will be at its end, and
    `given` slots are promised to it."""

    name: str
    tokens: int
    final: int
    given: int


class Moment(NamedTuple):
    """One step of `serve`, at its end. Those in `running` go on: copy what is to be
    kept. `waiting` so many have no memory. `came`, `left` and `sent_back` name who did
    that in this step."""

    step: int
    running: tuple[Running, ...]
    waiting: int
    came: tuple[str, ...]
    left: tuple[str, ...]
    sent_back: tuple[str, ...]


class Memory(Protocol):
    """What `serve` asks of a memory. Both answers are slots that are promised from now
    on, or None: there is no room."""

    @property
    def num_slots(self) -> int:
        """How many tokens it could hold at best."""
        ...

    def admit(self, name: str, request: Lengths, tokens: int) -> int | None:
        """Room for a request that has so many tokens already: its prompt, or more if it
        was sent back."""
        ...

    def grow(self, name: str) -> int | None:
        """Room for one token more."""
        ...

    def leave(self, name: str) -> None:
        """Take everything back."""
        ...


class Contiguous:
    """One piece for each request, of the length that `reserve` says."""

    def __init__(self, num_slots: int, reserve: Reserve) -> None:
        self.buddy = BuddyMemory(num_slots)
        self.num_slots = num_slots
        self._reserve = reserve
        self._given: dict[str, int] = {}

    def admit(self, name: str, request: Lengths, tokens: int) -> int | None:
        """A piece, now and once. Raises `InvalidRequest` for one that is too short."""
        prompt, output = request.prompt_tokens, request.output_tokens
        given = self._reserve(prompt, output)
        check_reserved(prompt, output, given)
        if self.buddy.allocate(name, given) is None:
            return None
        self._given[name] = given
        return given

    def grow(self, name: str) -> int | None:
        """There is room already: that is what the reservation was for."""
        return self._given[name]

    def leave(self, name: str) -> None:
        """The whole piece is free again."""
        self.buddy.free(name)
        del self._given[name]


class Paged:
    """Blocks of `block_size` slots, taken when they are needed: the real manager. The
    null block comes on top, so that all whole blocks of the memory are in use."""

    def __init__(
        self, num_slots: int, block_size: int = 16, *, record: bool = False
    ) -> None:
        check_count("block_size", block_size, 1)
        check_count("num_slots", num_slots, block_size)
        self.num_slots = num_slots
        blocks = num_slots // block_size + 1
        self.manager = BlockManager(
            blocks, block_size, enable_caching=False, record=record
        )
        self._given: dict[str, int] = {}

    def admit(self, name: str, request: Lengths, tokens: int) -> int | None:
        """Blocks for the tokens that are there."""
        return self._count(name, self.manager.allocate(name, [0] * tokens))

    def grow(self, name: str) -> int | None:
        """Mostly there is room in the last block; else a block more."""
        seq = self.manager.sequences[name]
        if seq.num_computed_tokens < len(seq.token_ids):  # it was refused just now
            answer = self.manager.allocate_slots(name)
        else:
            answer = self.manager.append(name, [0])
        return self._count(name, answer)

    def leave(self, name: str) -> None:
        """Its blocks go back into the queue."""
        self.manager.free(name)
        self._given.pop(name)

    def _count(self, name: str, answer: Allocation) -> int | None:
        if not answer:
            return None
        more = len(answer.new) * self.manager.block_size
        self._given[name] = self._given.get(name, 0) + more
        return self._given[name]


# --- the server -----------------------------------------------------------------------


def serve(requests: Iterable[Lengths], memory: Memory) -> Iterator[Moment]:
    """Serve requests in their order, named `r0`, `r1`, ..., until the last has left.

    In a step, those that are complete leave; then all that run get one token more; then
    others come in with their prompts, up to the first that finds no room. If one that
    runs finds none, the last that came is sent back, and nobody comes in this step.

    Raises `InvalidRequest` for a request that does not fit into the empty memory.
    """
    return _Server(requests, memory).run()


class _Server:
    """The state of one run."""

    def __init__(self, requests: Iterable[Lengths], memory: Memory) -> None:
        self.memory = memory
        self.lengths = {f"r{i}": lengths for i, lengths in enumerate(requests)}
        self.waiting = [(name, n.prompt_tokens) for name, n in self.lengths.items()]
        self.waiting.reverse()  # the first stands at the end, where it is taken
        self.running: dict[str, Running] = {}

    def run(self) -> Iterator[Moment]:
        """Step by step."""
        step = 0
        while self.running or self.waiting:
            left = self._leave()
            sent_back = self._grow()
            came = () if sent_back else self._admit()
            running = tuple(self.running.values())
            yield Moment(step, running, len(self.waiting), came, left, sent_back)
            step += 1

    def _leave(self) -> tuple[str, ...]:
        done = [r.name for r in self.running.values() if r.tokens == r.final]
        for name in done:
            self.memory.leave(name)
            del self.running[name]
        return tuple(done)

    def _grow(self) -> tuple[str, ...]:
        sent_back: list[str] = []
        for request in list(self.running.values()):
            while request.name in self.running:
                given = self.memory.grow(request.name)
                if given is not None:
                    request.tokens, request.given = request.tokens + 1, given
                    break
                sent_back.append(self._send_back())
        return tuple(sent_back)

    def _send_back(self) -> str:
        name, request = self.running.popitem()
        self.memory.leave(name)
        if not self.running:
            self._never(name)
        self.waiting.append((name, request.tokens))
        return name

    def _admit(self) -> tuple[str, ...]:
        came = []
        while self.waiting:
            name, tokens = self.waiting[-1]
            request = self.lengths[name]
            given = self.memory.admit(name, request, tokens)
            if given is None:
                break
            final = request.prompt_tokens + request.output_tokens
            self.waiting.pop()
            self.running[name] = Running(name, tokens, final, given)
            came.append(name)
        if self.waiting and not self.running:
            self._never(self.waiting[-1][0])
        return tuple(came)

    def _never(self, name: str) -> None:
        asked = self.lengths[name]
        raise InvalidRequest(
            f"{name} with {asked.prompt_tokens} + {asked.output_tokens} tokens does "
            f"not fit into the empty memory of {self.memory.num_slots} slots: leave it "
            "out"
        )
