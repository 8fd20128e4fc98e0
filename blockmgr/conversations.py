"""Conversations drawn from the profiles: turns whose prompts repeat all that was said.

Each request of a chat carries the whole history, so its prompt begins with what an
earlier request has left in the cache. No other load is as good at showing what a free
block is worth.

Two things come from ShareGPT's profiles: how many turns a conversation has
(`sharegpt_turns`), and how long a question and its answer are (`sharegpt_first_turns`,
used for later turns as well). The tokens are only numbers, and no two texts are alike.
Who speaks next is drawn evenly, from the few conversations that are going on: that is
our assumption, for the trace has no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, count, islice
from random import Random
from typing import NamedTuple

from blockmgr.checks import check_count
from blockmgr.profile import load_profile
from blockmgr.workloads import Lengths


class ChatTurn(NamedTuple):
    """One request: its name (`"3.0"`: conversation 3, turn 0), the tokens of its
    prompt, which begin with the whole history, and those of the answer."""

    name: str
    prompt: list[int]
    answer: list[int]


@dataclass(slots=True)
class _Talk:
    """A conversation that is going on."""

    number: int
    lengths: list[Lengths]
    history: list[int] = field(default_factory=list)
    done: int = 0

    def turn(self, fresh: Iterator[int], longest: int) -> ChatTurn | None:
        """The next turn; None if there is none, or if it would be too long."""
        if self.done == len(self.lengths):
            return None
        lengths = self.lengths[self.done]
        question = list(islice(fresh, lengths.prompt_tokens))
        answer = list(islice(fresh, lengths.output_tokens))
        prompt = self.history + question
        if len(prompt) + len(answer) > longest:
            return None
        self.history = prompt + answer
        self.done += 1
        return ChatTurn(f"{self.number}.{self.done - 1}", prompt, answer)


def chat_turns(
    num_conversations: int, seed: int, *, at_once: int = 12, longest: int = 8192
) -> list[ChatTurn]:
    """The turns of so many conversations in the order in which they are asked, the same
    ones for the same seed.

    `at_once` conversations are going on at a time; when one ends, the next begins. One
    whose next turn would exceed `longest` tokens ends before it, as in the trace.

    Raises `InvalidRequest` for counts that can't mean anything.
    """
    check_count("num_conversations", num_conversations, 0)
    check_count("at_once", at_once, 1)
    check_count("longest", longest, 1)
    rng, fresh = Random(seed), count()
    coming = _talks(num_conversations, seed)
    here = list(islice(coming, at_once))
    turns = []
    while here:
        place = int(rng.random() * len(here))
        turn = here[place].turn(fresh, longest)
        if turn is not None:
            turns.append(turn)
            continue
        following = next(coming, None)
        if following is None:
            here.pop(place)
        else:
            here[place] = following
    return turns


def _talks(n: int, seed: int) -> Iterator[_Talk]:
    """The conversations, none of them begun."""
    rng = Random(seed)
    shares = load_profile("sharegpt_turns").figures["turns_of_conversations"]
    ends = list(accumulate(times for _, times in shares))
    places = (bisect_right(ends, int(rng.random() * ends[-1])) for _ in range(n))
    sizes = [shares[place][0] for place in places]
    lengths = iter(load_profile("sharegpt_first_turns").draw(sum(sizes), seed))
    for number, size in enumerate(sizes):
        yield _Talk(number, list(islice(lengths, size)))
