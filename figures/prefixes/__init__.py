"""Prompts side by side: which of their blocks are shared, and the chain of hashes.

To read it: `tokens.py` cuts text into tokens, `chains.py` has a real manager admit the
prompts and says what became of each block, `story.py` says it in words, `layout.py` and
`svg.py` draw it, `page.py` is the HTML around it and `explorer.py` the widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figures.prefixes.chains import Prompt, Study, study
from figures.prefixes.svg import prefix_svg

if TYPE_CHECKING:
    from figures.prefixes.explorer import PrefixExplorer

__all__ = ["PrefixExplorer", "Prompt", "Study", "prefix_svg", "study"]


# The picture needs nothing but Python: widgets are loaded when they are asked for.
def __getattr__(name: str) -> Any:
    if name != "PrefixExplorer":
        raise AttributeError(f"module 'figures.prefixes' has no attribute {name!r}")
    from figures.prefixes.explorer import PrefixExplorer

    globals()[name] = PrefixExplorer
    return PrefixExplorer
