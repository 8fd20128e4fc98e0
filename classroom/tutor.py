"""Prompts of a tutor for school mathematics: what lesson 07 shares and reorders.

All of it is ours. A token is a word here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockmgr import BlockManager
from figures.tokeniser import Words

RULES = (
    "You are a patient tutor for school mathematics. Answer in the language of the "
    "question. Show every step on a line of its own, name the rule that you use, and "
    "never skip a calculation. End with the result and its unit. If a question is not "
    "about mathematics, say so kindly and ask for another one."
)

EXAMPLES = (
    "Question: A pen costs 2 euros and a book costs 7 euros. What do 3 pens and 2 "
    "books cost? Answer: 3 pens cost 3 times 2, that is 6 euros. 2 books cost 2 times "
    "7, that is 14 euros. Together that is 6 plus 14. Result: 20 euros. Question: A "
    "train needs 45 minutes for 60 kilometres. How fast is it? Answer: 45 minutes are "
    "three quarters of an hour. 60 divided by three quarters is 80. Result: 80 "
    "kilometres per hour. Question: Half of a number is 9. What is the number? "
    "Answer: Twice the half is the whole, and 2 times 9 is 18. Result: 18."
)

QUESTIONS = (
    "What is 17 times 6?",
    "How many days do 5 weeks and 3 days have?",
    "A rope of 12 metres is cut into 8 equal pieces. How long is each?",
    "What is a quarter of 92?",
    "A bus leaves at 10:40 and arrives at 12:05. How long does it travel?",
    "What is the area of a square with sides of 7 metres?",
    "Which number is both a square and a cube, above 1 and below 100?",
    "A coat of 80 euros gets 15 per cent cheaper. What does it cost now?",
    "How many corners do 4 cubes have?",
    "What is the average of 4, 8 and 15?",
    "A car uses 6 litres for 100 kilometres. How much for 250?",
    "What is 3 to the power of 4?",
)


class Request(NamedTuple):
    """What stands in one prompt, part by part."""

    time: str
    pupil: str
    rules: str
    examples: str
    question: str


PARTS = Request._fields
"""The names of the parts, in the order in which somebody wrote them down."""


def requests() -> list[Request]:
    """24 requests: one every five minutes, six pupils in turn, twelve questions."""
    pupils = ("Ada", "Ben", "Cleo", "Dev", "Eva", "Finn")
    return [
        Request(
            f"It is {9 + i // 12}:{i % 12 * 5:02} on Monday, 2 March.",
            f"The pupil is called {pupils[i % 6]} and is in class {5 + i % 6}.",
            RULES,
            EXAMPLES,
            "Question: " + QUESTIONS[i * 5 % 12],
        )
        for i in range(24)
    ]


def hit_tokens(
    prompts: Sequence[str], block_size: int = 16, num_blocks: int = 1_000
) -> tuple[int, int]:
    """(tokens found, tokens asked for) when the real manager serves these prompts one
    after the other. Words at the end of a line are words like others."""
    words, manager = Words(), BlockManager(num_blocks, block_size)
    for number, prompt in enumerate(prompts):
        manager.allocate(str(number), words.encode(prompt))
        manager.free(str(number))
    stats = manager.stats()
    return stats.hit_tokens, stats.queried_tokens


def in_order(order: Sequence[str]) -> list[str]:
    """The prompts of all requests, their parts in this order."""
    return [" ".join(getattr(r, part) for part in order) for r in requests()]
