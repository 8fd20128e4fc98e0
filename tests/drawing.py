"""Recorded runs to draw, and ways to look into an SVG. Shared by the figure tests."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any
from xml.etree import ElementTree

from hypothesis import strategies as st

from blockmgr import BlockManager, EventLog
from figures import Plan, block_map

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<script>alert('x')</script>&\"'\x00\ud800\u202e😀"


def log_of(manager: BlockManager) -> EventLog:
    assert manager.log is not None
    return manager.log


def busy(num_blocks: int = 12) -> BlockManager:
    """A run with hits, sharing, waiting, preemption, and a request that leaves."""
    m = BlockManager(num_blocks, 4, record=True)
    m.allocate("A", [1, 2, 3, 4, 5, 6])
    m.allocate("B", [1, 2, 3, 4, 7, 8, 9, 10])
    m.append("B", [11])
    m.append("B", [12])
    m.allocate("C", [21, 22, 23, 24])
    m.free("A")
    m.allocate("D", [1, 2, 3, 4, *range(50, 62)])
    m.allocate("E", range(100, 130))
    m.preempt("B")
    m.resume("B")
    m.free("C")
    return m


def draw(manager: BlockManager, step: int = -1, **options: Any) -> str:
    log = log_of(manager)
    states = log.snapshots()
    step = step % len(states)
    event = log.events[step - 1] if step else None
    before = states[step - 1] if step else None
    plan = Plan.of(log)
    return block_map(states[step], event=event, before=before, plan=plan, **options)


def svg_of(html: str) -> str:
    """The SVG inside a page that `figures.page.image` wrote."""
    data = html.partition("data:image/svg+xml;base64,")[2].partition("'")[0]
    return b64decode(data).decode("utf-8")


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def groups(svg: str, kind: str) -> dict[str, ElementTree.Element]:
    """Groups whose id ends in `-KIND...`, by the rest of the id."""
    found = {}
    for g in parsed(svg).iter(f"{SVG}g"):
        match = re.fullmatch(rf"k\w+-({kind}\d+(-l?\d+)?)", g.get("id", ""))
        if match:
            assert match[1] not in found, "an id stands twice"
            found[match[1]] = g
    return found


def texts(element: ElementTree.Element, kind: str = "") -> list[str]:
    return [
        t.text or ""
        for t in element.iter(f"{SVG}text")
        if kind in (t.get("class") or "").split() or not kind
    ]


@st.composite
def managers(draw_: st.DrawFn) -> BlockManager:
    """Small managers with a random history."""
    m = BlockManager(
        draw_(st.integers(2, 17)), draw_(st.sampled_from([1, 2, 3, 4, 8])), record=True
    )
    prefix = draw_(st.sampled_from(["r", "chat-", "a very long name indeed "]))
    for i in range(draw_(st.integers(1, 12))):
        here = list(m.snapshot().sequences)
        running = [n for n, v in m.snapshot().sequences.items() if v.block_table]
        do = draw_(st.sampled_from(["allocate", "append", "free", "preempt"]))
        if do == "allocate" or not running:
            length = draw_(st.integers(1, 3 * m.block_size))
            m.allocate(f"{prefix}{i}", range(length))
        elif do == "append":
            m.append(draw_(st.sampled_from(running)), [i] * draw_(st.integers(1, 3)))
        elif do == "free":
            m.free(draw_(st.sampled_from(here)))
        else:
            m.preempt(draw_(st.sampled_from(running)))
    return m
