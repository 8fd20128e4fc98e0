"""A beam search on a real block manager, move by move.

A move is what the reader does: a step of the search, or a fork, an end or a word for
one beam. Each is carried out completely or not at all. To take one back, the moves
before it are played again on a new manager: it decides the same, every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from blockmgr import BlockManager
from blockmgr.errors import InvalidRequest
from blockmgr.events import Event, Snapshot
from figures.beams.model import PROMPT, likely, log_probability
from figures.beams.rules import MOST_PROMPT, Move, NotPossible, check, no_room
from figures.theme import COLOURS
from figures.tokeniser import Words

NAMES = tuple("ABCDEFGHIJKLMN")
"""Beams are called so in turn: each colour plain, then each with a stripe."""


class Node(NamedTuple):
    """One token of the tree. `depth` is its position in each sequence that has it."""

    number: int
    parent: int | None
    word: str
    depth: int


class Beam(NamedTuple):
    """A living hypothesis: where it stands in the tree, and its log-probability."""

    node: int
    score: float


class Candidate(NamedTuple):
    """A beam with one more word, as the model sees it."""

    score: float
    parent: str
    word: str


class Search:
    """The tree of hypotheses, and the manager that holds the blocks of the living.

    `events` are those of the latest move and `before` is the state it met; `kept` are
    the candidates that a step chose, by the name of the beam that carries each.
    """

    def __init__(
        self, prompt: str = PROMPT, num_blocks: int = 16, block_size: int = 4
    ) -> None:
        self.prompt = prompt.split()
        self.num_blocks, self.block_size = num_blocks, block_size
        if not 1 <= len(self.prompt) <= MOST_PROMPT:
            raise InvalidRequest(
                f"the prompt has 1 to {MOST_PROMPT} words here; got {prompt!r:.80}"
            )
        self.moves: list[Move] = []
        self._restart()

    def _restart(self) -> None:
        self.words = Words()
        self.manager = BlockManager(
            self.num_blocks, self.block_size, enable_caching=False, record=True
        )
        answer = self.manager.allocate(
            NAMES[0], self.words.encode(" ".join(self.prompt))
        )
        if not answer:
            raise InvalidRequest(f"{self.num_blocks} blocks can't hold the prompt")
        self.nodes = [Node(0, None, self.prompt[-1], len(self.prompt) - 1)]
        self.beams = {NAMES[0]: Beam(0, 0.0)}
        self.copies = 0
        self.kept: dict[str, Candidate] = {}
        self._turn = 1
        self.before, self._start = self.manager.snapshot(), 0

    # --- moves ------------------------------------------------------------------------

    def do(self, move: Move) -> None:
        """Carry the move out. Raises `NotPossible`, and has then changed nothing."""
        check(self, move)
        try:
            self._carry_out(move)
        except NotPossible:
            self._replay(self.moves)
            raise
        self.moves.append(move)

    def undo(self) -> None:
        """Take the latest move back; without one, do nothing."""
        self._replay(self.moves[:-1])

    def reset(self) -> None:
        """Back to the prompt."""
        self._replay([])

    def _replay(self, moves: list[Move]) -> None:
        self._restart()
        for move in moves:
            self._carry_out(move)
        self.moves = list(moves)

    # --- carrying them out ------------------------------------------------------------

    def _carry_out(self, move: Move) -> None:
        assert self.manager.log is not None
        self.before, self._start = self.manager.snapshot(), len(self.manager.log)
        self.kept = {}
        if move.op == "step":
            self._step(move.width)
        elif move.op == "fork":
            self._fork(move.beam)
        elif move.op == "prune":
            self._prune(move.beam)
        else:
            self._give(move.beam, move.word)

    def candidates(self) -> list[Candidate]:
        """Every living beam with every word that may follow, the best first."""
        found = [
            Candidate(
                beam.score + log_probability(self.word_of(name), word), name, word
            )
            for name, beam in self.beams.items()
            for word in likely(self.word_of(name))
        ]
        return sorted(found, key=lambda one: -one.score)

    def _step(self, width: int) -> None:
        """Keep the best: fork the winners, free the losers, then let all write. In this
        order, no block is copied that only losers share."""
        best = self.candidates()[:width]
        heirs: dict[str, Candidate] = {}
        for one in best:
            name = one.parent if one.parent not in heirs else self._fork(one.parent)
            heirs[name] = one
        for name in [name for name in self.beams if name not in heirs]:
            self._prune(name)
        for name, one in heirs.items():
            self._give(name, one.word)
        self.kept = heirs

    def _fork(self, parent: str) -> str:
        child = self._next_name()
        self.manager.fork(parent, child)
        self.beams[child] = self.beams[parent]
        return child

    def _next_name(self) -> str:
        """The next name in turn, best one whose colour no living beam has."""
        turns = [*NAMES[self._turn :], *NAMES[: self._turn]]
        free = [name for name in turns if name not in self.beams]
        used = {_colour(name) for name in self.beams}
        name = next((one for one in free if _colour(one) not in used), free[0])
        self._turn = NAMES.index(name) + 1
        return name

    def _prune(self, name: str) -> None:
        self.manager.free(name)
        del self.beams[name]

    def _give(self, name: str, word: str) -> None:
        answer = self.manager.append(name, self.words.encode(word))
        if not answer:
            raise NotPossible(no_room(name, word, answer))
        self.copies += len(answer.copies)
        beam, depth = self.beams[name], self.nodes[self.beams[name].node].depth
        score = beam.score + log_probability(self.word_of(name), word)
        self.nodes.append(Node(len(self.nodes), beam.node, word, depth + 1))
        self.beams[name] = Beam(len(self.nodes) - 1, score)

    # --- looking in -------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """What the manager recorded in the latest move, or at the start."""
        assert self.manager.log is not None
        return self.manager.log.events[self._start :]

    @property
    def state(self) -> Snapshot:
        """The manager's state now."""
        return self.manager.snapshot()

    def word_of(self, name: str) -> str:
        """The last word of a living beam."""
        return self.nodes[self.beams[name].node].word

    def length(self, name: str) -> int:
        """Words of a living beam after the prompt."""
        return self.nodes[self.beams[name].node].depth + 1 - len(self.prompt)

    def path(self, node: int) -> Iterator[Node]:
        """A node and all before it, up to the prompt."""
        at: int | None = node
        while at is not None:
            yield self.nodes[at]
            at = self.nodes[at].parent

    @property
    def blocks_alone(self) -> int:
        """Blocks that the living beams would hold if they shared none."""
        return sum(len(self.manager.block_table(name)) for name in self.beams)


def _colour(name: str) -> int:
    return NAMES.index(name) % len(COLOURS)
