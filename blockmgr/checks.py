"""Looking at what a caller hands in, before anything is changed.

Everything here raises `InvalidRequest`, which says what was expected and what came.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, cast

from blockmgr.errors import DuplicateSequence, InvalidRequest, UnknownSequence
from blockmgr.prefix import NO_EXTRA_KEYS, ExtraKeys, MultiModal


def check_count(name: str, value: object, least: int) -> None:
    """Raise `InvalidRequest` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidRequest(
            f"{name} must be a whole number of at least {least}, got {value!r}"
        )


def check_index(name: str, value: object, end: int) -> None:
    """Raise `InvalidRequest` unless `value` is a whole number from 0 to `end - 1`."""
    if not isinstance(value, int) or not 0 <= value < end:
        raise InvalidRequest(f"{name} must be in 0..{end - 1}, got {value!r}")


def check_name(seq_id: object) -> None:
    """Raise `InvalidRequest` unless this can name a sequence: text, not empty."""
    if not isinstance(seq_id, str) or not seq_id:
        raise InvalidRequest(f"a sequence needs a name (text), got {seq_id!r:.80}")


def check_new(seq_id: object, here: Container[object]) -> None:
    """Raise `InvalidRequest` unless this can name a sequence (text, not empty), and
    `DuplicateSequence` if one has that name already."""
    check_name(seq_id)
    if seq_id in here:
        raise DuplicateSequence(
            f"sequence {seq_id!r} is here already: free it first, "
            "or choose another name"
        )


def check_group(seq_ids: object) -> list[str]:
    """The names of some sequences. Raises `InvalidRequest` for none, for one that is
    named twice, and for a text, which is a row of letters to Python."""
    names: list[Any] = []
    if isinstance(seq_ids, Iterable) and not isinstance(seq_ids, str):
        names = list(seq_ids)
    texts = all(isinstance(name, str) for name in names)
    if not names or not texts or len(set(names)) < len(names):
        raise InvalidRequest(
            f"expected a list of sequences, each named once, got {seq_ids!r}"
        )
    return names


def unknown(seq_id: object, here: Iterable[str]) -> UnknownSequence:
    """The error for a name that no sequence has."""
    names = ", ".join(map(repr, here)) or "none"
    return UnknownSequence(f"no sequence {seq_id!r} here (there are: {names})")


def check_status(seq_id: str, status: str, wanted: str) -> None:
    """Raise `InvalidRequest` unless a sequence has the status that a call needs."""
    if status != wanted:
        advice = {
            "running": "it holds blocks and can grow",
            "preempted": "it holds no blocks, resume it first",
            "swapped": "its blocks are on the host, swap it in first",
        }
        raise InvalidRequest(
            f"only a {wanted} sequence can do this, and {seq_id!r} is {status}: "
            f"{advice[status]}"
        )


def check_length(length: int, longest: int | None) -> None:
    """Raise `InvalidRequest` if a sequence is or would be too long."""
    if longest is not None and length > longest:
        raise InvalidRequest(
            f"{length} tokens are more than max_model_len={longest}: "
            "shorten the prompt or end the sequence"
        )


def check_share(name: str, value: object) -> None:
    """Raise `InvalidRequest` unless `value` is a share: from 0.0, below 1.0."""
    if not isinstance(value, (int, float)) or not 0.0 <= value < 1.0:
        raise InvalidRequest(
            f"{name} is a share of the pool, from 0.0 up to 1.0, got {value!r}"
        )


def extra_keys(lora: object, mm: object, cache_salt: object) -> ExtraKeys:
    """The extra keys of a request, every one checked.

    Raises `InvalidRequest` for anything of another kind: as bytes, a number and an
    object that prints like it would be one key.
    """
    if cache_salt is not None and not isinstance(cache_salt, str):
        raise InvalidRequest(f"cache_salt must be text, got {cache_salt!r}")
    pair = None
    if lora is not None:
        if not _is_tuple_of(lora, str, str):
            raise InvalidRequest(f"lora must be (name, path), two texts, got {lora!r}")
        pair = cast("tuple[str, str]", lora)
    if not isinstance(mm, (tuple, list)) or not all(map(_is_medium, mm)):
        raise InvalidRequest(
            "mm must be a tuple of MultiModal(identifier, offset, length), a text, a "
            f"number of at least 0 and one of at least 1, got {mm!r}"
        )
    if pair is None and not mm and cache_salt is None:
        return NO_EXTRA_KEYS
    return ExtraKeys(pair, tuple(mm), cache_salt)


def _is_tuple_of(value: object, *kinds: type) -> bool:
    return isinstance(value, tuple) and tuple(map(type, value)) == kinds


def _is_medium(item: object) -> bool:
    return (
        isinstance(item, MultiModal)
        and _is_tuple_of(item, str, int, int)
        and item.offset >= 0
        and item.length >= 1
    )
