"""The tree of hypotheses as an SVG string: words in columns, living beams at the right.

A word that one living beam has is drawn in that beam's colour, one that several share
in ink, and one that nobody has any more grey and dashed: its blocks are gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from figures.beams.layout import (
    FIRST,
    GAP,
    HEIGHT,
    PITCH,
    PROMPT_WIDTH,
    TAG_WIDTH,
    TAGS,
    TOP,
    Spot,
    Tree,
    block_starts,
    column,
    row,
    step_width,
    tree_of,
)
from figures.beams.search import NAMES, Search
from figures.keys import sequence_key
from figures.layout import MARGIN, WIDTH
from figures.marks import Mark, checked, group
from figures.scene import Plan, scene
from figures.sheet import frame, one_line
from figures.theme import owner_class
from figures.words import esc, fitted, isolate, listed, plural, tooltip, wrap

PLAN = Plan(order=NAMES, longest=4, most=6)
"""What the pictures of all moves have in common: colours by name, and sizes."""


def tree_svg(
    search: Search,
    chosen: str,
    *,
    rows: int = 0,
    prefix: str = "kbeams",
    interactive: bool = False,
) -> str:
    """Draw the tree. `chosen` is marked; there is room for `rows` ends at least."""
    tree = tree_of(search)
    what = scene(search.state, selected=sequence_key(chosen), plan=PLAN)
    pen = _Pen(search, tree, chosen, Mark(what, checked(prefix) or "k", interactive))
    height = TOP + max(rows, tree.rows) * PITCH + 6
    return frame(
        "".join(pen.draw(height)),
        WIDTH,
        height,
        name="Tree of hypotheses",
        words=None if interactive else in_words(search),
        prefix=f"{prefix}-tree",
        owners=range(len(NAMES)),
        kind="kvbeams",
        css=_CSS,
    )


def in_words(search: Search) -> str:
    """The living beams, for those who can't see the tree."""
    texts = (f"{name}: {text_of(search, name)}" for name in search.beams)
    return f"Prompt: {' '.join(search.prompt)}. Living beams: {'; '.join(texts)}."


def text_of(search: Search, name: str) -> str:
    """What a living beam has written after the prompt."""
    nodes = list(search.path(search.beams[name].node))[::-1]
    return " ".join(node.word for node in nodes[1:]) or "nothing yet"


class _Pen:
    """Draws one tree."""

    def __init__(self, search: Search, tree: Tree, chosen: str, mark: Mark) -> None:
        self.search, self.tree, self.chosen, self.mark = search, tree, chosen, mark
        self.fresh = {search.beams[name].node for name in search.kept}
        self.wide = step_width() - GAP

    def draw(self, height: float) -> Iterator[str]:
        yield from self.heads(height)
        yield from self.twigs()
        yield self.prompt()
        for spot in self.tree.spots.values():
            if spot.node.parent is not None:
                yield self.word(spot)
        tags = "".join(self.tag(name) for name in self.tree.beams)
        if self.mark.interactive:
            tags = f"<g role='listbox' aria-label='living beams'>{tags}</g>"
        yield tags

    # --- what stands around ---

    def heads(self, height: float) -> Iterator[str]:
        """Where logical blocks begin, and what the columns are."""
        yield f"<text class='head' x='{MARGIN}' y='21'>Prompt</text>"
        yield f"<text class='head' x='{TAGS}' y='21'>Beams</text>"
        for position, block in block_starts(self.search):
            x = column(position, self.search) - GAP / 2
            yield f"<path class='fence' d='M{x:.1f} 8V{height - 6:g}'/>"
            yield f"<text class='note' x='{x + 6:.1f}' y='21'>logical {block}</text>"
        if self.tree.hidden:
            ends = plural(self.tree.hidden, "older branch", "older branches")
            yield (
                f"<text class='note' x='{MARGIN}' y='{height - 8:g}'>"
                f"{ends} not drawn</text>"
            )

    def prompt(self) -> str:
        lines = wrap(" ".join(self.search.prompt), PROMPT_WIDTH - 16)[:3]
        text = "".join(
            f"<text x='8' y='{18 + 18 * i}'>{esc(line)}</text>"
            for i, line in enumerate(lines)
        )
        return self.mark.fixed(
            "prompt",
            row(0),
            f"<rect class='edge all' width='{PROMPT_WIDTH}' "
            f"height='{8 + 18 * len(lines)}' rx='6'/>{text}",
            MARGIN,
        )

    # --- the tree ---

    def twigs(self) -> Iterator[str]:
        """Every line of the tree: quiet ones first, so that no beam's is hidden."""
        spots = sorted(self.tree.spots.values(), key=lambda spot: -len(spot.beams))
        for spot in sorted(spots, key=lambda spot: bool(spot.beams)):
            if spot.node.parent is not None:
                x = column(spot.node.depth, self.search)
                start = self.tree.spots[spot.node.parent]
                yield self.twig(start, x, spot.row, spot.beams)
        for name, at in self.tree.beams.items():
            spot = self.tree.spots[self.search.beams[name].node]
            yield self.twig(spot, TAGS, at, (name,), "leaf")

    def twig(
        self, start: Spot, x: float, to: int, beams: tuple[str, ...], kind: str = "twig"
    ) -> str:
        """A line from a word to the next one, or to a beam's tag."""
        left, y = self.right_of(start), row(start.row) + HEIGHT / 2
        down = f"V{row(to) + HEIGHT / 2:g}" if to != start.row else ""
        bend = f"H{left + GAP / 2:.1f}{down}"
        path = f"M{left:.1f} {y:g}{bend}H{x:.1f}"
        return f"<path class='{kind} {_whose(beams)}' d='{path}'/>"

    def right_of(self, spot: Spot) -> float:
        if spot.node.parent is None:
            return FIRST - 2 * GAP
        return column(spot.node.depth, self.search) + self.wide

    def word(self, spot: Spot) -> str:
        node = spot.node
        squeeze, inside = fitted(node.word, self.wide - 6)
        new = " chg" if node.number in self.fresh else ""
        x = column(node.depth, self.search)
        return (
            f"<g id='{self.mark.prefix}-n{node.number}' "
            f"class='leafword {_whose(spot.beams)}{new}' "
            f"transform='translate({x:.1f} {row(spot.row)})'>"
            f"<title>{tooltip(_caption(spot))}</title>"
            f"<rect class='edge' width='{self.wide:.1f}' height='{HEIGHT}' rx='6'/>"
            f"<text class='tok' x='{self.wide / 2:.1f}' y='18'{squeeze}>{inside}</text>"
            "</g>"
        )

    def tag(self, name: str) -> str:
        score = self.search.beams[name].score
        number = f"{score:.2f}".replace("-", "−")
        text = text_of(self.search, name)
        caption = f"beam {name}, score {number}: {text}"
        chosen = " pick" if name == self.chosen else ""
        start = self.mark.attributes(
            f"tag{NAMES.index(name)}",
            sequence_key(name),
            f"tag {owner_class(NAMES.index(name))}{chosen}",
            TAGS,
            row(self.tree.beams[name]),
            caption,
        )
        return group(
            start,
            f"<rect width='{TAG_WIDTH}' height='{HEIGHT}' rx='7'/>"
            f"<path class='stripe' d='M8 {HEIGHT - 3}h{TAG_WIDTH - 16}'/>"
            f"<text class='name' x='9' y='18'>{name}</text>"
            f"<text class='sum' x='{TAG_WIDTH - 8}' y='18'>{number}</text>",
        )


def _whose(beams: tuple[str, ...]) -> str:
    """Classes of something that these living beams have."""
    if not beams:
        return "dead"
    return owner_class(NAMES.index(beams[0])) + " own" if len(beams) == 1 else "all"


def _caption(spot: Spot) -> str:
    word, where = isolate(spot.node.word), f"token {spot.node.depth}"
    if not spot.beams:
        return f"“{word}”, {where}: dropped, no living beam has it"
    return f"“{word}”, {where} of {listed(spot.beams)}"


_CSS = one_line("""
.kvbeams .fence{fill:none;stroke:var(--line);stroke-dasharray:2 4}
.kvbeams .twig,.kvbeams .leaf{fill:none;stroke-width:2;stroke:var(--edge)}
.kvbeams .leaf{stroke-dasharray:2 4}
.kvbeams .own{stroke:var(--own)}
.kvbeams .own>.edge{stroke:var(--own);stroke-width:2.4}
.kvbeams .all>.edge,.kvbeams .edge.all{stroke:var(--ink);stroke-width:2}
.kvbeams .leafword text{stroke:none}
.kvbeams .dead>.edge{stroke-dasharray:4 3}
.kvbeams .dead text{fill:var(--muted)}
.kvbeams .twig.dead{stroke:var(--line);stroke-dasharray:4 3}
.kvbeams .sum{text-anchor:end}
.kvbeams .tag.pick>rect{stroke:var(--ink);stroke-width:4}
""")
"""What the tree needs beyond the style sheet of every picture."""
