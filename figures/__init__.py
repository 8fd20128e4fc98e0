"""Pictures of the block manager: maps, players, explorers, and how they look.

`show(manager)` draws a still picture, `BlockMap(manager)` one to click on, and
`Player(manager)` plays a recorded run, `AddressExplorer(manager)` follows one token.
`block_map` is the renderer behind most of them, `describe` says an event in words.

To read it, begin with what everything draws with: `theme.py` (colours), `words.py`
(text made safe and measured), `scene.py` (what a picture has to say). Then a block map:
`layout.py`, `marks.py`, `draw_*.py`, `lines.py`, and `svg.py`, which puts it together.
Then what shows it: `page.py`, `text.py` and `tables.py` (the same without a picture),
`still.py`, `stage.py` (widgets), `blockmap.py`, `machine.py` (widgets with steps),
`film.py` and `player.py`.

A folder holds a picture of its own with the same parts: `address/` (one token),
`reservations/` (four memories), `race/` (policies), `beams/`, `ribbon/` (the free
queue), `prefixes/` (hashes) and `playground/`; `fragmentation.py` and `pool_ruler.py`
are smaller ones. `charts/` draws experiments with matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figures.scene import Plan
from figures.sentences import describe
from figures.svg import block_map

if TYPE_CHECKING:
    from figures.address import AddressExplorer, KVShape, address_svg
    from figures.beams import BeamTree
    from figures.blockmap import BlockMap
    from figures.fragmentation import Fragmentation
    from figures.player import Player
    from figures.playground import Playground
    from figures.pool_ruler import PoolRuler
    from figures.prefixes import PrefixExplorer
    from figures.race import PolicyRace
    from figures.reservations import Reservations
    from figures.ribbon import QueueRibbon
    from figures.still import Picture, picture, show
    from figures.workflow import show_workflow, workflow_svg

__all__ = [
    "AddressExplorer",
    "BeamTree",
    "BlockMap",
    "Fragmentation",
    "KVShape",
    "Picture",
    "Plan",
    "Player",
    "Playground",
    "PolicyRace",
    "PoolRuler",
    "PrefixExplorer",
    "QueueRibbon",
    "Reservations",
    "address_svg",
    "block_map",
    "describe",
    "picture",
    "show",
    "show_workflow",
    "workflow_svg",
]

# Drawing needs nothing but Python. What needs widgets is loaded when it is asked for.
_LATER = {
    "AddressExplorer": "figures.address",
    "KVShape": "figures.address",
    "address_svg": "figures.address",
    "BeamTree": "figures.beams",
    "BlockMap": "figures.blockmap",
    "Fragmentation": "figures.fragmentation",
    "Player": "figures.player",
    "Playground": "figures.playground",
    "PoolRuler": "figures.pool_ruler",
    "PrefixExplorer": "figures.prefixes",
    "PolicyRace": "figures.race",
    "QueueRibbon": "figures.ribbon",
    "Reservations": "figures.reservations",
    "Picture": "figures.still",
    "picture": "figures.still",
    "show": "figures.still",
    "show_workflow": "figures.workflow",
    "workflow_svg": "figures.workflow",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'figures' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value
