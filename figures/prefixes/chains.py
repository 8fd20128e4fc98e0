"""What a real manager does with some prompts that arrive one after the other.

Nothing here is worked out a second time: hits, blocks and hashes are the manager's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from blockmgr import BlockManager
from blockmgr.events import Snapshot
from figures.prefixes.tokens import TOKENISERS

NAMES = "ABCD"
"""What the prompts are called, in order of arrival."""


class Prompt(NamedTuple):
    """A text, and the salt that keeps its blocks apart from those of other salts."""

    text: str
    salt: str = ""


class Fate(StrEnum):
    """What became of a block when its prompt was admitted."""

    HIT = "hit"
    NEW = "new"
    AGAIN = "again"  # its content is in the cache, but its last token must be computed
    PART = "no hash"  # not full


class Link(NamedTuple):
    """One logical block of a prompt: a link of its chain, if it is full.

    `digest` is its hash in hex digits, None if it has none; `refs` is the number of
    tables that hold its physical block.
    """

    logical: int
    block_id: int
    texts: tuple[str, ...]
    tokens: tuple[int, ...]
    digest: str | None
    fate: Fate
    refs: int


class Chain(NamedTuple):
    """One prompt in its blocks. `hits` of them were found, from the first one on."""

    name: str
    prompt: Prompt
    links: tuple[Link, ...]
    num_tokens: int
    hits: int
    hit_tokens: int

    @property
    def digests(self) -> tuple[str, ...]:
        """The hashes of its full blocks."""
        return tuple(link.digest for link in self.links if link.digest is not None)


class Study(NamedTuple):
    """All prompts, admitted in order by one manager. `labels` gives tokens their text.

    A prompt without a token is not admitted, and its chain has no link.
    """

    block_size: int
    chains: tuple[Chain, ...]
    snapshot: Snapshot
    labels: Mapping[int, str]


class Change(NamedTuple):
    """A prompt that was changed, and the hashes that it had before."""

    name: str
    before: tuple[str, ...]


def fresh(chain: Chain, change: Change | None) -> frozenset[int]:
    """The full blocks of a changed prompt whose hash is not what it was."""
    if change is None or change.name != chain.name:
        return frozenset()
    return frozenset(
        index
        for index, digest in enumerate(chain.digests)
        if digest not in change.before[index : index + 1]
    )


def study(
    prompts: Sequence[Prompt], block_size: int = 4, tokens: str = "words"
) -> Study:
    """Admit the prompts, each while those before it still run; nobody is evicted."""
    encoded, labels = TOKENISERS[tokens]([prompt.text for prompt in prompts])
    needed = sum(-(-len(one) // block_size) for one in encoded)
    manager = BlockManager(needed + 2, block_size)
    names = NAMES[: len(prompts)]
    hits = dict.fromkeys(names, 0)
    for name, prompt, ids in zip(names, prompts, encoded, strict=True):
        if ids:
            answer = manager.allocate(name, ids, cache_salt=prompt.salt or None)
            hits[name] = len(answer.hits)
    state = manager.snapshot()
    chains: list[Chain] = []
    for name, prompt, ids in zip(names, prompts, encoded, strict=True):
        known = {digest for chain in chains for digest in chain.digests}
        links = _links(state, name, labels, hits[name], known) if ids else ()
        found = hits[name] * block_size
        chains.append(Chain(name, prompt, links, len(ids), hits[name], found))
    return Study(block_size, tuple(chains), state, labels)


def _links(
    state: Snapshot, name: str, labels: Mapping[int, str], hits: int, known: set[str]
) -> tuple[Link, ...]:
    view, size = state.sequences[name], state.block_size
    links = []
    for index, block_id in enumerate(view.block_table):
        ids = view.token_ids[index * size : (index + 1) * size]
        texts = tuple(labels[token] for token in ids)
        digest = state.block_hash[block_id]
        if digest is None:
            fate = Fate.PART
        elif index < hits:
            fate = Fate.HIT
        else:
            fate = Fate.AGAIN if digest in known else Fate.NEW
        refs = state.ref_cnt[block_id]
        links.append(Link(index, block_id, texts, tuple(ids), digest, fate, refs))
    return tuple(links)
