"""Ready-made scenarios: a pool, a list of commands, and what to look at."""

from __future__ import annotations

from typing import NamedTuple

from figures.playground.commands import Command, Pool
from figures.playground.session import Session

TUTOR = "You are a kind tutor . Be brief ."


class Scenario(NamedTuple):
    """A story in commands; `look` is one sentence on what there is to see."""

    title: str
    look: str
    pool: Pool
    commands: tuple[Command, ...]

    @property
    def note(self) -> str:
        """Title and what to look at, as the session shows it."""
        return f"{self.title}. {self.look}"

    def session(self) -> Session:
        """A session in which all of it has happened."""
        return Session(self.pool, self.commands, self.note)


def _asks(name: str, text: str) -> Command:
    return Command("request", name, text=text)


def _does(op: str, name: str) -> Command:
    return Command(op, name)


STEP = Command("step")

SCENARIOS = (
    Scenario(
        "Two chats, one system prompt",
        "Blocks 1 and 2 hold the words of the system prompt once: both tables lead "
        "there, and the badge counts 2.",
        Pool(12, 4),
        (
            _asks("Ada", f"{TUTOR} Why is the sky blue ?"),
            _asks("Ben", f"{TUTOR} What is a prime ?"),
            STEP,
        ),
    ),
    Scenario(
        "A full pool and a preemption",
        "At step 6 r0 and r2 get no slot: LATER. Preempting r1 makes room for them, "
        "and when r1 resumes, what is still cached of it is found.",
        Pool(8, 4),
        (
            Command("numbers", "r0", length=7),
            Command("numbers", "r1", length=8),
            Command("numbers", "r2", length=7),
            STEP,
            Command("generate", "r0", length=3),
            STEP,
            _does("preempt", "r1"),
            STEP,
            _does("finish", "r0"),
            _does("resume", "r1"),
        ),
    ),
    Scenario(
        "Beams: fork, then copy-on-write",
        "Nothing is copied until step 4, when three beams each write into block 2: two "
        "take a copy, the last keeps it. At step 7, beam2 and its fork do the same.",
        Pool(12, 4),
        (
            _asks("beam", "Once upon a time there was"),
            Command("fork", "beam", child="beam2"),
            Command("fork", "beam", child="beam3"),
            STEP,
            _does("finish", "beam3"),
            Command("fork", "beam2", child="beam4"),
            STEP,
        ),
    ),
    Scenario(
        "Swap out and in",
        "At step 4 the K and V of r1 move to host memory and its blocks become free; "
        "at step 7 it comes back into other blocks and goes on at once.",
        Pool(8, 4, num_host_blocks=5),
        (
            Command("numbers", "r0", length=8),
            Command("numbers", "r1", length=10),
            STEP,
            _does("swap_out", "r1"),
            Command("numbers", "r2", length=12),
            _does("finish", "r0"),
            _does("swap_in", "r1"),
            STEP,
        ),
    ),
    Scenario(
        "A cache that is evicted",
        "After step 2 nothing is in use, and yet step 3 finds two blocks: free, but "
        "remembered. Then step 5 takes one of them, and step 7 finds only the other.",
        Pool(6, 4),
        (
            _asks("Ada", "The cat sat on the mat and slept till noon"),
            _does("finish", "Ada"),
            _asks("Ada2", "The cat sat on the mat and slept till noon"),
            _does("finish", "Ada2"),
            Command("numbers", "big", length=16),
            _does("finish", "big"),
            _asks("Ada3", "The cat sat on the mat and slept till noon"),
        ),
    ),
    Scenario(
        "Same prompt, same answer: duplicates",
        "Both write the same words into blocks of their own, 2 and 3: two blocks with "
        "one hash, and each table keeps what it has.",
        Pool(10, 4),
        (
            _asks("Ada", "What is two plus two ?"),
            _asks("Ben", "What is two plus two ?"),
            Command("append", "Ada", text="It is"),
            Command("append", "Ben", text="It is"),
            STEP,
        ),
    ),
    Scenario(
        "Length 8 and length 9: the last token",
        "Two full blocks are cached, but a prompt of just these 8 words hits only the "
        "first: its last token must be computed. With a ninth word, both are hit.",
        Pool(12, 4),
        (
            _asks("first", "a b c d e f g h"),
            _asks("eight", "a b c d e f g h"),
            _asks("nine", "a b c d e f g h i"),
        ),
    ),
    Scenario(
        "The same without a cache",
        "The prompts are those of the first scenario, and nothing is shared: without "
        "hashes nobody can find what others have.",
        Pool(12, 4, enable_caching=False),
        (
            _asks("Ada", f"{TUTOR} Why is the sky blue ?"),
            _asks("Ben", f"{TUTOR} What is a prime ?"),
            STEP,
        ),
    ),
    Scenario(
        "Blocks of one slot",
        "Here, and only here, a block is a token: no slot is wasted, and the table has "
        "an entry for each token.",
        Pool(14, 1),
        (
            _asks("Ada", "one block a word"),
            _asks("Ben", "one block for each token"),
            STEP,
        ),
    ),
)
"""In the order in which they are offered."""
