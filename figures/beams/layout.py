"""Where the tokens of a beam tree stand: a row for each end, a column for each token.

Ends are living beams, and words that nobody went on from. A word stands in the row of
the first end behind it, so that the oldest hypothesis is a straight line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from figures.beams.rules import MOST_WORDS
from figures.beams.search import NAMES, Node, Search
from figures.layout import MARGIN, WIDTH

MOST_ROWS = 10
"""Of more ends than this, the branches that died first are left out."""

TOP = 34
PITCH = 32
HEIGHT = 26
PROMPT_WIDTH = 112
TAG_WIDTH = 96
GAP = 12
FIRST = MARGIN + PROMPT_WIDTH + 2 * GAP
TAGS = WIDTH - MARGIN - TAG_WIDTH
"""Left edges: of the first column of words, and of the beams' tags."""


class Spot(NamedTuple):
    """A word's place, and who is behind it: the living beams that have it."""

    node: Node
    row: int
    beams: tuple[str, ...]


class Tree(NamedTuple):
    """The words that are drawn, the row of each living beam, and how many ends."""

    spots: dict[int, Spot]
    beams: dict[str, int]
    rows: int
    hidden: int
    """Ends that died long ago and are not drawn."""


def tree_of(search: Search) -> Tree:
    """Lay the whole search out."""
    users: dict[int, list[str]] = defaultdict(list)
    for name in sorted(search.beams, key=NAMES.index):
        for node in search.path(search.beams[name].node):
            users[node.number].append(name)
    parents = {node.parent for node in search.nodes}
    dead = [
        node.number
        for node in search.nodes
        if node.number not in parents and not users[node.number]
    ]
    room = max(MOST_ROWS - len(search.beams), 0)
    kept = dead[max(len(dead) - room, 0) :]
    drawn = {node.number for end in kept for node in search.path(end)} | {
        index for index, names in users.items() if names
    }
    return _rows(search, drawn, users, len(dead) - len(kept))


def _rows(
    search: Search, drawn: set[int], users: dict[int, list[str]], hidden: int
) -> Tree:
    children: dict[int | None, list[Node]] = defaultdict(list)
    for node in search.nodes:
        if node.number in drawn:
            children[node.parent].append(node)
    spots: dict[int, Spot] = {}
    beams: dict[str, int] = {}
    free = 0  # the first row that nothing stands in
    todo: list[Node | str] = [search.nodes[0]]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            beams[one] = free
            free += 1
            continue
        spots[one.number] = Spot(one, free, tuple(users[one.number]))
        here = [name for name, beam in search.beams.items() if beam.node == one.number]
        lanes: list[Node | str] = [*here, *children[one.number]]
        todo += reversed(lanes)
        free += not lanes  # a dead end takes a row of its own
    return Tree(spots, beams, free, hidden)


def column(position: int, search: Search) -> float:
    """Left edge of the words at this position."""
    return FIRST + (position - len(search.prompt)) * step_width()


def step_width() -> float:
    """From one column to the next."""
    return (TAGS - FIRST) / MOST_WORDS


def row(index: int) -> float:
    """Top edge of this row."""
    return TOP + index * PITCH


def block_starts(search: Search) -> Iterator[tuple[int, int]]:
    """(position, logical block) wherever a block begins among the columns."""
    first = len(search.prompt)
    for position in range(first, first + MOST_WORDS):
        if position % search.block_size == 0:
            yield position, position // search.block_size
