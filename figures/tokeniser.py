"""A toy tokenizer, so that a picture can show words where a model has token ids."""

from __future__ import annotations


class Words:
    """A tokenizer for lessons: one token a word, numbered in order of appearance.

    `labels` gives the text of each token id, for pictures.
    """

    def __init__(self) -> None:
        self.labels: dict[int, str] = {}
        self._ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        """The token ids of a text, split at white space."""
        return [self._id(word) for word in text.split()]

    def _id(self, word: str) -> int:
        token_id = self._ids.setdefault(word, len(self._ids))
        self.labels[token_id] = word
        return token_id
