"""axe-core over all that we put on the page, in JupyterLab, light and dark.

Every notebook in `notebooks/` is looked at, most of them by their own modules, which
run them anyway. A page here holds the states that a student makes by working.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import axe
from .axe import expect_accessible
from .lab import Lab, write
from .server import ROOT

pytestmark = pytest.mark.browser

HERE = Path(__file__)


def looked_at_elsewhere() -> set[str]:
    """Notebooks that a lesson's own module looks at, where it has run anyway."""
    found = set()
    for module in HERE.parent.glob("test_*.py"):
        text = module.read_text(encoding="utf-8") if module != HERE else ""
        names = dict(re.findall(r'^(\w+) = "notebooks/([^"]+)"', text, re.MULTILINE))
        looks = re.findall(r"^    expect_accessible\(lab, (\w+)\)", text, re.MULTILINE)
        found |= {names[name] for name in looks if name in names}
    return found


ALL = sorted((ROOT / "notebooks").glob("[!.]*.ipynb"))
LEFT = [path for path in ALL if path.name not in looked_at_elsewhere()]


@pytest.mark.parametrize("path", LEFT, ids=lambda path: path.stem)
def test_a_lesson_keeps_nobody_out(lab: Lab, path: Path) -> None:
    """Whatever no other module looks at: new lessons come in by themselves."""
    expect_accessible(lab, f"notebooks/{path.name}")


# --- what a student makes of it -------------------------------------------------------

SETUP = """
from blockmgr import BlockManager
from classroom import check, hint, predict, progress
from classroom.chats import serve
from figures import AddressExplorer, BlockMap, Player
from figures.charts import COLOUR, make_chart

log, labels = serve()
manager = BlockManager(8, 4, record=True)
manager.allocate("a", range(9))
needed = "00-blocks-needed"
"""

STATES = (
    "player = Player(log, labels=labels, at=20); player.selected = 'block:3'; player",
    "broken = Player(log, labels=labels); broken.complain(ValueError('no')); broken",
    "AddressExplorer(manager, 'a', position=2)",
    "picture = BlockMap(manager); picture.selected = 'block:2'; picture",
    "predict('00-shared-start', answer=lambda: 2, guess=2)",
    "predict('00-nine-tokens', answer=lambda: 3, guess=2)",
    "predict('00-four-appends', answer=lambda: 3, guess='some')",
    "predict('00-who-is-preempted', answer=lambda: 'Dev', guess='Ben')",
    "predict('00-after-the-last', answer=lambda: 1 / 0, guess=0)",
    "check(needed, lambda num_tokens, block_size: num_tokens)",
    "check(needed, lambda num_tokens, block_size: -(-num_tokens // block_size))",
    "check(needed, lambda num_tokens, block_size: 1 / 0)",
    "hint(needed)",
    "progress()",
    "make_chart('Two bars', ['name', 'value'], [('a', 1), ('b', 2)], lambda axes: "
    "axes.bar(['a', 'b'], [1, 2], color=COLOUR['blue']), note='made up')",
)


def test_what_a_student_makes_of_it_keeps_nobody_out(lab: Lab) -> None:
    """Chosen, complained about, right, wrong, not yet: each state of each card."""
    states = write(lab, "states.ipynb", SETUP, *STATES)
    expect_accessible(lab, states)
    assert axe.count(lab) >= len(STATES)


PLAYERS = ["Player(log, labels=labels, at=20)"] * 3
SPOIL = """stage => {
    stage.querySelector("input[type=range]").removeAttribute("aria-label");
    stage.querySelector("[data-part=say]").style.color = "light-dark(#aaa, #555)";
}"""


def test_it_would_see_a_label_that_is_gone_and_text_that_is_pale(lab: Lab) -> None:
    lab.use(write(lab, "spoilt.ipynb", SETUP, *PLAYERS))
    lab.notebook.locator(".kvstage").last.evaluate(SPOIL)
    for theme in ("light", "dark"):
        lab.theme(theme)
        rules = {fault.rule for fault in axe.violations(lab)}
        assert rules == {"label", "color-contrast"}
