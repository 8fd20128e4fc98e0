"""What becomes of each slot while a server is busy: Fig. 2 of PagedAttention, again.

`account` looks at one step of `serve` (see `serving.py`), `average` at all in which
somebody had to wait. Kwon et al., SOSP 2023, section 3.1, name what a slot can be:

- `used`: there is a token's K and V in the slot ("token states");
- `reserved`: empty now, and this request will fill it later;
- `internal`: promised to a request that will end before it gets there;
- `external`: all the rest, "external fragmentation and others": slots that nobody has,
  and those by which the allocator rounded a piece up. The paper counts these here and
  not as internal: it is known from the start that no token will ever stand there.

How this differs from the paper's experiment, whose requests and server we don't have:

- Lengths are those of first turns in the ShareGPT conversations that Sarathi-Serve
  published (Llama 2's tokenizer, outputs up to 1,024 tokens), without those longer than
  the 2,048 tokens that OPT can have. On average about 166 + 467 tokens; the paper's
  have 161 + 338 (Fig. 11).
- All requests wait from the start (first come, first served), and only steps in which
  somebody waits are counted: a memory with room to spare says nothing about waste. The
  paper's come at random times, at a rate that Fig. 2 does not tell. At two a second it
  counts 7.00, 9.81, 13.62 and 30.42 requests at a time (Fig. 13); ours are 7.0, 8.3,
  12.4 and 31.9.
- A step takes one unit of time, however much it computes, and one step is enough for
  any prompt. When the pool is full, the paged system sends the last that came back to
  the head of the queue, to be computed again (rule 12).
- How Orca rounds an output that is a power of two, or a reservation that would go
  beyond the longest length, is not told. Ours stays at that power, and at 2,048.

`SLOTS`, `LONGEST`, `BLOCK_SIZE` and the buddy allocator are the paper's; no number was
fitted to its shares. What other choices give (used, Max / Pow2 / Oracle / paged):

- ours, long requests left out: 21.4 / 25.3 / 37.9 / 96.9; other seeds, up to 0.9 more;
- long prompts cut at 2,048 tokens instead: 23.7 / 27.8 / 41.4 / 96.6;
- prompts over 1,024 and lengths under 4 left out too: 20.3 / 24.2 / 37.6 / 97.2;
- later turns as well, each with the conversation before it as its prompt (600 tokens on
  average, which is not the paper's workload): 36.6 / 42.0 / 49.9 / 95.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from blockmgr.contiguous import reserve_max, reserve_oracle, reserve_pow2
from blockmgr.errors import InvalidRequest
from blockmgr.profile import load_profile
from blockmgr.serving import Contiguous, Memory, Moment, Paged, Running, serve
from blockmgr.workloads import Lengths

SLOTS = 15_700
"""OPT-13B's K and V on one A100 with 40 GB: Table 1 of the paper (12 GB)."""

LONGEST = 2_048
"""The most tokens that OPT can have in one sequence."""

BLOCK_SIZE = 16
"""The paper's, and vLLM's default."""

PUBLISHED = {
    "Orca (Max)": (20.4, 13.3, 57.3, 8.9),
    "Orca (Pow2)": (26.8, 17.9, 13.6, 41.6),
    "Orca (Oracle)": (38.2, 25.2, 0.0, 36.6),
    "paged": (96.3, None, None, None),
}
"""System -> per cent used, reserved, internal, external: Fig. 2 of the paper, which
gives only the first for vLLM."""


class Account(NamedTuple):
    """What so many slots are good for; see the top of this module."""

    used: int
    reserved: int
    internal: int
    external: int

    def percent(self) -> tuple[float, float, float, float]:
        """The same as shares of all slots."""
        used, reserved, internal, external = (100 * n / sum(self) for n in self)
        return used, reserved, internal, external


# --- the account ----------------------------------------------------------------------


def account(running: Iterable[Running], num_slots: int) -> Account:
    """What each of `num_slots` slots is good for at this moment."""
    used = later = given = 0
    for request in running:
        used += request.tokens
        later += min(request.given, request.final) - request.tokens
        given += request.given
    return Account(used, later, given - used - later, num_slots - given)


@dataclass(frozen=True, slots=True)
class Average:
    """All accounts of the busy steps, added up. `batched` requests ran on average."""

    slots: Account
    steps: int
    batched: float


def average(moments: Iterable[Moment], num_slots: int) -> Average:
    """Add up the accounts of all steps in which somebody waited: then memory is what
    decides how many can run. Raises `InvalidRequest` if nobody ever waited."""
    total, steps, ran = [0, 0, 0, 0], 0, 0
    for moment in moments:
        if moment.waiting:
            now = account(moment.running, num_slots)
            total = [a + b for a, b in zip(total, now, strict=True)]
            steps, ran = steps + 1, ran + len(moment.running)
    if not steps:
        raise InvalidRequest("nobody ever waited: bring more requests")
    return Average(Account(*total), steps, ran / steps)


# --- the paper's experiment -----------------------------------------------------------


def that_fit(requests: Iterable[Lengths], longest: int = LONGEST) -> list[Lengths]:
    """Those that are not longer than the model allows, with at least one token out."""
    return [
        request
        for request in requests
        if request.output_tokens >= 1
        and 1 <= request.prompt_tokens <= longest - request.output_tokens
    ]


def sharegpt(n: int = 1_000, seed: int = 0) -> list[Lengths]:
    """`n` first turns drawn from the ShareGPT profile, less those that are too long."""
    return that_fit(load_profile("sharegpt_first_turns").draw(n, seed))


def memories(num_slots: int = SLOTS, longest: int = LONGEST) -> dict[str, Memory]:
    """The four systems of Fig. 2, each with an empty memory."""
    return {
        "Orca (Max)": Contiguous(num_slots, reserve_max(longest)),
        "Orca (Pow2)": Contiguous(num_slots, reserve_pow2(longest)),
        "Orca (Oracle)": Contiguous(num_slots, reserve_oracle),
        "paged": Paged(num_slots, BLOCK_SIZE),
    }


def figure2(requests: Sequence[Lengths], num_slots: int = SLOTS) -> dict[str, Average]:
    """All four systems on the same requests."""
    return {
        name: average(serve(requests, memory), num_slots)
        for name, memory in memories(num_slots).items()
    }
