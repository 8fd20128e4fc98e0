"""An address in words and in numbers: the sentence above, the arithmetic beneath."""

from __future__ import annotations

from collections.abc import Iterator

from figures.address.layout import LEFT, RIGHT
from figures.address.pen import Pen, chip_width
from figures.address.trail import Equation, Trail
from figures.words import Labels, esc, isolate, token_name, width

RULE_WIDTH = 206  # column of the rules, beside that of the numbers
LINE = 27  # from one line to the next
MONO = 8.4  # width of a sign between numbers


def sentence(way: Trail, labels: Labels = None) -> str:
    """The address in plain words: what stands above the picture."""
    where = way.address
    return (
        f"Position {where.position} of {isolate(way.seq_id)} is "
        f"{token_name(way.token_id, labels)}: offset {where.offset} of logical block "
        f"{where.logical_block}. The table puts that block into physical block "
        f"{where.block_id}, so the token has slot {where.slot}."
    )


class Sums:
    """The equations of a way, a line each; `height` grows as it goes."""

    def __init__(self, pen: Pen, top: float) -> None:
        self.pen = pen
        self.height = top

    def draw(self) -> Iterator[str]:
        """Every line, from top to bottom."""
        for equation in self.pen.way.equations():
            yield from self._equation(equation)

    def _equation(self, equation: Equation) -> Iterator[str]:
        """One line: the rule, the numbers, and the name of what comes out."""
        self.height += LINE
        y = self.height - LINE / 2
        yield f"<text class='note' x='{LEFT}' y='{y + 5:g}'>{esc(equation.rule)}</text>"
        x: float = LEFT + RULE_WIDTH
        for part in equation.parts:
            if isinstance(part, str):
                yield _plain(part, x, y)
                x += len(part) * MONO
            else:
                if x + chip_width(part.text) > RIGHT + 6:
                    x, y = LEFT + RULE_WIDTH, y + LINE
                    self.height += LINE
                yield self.pen.chip(part.quantity, part.text, x + 2, y)
                x += chip_width(part.text) + 4
        yield self._outcome(equation, x + 10)

    def _outcome(self, equation: Equation, x: float) -> str:
        """The name of the result, on a line of its own if there is no more room."""
        last = equation.parts[-1]
        classes = "note"
        if not isinstance(last, str):
            classes = f"name-q {self.pen.classes(last.quantity)}"
        if x + width(equation.outcome, 13, bold=True) > RIGHT + 6:
            self.height += LINE - 6
            x = LEFT + RULE_WIDTH
        y = self.height - LINE / 2 + 5
        return (
            f"<text class='{classes}' x='{x:.1f}' y='{y:g}'>{equation.outcome}</text>"
        )


def _plain(text: str, x: float, y: float) -> str:
    """Signs between numbers, each as wide as the next, so that nothing drifts."""
    left = x + (len(text) - len(text.lstrip(" "))) * MONO
    shown = text.strip(" ")
    return (
        f"<text class='sum' x='{left:.1f}' y='{y + 5:g}' "
        f"textLength='{len(shown) * MONO:.1f}'>{esc(shown)}</text>"
    )
