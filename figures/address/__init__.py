"""One token's way from its position to its bytes: a picture, and one to click through.

To read it: `shape.py` and `trail.py` have the numbers, `layout.py` says where things
stand, `pen.py` how they look. `rows.py`, `memory.py`, `tensor.py` and `sums.py` draw
from top to bottom, and `svg.py` puts it together. `explorer.py` is the widget, with
`page.py` for the HTML around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figures.address.shape import KVShape
from figures.address.svg import address_svg

if TYPE_CHECKING:
    from figures.address.explorer import AddressExplorer

__all__ = ["AddressExplorer", "KVShape", "address_svg"]


# The picture needs nothing but Python: widgets are loaded when they are asked for.
def __getattr__(name: str) -> Any:
    if name != "AddressExplorer":
        raise AttributeError(f"module 'figures.address' has no attribute {name!r}")
    from figures.address.explorer import AddressExplorer

    globals()[name] = AddressExplorer
    return AddressExplorer
