"""What lesson 00 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "00-nine-tokens": Question(
        "Nine tokens, blocks of 4: how many blocks does the manager give Ada?",
        "A block is taken as soon as one of its slots is needed: 4 + 4 + 1.",
    ),
    "00-four-appends": Question(
        "Ada has 9 tokens and gets 4 more, one by one. How many of these four steps "
        "take a new block?",
        "Tokens 10, 11 and 12 fill the block she has. Token 13 finds it full.",
    ),
    "00-shared-start": Question(
        "Ben arrives while Ada is there. How many of Ada's blocks can he share?",
        "Nine shared words fill two blocks of 4. The third block starts with the ninth "
        "word and goes on differently, so it can't be shared.",
    ),
    "00-who-is-preempted": Question(
        "Later Ada needs a block and none is free. Ada came first, then Ben, Cleo and "
        "Dev. Who has to give his or her blocks back?",
        "First come, first served: the one who came last gives way.",
        choices=("Ada", "Ben", "Cleo", "Dev"),
    ),
    "00-after-the-last": Question(
        "After the last chat has ended, how many of the 12 usable blocks are in use?",
        "Every block has lost its last user. Most of them still remember their "
        "content.",
    ),
}
