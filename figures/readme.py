"""The pictures of the README: `python -m figures.readme` writes them into `docs/`.

They are drawn from a run that really happens while the command runs: three requests,
two of them with the same system prompt, one of them already gone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from blockmgr import BlockManager
from figures.still import picture
from figures.tokeniser import Words
from figures.workflow import workflow_svg

DOCS = Path("docs")


def blockmap_svg() -> str:
    """The README's block map: shared, cached, new, partly filled and free blocks."""
    words = Words()
    manager = BlockManager(num_blocks=12, block_size=4, record=True)
    manager.allocate("Ada", words.encode("You are kind . What is a page table ?"))
    manager.allocate("Ben", words.encode("You are kind . Tell me a joke"))
    manager.allocate("Cleo", words.encode("Name five rivers of Asia"))
    manager.free("Cleo")
    manager.append("Ben", words.encode("Why"))
    return picture(manager, labels=words.labels, legend=True, titled=True).svg


def main(folder: Path = DOCS) -> None:
    """Write `blockmap.svg` and `workflow.svg` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in (("blockmap", blockmap_svg()), ("workflow", workflow_svg())):
        path = folder / f"{name}.svg"
        path.write_text(svg + "\n", encoding="utf-8")
        print(f"wrote {path.as_posix()}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
