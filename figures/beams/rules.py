"""What can be asked of a beam search, and what is too much for its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from blockmgr.answers import Allocation
from blockmgr.errors import BlockManagerError
from figures.words import isolate, plural

if TYPE_CHECKING:
    from figures.beams.search import Search

MOST_BEAMS = 6
MOST_PROMPT = 6
MOST_WORDS = 10
"""What the picture has room for: living beams, words of the prompt and after it."""

MOST_MOVES = 60
LONGEST_WORD = 16


class NotPossible(BlockManagerError):
    """A move that can't be made. The message says why, and what can be done."""


class Move(NamedTuple):
    """What the reader asked for: `op` is step, fork, prune or give."""

    op: str
    beam: str = ""
    word: str = ""
    width: int = 0


def check(search: Search, move: Move) -> None:
    """Raise `NotPossible` if it is plain beforehand that the move can't be made."""
    if len(search.moves) >= MOST_MOVES:
        raise NotPossible(f"{MOST_MOVES} moves are enough: reset to begin again.")
    if move.op != "step" and move.beam not in search.beams:
        raise NotPossible(f"No living beam is called {isolate(move.beam)}.")
    if move.op == "fork" and len(search.beams) >= MOST_BEAMS:
        raise NotPossible(
            f"{MOST_BEAMS} living beams are the most that this picture has room for: "
            "prune one first."
        )
    if move.op == "prune" and len(search.beams) == 1:
        raise NotPossible(
            f"{move.beam} is the last beam: without it there is nothing left to "
            "search. Reset begins again."
        )
    if move.op == "give":
        _check_word(move.word)
    _check_lengths(search, move)


def _check_lengths(search: Search, move: Move) -> None:
    grows = {"step": list(search.beams), "give": [move.beam]}.get(move.op, [])
    full = [name for name in grows if search.length(name) >= MOST_WORDS]
    if full:
        raise NotPossible(
            f"{full[0]} has {MOST_WORDS} words after the prompt, the most that this "
            "picture has room for: prune it, undo, or reset."
        )


def _check_word(word: str) -> None:
    if not word:
        raise NotPossible("Type a word first: a beam grows by one token at a time.")
    if len(word.split()) > 1:
        many = plural(len(word.split()), "word")
        raise NotPossible(f"One token at a time: that is {many}.")
    if len(word) > LONGEST_WORD:
        raise NotPossible(
            f"A word has at most {LONGEST_WORD} letters here; that one is longer."
        )


def no_room(name: str, word: str, answer: Allocation) -> str:
    """Why an append was refused, and what helps."""
    free = plural(answer.free, "block")
    are = "is" if answer.free == 1 else "are"
    return (
        f"Out of blocks: for “{isolate(word)}”, {name} needs "
        f"{plural(answer.needed, 'block')} and {free} {are} free ({answer.status}). "
        "So nothing was done: prune a beam, or undo."
    )
