"""What lesson 07 asks before the manager answers."""

from __future__ import annotations

from classroom.questions import Question

QUESTIONS = {
    "07-tenth-token": Question(
        "A prompt fills 5 blocks of 4 tokens. Somebody changes its tenth token and "
        "nothing else. How many of the 5 block hashes change?",
        "The tenth token lies in block 2, and each hash is made from the one before "
        "it, so those of blocks 2, 3 and 4 change. And they must: K and V of every "
        "later token depend on the tenth.",
    ),
    "07-short-prompt": Question(
        "Blocks hold 16 tokens. The same prompt of 12 tokens is sent twice, the second "
        "time after the first. How many tokens of the second are found in the cache?",
        "Only a full block has a hash, and these 12 tokens fill none. So hit rates of "
        "short prompts are 0 %, however often they come.",
        unit="tokens",
    ),
    "07-exact-length": Question(
        "Blocks of 16 again. A prompt of exactly 32 tokens is sent twice. How many "
        "tokens of the second are found?",
        "Both blocks are in the cache, but the model must compute something: its "
        "output for the last token is the next token. So the block of the last token "
        "is never a hit, and all 16 tokens of it are computed again.",
        unit="tokens",
    ),
    "07-hole": Question(
        "A prompt of 5 full blocks is in the cache, and the cache forgets one block in "
        "the middle, logical block 2. The same prompt comes again, one token longer. "
        "How many blocks does it find?",
        "Blocks 0 and 1. Blocks 3 and 4 are still there, but a prompt's start must be "
        "there without a gap: the lookup goes from left to right and ends at the first "
        "miss.",
        unit="blocks",
    ),
    "07-same-step": Question(
        "Nothing is cached, and blocks hold 4 tokens. In one and the same step two "
        "users send the same prompt of 9 tokens. How many blocks does the second one "
        "share with the first?",
        "Its 2 full blocks. They are registered when the first prompt gets its "
        "blocks, before anything was computed: in each layer, the step writes the K "
        "and V of all its tokens before attention reads them.",
        unit="blocks",
    ),
    "07-many-agents": Question(
        "40 coding agents start at the same moment, and each prompt begins with the "
        "agent's whole session so far. One session after the other, they would find "
        "92 % of all prompt tokens in a pool of 256,000 slots. What share do they find "
        "in it now?",
        "A prompt has 95,000 tokens on average, so this pool remembers two or three of "
        "them. By the time an agent asks again, 39 others may have used it, and what "
        "the agent needs has been evicted.",
        choices=("about 90 %", "about 60 %", "about 30 %"),
    ),
    "07-collision": Question(
        "The manager gets a weak hash, for which the two different prompts `1 2 3 4` "
        "and `4 3 2 1` have the same digest. Prompt one is cached. How many blocks "
        "does the second one, `4 3 2 1 5`, find?",
        "The digests are equal, so the map does have an entry. But with a hash that "
        "is not cryptographic our manager keeps what was hashed, compares it on every "
        "hit, and sees other tokens.",
        unit="blocks",
    ),
}
