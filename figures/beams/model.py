"""The smallest language model there is: for each word, which words may follow it.

It stands in for a real model, so that the search can run anywhere and is the same for
everybody. Its sentences are not worth reading; what they do to the blocks is.
"""

from __future__ import annotations

from math import log

PROMPT = "Once upon a time a small"
"""Where the search begins: six tokens, so with blocks of 4 the second is half full."""

_FOLLOW = {
    "small": {"cat": 0.45, "fox": 0.35, "robot": 0.2},
    "cat": {"sat": 0.5, "slept": 0.3, "ran": 0.2},
    "fox": {"ran": 0.6, "sat": 0.25, "slept": 0.15},
    "robot": {"slept": 0.4, "ran": 0.35, "sat": 0.25},
    "sat": {"on": 0.5, "down": 0.3, "and": 0.2},
    "slept": {"on": 0.45, "and": 0.35, "well": 0.2},
    "ran": {"home": 0.45, "and": 0.4, "off": 0.15},
    "on": {"the": 0.6, "a": 0.3, "top": 0.1},
    "and": {"ran": 0.4, "slept": 0.35, "sat": 0.25},
    "the": {"mat": 0.4, "hill": 0.35, "moon": 0.25},
    "a": {"mat": 0.45, "small": 0.3, "hill": 0.25},
    "home": {"and": 0.55, "again": 0.3, "then": 0.15},
    "again": {"and": 0.6, "then": 0.4},
    "then": {"slept": 0.4, "sat": 0.35, "ran": 0.25},
}
_ELSE = {"and": 0.5, "then": 0.3, "again": 0.2}

UNEXPECTED = 0.01
"""The probability of a word that the model would not have chosen."""


def likely(word: str) -> dict[str, float]:
    """The words that may follow `word`, the likeliest first, with probabilities."""
    return _FOLLOW.get(word, _ELSE)


def log_probability(word: str, follower: str) -> float:
    """How likely `follower` is after `word`; a beam's score adds these up."""
    return log(likely(word).get(follower, UNEXPECTED))
