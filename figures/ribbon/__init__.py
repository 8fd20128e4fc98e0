"""The free-queue ribbon: the queue before and after each step of a recorded run.

To read it: `moves.py` (what a step did to the queue), `layout.py` (where cells stand),
`cells.py`, `arrows.py` and `svg.py` (the picture), `story.py` and `table.py` (the same
in words), `widget.py`.
"""

from figures.ribbon.svg import ribbon_svg
from figures.ribbon.widget import QueueRibbon

__all__ = ["QueueRibbon", "ribbon_svg"]
