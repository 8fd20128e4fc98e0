"""Two toy tokenisers, so that what is typed can be followed from letter to hash.

A token's number depends on its text alone. A vocabulary that grows as one types would
give a changed word the number of the old one, and no hash would change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

Encoded = tuple[list[list[int]], dict[int, str]]
"""The tokens of each text, and the text of each token."""


def in_words(texts: Sequence[str]) -> Encoded:
    """One token a word: what stands between white space."""
    split = [text.split() for text in texts]
    numbers = {word: _number(word) for words in split for word in words}
    labels = {number: word for word, number in numbers.items()}
    return [[numbers[word] for word in words] for words in split], labels


def _number(word: str) -> int:
    """56 bits of the word's SHA-256: too many for two words to meet by chance."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:7], "big")


def in_characters(texts: Sequence[str]) -> Encoded:
    """One token a character, numbered as in Unicode."""
    tokens = [list(map(ord, text)) for text in texts]
    return tokens, {token: chr(token) for one in tokens for token in one}


TOKENISERS: dict[str, Callable[[Sequence[str]], Encoded]] = {
    "words": in_words,
    "characters": in_characters,
}
"""What a token can be here, by its name."""
