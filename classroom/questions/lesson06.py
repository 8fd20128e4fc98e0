"""What lesson 06 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "06-found-again": Question(
        "Ada's 10 tokens have left: usage is 0 %. Now somebody else sends exactly the "
        "same 10 tokens. How many of them are found, and need not be computed?",
        "Two of her blocks were full. They are free, and they still remember: 2 · 4 "
        "tokens. The third was not full, so it had no hash.",
        unit="tokens",
    ),
    "06-after-two": Question(
        "The queue is 5, 6, 7. `a` holds the blocks 1, 2 and 3; the first two are "
        "full. `b` holds block 4, which is full. First `b` leaves, then `a`. In which "
        "order do the blocks stand in the queue, head first?",
        "Block 4 was remembered first and so waits in front of 2 and 1. Block 3 is "
        "blank: it goes to the head.",
        kind="blocks",
    ),
    "06-after-a-hit": Question(
        "Now `c` comes with 8 tokens and finds block 1, the last one in the queue. How "
        "many of the remembered blocks lose their memory in this step?",
        "A hit is pulled out wherever it stands, and the other block that `c` needs is "
        "blank. Only what is taken from the head forgets, if it remembered anything.",
    ),
    "06-which-order": Question(
        "The same chats once more, in a pool of 2,000 blocks that frees the first "
        "block of each table first. What happens to the share of tokens that are "
        "found?",
        "Without its first block a chain is lost as a whole, with all that is still "
        "there behind it. Yet only the chain at the head of the queue is ever half "
        "gone, so a few per cent are lost.",
        choices=(
            "it falls to a half or less",
            "it falls by a few per cent",
            "it stays as it is",
            "it rises a little",
        ),
    ),
    "06-what-remains": Question(
        "All chats have ended. Of the 2,000 blocks, how many are blank now?",
        "Blank are the last blocks of the last answers, which were not full. All the "
        "others remember something: the pool is full of the past, and nothing leaks.",
        choices=("fewer than 20", "about 500", "about 1,000", "all 2,000"),
    ),
    "06-leak": Question(
        "Somebody deletes a sequence from the manager's list and does not free its "
        "blocks. Which sentence of the audit is broken?",
        "The blocks still count a user, and no table holds them any more. Free blocks "
        "and blocks in use still add up: the sum alone does not see a leak.",
        choices=(
            "free + in use = usable",
            "ref counts = table entries",
            "every block is free or in use",
            "map and blocks agree",
        ),
    ),
}
