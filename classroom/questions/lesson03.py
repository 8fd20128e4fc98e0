"""What lesson 03 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "03-eight-tokens": Question(
        "A sequence has 8 tokens and a block has room for 4. How many logical blocks "
        "is that?",
        "A logical block is room for `block_size` tokens in a row: 8 / 4 = 2.",
    ),
    "03-scattered-table": Question(
        "Now a sequence `e` with 14 tokens arrives. Which physical blocks does it get, "
        "logical block 0 first?",
        "14 tokens need 4 blocks, and they come from the head of the queue, in its "
        "order.",
        kind="blocks",
    ),
    "03-slot-of-nine": Question(
        "In which slot lies token number 9 of sequence `e`? Counting starts at 0.",
        "9 // 4 = 2 and 9 % 4 = 1: slot 1 of the block that stands third in the table.",
    ),
    "03-which-appends": Question(
        "`r0` has 3 tokens and gets 7 more, one by one. Which lengths, counted before "
        "the step, make it take a new block? Write them as a list.",
        "When the length is a multiple of 4, the last block is full and the next token "
        "needs a new one.",
        kind="block set",
    ),
}
