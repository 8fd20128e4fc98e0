"""`prefix_svg`: prompts in blocks, one above the other, with their chains of hashes.

Each box is a physical block as one prompt sees it: its owners' colours, its ref count,
its tokens, its hash, and under it the word for what became of it. Arrows run from each
hash to the one that is made from it. It is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from zlib import crc32

from figures.layout import MARGIN, WIDTH
from figures.marks import Mark, checked
from figures.prefixes.box import Pen, link_key
from figures.prefixes.chains import Chain, Change, Study, fresh
from figures.prefixes.layout import GAP, LEFT, NOTE, TAG, Shape, fitting, shape
from figures.prefixes.story import sentence, tally
from figures.scene import Plan, Scene, scene
from figures.sheet import frame, one_line
from figures.words import clip, esc, plural, width


def prefix_svg(
    study: Study,
    *,
    tokens: str = "words",
    change: Change | None = None,
    selected: str | None = None,
    prefix: str | None = None,
    interactive: bool = False,
) -> str:
    """Draw the chains of `study`. Hashes that the last `change` made new get a sign.

    `tokens` says what a token is, for the width of its cell. `selected` (`link:B:2`)
    lights up every sight of that physical block. `prefix` begins every id and
    `interactive` adds keys and focus, both as in `block_map`.
    """
    order = tuple(chain.name for chain in study.chains)
    plain = scene(study.snapshot, labels=study.labels, plan=Plan(order))
    what = _lit(study, plain, selected)
    mark = Mark(what, checked(prefix) or "\0", interactive)
    picture = _Picture(study, Pen(what, mark, shape(study.block_size, tokens)), change)
    body = "".join(map(picture.prompt, study.chains))
    whole = frame(
        body,
        WIDTH,
        picture.height,
        name="Prompts in blocks, and their chains of hashes",
        words=None if interactive else sentence(study, change),
        prefix=prefix or "\0",
        owners=what.colours.values(),
        kind="kvprefix",
        css=_CSS,
    )
    # The prefix is computed from what was drawn: two different pictures never share it.
    return whole if prefix else whole.replace("\0", f"p{crc32(whole.encode()):08x}")


def _lit(study: Study, what: Scene, selected: str | None) -> Scene:
    """The scene, with every sight of the selected physical block lit."""
    keys = {
        link_key(chain.name, link.logical): link.block_id
        for chain in study.chains
        for link in chain.links
    }
    if selected not in keys:
        return what
    lit = frozenset(key for key, block in keys.items() if block == keys[selected])
    return replace(what, selected=selected, lit=lit)


class _Picture:
    """One picture being laid out from top to bottom; `height` grows as it goes."""

    def __init__(self, study: Study, pen: Pen, change: Change | None) -> None:
        self.pen, self.change = pen, change
        self.lines = 3 if len(study.chains) < 3 else 2
        self.height: float = MARGIN

    def prompt(self, chain: Chain) -> str:
        """One prompt: its tag, its blocks, the line that counts."""
        form, top = self.pen.shape, self.height
        places = fitting(len(chain.links), self.lines * form.columns)
        boxes = "".join(self.places(chain, places, top))
        if self.pen.mark.interactive and places:
            name = f"blocks of {chain.name}"
            boxes = f"<g role='listbox' aria-label='{name}'>{boxes}</g>"
        lines = -(-len(places) // form.columns)
        self.height += max(lines * form.pitch - 6, 50) + NOTE
        counted = (
            f"<text class='note' x='{LEFT}' y='{self.height - 6:g}'>"
            f"{tally(chain)}</text>"
        )
        self.height += 14
        return self.tag(chain, top) + boxes + counted

    def tag(self, chain: Chain, top: float) -> str:
        """The prompt's name in its colour, and the salt in its chain."""
        name, tokens = chain.name, _count(chain.num_tokens)
        salt = clip(chain.prompt.salt, TAG) if chain.prompt.salt else ""
        below = (
            "<text class='note' x='0' y='66'>salt</text>"
            f"<text class='salt' x='0' y='83'>{esc(salt)}</text>"
        )
        return (
            f"<g transform='translate({MARGIN} {top:g})'>"
            f"<g class='tag {self.pen.scene.owner(name)}'>"
            f"<rect width='{TAG}' height='46' rx='7'/>"
            f"<text class='name' x='10' y='20'>{name}</text>"
            f"<text x='10' y='38'>{tokens}</text></g>{below if salt else ''}</g>"
        )

    def places(
        self, chain: Chain, places: Sequence[int | None], top: float
    ) -> Iterator[str]:
        """The blocks of a prompt, and the arrows between their hashes."""
        new = fresh(chain, self.change)
        for place, index in enumerate(places):
            x, dy = self.pen.shape.spot(place)
            y = top + dy
            if index is None:
                count = len(chain.links) - len(places) + 1
                yield _left_out(self.pen.shape, count, x, y)
                continue
            link = chain.links[index]
            if link.digest is not None:
                yield _arrow(self.pen.shape, place, x, y)
            yield self.pen.box(chain, link, x, y, index in new)


def _arrow(form: Shape, place: int, x: float, y: float) -> str:
    """From the hash before to this one. The first begins at a dot; one that comes from
    the line above begins at a stem."""
    line, start, sign = y + form.chip_y, x - GAP + 2, ""
    if place == 0:
        sign = f"<circle cx='{start:.1f}' cy='{line:.1f}' r='3.5'/>"
    elif place % form.columns == 0:
        sign = f"<path d='M{start:.1f} {line - 12:.1f}v12'/>"
    return (
        f"<g class='chain'>{sign}<path d='M{start:.1f} {line:.1f}H{x - 6:.1f}'/>"
        f"<path class='tip' d='M{x - 8:.1f} {line - 4.5:.1f}l7 4.5l-7 4.5z'/></g>"
    )


def _left_out(form: Shape, count: int, x: float, y: float) -> str:
    place = f"class='note mid' x='{x + form.width / 2:.1f}'"
    return (
        f"<text {place} y='{y + 40:.1f}'>…</text>"
        f"<text {place} y='{y + 58:.1f}'>{count:,} more</text>"
    )


def _count(tokens: int) -> str:
    forms = (plural(tokens, "token"), f"{tokens} tok.")
    return next((text for text in forms if width(text) <= TAG - 14), forms[-1])


_CSS = one_line("""
.kvprefix .part>.edge{stroke-dasharray:5 4}
.kvprefix .chip{fill:var(--inset);stroke:var(--edge);stroke-width:1.4}
.kvprefix .chip.other{stroke:var(--ink);stroke-width:3}
.kvprefix .chain path{fill:none;stroke:var(--ink);stroke-width:1.8}
.kvprefix .chain .tip,.kvprefix .chain circle{fill:var(--ink);stroke:none}
.kvprefix .pill.new rect{fill:var(--paper);stroke:var(--mark);stroke-width:1.4}
.kvprefix .pill.new text{fill:var(--ink)}
.kvprefix .salt{font-weight:700}
""")
