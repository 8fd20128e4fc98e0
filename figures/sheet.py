"""What every picture stands in: its frame, its style sheet, its one pattern.

Only classes and variables stand here: every colour comes from `theme.py`, so that a
test can look at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from figures.theme import base_css, owner_rules
from figures.words import esc


def frame(
    body: str,
    width: float,
    height: float,
    *,
    name: str,
    words: str | None,
    prefix: str,
    owners: Iterable[int],
    kind: str = "",
    css: str = "",
) -> str:
    """A whole picture as an SVG string: `body` on its paper, with all it needs.

    `words` tell the picture to those who can't see it. Without them it is interactive:
    a group whose parts speak for themselves. `owners` are the colours it uses; `kind`
    and `css` are a class and rules beyond those of a block map.
    """
    classes = f"kvfig kvmap {kind}".rstrip()
    start, told = f"role='group' aria-label='{esc(name)}'", ""
    if words is not None:
        start = f"role='img' aria-labelledby='{prefix}-t {prefix}-d'"
        told = (
            f"<title id='{prefix}-t'>{esc(name)}</title>"
            f"<desc id='{prefix}-d'>{esc(words)}</desc>"
        )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='{classes}' "
        f"{start} viewBox='0 0 {width:g} {height:g}' width='{width:g}' "
        f"height='{height:g}'>{told}<style>{map_css()}{css}{owner_rules(owners)}</style>"
        f"{_HATCH.replace('ID', prefix)}"
        f"<rect class='paper' width='{width:g}' height='{height:g}' rx='8'/>"
        f"<g style='--hatched:url(#{prefix}-h)'>{body}</g></svg>"
    )


@lru_cache(maxsize=1)
def map_css() -> str:
    """The style sheet of every block map but for the owners' colours."""
    return base_css() + one_line(_MAP_CSS)


def one_line(css: str) -> str:
    """Rules without their line ends: they stand in every saved output."""
    return "".join(rule.strip() for rule in css.splitlines())


# The pattern of a block that is free and still remembered, as `#PREFIX-h`.
_HATCH = (
    "<defs><pattern id='ID-h' width='7' height='7' patternUnits='userSpaceOnUse' "
    "patternTransform='rotate(45)'><rect class='hatch0' width='7' height='7'/>"
    "<path class='hatch1' d='M0 0V7'/></pattern></defs>"
)

_MAP_CSS = """
.kvmap{font-size:13px;max-width:100%;height:auto}
.kvmap text{fill:var(--ink)}
.kvmap .paper,.kvmap .plate,.kvmap .hatch0{fill:var(--paper)}
.kvmap .hatch1{stroke:var(--hatch);stroke-width:4.5}
.kvmap .title{font-size:17px;font-weight:600}
.kvmap .head{font-size:14px;font-weight:700}
.kvmap .note,.kvmap .cap{fill:var(--muted)}
.kvmap .end{font-weight:600}
.kvmap .mid,.kvmap .tok,.kvmap .who,.kvmap .hash,.kvmap .sign,.kvmap .refs,
.kvmap .pill text{text-anchor:middle}
.kvmap .tag rect{fill:var(--fill)}
.kvmap .tag text,.kvmap .who{fill:var(--on)}
.kvmap .name{font-size:15px;font-weight:700}
.kvmap .stripe{stroke:none;fill:none}
.kvmap .striped .stripe{stroke:var(--on);stroke-width:3;stroke-dasharray:6 5}
.kvmap .edge{fill:var(--paper);stroke:var(--edge);stroke-width:1.6}
.kvmap .box .edge,.kvmap .used .edge{stroke:var(--own,var(--ink));stroke-width:2}
.kvmap .void .edge{fill:var(--inset);stroke:var(--edge);stroke-dasharray:4 3}
.kvmap .many .edge{stroke:var(--ink)}
.kvmap .to{fill:var(--text,var(--muted));font-size:14px;font-weight:700;text-anchor:end}
.kvmap .slot{fill:var(--inset);stroke:var(--line)}
.kvmap .slot.new{stroke:var(--own);stroke-width:2.2}
.kvmap .slot.none{fill:none;stroke-dasharray:2 2}
.kvmap .id{font-size:14px;font-weight:700}
.kvmap .free .edge{stroke-dasharray:4 3}
.kvmap .kept .edge{fill:var(--hatched);stroke-dasharray:none}
.kvmap .null .edge{fill:var(--null);stroke:var(--null)}
.kvmap .null text{fill:var(--on-null)}
.kvmap .sign{font-size:24px}.kvmap .small{font-size:15px}
.kvmap .band{fill:var(--fill)}.kvmap .who{font-weight:700}
.kvmap .bar{fill:var(--own,var(--ink));stroke:var(--own,var(--ink));stroke-width:1}
.kvmap .bar.none{fill:none;stroke:var(--edge)}
.kvmap .hash{font-family:var(--mono);font-weight:600}
.kvmap .badge,.kvmap .pill rect{fill:var(--mark)}
.kvmap .refs,.kvmap .pill text{fill:var(--on-mark);font-weight:700}
.kvmap .ghost rect{fill:none;stroke:var(--edge);stroke-width:1.6;stroke-dasharray:5 4}
.kvmap .asks rect{stroke:var(--bad-edge)}
.kvmap .asks .note{fill:var(--bad);font-weight:600}
.kvmap .heat{fill:var(--fill)}
.kvmap .h-free{fill:var(--paper)}.kvmap .h-kept{fill:var(--hatched)}
.kvmap .h-many{fill:var(--ink)}.kvmap .h-null{fill:var(--null)}
.kvmap .h-chg{stroke:var(--ink);stroke-width:2.5}
.kvmap .h-frame{fill:none;stroke:var(--edge)}
.kvmap .ribbon{fill:var(--inset);stroke:var(--line)}
.kvmap .line path{fill:none;stroke:var(--own);stroke-width:2}
.kvmap .line circle{fill:var(--own);stroke:var(--paper)}
.kvmap .line.striped path{stroke-dasharray:7 3}
.kvmap .line.chg path{stroke-width:3.4}
.kvmap .line.dim{opacity:.25}
.kvmap .chg>.edge{stroke-width:4;stroke-dasharray:none}
.kvmap .free.chg>.edge,.kvmap .many.chg>.edge{stroke:var(--ink)}
.kvmap .lit>.edge,.kvmap .hot>.edge{stroke-width:4}
.kvmap .free.lit>.edge,.kvmap .free.hot>.edge{stroke:var(--ink)}
.kvmap .sel>.edge,.kvmap .sel>rect:first-of-type{stroke:var(--ink);stroke-width:5}
.kvmap [data-key]{cursor:pointer}
.kvmap [data-key]:focus{outline:none}
.kvmap [data-key]:focus-visible{outline:2px solid var(--ink);outline-offset:3px}
@keyframes kvpulse{50%{stroke-opacity:.25}}
.kvmap .chg>.edge{animation:kvpulse .5s 2}
@media(prefers-reduced-motion:reduce){.kvmap *{animation:none!important}}
"""
