"""PrefixExplorer: prompts typed side by side, and which of their blocks are shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figures.prefixes.chains import NAMES, Change, Prompt, Study, study
from figures.prefixes.page import (
    LONGEST,
    LONGEST_SALT,
    SIZES,
    STYLE,
    SUMMARY,
    controls,
    count_text,
    page,
    table,
)
from figures.prefixes.story import of_link, sentence
from figures.prefixes.svg import prefix_svg
from figures.prefixes.tokens import TOKENISERS
from figures.stage import Stage, shell
from figures.words import esc, plural

EXAMPLES = (
    "You are a kind tutor . Answer in one line . Why is the sky blue ?",
    "You are a kind tutor . Answer in one line . What is a prime number ?",
)
"""Two prompts with one beginning: what the explorer opens with."""

FEWEST = 2  # prompts; there can be as many as there are names
_KINDS = tuple(TOKENISERS)


class PrefixExplorer(Stage):
    """Prompts to type into, admitted one after the other by a real manager.

    `prompts` are 2 to 4 texts (two examples without them), `salts` their salts, if they
    have any. `block_size` is 2 to 16 tokens; a token is one of `"words"` (the default)
    and `"characters"`. What is longer than 400 characters is cut, and the widget says
    so. `study` holds what the manager did: its chains, hits and blocks.

    Raises `ValueError` for a number of prompts, a block size or a kind of token that
    there is not.
    """

    _css = Stage._css + STYLE

    def __init__(
        self,
        *prompts: str,
        block_size: int = 4,
        tokens: str = "words",
        salts: Sequence[str] = (),
    ) -> None:
        texts = prompts or EXAMPLES
        if not FEWEST <= len(texts) <= len(NAMES) or len(salts) > len(texts):
            raise ValueError(f"give {FEWEST} to {len(NAMES)} prompts, and a salt each")
        if block_size not in range(2, 17) or tokens not in TOKENISERS:
            raise ValueError(
                f"a block has 2 to 16 tokens, and these are {' or '.join(_KINDS)}; "
                f"got {block_size!r} and {tokens!r}"
            )
        padded = [*salts, *[""] * (len(texts) - len(salts))]
        self._start = [
            Prompt(_short(text), _short(salt, LONGEST_SALT))
            for text, salt in zip(texts, padded, strict=True)
        ]
        self.prompts = list(self._start)
        self.block_size, self.tokens = block_size, tokens
        self._cut: set[int] = set()
        self._change: Change | None = None
        self.study: Study
        super().__init__(shell(SUMMARY, controls()))
        self._admit()

    def __repr__(self) -> str:
        found = sum(chain.hit_tokens for chain in self.study.chains)
        asked = sum(chain.num_tokens for chain in self.study.chains)
        return (
            f"PrefixExplorer({plural(len(self.prompts), 'prompt')}, blocks of "
            f"{self.block_size}: {found} of {asked} tokens found)"
        )

    # --- what the reader does -------------------------------------------------------

    def typed(self, name: str, text: str) -> None:
        """Take what stands in `text0` to `text3` or `salt0` to `salt3` now."""
        kind, i = name[:4], int(name[4:])
        if i >= len(self.prompts):
            self.draw()  # typed into a prompt that was removed meanwhile
            return
        limit = LONGEST if kind == "text" else LONGEST_SALT
        kept, before = _short(text, limit), self.study.chains[i]
        self.prompts[i] = self.prompts[i]._replace(**{kind: kept})
        if kind == "text":
            (self._cut.add if len(text) > limit else self._cut.discard)(i)
        self.set_trait("selected", "")
        self._admit(Change(before.name, before.digests))

    def act(self, name: str, value: float | None) -> None:
        """Do what a button or a choice says. Quick presses of one arrive together."""
        times = min(int(value or 1), len(NAMES))
        self.set_trait("selected", "")
        if name == "size" and value in SIZES:
            self.block_size = int(value)
        elif name == "tokens":
            self.tokens = _KINDS[int(value or 0)]
        elif name == "add":
            room = len(NAMES) - len(self.prompts)
            self.prompts += [self.prompts[-1]] * min(times, room)
        elif name == "examples":
            self.prompts, self._cut = list(self._start), set()
        elif name.startswith("remove"):
            self._remove(int(name.removeprefix("remove")), times)
        self._admit()

    def _remove(self, i: int, times: int) -> None:
        for _ in range(times):
            if i < len(self.prompts) > FEWEST:
                del self.prompts[i]
                self._cut = set()

    def _admit(self, change: Change | None = None) -> None:
        self.study = study(self.prompts, self.block_size, self.tokens)
        self._change = change
        self.draw()

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the present state: sentence, picture, table, and what is typed."""
        parts = {
            "say": esc(self._sentence()),
            "picture": self.svg(prefix=self.prefix, interactive=True),
            "tables": table(self.study, self._change),
        }
        for i, prompt in enumerate(self.prompts):
            parts[f"count{i}"] = count_text(len(prompt.text), i in self._cut)
        self.place(parts, self._controls())

    def _sentence(self) -> str:
        """What is chosen, or else the story of the last prompt."""
        for chain in self.study.chains:
            for link in chain.links:
                if self.selected == f"link:{chain.name}:{link.logical}":
                    return of_link(self.study, chain, link)
        return sentence(self.study, self._change)

    def _controls(self) -> dict[str, dict[str, Any]]:
        full = len(self.prompts) == len(NAMES)
        states: dict[str, dict[str, Any]] = {
            "size": {"value": str(self.block_size)},
            "tokens": {"value": str(_KINDS.index(self.tokens))},
            "add": {"ariaDisabled": str(full).lower()},
        }
        last = str(len(self.prompts) <= FEWEST).lower()
        for i in range(len(NAMES)):
            there = i < len(self.prompts)
            prompt = self.prompts[i] if there else Prompt("")
            states[f"card{i}"] = {"hidden": not there}
            states[f"text{i}"] = {"value": prompt.text}
            states[f"salt{i}"] = {"value": prompt.salt}
            states[f"remove{i}"] = {"ariaDisabled": last}
        return states

    def svg(self, *, prefix: str | None = None, interactive: bool = False) -> str:
        """The picture as it is now."""
        return prefix_svg(
            self.study,
            tokens=self.tokens,
            change=self._change,
            selected=self.selected if interactive else None,
            prefix=prefix,
            interactive=interactive,
        )

    def page(self) -> str:
        """The same for a page without a kernel."""
        return page(self.study, self.svg())


def _short(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters; half a surrogate pair, which no message can carry,
    becomes a replacement mark."""
    kept = text[:limit]
    return kept.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
