"""Exercises of lesson 04, how to allocate."""

from __future__ import annotations

import random
from collections.abc import Callable

from blockmgr import BlockManager
from blockmgr.contest import Job, Lane
from blockmgr.errors import InvalidRequest
from blockmgr.policy import Batched, OnDemand, PolicyAllocator, PreAllocate
from blockmgr.profile import load_profile
from classroom.exercise import Exercise
from classroom.shrink import Case

Lookahead = Callable[[int, int, int], int]
"""What a policy is asked: tokens, slots and block size; it answers with slots."""


def _grown(policy: OnDemand, prompt: int, total: int, block_size: int) -> list[int]:
    """Calls, blocks taken and empty slots of one sequence that grew to `total`."""
    blocks = 4 * -(-total // block_size) + 64
    manager = BlockManager(blocks, block_size, enable_caching=False)
    allocator = PolicyAllocator(manager, policy)
    allocator.allocate("r0", [0] * prompt)
    for _ in range(total - prompt):
        allocator.append("r0", [0])
    return list(allocator.counters()[:3])


@Exercise(
    "04-bill-by-hand",
    title="The bill of a batch",
    difficulty=1,
    minutes=5,
    hints=(
        "10 tokens need 3 blocks, and the first call takes 3 more: 6 blocks, 24 slots.",
        "The next call comes with token 25 and takes 4 blocks, the one after it with "
        "token 41.",
    ),
    why="Calls for the tokens 10, 25 and 41; 6 + 4 + 4 blocks; 56 slots for 42 tokens.",
)
def bill_by_hand() -> list[int]:
    """Let the real allocator do it."""
    return _grown(Batched(4), 10, 42, 4)


def _lookahead_cases(rng: random.Random) -> Case:
    block_size = rng.choice([1, 2, 4, 8, 16])
    num_slots = block_size * rng.choice([0, 0, rng.randint(1, 8)])
    num_tokens = max(1, num_slots + rng.randint(-block_size, 2 * block_size))
    return num_tokens, num_slots, block_size, rng.randint(1, 6)


@Exercise(
    "04-lookahead",
    title="A policy in a few lines",
    difficulty=2,
    minutes=8,
    hints=(
        "While the tokens still fit into the slots there is nothing to ask for.",
        "The manager takes the blocks for the tokens anyway. You ask for what is "
        "missing to a batch of `k` blocks, counted in slots.",
    ),
    why="Nothing while there is room, `k - 1` blocks more when there is not. With "
    "`k = 1` this is on demand.",
    cases=_lookahead_cases,
    examples=[(9, 8, 4, 3), (8, 8, 4, 3)],
    valid=lambda num_tokens, num_slots, block_size, k: (
        num_tokens > 0 and block_size > 0 and num_slots % block_size == 0
    ),
)
def num_lookahead(num_tokens: int, num_slots: int, block_size: int, k: int) -> int:
    """The policy of `blockmgr.policy`."""
    return Batched(k).num_lookahead(num_tokens, num_slots, block_size)


NUM_BLOCKS, BLOCK_SIZE, AHEAD = 13, 4, 24  # the race's
MOST_JOBS = 4  # more, all of them long, would have no room in the race's picture


def _ends(jobs: list[Job], policy: OnDemand) -> dict[str, int]:
    """In which step each job got its last token."""
    lane = Lane(jobs, policy, NUM_BLOCKS, BLOCK_SIZE)
    while not lane.finished:
        lane.step()
    return lane.done


def _judge_later(got: object) -> str | None:
    if not isinstance(got, list | tuple) or not 1 <= len(got) <= MOST_JOBS:
        most = f"Give a list of 1 to {MOST_JOBS} jobs"
        return f"{most}, each as (tokens of prompt, of output)."
    if not all(_is_job(pair) for pair in got):
        return (
            f"Each job is a pair of whole numbers, (prompt, output): at least 1 and "
            f"at least 0, together at most {AHEAD}."
        )
    jobs = [Job("ABCD"[i], 1, *pair) for i, pair in enumerate(got)]
    ahead, demand = _ends(jobs, PreAllocate(AHEAD)), _ends(jobs, OnDemand())
    if any(demand[name] > ahead[name] for name in ahead):
        return None
    told = ", ".join(f"{n} in step {demand[n]} and {ahead[n]}" for n in sorted(ahead))
    return f"Not yet. On demand and ahead of time, the last token came: {told}."


def _is_job(pair: object) -> bool:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    if not all(type(number) is int for number in pair):
        return False
    prompt, output = pair
    return bool(prompt >= 1 and output >= 0 and prompt + output <= AHEAD)


@Exercise(
    "04-later-on-demand",
    title="Later on demand",
    difficulty=2,
    minutes=10,
    hints=(
        "On demand, a job that is inside can stall. When does that happen?",
        "Let several jobs in that are small at first and all grow to nearly 24 tokens: "
        "together they then need more than 12 blocks.",
    ),
    why="On demand promises nothing beyond the next block. Whoever was let in with few "
    "tokens may later find the pool full, and wait inside, where room for the longest "
    "length would have been kept for it.",
    judge=_judge_later,
)
def later_on_demand() -> list[tuple[int, int]]:
    """Three jobs that grow to 24 tokens: A stalls for a step."""
    return [(4, 20), (4, 20), (4, 20)]


# --- the target to beat ---------------------------------------------------------------

REQUESTS = 16
TO_BEAT = 22, 610
"""The score of `Batched(4)` on these requests. (A test computes it.)"""


class _Own(OnDemand):
    """A learner's function as a policy."""

    def __init__(self, lookahead: Lookahead) -> None:
        self._lookahead = lookahead

    def num_lookahead(self, num_tokens: int, num_slots: int, block_size: int) -> int:
        return self._lookahead(num_tokens, num_slots, block_size)


def score(lookahead: Lookahead) -> list[int]:
    """Calls that take blocks, and slots given back unused, over Alpaca requests that
    the real allocator serves one after another."""
    manager = BlockManager(257, 16, enable_caching=False)
    allocator = PolicyAllocator(manager, _Own(lookahead))
    for drawn in load_profile("alpaca_lengths").draw(REQUESTS, seed=4):
        allocator.allocate("it", [0] * drawn.prompt_tokens)
        for _ in range(drawn.output_tokens):
            allocator.append("it", [0])
        allocator.free("it")
    told = allocator.counters()
    return [told.calls, told.slots_given_back]


def _run_own(attempt: Lookahead) -> list[int] | str | None:
    """The score; None for a function that returns nothing yet, and a sentence for one
    that returns what is no number of slots."""
    try:
        return None if attempt(5, 0, 16) is None else score(attempt)
    except InvalidRequest as error:
        return f"Give a number of slots: {error}."


def _judge_own(got: list[int] | str | None) -> str | None:
    if got is None:
        return "The function returns nothing yet."
    if isinstance(got, str):
        return got
    calls, back = TO_BEAT
    if got[0] < calls and got[1] <= back:
        return None
    return (
        f"Yours: {got[0]} calls and {got[1]:,} slots given back. To beat: fewer than "
        f"{calls} calls with at most {back:,} slots."
    )


@Exercise(
    "04-own-policy",
    title="Beat batches of four",
    difficulty=3,
    minutes=15,
    hints=(
        "A batch need not have the same size each time. `num_slots == 0` tells the "
        "first call from the later ones.",
        "Half of the answers are short. Whose reserve is thrown away, then: that of "
        "the first call or of the later ones? Try 3 blocks first.",
    ),
    why="It has fewer calls, and no more of its slots came back unused.",
    cases=lambda rng: (),
    rounds=1,
    judge=_judge_own,
    run=_run_own,
    steps=4_000_000,
)
def own_lookahead(num_tokens: int = 1, num_slots: int = 0, block_size: int = 16) -> int:
    """A small batch at first, larger ones for those that go on."""
    if num_tokens <= num_slots:
        return 0
    return (2 if num_slots == 0 else 5) * block_size
