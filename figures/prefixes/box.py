"""Drawing one block of a prompt: its numbers, owners, tokens and hash, and its fate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from figures.draw_pool import short_names
from figures.marks import Mark, group
from figures.prefixes.chains import Chain, Fate, Link
from figures.prefixes.layout import BAND, CHIP, HEAD, PILL, SLOT, Shape
from figures.scene import Scene
from figures.words import fitted, width

WORDS = {Fate.HIT: "hit", Fate.NEW: "new", Fate.AGAIN: "again", Fate.PART: ""}
"""Under a block: what became of it."""


def link_key(name: str, index: int) -> str:
    """The name of a block in `selected`: `link:B:2`."""
    return f"link:{name}:{index}"


@dataclass(frozen=True, slots=True)
class Pen:
    """Draws the blocks of one picture."""

    scene: Scene
    mark: Mark
    shape: Shape

    def box(self, chain: Chain, link: Link, x: float, y: float, new: bool) -> str:
        """A block at `x, y`. With `new`, its hash is not what it was."""
        owners = self.scene.owners[link.block_id]
        kind = self.scene.owner(owners[0]) if len(owners) == 1 else "many"
        start = self.mark.attributes(
            f"{chain.name}-l{link.logical}",
            link_key(chain.name, link.logical),
            f"blk used {kind}{' part' if link.digest is None else ''}",
            x,
            y,
            caption(chain, link),
            block=link.block_id,
        )
        cells = "".join(self._cells(link))
        inside = self._head(link) + self._bands(owners) + cells
        return group(start, inside + self._hash(link, new) + self._word(link))

    def _head(self, link: Link) -> str:
        form, badge, right = self.shape, "", self.shape.width - 8
        if link.refs > 1:
            right, x = right - 10, f"{form.width - 6:.1f}"
            badge = (
                f"<circle class='badge' cx='{x}' cy='5' r='9.5'/>"
                f"<text class='refs' x='{x}' y='9.5'>{link.refs}</text>"
            )
        return (
            f"<rect class='edge' width='{form.width:.1f}' "
            f"height='{form.height:.1f}' rx='7'/>"
            f"<text class='cap' x='8' y='16'>{link.logical}</text>"
            f"<text class='to' x='{right:.1f}' y='16'>→ {link.block_id}</text>{badge}"
        )

    def _bands(self, owners: tuple[str, ...]) -> str:
        share = (self.shape.width - 4) / len(owners)
        names = short_names(owners, share)
        return "".join(
            f"<g class='{self.scene.owner(owner)}'><rect class='band' "
            f"x='{2 + i * share:.1f}' y='{HEAD}' width='{share:.1f}' height='{BAND}'/>"
            f"<text class='who' x='{2 + (i + 0.5) * share:.1f}' y='{HEAD + 14}'>"
            f"{name}</text></g>"
            for i, (owner, name) in enumerate(zip(owners, names, strict=True))
        )

    def _cells(self, link: Link) -> Iterator[str]:
        form = self.shape
        for slot in range(self.scene.snapshot.block_size):
            x, y = form.cell_spot(slot)
            kind = "slot" if slot < len(link.texts) else "slot none"
            yield (
                f"<rect class='{kind}' x='{x:.1f}' y='{y:.1f}' "
                f"width='{form.cell:.1f}' height='{SLOT - 3}' rx='3'/>"
            )
            if slot < len(link.texts):
                squeeze, inside = fitted(link.texts[slot], form.cell - 3)
                yield (
                    f"<text class='tok' x='{x + form.cell / 2:.1f}' "
                    f"y='{y + 15:.1f}'{squeeze}>{inside}</text>"
                )

    def _hash(self, link: Link, new: bool) -> str:
        middle, line = self.shape.width / 2, self.shape.chip_y
        place = f"x='{middle:.1f}' y='{line + 5:.1f}'"
        if link.digest is None:
            return f"<text class='note mid' {place}>no hash</text>"
        text = f"≠ {link.digest[:4]}" if new else link.digest[:4]
        return (
            f"<rect class='chip{' other' if new else ''}' x='{middle - 33:.1f}' "
            f"y='{line - CHIP / 2:.1f}' width='66' height='{CHIP}' rx='6'/>"
            f"<text class='hash' {place}>{text}</text>"
        )

    def _word(self, link: Link) -> str:
        word = WORDS[link.fate]
        if not word:
            return ""
        middle, top = self.shape.width / 2, self.shape.height + 4
        wide = width(word, 13, bold=True) + 14
        return (
            f"<g class='pill {link.fate.name.lower()}'>"
            f"<rect x='{middle - wide / 2:.1f}' y='{top:.1f}' width='{wide:.1f}' "
            f"height='{PILL - 6}' rx='9'/>"
            f"<text x='{middle:.1f}' y='{top + 13.5:.1f}'>{word}</text></g>"
        )


def caption(chain: Chain, link: Link) -> str:
    """One line for the mouse and for screen readers."""
    words = " ".join(text[:40] for text in link.texts)
    hashed = f"hash {link.digest[:4]}" if link.digest else "not full, no hash"
    fate = f", {WORDS[link.fate]}" if WORDS[link.fate] else ""
    return (
        f"{chain.name}, logical block {link.logical}, in physical block "
        f"{link.block_id} (ref count {link.refs}), {hashed}{fate}: {words}"
    )
