"""Ask axe-core what would stop a reader who works by keyboard, by ear, or in contrast.

    axe.expect_accessible(lab, "notebooks/03_the_block_table.ipynb")

looks at all our own output of a notebook that has run, unfolded, light and dark.

axe-core comes with the package axe-playwright-python, so nothing is fetched. It sees
names, roles, labels, contrast and what the keyboard reaches. Text within an SVG it
cannot weigh: `tests/test_figures.py` and `tests/test_charts.py` do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from axe_playwright_python.base import AXE_SCRIPT

from .lab import Lab

GRAVE = ("serious", "critical")
"""The impacts that count. axe-core also knows minor and moderate ones."""

EVERYTHING = {"rules": {"target-size": {"enabled": True}}}
"""All rules that axe-core has switched on, and WCAG 2.2's size of what is pressed."""

COLOURS = {"runOnly": ["color-contrast"]}
"""What a second theme can change."""

# Within an SVG it would look long at every word, to say that it cannot tell.
_CONTRAST = {"id": "color-contrast", "selector": "*:not(svg *)"}

# Every element of ours has a class that starts with "kv"; these are the outermost.
_OURS = """[...document.querySelectorAll(
    ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output"
)].flatMap(output => {
    const ours = [output, ...output.querySelectorAll("*")]
        .filter(one => [...one.classList].some(name => name.startsWith("kv")));
    return ours.filter(one => !ours.some(out => out !== one && out.contains(one)));
})"""

# axe-core passes over hidden text.
_UNFOLD = f"""() => {_OURS}.flatMap(one => [one, ...one.querySelectorAll("*")])
    .filter(one => one.matches("details:not([open])"))
    .forEach(one => {{ one.open = true; one.dataset.unfolded = ""; }})"""
_FOLD = """() => document.querySelectorAll("details[data-unfolded]")
    .forEach(one => { one.open = false; delete one.dataset.unfolded; })"""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken by one element: what is wrong, where, and how it is written."""

    impact: str
    rule: str
    help: str
    selector: str
    html: str

    def __str__(self) -> str:
        what = f"{self.impact}: {self.help} ({self.rule})"
        return f"{what}\n  {self.selector}\n  {self.html[:300]}"


def expect_accessible(lab: Lab, path: str) -> None:
    """No serious violation in what this notebook shows, in either theme. It is run if
    it is not open yet, and left as it was found."""
    lab.use(path)
    assert count(lab), "there is nothing of ours"
    lab.page.evaluate(_UNFOLD)
    for theme, options in (("light", EVERYTHING), ("dark", COLOURS)):
        lab.theme(theme)
        found = violations(lab, options)
        assert not found, f"in the {theme} theme:\n" + "\n".join(map(str, found))
    lab.theme("light")
    lab.page.evaluate(_FOLD)


def count(lab: Lab) -> int:
    """How many outputs of ours the page shows: none would be in order, too."""
    return int(lab.page.evaluate(f"() => {_OURS}.length"))


def violations(lab: Lab, options: Mapping[str, object] = EVERYTHING) -> list[Violation]:
    """The serious and critical violations in our own output of the open notebook."""
    with _all_in_sight(lab):
        lab.page.evaluate(AXE_SCRIPT)
        lab.page.evaluate("rule => axe.configure({rules: [rule]})", _CONTRAST)
        found = lab.page.evaluate(
            f"async options => (await axe.run({_OURS}, options)).violations",
            {"resultTypes": ["violations"], **options},
        )
    return [
        Violation(
            node["impact"], rule["id"], rule["help"], str(node["target"]), node["html"]
        )
        for rule in found
        for node in rule["nodes"]
        if node["impact"] in GRAVE
    ]


@contextmanager
def _all_in_sight(lab: Lab) -> Iterator[None]:
    """A window as tall as the notebook. axe-core weighs no text that is scrolled away,
    and none at all in JupyterLab's page, whose body has no height of its own."""
    window = lab.page.viewport_size
    assert window is not None
    content = lab.notebook.locator(".jp-WindowedPanel-viewport")
    height = window["height"] + int(content.evaluate("e => e.scrollHeight"))
    lab.page.set_viewport_size({"width": window["width"], "height": height})
    lab.page.evaluate("document.body.style.minHeight = '100vh'")
    lab.page.evaluate(_SETTLED)
    try:
        yield
    finally:
        lab.page.evaluate("document.body.style.minHeight = ''")
        lab.page.set_viewport_size(window)
        lab.page.evaluate(_SETTLED)


# JupyterLab attaches and removes cells in the frames after the window has changed.
_SETTLED = """async () => {
    for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
}"""
