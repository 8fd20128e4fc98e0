"""A picture on a page: the sentence above, the tables below, safe anywhere.

The SVG travels inside an `<img>`: so it is shown where inline SVG is stripped (GitHub,
a notebook that is not trusted yet), two pictures can't mix their ids and styles, and
nothing in it can run. It still follows the page's light or dark.
"""

from __future__ import annotations

from base64 import b64encode

from blockmgr.events import Event, Snapshot
from figures.captions import summary
from figures.layout import WIDTH
from figures.scene import scene
from figures.text import state_details
from figures.theme import BAD, GOOD, MIN_SCALE, TOKENS
from figures.words import Labels, esc, plural

# JupyterLab's and VS Code's pages have a theme of their own, which a picture in an
# <img> does not see. Pages that strip styles lose nothing else.
STYLE = (
    "<style>:is([data-jp-theme-light=false],.vscode-dark) .kvpage img"
    "{color-scheme:dark}"
    ":is([data-jp-theme-light=true],.vscode-light) .kvpage img{color-scheme:light}"
    ".kvroom::-webkit-scrollbar{height:12px}"
    f".kvroom::-webkit-scrollbar-thumb{{background:{TOKENS['edge'][1]};"
    "border-radius:6px}"
    f".kvpage .kvaudit{{border-left:4px solid {GOOD};padding:4px 12px;margin:6px 0}}"
    f".kvpage .bad{{border-color:{BAD}}}</style>"
)


def image(svg: str, alt: str, width: int = WIDTH, widest: int | None = None) -> str:
    """An `<img>` that holds `svg`, `width` px wide. It grows with its page up to
    `widest` (no further than `width` without it), and shrinks until text gets small."""
    data = b64encode(svg.encode("utf-8")).decode("ascii")
    least, most = int(width * MIN_SCALE), widest or width
    return (
        f"<div class='kvroom' style='overflow-x:auto' tabindex='0' role='group' "
        f"aria-label='picture'><img alt='{esc(alt)}' width='{width}' "
        f"style='display:block;width:100%;max-width:{most}px;min-width:{least}px;"
        f"height:auto;margin:0' src='data:image/svg+xml;base64,{data}'/></div>"
    )


def page(
    svg: str,
    snapshot: Snapshot,
    *,
    sentence: str = "",
    labels: Labels = None,
    tables: bool = True,
    more: str = "",
    width: int = WIDTH,
    widest: int | None = None,
) -> str:
    """Sentence, picture, `more` HTML and the text alternative of `snapshot`.

    `width` and `widest` are those of `image`.
    """
    alt = " ".join(filter(None, (sentence, summary(scene(snapshot)))))
    say = f"<p class='kvsay'><b>{esc(sentence)}</b></p>" if sentence else ""
    details = state_details(snapshot, labels) if tables else ""
    shown = image(svg, alt, width, widest)
    return f"<div class='kvpage'>{STYLE}{say}{shown}{more}{details}</div>"


def repr_of(snapshot: Snapshot, event: Event | None = None) -> str:
    """A short line without addresses, for places that show no HTML."""
    after = f" after {event.op} {event.seq_id or ''}".rstrip() if event else ""
    return (
        f"{plural(len(snapshot.sequences), 'sequence')}, {snapshot.num_used} of "
        f"{snapshot.num_usable} blocks in use{after}"
    )
