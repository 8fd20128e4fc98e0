"""Exercises of lesson 05, sharing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from blockmgr import BlockManager
from blockmgr.errors import BlockManagerError
from classroom.exercise import Exercise
from classroom.same import same, shown
from classroom.shrink import Case

SIZE = 4
"""Tokens in a block, in all exercises of this lesson."""


@Exercise(
    "05-counts-by-hand",
    title="Three counts by hand",
    difficulty=1,
    minutes=5,
    hints=(
        "Write the three tables down. Which of them does each line change?",
        "`B` writes while block 2 has three users: its table becomes 1, 3. Then one "
        "of the two who still name block 2 leaves.",
    ),
    why="Block 1 is in the tables of A and B, block 2 only in A's, block 3 in B's.",
)
def counts_by_hand() -> list[int]:
    """Ask the manager."""
    manager = BlockManager(num_blocks=8, block_size=SIZE, enable_caching=False)
    manager.allocate("A", range(6))
    manager.fork("A", "B")
    manager.fork("B", "C")
    manager.append("B", [7])
    manager.free("C")
    return list(manager.snapshot().ref_cnt[1:4])


# --- copy-on-write --------------------------------------------------------------------


def _manager_of(table: Sequence[int], place: int, ref_cnt: Sequence[int]) -> Any:
    """A real manager in that state: `A` is about to write into its last block."""
    manager = BlockManager(len(ref_cnt), SIZE, enable_caching=False)
    manager.allocate("A", range(place * SIZE + 2))
    for number in range(ref_cnt[table[place]] - 1):
        manager.fork("A", f"fork {number}")
    return manager


def _state(manager: BlockManager) -> tuple[list[int], list[int], list[int]]:
    snapshot = manager.snapshot()
    table = list(manager.block_table("A"))
    return table, list(snapshot.ref_cnt), list(snapshot.free_queue)


def _write_cases(rng: random.Random) -> Case:
    place, users = rng.randrange(4), rng.randint(1, 4)
    num_blocks = place + 2 + rng.randint(1, 5)
    counts = [0] + [users] * (place + 1) + [0] * (num_blocks - place - 2)
    manager = _manager_of(range(1, place + 2), place, counts)
    table, ref_cnt, free = _state(manager)
    return table, place, ref_cnt, free


def _run_write(
    attempt: Callable[..., Any],
    table: list[int],
    place: int,
    ref_cnt: list[int],
    free: list[int],
) -> tuple[Any, ...]:
    return attempt(table, place, ref_cnt, free), table, ref_cnt, free


def _right(table: Sequence[int], place: int, ref_cnt: Sequence[int]) -> tuple[Any, ...]:
    """What the real manager copies, and its table, counts and free blocks after."""
    manager = _manager_of(table, place, ref_cnt)
    copies = manager.append("A", [7]).copies
    return (copies[0] if copies else None, *_state(manager))


def _judge_write(
    table: list[int], place: int, ref_cnt: list[int], free: list[int], got: Any
) -> str | None:
    names = ("the pair returned", "`table`", "`ref_cnt`", "`free`")
    for name, right, yours in zip(
        names, _right(table, place, ref_cnt), got, strict=True
    ):
        if not same(right, yours):
            return f"After it, {name} should be `{right}`, and is `{shown(yours)}`."
    return None


def _makes_sense(
    table: list[int], place: int, ref_cnt: list[int], free: list[int]
) -> bool:
    manager = _manager_of(table, place, ref_cnt)
    return bool(free) and _state(manager) == (table, ref_cnt, free)


@Exercise(
    "05-copy-on-write",
    title="Copy on write",
    difficulty=2,
    minutes=12,
    hints=(
        "One count decides: `ref_cnt[table[place]]`. If it is 1, return None and "
        "change nothing.",
        "Else take `free.pop(0)`, give it the count 1, take 1 from the old block's "
        "count, put the new one into the table, and return `(old, new)`.",
    ),
    why="Your four lists and counts ended as the manager's did, in every case.",
    cases=_write_cases,
    examples=[([1, 2], 1, [0, 2, 2, 0, 0], [3, 4]), ([1], 0, [0, 1, 0], [2])],
    run=_run_write,
    valid=_makes_sense,
    judge=_judge_write,
)
def before_writing(
    table: list[int], place: int, ref_cnt: list[int], free: list[int]
) -> tuple[int, int] | None:
    """Do what the real manager does in this state."""
    pair, table[:], ref_cnt[:], free[:] = _right(table, place, ref_cnt)
    return pair  # type: ignore[no-any-return]


# --- break it -------------------------------------------------------------------------


class Forgetful(BlockManager):
    """A manager whose fork copies the table and forgets to count."""

    def fork(self, seq_id: str, child_id: str) -> None:
        """Share the blocks, and tell no block of it."""
        super().fork(seq_id, child_id)
        for block_id in self.block_table(child_id):
            self.pool.blocks[block_id].ref_cnt -= 1


_CALLS: dict[str, tuple[type, ...]] = {
    "allocate": (str, int),
    "append": (str, int),
    "fork": (str, str),
    "free": (str,),
}
MOST_CALLS, MOST_TOKENS = 12, 24


def _judge_history(got: object) -> str | None:
    if not isinstance(got, list | tuple) or not 1 <= len(got) <= MOST_CALLS:
        return f"Give a list of 1 to {MOST_CALLS} calls."
    for call in got:
        problem = _call_problem(call)
        if problem:
            return problem
    return _harm(list(got))


def _call_problem(call: Any) -> str | None:
    if not isinstance(call, list | tuple) or not call or call[0] not in _CALLS:
        return f"`{shown(call)}` is no call: begin with allocate, append, fork or free."
    kinds = _CALLS[call[0]]
    if tuple(map(type, call[1:])) != kinds:
        return f"`{shown(call)}` does not have the form of the examples."
    if call[0] in ("allocate", "append") and not 1 <= call[2] <= MOST_TOKENS:
        return f"Between 1 and {MOST_TOKENS} tokens, please: `{shown(call)}`."
    return None


def _harm(calls: list[Any]) -> str | None:
    """None if two sequences that have nothing to do with each other share a block."""
    manager = Forgetful(num_blocks=16, block_size=SIZE, enable_caching=False)
    family: dict[str, str] = {}
    for number, (op, name, *rest) in enumerate(calls, start=1):
        try:
            if op in ("allocate", "append"):
                getattr(manager, op)(name, range(rest[0]))
            else:
                getattr(manager, op)(name, *rest)
        except BlockManagerError as error:
            text = str(error)
            return f"Call {number} is refused, so the bug is not silent: {text}"
        if op == "allocate":
            family[name] = name
        elif op == "fork":
            family[rest[0]] = family[name]
        users = manager.snapshot().sequences
        tables = {n: set(view.block_table) for n, view in users.items()}
        for one, other in ((a, b) for a in tables for b in tables):
            if family.get(one) != family.get(other) and tables[one] & tables[other]:
                return None
    return (
        "After these calls nobody has a block of a stranger. When does a block that "
        "somebody still reads go back to the queue?"
    )


@Exercise(
    "05-forgotten-count",
    title="Break it: a fork that does not count",
    difficulty=2,
    minutes=10,
    hints=(
        "Which call takes 1 from a count that is too low already?",
        "Fork, then free the parent: its blocks go back to the queue while the fork "
        "still reads them. Then somebody new arrives.",
    ),
    why="The block went back to the queue while a table still named it, and a stranger "
    "got it. Nobody was told; only comparing counts with tables shows it.",
    judge=_judge_history,
)
def history() -> list[tuple[str, ...] | tuple[str, str, int]]:
    """The shortest of many."""
    return [
        ("allocate", "A", 6),
        ("fork", "A", "B"),
        ("free", "A"),
        ("allocate", "C", 6),
    ]


# --- the order of a step --------------------------------------------------------------

STEP = ("fork A E", "append A", "append E", "append C", "free B", "free D")
FEWEST = 1


def _copies_in(order: Sequence[str]) -> int | str:
    """Blocks copied by these calls, or what is wrong with their order."""
    manager = BlockManager(num_blocks=16, block_size=SIZE, enable_caching=False)
    for first, second in (("A", "B"), ("C", "D")):
        manager.allocate(first, range(6))
        manager.fork(first, second)
    copies = 0
    for call in order:
        op, *names = call.split()
        if op == "fork" and len(manager.snapshot().sequences["A"].token_ids) > 6:
            return "E would get A's new word too: fork before A writes."
        if op == "append" and names[0] not in manager.sequences:
            return "E can't write before it was forked."
        if op == "append":
            copies += len(manager.append(names[0], [7]).copies)
        else:
            getattr(manager, op)(*names)
    return copies


def _judge_order(got: object) -> str | None:
    if not isinstance(got, list | tuple) or sorted(map(str, got)) != sorted(STEP):
        return f"Give all six calls, each once: {', '.join(STEP)}."
    copies = _copies_in([str(call) for call in got])
    if isinstance(copies, str):
        return copies
    if copies > FEWEST:
        return f"That order copies {copies} blocks. It can be done with fewer."
    return None


@Exercise(
    "05-fewest-copies",
    title="A step with the fewest copies",
    difficulty=2,
    minutes=8,
    hints=(
        "A block is copied when it has more than one user at the moment of a write.",
        "The losers are users too. What if they leave before anybody writes?",
    ),
    why="With B and D gone, block 2 has two users, A and E: the first of them to write "
    "needs a copy. C is alone with its block and needs none.",
    judge=_judge_order,
)
def best_order() -> list[str]:
    """Losers first, then the fork, then the writes."""
    return ["free B", "free D", "fork A E", "append A", "append E", "append C"]
