"""AddressExplorer: choose a token and see where its K and V lie, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import traitlets

from blockmgr.errors import BlockManagerError
from figures.address.page import CONTROLS, STYLE, SUMMARY, options, page, table
from figures.address.rows import token_key
from figures.address.shape import shown
from figures.address.sums import sentence
from figures.address.svg import address_svg
from figures.address.trail import HALVES, Trail, trail
from figures.blockmap import Source, latest
from figures.stage import Stage, shell
from figures.words import Labels, esc

_CHOICE = ("seq_id", "position", "layer", "half")
_WAY = ("logical_block", "offset", "block_id", "slot")


class _Choice(traitlets.TraitType[Any, Any]):
    """Takes anything, so that the widget and not traitlets answers nonsense. (To
    `traitlets.Any`, None is always right: it asks no validator about it.)"""


class AddressExplorer(Stage):
    """Follows one token of `source` from its position to its slot and its bytes.

    `seq_id` (the first sequence without it), `position`, `layer` and `half` (0 for K,
    1 for V) say which token and which of its rows. All four can be set later, on the
    page or from Python. What can't be chosen raises nothing: the widget keeps the last
    choice and says what there is to choose from. `spec` (a `KVShape`, a `KVCacheSpec`
    or a `KVCache`) adds the bytes. Clicks and arrow keys set `selected` to `"token:9"`.

    Where the token lies can be read and observed: `logical_block`, `offset`,
    `block_id`, `slot`, and with a `spec` also `byte_offset` and `tensor_index`.
    """

    _css = Stage._css + STYLE

    seq_id: Any = _Choice("")
    position: Any = _Choice(0)
    layer: Any = _Choice(0)
    half: Any = _Choice(0)

    logical_block = traitlets.Int(None, allow_none=True, read_only=True)
    offset = traitlets.Int(None, allow_none=True, read_only=True)
    block_id = traitlets.Int(None, allow_none=True, read_only=True)
    slot = traitlets.Int(None, allow_none=True, read_only=True)
    byte_offset = traitlets.Int(None, allow_none=True, read_only=True)
    tensor_index: Any = traitlets.Tuple(None, allow_none=True, read_only=True)

    def __init__(
        self,
        source: Source,
        seq_id: str | None = None,
        *,
        position: int = 0,
        labels: Labels = None,
        spec: object = None,
        layer: int = 0,
        half: int = 0,
    ) -> None:
        self.source, self.labels, self.spec = source, labels, spec
        self._snapshot = latest(source, labels)[0].after
        self._trail: Trail | None = None
        self._settled = False
        super().__init__(shell(SUMMARY, CONTROLS))
        first = next(iter(self._snapshot.sequences), "")
        name = first if seq_id is None else seq_id
        self._open({"seq_id": name, "position": position, "layer": layer, "half": half})

    def __repr__(self) -> str:
        way = self._trail
        if way is None:
            return "AddressExplorer(no token to show)"
        where = way.address
        return (
            f"AddressExplorer({shown(way.seq_id)}, position={where.position}: "
            f"block {where.block_id}, slot {where.slot})"
        )

    def refresh(self) -> None:
        """Read the source again, after the manager has changed."""
        self._snapshot = latest(self.source, self.labels)[0].after
        self._open({name: getattr(self, name) for name in _CHOICE})

    # --- choosing -------------------------------------------------------------------

    @traitlets.validate(*_CHOICE)
    def _possible(self, proposal: Any) -> Any:
        """The value that was asked for if there is such a token, else the old one."""
        name, value = proposal["trait"].name, proposal["value"]
        if self._settled:
            return value
        self._aim({name: value})
        return getattr(self, name)

    def _aim(self, changes: Mapping[str, Any]) -> None:
        """Choose: all of it, or nothing and a complaint. Both draw a frame."""
        choice = {name: getattr(self, name) for name in _CHOICE} | dict(changes)
        view = self._snapshot.sequences.get(str(choice["seq_id"]))
        if "seq_id" in changes and view and view.token_ids:
            # Another sequence may be shorter: then its last token is the nearest.
            choice["position"] = min(choice["position"], len(view.token_ids) - 1)
        try:
            self._take(trail(self._snapshot, **choice, spec=self.spec))
        except BlockManagerError as error:
            self.complain(error)

    def _open(self, wanted: Mapping[str, Any]) -> None:
        """Choose what is wanted, or else the nearest that there is, and say so."""
        problem: BlockManagerError | None = None
        for choice in self._nearest({"spec": self.spec, **wanted}):
            try:
                way = trail(self._snapshot, **choice)
            except BlockManagerError as error:
                problem = problem or error
                continue
            self.spec = choice["spec"]
            self._take(way)
            break
        else:
            self._trail = None
            self.place({"say": "", "picture": "", "tables": ""}, self._controls())
        if problem is not None:
            self.complain(problem)

    def _nearest(self, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What is wanted, then with one part of it given up, then with all."""
        views = self._snapshot.sequences.values()
        first = next((view.seq_id for view in views if view.block_table), "")
        parts: tuple[dict[str, Any], ...] = (
            {},
            {"layer": 0, "half": 0},
            {"spec": None, "layer": 0, "half": 0},
            {"position": 0},
            {"seq_id": first},
            {"seq_id": first, "position": 0},
            {"seq_id": first, "position": 0, "layer": 0, "half": 0},
            {"seq_id": first, "position": 0, "layer": 0, "half": 0, "spec": None},
        )
        yield from (wanted | part for part in parts)

    def _take(self, way: Trail) -> None:
        """Make this way the present one, in every trait, and draw it."""
        self._trail, where = way, way.address
        known = way.shape is not None
        self._settled = True
        try:
            self.seq_id, self.position = way.seq_id, where.position
            self.layer, self.half = way.layer, way.half
        finally:
            self._settled = False
        for name, value in zip(_WAY, where[1:], strict=True):
            self.set_trait(name, value)
        self.set_trait("byte_offset", way.byte if known else None)
        self.set_trait("tensor_index", way.index if known else None)
        self.selected = token_key(where.position)
        self.draw()

    # --- from the page --------------------------------------------------------------

    def act(self, name: str, value: float | None) -> None:
        """Do what a control asks for."""
        number: Any = int(value) if value is not None and value == int(value) else value
        if name in ("back", "forward"):
            by = number or 1  # quick presses arrive together
            self._step(by if name == "forward" else -by)
        elif name == "sequence":
            self._aim({"seq_id": list(self._snapshot.sequences)[number]})
        else:
            self._aim({"position" if name == "slide" else name: number})

    def _step(self, by: int) -> None:
        """To the token beside this one; at an end, stay."""
        last = self._last()
        self._aim({"position": min(max(self.position + by, 0), last)})

    def _last(self) -> int:
        """The last position of the chosen sequence."""
        if self._trail is None:
            return 0
        return len(self._snapshot.sequences[self._trail.seq_id].token_ids) - 1

    def _selected(self, change: Any) -> None:
        """A click on a token; one beside the tokens changes nothing."""
        if self._trail is None:
            return
        here = token_key(self._trail.address.position)
        kind, _, number = change["new"].partition(":")
        if change["new"] == here:
            return
        if kind == "token" and number.isascii() and number.isdigit():
            self._aim({"position": int(number[:20])})
        self.selected = token_key(self._trail.address.position)

    # --- showing --------------------------------------------------------------------

    def draw(self) -> None:
        """Place the present address."""
        if self._trail is None:
            return
        self.place(
            {
                "say": esc(sentence(self._trail, self.labels)),
                "picture": self.svg(prefix=self.prefix, interactive=True),
                "tables": table(self._trail),
            },
            self._controls(),
        )

    def _controls(self) -> dict[str, dict[str, Any]]:
        """The state of the controls; those with nothing to choose are hidden."""
        names, way = list(self._snapshot.sequences), self._trail
        position, last = (way.address.position if way else 0), self._last()
        place = names.index(way.seq_id) if way else 0
        layers = range(way.shape.layers if way and way.shape else 1)
        halves = [f"{name} of each token" for name in HALVES]
        text = f"position {position} of 0 to {last}"
        return {
            "slide": {"max": last, "value": position, "valueText": text},
            "position": {"max": last, "value": position},
            "back": {"ariaDisabled": str(position == 0).lower()},
            "forward": {"ariaDisabled": str(position == last).lower()},
            "sequence": _select(names, place),
            "half": _select(halves if way and way.shape else [], self.half),
            "layer": _select([f"layer {i}" for i in layers], self.layer),
        }

    def svg(self, *, prefix: str | None = None, interactive: bool = False) -> str:
        """The picture as it is now; nothing if there is no token to show."""
        if self._trail is None:
            return ""
        return address_svg(
            self._snapshot,
            self._trail.seq_id,
            self._trail.address.position,
            labels=self.labels,
            spec=self.spec,
            layer=self._trail.layer,
            half=self._trail.half,
            prefix=prefix,
            interactive=interactive,
        )

    def page(self) -> str:
        """The same for a page without a kernel."""
        error = str(self.frame["parts"]["error"])
        if self._trail is None:
            return f"<p role='alert'>{error}</p>"
        return page(self._trail, self.svg(), self._snapshot, self.labels, error)


def _select(names: list[str], chosen: int) -> dict[str, Any]:
    """A list to choose from; hidden if there is no choice."""
    return {
        "innerHTML": options(names),
        "value": str(chosen),
        "hidden": len(names) < 2,
    }
