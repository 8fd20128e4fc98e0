"""What lesson 02 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "02-blocks-for-requests": Question(
        "A pool gets 1 GiB, and a block of this model takes 2 MiB. How many of its "
        "blocks can be given to requests?",
        "512 blocks fit, and block 0 of every pool is the null block, which is never "
        "given to anybody.",
    ),
    "02-kv-budget": Question(
        "A GPU has 80 GiB, and the server starts with `gpu_memory_utilization=0.9`. "
        "The weights take 15 GiB, and the largest step needs 3 GiB more while it "
        "computes. How much is left for the KV cache?",
        "The 0.9 caps the engine's share of the whole GPU: 72 GiB. Weights and the "
        "largest step come off that.",
        choices=("72 GiB", "62 GiB", "55.8 GiB", "54 GiB"),
    ),
    "02-idle-bytes": Question(
        "Two requests came, were written into this pool, and have left again. How "
        "much memory does the pool hold now?",
        "The tensor is taken once and given back when the server ends. What the "
        "requests gave back are blocks, to the free queue.",
        choices=(
            "none",
            "only the blocks that were written",
            "as much as before they came",
        ),
    ),
    "02-scattered-free": Question(
        "A new request needs as many blocks as are free, all of them, and no two of "
        "these are neighbours. What does the manager say?",
        "It asks how many are free, never where they lie: the table puts them in "
        "order.",
        choices=("OK", "LATER", "NEVER"),
    ),
    "02-wasted-share": Question(
        "The 400 Alpaca requests (the cell above says how long they are) lie in blocks "
        "of 16 slots. Which share of the slots that they take is empty?",
        "About half of each last block is empty, some 7 slots of 16. A request of 71 "
        "tokens takes 78 slots on average, so that is 9 of 100.",
        choices=("about 1 %", "about 4 %", "about 9 %", "about 22 %"),
    ),
}
