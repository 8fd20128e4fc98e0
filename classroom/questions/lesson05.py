"""What lesson 05 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "05-after-two-forks": Question(
        "`A` holds 2 blocks. Then `B` and `C` are forked from it. How many blocks of "
        "the pool are in use now?",
        "A fork takes no block. It copies the table and adds 1 to the count of each "
        "block in it.",
    ),
    "05-three-writes": Question(
        "Now `A`, `B` and `C` each append one token, in this order. How many blocks "
        "have to be copied?",
        "The first two find the block shared and move to a copy. By then the third "
        "one is alone with the original, and writes into it.",
    ),
    "05-full-prompt": Question(
        "Another prompt has 8 tokens and the blocks hold 4. It is forked once, and "
        "both append a token. How many blocks are copied?",
        "Both blocks are full, so nobody writes into them any more: each token opens a "
        "new block. Only a partly filled block is ever copied.",
    ),
    "05-forgotten-copy": Question(
        "Suppose nobody copied: `left` writes `cat` where its table says, then `right` "
        "writes `fox` where its own table says. What does `left` read at that place?",
        "Both tables lead to the same slot, and the last writer wins. Nothing crashes: "
        "`left` goes on as if it had said `fox`.",
        choices=("cat", "fox", "nothing: an error"),
    ),
    "05-loser-leaves": Question(
        "`A` and `B` share a half full block. `B` has lost: it is freed, and then `A` "
        "appends a token. How many blocks are copied?",
        "When `A` writes, the count is back at 1: nobody else reads the block.",
    ),
    "05-two-samples": Question(
        "Each Alpaca request is answered twice, with the prompt's blocks shared. How "
        "many of all blocks does that save, over the whole run?",
        "Only the full blocks of the prompt stay shared, and Alpaca's prompts are "
        "short: most have no full block of 16 tokens. The answers are nobody else's.",
        choices=("about 5 %", "about 25 %", "about 50 %"),
    ),
}
