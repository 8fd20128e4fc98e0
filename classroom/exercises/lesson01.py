"""Exercises of lesson 01, why blocks."""

from __future__ import annotations

import random
from itertools import islice

from blockmgr.contiguous import BuddyMemory, power_of_two
from blockmgr.serving import Contiguous, serve
from blockmgr.waste import account
from blockmgr.workloads import Lengths
from classroom.exercise import Exercise
from classroom.same import shown
from classroom.shrink import Case


def _kinds(
    prompt: int, output: int, generated: int, reserved: int
) -> tuple[int, int, int, int]:
    """Serve the request in a memory that is just the piece it gets, and look."""
    memory = Contiguous(power_of_two(reserved), lambda *_: reserved)
    moments = serve([Lengths(prompt, output)], memory)
    moment = next(islice(moments, generated, None))
    used, later, internal, external = account(moment.running, memory.num_slots)
    return used, later, internal, external


@Exercise(
    "01-account-by-hand",
    title="Four numbers by hand",
    difficulty=1,
    minutes=5,
    hints=(
        "The output is rounded up to 32, so 5 + 32 slots are reserved. The piece is a "
        "power of two.",
        "12 tokens are there, and 13 more will come. What is promised beyond these 25 "
        "is internal, what the allocator added is external.",
    ),
    why="12 + 13 + 12 + 27 are the 64 slots of its piece; 12 of them hold a token.",
)
def account_by_hand() -> list[int]:
    """Let the allocator and the server do it."""
    return list(_kinds(5, 20, 7, 5 + power_of_two(20)))


def _kinds_cases(rng: random.Random) -> Case:
    prompt, output = rng.randint(1, 40), rng.randint(1, 40)
    reserved = prompt + output + rng.choice([0, 0, 1, rng.randint(0, 60)])
    return prompt, output, rng.randint(0, output), reserved


@Exercise(
    "01-four-kinds",
    title="What is each slot good for?",
    difficulty=2,
    minutes=8,
    hints=(
        "Used is what is there: the prompt and what was generated. Reserved is the "
        "rest of the output.",
        "Internal is what was promised beyond `prompt + output`; external is "
        "`power_of_two(reserved) - reserved`.",
    ),
    why="The four always add up to the piece, whatever the request does.",
    cases=_kinds_cases,
    examples=[(5, 20, 7, 37), (1, 1, 0, 2), (3, 5, 5, 8)],
    valid=lambda prompt, output, generated, reserved: (
        min(prompt, output) >= 1 and 0 <= generated <= output
    ),
)
def kinds(
    prompt: int, output: int, generated: int, reserved: int
) -> tuple[int, int, int, int]:
    """Ask the real allocator and server."""
    return _kinds(prompt, output, generated, reserved)


def _judge_oracle(got: object) -> str | None:
    if not isinstance(got, list | tuple) or len(got) != 2:
        return "Give two numbers: `(prompt, output)`."
    prompt, output = got
    if type(prompt) is not int or type(output) is not int or min(prompt, output) < 1:
        return "Both are whole numbers of at least 1."
    if prompt + output > 2_048:
        return f"{shown(prompt + output)} tokens are more than the model's 2,048."
    used, *_, external = _kinds(prompt, output, output, prompt + output)
    share = external / (used + external)
    if share < 0.49:
        return (
            f"At its end it fills {used:,} of {used + external:,} slots: {share:.1%} "
            "of them are empty. Find one with at least 49 %."
        )
    return None


@Exercise(
    "01-break-the-oracle",
    title="The oracle wastes half",
    difficulty=2,
    minutes=6,
    hints=(
        "The length is known, so nothing is internal. What does the allocator do with "
        "a length that is no power of two?",
        "One token more than a power of two is the worst. The larger that power, the "
        "closer to half.",
    ),
    why="One token beyond a power of two doubles the piece. Knowing the future does "
    "not help against rounding.",
    judge=_judge_oracle,
)
def oracle_case() -> tuple[int, int]:
    """65 tokens in a piece of 128 is the smallest; 1,025 is the worst."""
    return 500, 525


_SLOTS, _WANTED = 64, 16


def _whole(value: object) -> bool:
    return isinstance(value, list | tuple) and all(type(n) is int for n in value)


def _judge_blocked(got: object) -> str | None:
    if not isinstance(got, list | tuple) or len(got) != 2:
        return "Give two lists: `(sizes, leavers)`."
    sizes, leavers = got
    if not _whole(sizes) or not _whole(leavers) or len(sizes) > _SLOTS:
        return f"Both are lists of whole numbers, the first of at most {_SLOTS}."
    if any(n < 1 for n in sizes) or not set(leavers) <= set(range(len(sizes))):
        return "A size is at least 1; leavers are places in `sizes`, the first being 0."
    memory = BuddyMemory(_SLOTS)
    for n, size in enumerate(sizes):
        if memory.allocate(str(n), size) is None:
            return f"Request {n}, of {shown(size)} slots, finds no room itself."
    for n in set(leavers):
        memory.free(str(n))
    return _verdict(memory)


def _verdict(memory: BuddyMemory) -> str | None:
    free, held = memory.num_free, _SLOTS - memory.num_free
    if memory.allocate("wanted", _WANTED) is not None:
        return f"It gets a piece: {free} slots are free, and 16 of them in one piece."
    if held > _SLOTS // _WANTED:
        return f"It has to wait, with {held} slots held. It can be done with fewer."
    return None


@Exercise(
    "01-few-block-many",
    title="A few slots in the way",
    difficulty=3,
    minutes=10,
    hints=(
        "Pieces of 16 begin at 0, 16, 32 and 48. One slot that is held spoils all of "
        "such a piece.",
        "Let 64 requests of one slot come. Which 4 have to stay? All others leave.",
    ),
    why="60 of 64 slots are free and 16 can't be had: external fragmentation at its "
    "worst. With a table any 16 of the 60 would do.",
    judge=_judge_blocked,
)
def blocked() -> tuple[list[int], list[int]]:
    """One in each piece of 16 stays."""
    return [1] * 64, [n for n in range(64) if n % 16]
