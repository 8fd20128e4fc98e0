"""Beam search on a real manager: the tree of hypotheses above the block map.

Read `model.py`, `rules.py` and `search.py` (no screen in them), then the tree:
`layout.py` and `svg.py`. `page.py` and `widget.py` put it on a page.
"""

from figures.beams.rules import Move, NotPossible
from figures.beams.search import Search
from figures.beams.svg import tree_svg
from figures.beams.widget import BeamTree

__all__ = ["BeamTree", "Move", "NotPossible", "Search", "tree_svg"]
