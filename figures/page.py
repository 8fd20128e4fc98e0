"""A picture on a page: the sentence above, the tables below, safe anywhere.

The SVG travels inside an `<img>`: so it is shown where inline SVG is stripped (GitHub,
a notebook that is not trusted yet), two pictures can't mix their ids and styles, and
nothing in it can run. It still follows the page's light or dark.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

from blockmgr.events import Event, Snapshot
from figures.captions import summary
from figures.layout import WIDTH
from figures.scene import scene
from figures.text import state_details
from figures.theme import MIN_SCALE
from figures.words import Labels, esc, plural

# JupyterLab's and VS Code's pages have a theme of their own, which a picture in an
# <img> does not see. Pages that strip styles lose nothing else.
_STYLE = (
    "<style>:is([data-jp-theme-light=false],.vscode-dark) .kvpage img"
    "{color-scheme:dark}"
    ":is([data-jp-theme-light=true],.vscode-light) .kvpage img{color-scheme:light}"
    ".kvpage .kvaudit{border-left:4px solid #3f9567;padding:4px 12px;margin:6px 0}"
    ".kvpage .bad{border-color:#d55e00}</style>"
)
_START = "data:image/svg+xml;base64,"


def image(svg: str, alt: str) -> str:
    """An `<img>` that holds `svg`. It shrinks with the page until text gets small."""
    data = b64encode(svg.encode("utf-8")).decode("ascii")
    least = int(WIDTH * MIN_SCALE)
    return (
        f"<div style='overflow-x:auto'><img alt='{esc(alt)}' width='{WIDTH}' "
        f"style='display:block;width:100%;max-width:{WIDTH}px;min-width:{least}px;"
        f"height:auto;margin:0' src='{_START}{data}'/></div>"
    )


def svg_of(html: str) -> str:
    """The SVG inside a page that `image` wrote: for tests and for saving it."""
    data = html.partition(_START)[2].partition("'")[0]
    return b64decode(data).decode("utf-8")


def page(
    svg: str,
    snapshot: Snapshot,
    *,
    sentence: str = "",
    labels: Labels = None,
    tables: bool = True,
    more: str = "",
) -> str:
    """Sentence, picture, `more` HTML and the text alternative of `snapshot`."""
    alt = " ".join(filter(None, (sentence, summary(scene(snapshot)))))
    say = f"<p class='kvsay'><b>{esc(sentence)}</b></p>" if sentence else ""
    details = state_details(snapshot, labels) if tables else ""
    return f"<div class='kvpage'>{_STYLE}{say}{image(svg, alt)}{more}{details}</div>"


def repr_of(snapshot: Snapshot, event: Event | None = None) -> str:
    """A short line without addresses, for places that show no HTML."""
    after = f" after {event.op} {event.seq_id or ''}".rstrip() if event else ""
    return (
        f"{plural(len(snapshot.sequences), 'sequence')}, {snapshot.num_used} of "
        f"{snapshot.num_usable} blocks in use{after}"
    )
