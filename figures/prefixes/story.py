"""What the picture shows, in plain words."""

from __future__ import annotations

from collections.abc import Iterable

from figures.prefixes.chains import Chain, Change, Fate, Link, Study, fresh
from figures.words import isolate, listed, plural


def tally(chain: Chain) -> str:
    """One line for each prompt: what was found, and what is left to compute."""
    if not chain.links:
        return "no token yet: type something"
    left = chain.num_tokens - chain.hit_tokens
    return (
        f"{chain.hits} of {plural(len(chain.links), 'block')} found: "
        f"{chain.hit_tokens} of {plural(chain.num_tokens, 'token')} need no computing, "
        f"{left} do"
    )


def sentence(study: Study, change: Change | None = None) -> str:
    """Why the last prompt found what it found; then what the last change of a prompt
    did to its hashes."""
    chain = study.chains[-1]
    told = f"{chain.name}: {_why(study, chain)}"
    for one in study.chains:
        if change is not None and one.name == change.name and one.digests:
            new, total = len(fresh(one, change)), len(one.digests)
            verb = "is" if new == 1 else "are"
            told += f" Your last change: {new} of {one.name}'s {total} "
            told += f"{'hash' if total == 1 else 'hashes'} {verb} new."
    return told


def _why(study: Study, chain: Chain) -> str:
    """What ended the hits of a prompt."""
    if not chain.links:
        return "no token yet, so nothing is asked of the manager."
    found = f"{plural(chain.hits, 'hit')}, then" if chain.hits else "no hit:"
    rest = chain.links[chain.hits :]
    first = rest[0]
    if first.fate is Fate.PART:
        only = "the only block" if len(chain.links) == 1 else f"block {first.logical}"
        return f"{found} {only} is not full, and only full blocks have a hash."
    if first.fate is Fate.AGAIN:
        return (
            f"{found} block {first.logical} is in the cache too, but it holds the last "
            "token. At least one token must be computed, so the block is, all of it."
        )
    if len(study.chains) == 1 or not _earlier(study, chain):
        return f"{found} nobody came before, so every block is new."
    return f"{found} {_parting(study, chain, first)}"


def _parting(study: Study, chain: Chain, first: Link) -> str:
    """How the chain differs from those before it, at its first miss."""
    twins = _twins(study, chain, chain.links[chain.hits :])
    if first.logical in twins:
        return (
            f"block {first.logical} holds the same tokens as one before, but another "
            "salt stands in its chain, so its hash is another."
        )
    told = f"block {first.logical} holds tokens that nobody had behind this start."
    behind = [index for index in twins if index > first.logical]
    if behind:
        blocks = listed([str(index) for index in behind], 3)
        what = f"block{'s' if len(behind) > 1 else ''} {blocks}"
        told += f" So {what} can't be found either, though the tokens are the same."
    return told


def _earlier(study: Study, chain: Chain) -> list[Chain]:
    place = study.chains.index(chain)
    return [one for one in study.chains[:place] if one.links]


def _twins(study: Study, chain: Chain, links: Iterable[Link]) -> list[int]:
    """Places at which an earlier prompt has the same full block of tokens, under
    another hash."""
    earlier = {
        (link.logical, link.tokens): link.digest
        for one in _earlier(study, chain)
        for link in one.links
    }
    return [
        link.logical
        for link in links
        if link.digest is not None
        and earlier.get((link.logical, link.tokens), link.digest) != link.digest
    ]


def of_link(study: Study, chain: Chain, link: Link) -> str:
    """The block that was chosen: where it lies, who uses it, what its hash covers."""
    users = [
        one.name
        for one in study.chains
        if any(other.block_id == link.block_id for other in one.links)
    ]
    where = (
        f"{chain.name}'s block {link.logical} lies in physical block {link.block_id}"
    )
    who = f", used by {listed(users)} (ref count {link.refs})."
    if link.digest is None:
        full = f"{len(link.texts)} of {study.block_size}"
        return f"{where}{who} It holds {full} tokens: not full, so it has no hash."
    return f"{where}{who} Its hash {link.digest[:4]} covers {covered(chain, link)}."


def covered(chain: Chain, link: Link) -> str:
    """What went into the hash of a full block."""
    parent = "no parent"
    if link.logical:
        parent = f"its parent's hash {(chain.links[link.logical - 1].digest or '')[:4]}"
    salt = f", the salt {isolate(chain.prompt.salt, 20)}" if chain.prompt.salt else ""
    if link.logical:
        salt = ""  # it is in the parent
    return f"{parent}, its {plural(len(link.texts), 'token')}{salt}"
