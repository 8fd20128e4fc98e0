"""Which data structure for the free queue? Ours against four others, measured.

    .venv/bin/python -m pytest -n0 tests/benchmarks/bench_free_queue.py

Each can do the same four things in the same order (the first test shows it), so only
the time decides. Times are those of 100 operations, for one alone is too short for the
clock. `make test` doesn't run this file: its name has no `test_` in front.

What to look for: a cost that hardly grows from 1,000 to 100,000 blocks, in all three
groups (picked blocks in the middle are further apart in memory; that slows down every
kind). A `deque` searches for the block that a hit takes out of its middle. A plain
`dict` is quick until its oldest entry is wanted: it walks over the gaps that earlier
ones left in front. A linked list, which vLLM has, stays flat and comes close; the two
containers do in one call what it does in several lines.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

import pytest

from blockmgr.block import Block, FreeQueue, ids_of


class Queue(Protocol):
    """What the pool asks of its free queue. `put_head` makes `blocks[0]` the head."""

    def take(self, n: int) -> list[Block]: ...
    def put_head(self, blocks: list[Block]) -> None: ...
    def put_tail(self, blocks: list[Block]) -> None: ...
    def remove(self, block: Block) -> None: ...


class OneDeque:
    """Everything in one deque: quick at both ends, slow in the middle."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.queue = deque(blocks)

    def take(self, n: int) -> list[Block]:
        return [self.queue.popleft() for _ in range(n)]

    def put_head(self, blocks: list[Block]) -> None:
        self.queue.extendleft(reversed(blocks))

    def put_tail(self, blocks: list[Block]) -> None:
        self.queue.extend(blocks)

    def remove(self, block: Block) -> None:
        self.queue.remove(block)


class OneOrderedDict:
    """Everything in one OrderedDict, which can also put a key in front."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.queue = OrderedDict.fromkeys(blocks)

    def take(self, n: int) -> list[Block]:
        return [self.queue.popitem(last=False)[0] for _ in range(n)]

    def put_head(self, blocks: list[Block]) -> None:
        for block in reversed(blocks):
            self.queue[block] = None
            self.queue.move_to_end(block, last=False)

    def put_tail(self, blocks: list[Block]) -> None:
        self.queue.update(dict.fromkeys(blocks))

    def remove(self, block: Block) -> None:
        del self.queue[block]


class StackAndDict:
    """As ours, with a plain dict for the remembered blocks."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.stack = list(blocks)[::-1]
        self.line: dict[Block, None] = {}

    def take(self, n: int) -> list[Block]:
        return [self._take_one() for _ in range(n)]

    def _take_one(self) -> Block:
        if self.stack:
            return self.stack.pop()
        block = next(iter(self.line))
        del self.line[block]
        return block

    def put_head(self, blocks: list[Block]) -> None:
        self.stack.extend(reversed(blocks))

    def put_tail(self, blocks: list[Block]) -> None:
        self.line.update(dict.fromkeys(blocks))

    def remove(self, block: Block) -> None:
        del self.line[block]


class Link:
    """A place in a linked list."""

    __slots__ = ("after", "before", "block")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.before = self.after = self

    def insert_before(self, other: Link) -> None:
        self.before, self.after = other.before, other
        self.before.after = other.before = self

    def cut(self) -> None:
        self.before.after, self.after.before = self.after, self.before


class LinkedList:
    """A ring of links, one for each block, made once; the end mark closes it."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.end = Link(Block(0))
        self.links = {block: Link(block) for block in blocks}
        for link in self.links.values():
            link.insert_before(self.end)

    def take(self, n: int) -> list[Block]:
        return [self._take_one() for _ in range(n)]

    def _take_one(self) -> Block:
        first = self.end.after
        first.cut()
        return first.block

    def put_head(self, blocks: list[Block]) -> None:
        for block in reversed(blocks):
            self.links[block].insert_before(self.end.after)

    def put_tail(self, blocks: list[Block]) -> None:
        for block in blocks:
            self.links[block].insert_before(self.end)

    def remove(self, block: Block) -> None:
        self.links[block].cut()


KINDS: dict[str, Callable[[Iterable[Block]], Queue]] = {
    "stack and OrderedDict (ours)": FreeQueue,
    "stack and dict": StackAndDict,
    "one OrderedDict": OneOrderedDict,
    "one deque": OneDeque,
    "linked list": LinkedList,
}
SIZES = (1_000, 100_000)
TIMES = range(100)

kinds = pytest.mark.parametrize("kind", KINDS)
sizes = pytest.mark.parametrize("size", SIZES, ids="{:,} blocks".format)


def remembered(kind: str, size: int) -> tuple[Queue, list[Block]]:
    """A queue in which all blocks stand in line, and these blocks in that order."""
    blocks = [Block(i) for i in range(1, size + 1)]
    queue = KINDS[kind](blocks)
    queue.put_tail(queue.take(size))
    return queue, blocks


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "ours" not in kind])
def test_all_kinds_keep_the_same_order(kind: str) -> None:
    random = Random(7)
    queue = KINDS[kind](Block(i) for i in range(1, 41))
    own = FreeQueue(Block(i) for i in range(1, 41))
    in_use: list[tuple[Block, Block]] = []
    line: list[tuple[Block, Block]] = []
    for _ in range(2_000):
        number = random.randrange(6)
        if number > 40 - len(in_use):
            number = 0
        pairs = list(zip(queue.take(number), own.take(number), strict=True))
        assert ids_of(a for a, _ in pairs) == ids_of(b for _, b in pairs)
        gone = {a for a, _ in pairs}
        line = [pair for pair in line if pair[0] not in gone]
        in_use += pairs
        if line and random.random() < 0.5:
            in_use.append(line.pop(random.randrange(len(line))))
            queue.remove(in_use[-1][0])
            own.remove(in_use[-1][1])
        random.shuffle(in_use)
        back, in_use = in_use[:3], in_use[3:]
        if random.random() < 0.5:
            queue.put_head([a for a, _ in back])
            own.put_head([b for _, b in back])
        else:
            queue.put_tail([a for a, _ in back])
            own.put_tail([b for _, b in back])
            line += back


@sizes
@kinds
@pytest.mark.benchmark(group="take a blank block and put it back", max_time=0.2)
def test_blank(benchmark: Any, kind: str, size: int) -> None:
    queue = KINDS[kind](Block(i) for i in range(1, size + 1))

    def take_and_put_back() -> None:
        for _ in TIMES:
            queue.put_head(queue.take(1))

    benchmark(take_and_put_back)
    assert ids_of(queue.take(size)) == tuple(range(1, size + 1))


@sizes
@kinds
@pytest.mark.benchmark(group="overwrite the oldest remembered block", max_time=0.2)
def test_oldest(benchmark: Any, kind: str, size: int) -> None:
    queue, blocks = remembered(kind, size)

    def overwrite() -> None:
        for _ in TIMES:
            queue.put_tail(queue.take(1))

    benchmark(overwrite)
    first, *others = queue.take(size)
    assert others[: size - first.block_id] == blocks[first.block_id :]


@sizes
@kinds
@pytest.mark.benchmark(group="find a remembered block in the middle", max_time=0.2)
def test_middle(benchmark: Any, kind: str, size: int) -> None:
    queue, blocks = remembered(kind, size)
    random = Random(7)

    def find_and_free() -> None:
        for block in random.choices(blocks, k=len(TIMES)):
            queue.remove(block)
            queue.put_tail([block])

    benchmark(find_and_free)
    assert set(queue.take(size)) == set(blocks)
