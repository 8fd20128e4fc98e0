"""`make soak`: it walks as far as it is told, counts, and says how to see it again."""

from __future__ import annotations

import io
import random
import re
import subprocess
import sys

import pytest
from rich.console import Console

from blockmgr import Block
from blockmgr.sequence import Table
from tests.oracle_data import Configuration
from tools import soak


def test_a_soak_ends_with_what_it_did(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "CALLS_EACH", 150)
    monkeypatch.setattr(soak, "SECONDS_A_LINE", 0.0)
    assert soak.main(["--operations", "450", "--seed", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "0 blocks lost"
    assert any(line.startswith("450 calls in ") for line in lines)
    three = [Configuration.draw(random.Random(seed)).kind for seed in (11, 12, 13)]
    assert all(
        f"{150 * three.count(kind)} {kind}" in "\n".join(lines) for kind in three
    )
    (table,) = [i for i, line in enumerate(lines) if line.split()[:1] == ["call"]]
    rows = lines[table + 1 : lines.index("", table)]
    counted = sum(
        int(word.replace(",", ""))
        for word in " ".join(rows).split()
        if word[0].isdigit()
    )
    assert counted == 450


def test_a_soak_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    assert soak.Soak(console, 5, 401, 60.0).run()
    assert "/401" in screen.getvalue() and "/s" in screen.getvalue()


def test_a_soak_keeps_to_its_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--operations", "100000", "--minutes", "0.002"]) == 0
    out = capsys.readouterr().out
    assert "stopped by --minutes before 100,000 calls" in out
    assert out.endswith("0 blocks lost\n")


def test_what_a_soak_finds_can_be_found_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(self: Table) -> list[Block]:
        return [block for block in self.blocks if block.block_id][1:][::-1]

    monkeypatch.setattr(Table, "held", held)  # a leak: block 0 is never given back
    monkeypatch.setattr(soak, "CALLS_EACH", 100)
    assert soak.main(["--operations", "900", "--seed", "21"]) == 1
    first = capsys.readouterr().out
    (line,) = [line for line in first.splitlines() if line.startswith("again: ")]
    assert re.fullmatch(r"again: make soak ARGS='--seed \d+ --operations 100'", line)
    assert "AssertionError" in first and "Configuration(kind=" in first
    assert soak.main(line.split("'")[1].split()) == 1
    again = capsys.readouterr().out
    assert again.splitlines()[2:] == first.splitlines()[2:]


@pytest.mark.parametrize("wrong", (["--operations", "0"], ["--minutes", "-1"]))
def test_a_soak_of_nothing_is_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(wrong) == 2
    assert capsys.readouterr().err.startswith("soak: ask for 1 operation or more")


def test_a_soak_without_its_checks_is_refused() -> None:
    """Run as a script, and from somewhere else."""
    done = subprocess.run(
        [sys.executable, "-O", str(soak.ROOT / "tools/soak.py")],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("soak: python -O leaves the checks out")
