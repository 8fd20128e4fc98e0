"""BeamTree: grow and prune hypotheses, and watch what their blocks do."""

from __future__ import annotations

from typing import Any

from figures.address.page import options
from figures.beams.latest import latest
from figures.beams.layout import tree_of
from figures.beams.page import (
    CONTROLS,
    FILLER,
    GAUGE,
    STORY,
    SUMMARY,
    WIDEST,
    gauge,
    sentence,
    story,
    tables,
)
from figures.beams.rules import LONGEST_WORD, MOST_MOVES, Move, NotPossible
from figures.beams.search import Search
from figures.beams.svg import PLAN, in_words, tree_svg
from figures.layout import Room
from figures.page import STYLE, image
from figures.stage import Stage, shell
from figures.svg import block_map, room_of
from figures.words import esc, plural


class BeamTree(Stage):
    """Beam search by hand, on a real block manager: the tree, and below it the map.

    `prompt` has up to 6 words, one token each; `width` is how many beams a step keeps;
    `steps` are taken before it is shown. The pool is small on purpose, and so is the
    picture: 6 living beams and 10 words each. What is too much is said in words and
    changes nothing. `search` is what is shown: its `manager`, its `beams`, its
    `copies`. Clicks and keys choose a beam.

    Raises `InvalidRequest` for a prompt that is empty or too long.
    """

    def __init__(
        self,
        prompt: str | None = None,
        *,
        width: int = 3,
        steps: int = 0,
        num_blocks: int = 16,
        block_size: int = 4,
    ) -> None:
        given = {} if prompt is None else {"prompt": prompt}
        self.search = Search(**given, num_blocks=num_blocks, block_size=block_size)
        self.width = min(max(int(width), 1), WIDEST)
        self.chosen = next(iter(self.search.beams))
        self._word = self._problem = ""
        for _ in range(steps):
            self.search.do(Move("step", width=self.width))
        self._make_room()
        super().__init__(shell(SUMMARY, CONTROLS + GAUGE, STORY, stays=True))
        self.draw()

    def __repr__(self) -> str:
        return (
            f"BeamTree({plural(len(self.search.beams), 'beam')}, "
            f"{self.search.state.num_used} blocks)"
        )

    def _make_room(self) -> None:
        """As much room as a search of this width takes: later moves need no more, and
        if some do, what has grown does not shrink again."""
        trial = Search(
            " ".join(self.search.prompt),
            self.search.num_blocks,
            self.search.block_size,
        )
        self._rows, self._room = 0, Room()
        self._grow(self.search)
        for _ in range(4):
            try:
                trial.do(Move("step", width=self.width))
            except NotPossible:
                break
            self._grow(trial)

    def _grow(self, search: Search) -> None:
        self._rows = max(self._rows, tree_of(search).rows)
        room = room_of(search.state, latest(search), search.before, PLAN)
        self._room = self._room.joined(room)

    # --- from the page ----------------------------------------------------------------

    def act(self, name: str, value: float | None) -> None:
        """Do what a control asks for; what can't be done is said."""
        self._problem = ""
        times = min(int(value or 1), MOST_MOVES)  # quick presses arrive together
        try:
            if name == "width":
                self.width = min(max(int(value or 1), 1), WIDEST)
            elif name == "beam":
                self._choose(list(self.search.beams)[int(value or 0)])
            elif name == "reset":
                self.search.reset()
            elif name == "undo":
                for _ in range(times):
                    self.search.undo()
            elif name in ("step", "fork", "prune", "give"):
                self._move(name, times if name in ("step", "fork") else 1)
        except NotPossible as problem:
            self._problem = str(problem)
        except IndexError:
            self._problem = "That beam is not there any more."
        self.draw()

    def _move(self, op: str, times: int) -> None:
        for _ in range(times):
            self.search.do(
                Move(op, self.chosen, " ".join(self._word.split()), self.width)
            )
        if op == "give":
            self._word = ""

    def typed(self, name: str, text: str) -> None:
        """Keep the word that is being typed."""
        if name == "word":
            self._word, self._problem = text[: 2 * LONGEST_WORD], ""
        self.draw()

    def _selected(self, change: Any) -> None:
        """A click on a beam, in the tree or in the map, chooses it."""
        kind, _, rest = str(change["new"]).partition(":")
        if kind == "seq":
            self._choose(rest.partition(":")[0])
        self.safely(self.draw)

    def _choose(self, name: str) -> None:
        if name in self.search.beams:
            self.chosen = name

    # --- showing ----------------------------------------------------------------------

    def draw(self) -> None:
        """Place the state after the latest move."""
        search = self.search
        if self.chosen not in search.beams:
            self.chosen = max(search.beams, key=lambda name: search.beams[name].score)
        self._grow(search)
        self.place(
            {
                "say": self._say(),
                "space": esc(FILLER),
                "count": plural(self.width, "beam"),
                "gauge": gauge(search),
                "picture": self.tree(interactive=True) + self.map(interactive=True),
                "story": story(search),
                "tables": tables(search),
            },
            self._controls(),
        )

    def _say(self) -> str:
        if self._problem:
            return f"Not possible. {esc(self._problem)}"
        return esc(sentence(self.search))

    def _controls(self) -> dict[str, dict[str, Any]]:
        names = list(self.search.beams)
        return {
            "width": {"value": self.width, "valueText": plural(self.width, "beam")},
            "beam": {
                "innerHTML": options(names),
                "value": str(names.index(self.chosen)),
            },
            "word": {"value": self._word},
            "undo": {"ariaDisabled": str(not self.search.moves).lower()},
        }

    def tree(self, *, interactive: bool = False) -> str:
        """The tree of hypotheses as it is now."""
        prefix = f"{self.prefix}t" if interactive else "kbeams"
        return tree_svg(
            self.search,
            self.chosen,
            rows=self._rows,
            prefix=prefix,
            interactive=interactive,
        )

    def map(self, *, interactive: bool = False) -> str:
        """The block map as it is now."""
        return block_map(
            self.search.state,
            event=latest(self.search),
            before=self.search.before,
            labels=self.search.words.labels,
            selected=self.selected if interactive else None,
            plan=PLAN,
            prefix=self.prefix if interactive else None,
            interactive=interactive,
            room=self._room if interactive else Room(),
        )

    def page(self) -> str:
        """The same for a page without a kernel."""
        words = in_words(self.search)
        return (
            f"<div class='kvpage'>{STYLE}"
            f"<p class='kvsay'><b>{esc(sentence(self.search))}</b></p>"
            f"<p>{gauge(self.search)}</p>{image(self.tree(), words)}"
            f"{image(self.map(), f'Block map. {words}')}"
            f"<details><summary>{SUMMARY}</summary>{tables(self.search)}</details></div>"
        )
