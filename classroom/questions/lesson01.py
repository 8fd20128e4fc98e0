"""What lesson 01 asks before the machine answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "01-bytes-of-a-token": Question(
        "OPT-13B has 40 layers, and each of them 40 attention heads of size 128. One "
        "token was just computed. How much memory does the model need to remember it, "
        "until the request ends?",
        "Two vectors of 128 numbers, K and V, for each of 40 heads in each of 40 "
        "layers, at two bytes a number: 819,200 bytes.",
        choices=("about 0.8 kB", "about 8 kB", "about 80 kB", "about 800 kB"),
    ),
    "01-buddies": Question(
        "Requests come that need 17 slots each, into this allocator with 64 slots. How "
        "many of them get a piece?",
        "17 is rounded up to 32, and 64 slots are two pieces of 32. 30 slots, nearly "
        "half of the memory, stay empty.",
    ),
    "01-last-one-leaves": Question(
        "With paging, the last of the 12 requests has left after 23 steps. After how "
        "many steps has it left if every request reserves 32 of the 64 slots?",
        "Only two can run at a time, and the others wait. All outputs together are 99 "
        "tokens, and two in a step take 50 steps at the very least.",
        choices=("about 25", "about 40", "about 60", "about 140"),
    ),
    "01-oracle": Question(
        "Now an oracle tells the exact length of every answer in advance, and exactly "
        "that much is reserved. How many of 100 slots hold a token, on average?",
        "A request holds its whole piece from the first step on, long before it fills "
        "it; and the allocator rounds each piece up to a power of two.",
        choices=("about 40", "about 60", "about 80", "about 95"),
    ),
}
