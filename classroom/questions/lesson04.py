"""What lesson 04 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "04-calls-on-demand": Question(
        "A sequence arrives with 5 tokens and grows to 14, one token after another. "
        "Blocks have 4 slots and are taken on demand. How many calls take something "
        "from the pool?",
        "The prompt takes its 2 blocks in one call. Then tokens 9 and 13 each open a "
        "block: 3 calls, for 4 blocks.",
    ),
    "04-empty-and-full": Question(
        "A pool has 12 blocks of 4 slots. A (5 tokens) and B (3 tokens) have come in, "
        "both with room for 24 tokens in advance, and each has got one more token. "
        "Now C asks for room and is refused. How many of the 12 blocks hold no token "
        "at all?",
        "A's 6 tokens lie in 2 of its 6 blocks, B's 4 tokens in 1 of its 6. The other "
        "9 are promised, so C waits before a pool that is three quarters empty.",
    ),
    "04-which-saves-more": Question(
        "Batches of 4 in place of single blocks: on which trace do they save the "
        "larger share of the calls?",
        "The first call, for the prompt, is needed in any case; only the calls after "
        "it become fewer. Long answers have many of those.",
        choices=(
            "Alpaca: short questions, short answers",
            "ShareGPT: long answers",
            "the same share on both",
        ),
    ),
    "04-first-through": Question(
        "200 Alpaca requests stand before a pool of 256 blocks, all at once. Which "
        "policy is the first to have served all of them?",
        "On demand lets so many in that nobody finds a block to grow, and they stall. "
        "A small reserve keeps a few newcomers out. A large one keeps out too many.",
        choices=("ahead of time", "on demand", "batches of 2", "batches of 16"),
    ),
    "04-torch-calls": Question(
        "A sequence grows from 5 to 1,005 tokens on demand and takes its blocks one by "
        "one. How many operations does PyTorch carry out in all these calls?",
        "None. Ids move from a queue into a list, in plain Python; the memory has been "
        "there since the start.",
    ),
}
