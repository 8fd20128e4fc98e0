"""The command line: what it prints, its exit codes, and what it says to bad input."""

import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from blockmgr import __main__ as cli
from blockmgr.catalogue import TRACES
from blockmgr.doctor import Finding, Verdict, doctor, is_ready, report
from blockmgr.replay import RECORDINGS
from blockmgr.screen import printable, shorten

ROOT = Path(__file__).resolve().parent.parent
FIRST_TWO = ("00_mixed_bs4_n8", "30_nocache_bs4_n24")
TRACE = """\
{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 9, "input_length": 1600, "output_length": 5, "hash_ids": [1, 2, 3, 4]}
"""  # two prompts with the same start, one of them longer than 3 blocks


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m blockmgr ARGUMENTS`, as a person would start it."""
    return subprocess.run(
        [sys.executable, "-m", "blockmgr", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a refused command says: one line, exit code 2, nothing on stdout."""
    try:
        code: object = cli.main([str(argument) for argument in arguments])
    except SystemExit as left:
        code = left.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert said.err.startswith("blockmgr: ")
    assert "Traceback" not in said.err
    return said.err


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "[red]toy[bold].jsonl"  # square brackets mean colours to rich
    path.write_text(TRACE, encoding="utf-8")
    return path


# --- replay ---------------------------------------------------------------------------


def test_the_recordings_that_ship_are_all_there() -> None:
    """Recorded runs of three kinds, numbered from 0, small enough for a project."""
    about = (RECORDINGS / "README.md").read_text(encoding="utf-8")
    for folder, kind, number in (
        ("", "v1", 39),
        ("v0", "v0", 12),
        ("sched",) * 2 + (10,),
    ):
        files = sorted((RECORDINGS / folder).glob("*.jsonl.gz"))
        assert [int(file.name[:2]) for file in files] == list(range(number))
        assert f"kvtrace-{kind}/1" in about
    sizes = [file.stat().st_size for file in RECORDINGS.rglob("*.gz")]
    assert sum(sizes) < 2_000_000


def test_replay_prints_one_line_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(RECORDINGS / f"{n}.jsonl.gz") for n in FIRST_TWO]
    assert cli.main(["replay", *files]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines() == [
        f"ok  {FIRST_TWO[0]}  300 steps",
        f"ok  {FIRST_TWO[1]}  400 steps",
    ]


def test_replay_without_files_takes_all_that_ship() -> None:
    done = run("replay")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    told = [line for line in lines if re.fullmatch(r"ok  \S+  \d+ steps", line)]
    others = [line for line in lines if line not in told]
    assert (len(told), len(others)) == (39 + 9 + 10, 3)
    assert all("no counterpart: V0's own prefix caching" in line for line in others)
    assert sum(int(line.split()[-2]) for line in told) == 21_100 + 5_000 + 4_300


def test_bench_prints_units_as_json() -> None:
    done = run("bench", "--quick", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert list(told) == ["unit_ns", "rows"]
    assert list(told["rows"]) == [
        *("take_free_1", "take_free_8", "lookup_124", "hash_2000"),
        *("admit_hit_free", "admit_cold_free", "append"),
    ]
    assert all(value > 0 for value in told["rows"].values())


def changed_recording(folder: Path) -> tuple[Path, str]:
    """A recording in which one free queue is wrong, and how that is to be told."""
    good = RECORDINGS / f"{FIRST_TWO[0]}.jsonl.gz"
    lines = gzip.decompress(good.read_bytes()).decode().splitlines()
    number = next(n for n in range(9, 300) if len(json.loads(lines[n])["fq"]) > 1)
    step = json.loads(lines[number])
    step["fq"].reverse()
    lines[number] = json.dumps(step)
    path = folder / "changed.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, f"step {number}, fq: expected {step['fq']}, got "


def test_replay_names_the_first_difference_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, expected = changed_recording(tmp_path)
    good = RECORDINGS / f"{FIRST_TWO[0]}.jsonl.gz"
    assert cli.main(["replay", str(changed), str(good)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert expected in first
    assert not first.startswith("ok")
    assert second == f"ok  {FIRST_TWO[0]}  300 steps"


def test_replay_of_bad_files_is_2_and_still_replays_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = RECORDINGS / f"{FIRST_TWO[0]}.jsonl.gz"
    cut, empty = tmp_path / "cut.gz", tmp_path / "empty.jsonl.gz"
    cut.write_bytes(good.read_bytes()[:-100])
    empty.write_bytes(b"")
    other = tmp_path / "other.jsonl"
    other.write_text('{"some": "json"}\n', encoding="utf-8")
    bad = (cut, empty, other, tmp_path, tmp_path / "nowhere")
    changed, expected = changed_recording(tmp_path)
    assert cli.main(["replay", *map(str, bad), str(changed), str(good)]) == 2
    said = capsys.readouterr()
    first, second = said.out.splitlines()
    assert expected in first
    assert second == f"ok  {FIRST_TWO[0]}  300 steps"
    errors = said.err.splitlines()
    assert len(errors) == len(bad)
    for error, path in zip(errors, bad, strict=True):
        assert error.startswith("blockmgr: ")
        assert str(path) in error


# --- simulate -------------------------------------------------------------------------


def test_simulate_prints_a_table(trace: Path) -> None:
    done = run("simulate", trace, "--blocks", "3,1000000", COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    heading, *rest = done.stdout.splitlines()
    assert heading == "[red]toy[bold].jsonl: 2 requests, 6 blocks of 512 tokens, LRU"
    assert "\x1b" not in done.stdout
    cells = [re.findall(r"(?<= )[\d.,%]+(?= )", line) for line in rest]
    rows = [row for row in cells if len(row) == 5]
    assert rows == [
        ["3", "39.0%", "2", "0", "1"],
        ["1,000,000", "39.0%", "2", "0", "0"],
    ]
    assert "too long: requests of which only the start fits into the pool" in rest


def test_simulate_for_machines(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", str(trace), "--blocks", " 3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "trace": trace.name,
        "policy": "lru",
        "block_size": 512,
        "results": [
            {
                "num_blocks": 3,
                "requests": 2,
                "too_long": 1,
                "blocks": 6,
                "tokens": 2624,
                "hit_blocks": 2,
                "hit_tokens": 1024,
                "evictions": 0,
                "hit_rate": 1024 / 2624,
            }
        ],
    }


@pytest.mark.parametrize(
    "blocks", ["0", "-1", "abc", "", "10,", "1.5", "1e3", "0,-1,abc", "9" * 5_000]
)
def test_wrong_block_lists_are_refused(
    trace: Path, capsys: pytest.CaptureFixture[str], blocks: str
) -> None:
    said = complaint(capsys, "simulate", trace, f"--blocks={blocks}")
    assert "--blocks: expected numbers of blocks above 0 and below 10**12" in said
    assert "like 1000,10000" in said
    assert len(said) < 400


def test_wrong_policies_and_commands_are_refused(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = complaint(capsys, "simulate", trace, "--policy", "magic")
    assert "--policy: invalid choice: 'magic' (choose from 'lru')" in said
    assert "COMMAND" in complaint(capsys, "frobnicate")
    assert "COMMAND" in complaint(capsys)
    assert "TRACE" in complaint(capsys, "simulate")
    assert "no trace is called 'x': choose mooncake" in complaint(capsys, "data", "x")


def test_bad_traces_are_refused(
    tmp_path: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(trace.read_bytes())[:-9])
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    recording = RECORDINGS / f"{FIRST_TWO[0]}.jsonl.gz"
    odd = tmp_path / "a\x1b[2J\nb"
    for path, expected in (
        (tmp_path / "nowhere", "there is no file"),
        (tmp_path, "is a folder"),
        (empty, "holds no requests"),
        (cut, "cut.gz is damaged after line"),
        (recording, "line 1: expected a request with timestamp"),
        (odd, "a\N{REPLACEMENT CHARACTER}[2J b: check its name"),
    ):
        assert expected in complaint(capsys, "simulate", path)


def test_a_known_trace_that_is_missing_says_how_to_get_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BLOCKMGR_DATA", str(tmp_path))
    said = complaint(capsys, "simulate", "mooncake_conversation")
    assert "get it with `make data`" in said


# --- a terminal -----------------------------------------------------------------------


def on_a_terminal(arguments: Sequence[str]) -> bytes:
    """The same, with its output on a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "blockmgr", *arguments],
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65_536):
            seen += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(ours)
    assert child.wait(timeout=60) == 0
    return seen


def test_progress_shows_on_a_terminal_only(trace: Path) -> None:
    seen = on_a_terminal(["simulate", str(trace), "--blocks", "3"])
    assert b"3 blocks" in seen and b"100 %" in seen and b"\x1b[" in seen
    assert b"39.0%" in seen
    plain = on_a_terminal(["simulate", str(trace), "--blocks", "3", "--json"])
    assert json.loads(plain)["policy"] == "lru"
    seen = on_a_terminal(["replay", str(RECORDINGS / f"{FIRST_TWO[0]}.jsonl.gz")])
    assert b"replaying" in seen and b"300 steps" in seen


@pytest.mark.parametrize("arguments", [["replay"], ["doctor"], ["data", "--list"]])
def test_nobody_minds_a_reader_who_leaves(arguments: list[str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "blockmgr", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(timeout=60) == 1


# --- doctor ---------------------------------------------------------------------------


def test_the_doctor_finds_everything_here() -> None:
    findings = {finding.what: finding for finding in doctor()}
    assert [*findings] == [
        *("Python", "memory", "torch", "device", "jupyterlab", "ipywidgets"),
        *("anywidget", "matplotlib", "rich", "chromium", "traces"),
    ]
    assert findings["Python"].found.startswith("3.")
    assert is_ready(findings.values())
    done = run("doctor", BLOCKMGR_DATA="/nowhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 4 traces in /nowhere  -> `make data` gets them" in done.stdout
    assert done.stdout.endswith("Ready.\n")


def test_the_doctor_says_what_to_do_about_what_is_missing(tmp_path: Path) -> None:
    """A Python that has only this package: no torch, no rich, no JupyterLab."""
    shutil.copytree(ROOT / "blockmgr", tmp_path / "blockmgr")
    bare = [sys.executable, "-S", "-m", "blockmgr"]  # -S: no site-packages

    def run_bare(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*bare, command],
            cwd=tmp_path,
            env={"PATH": "", "BLOCKMGR_DATA": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    done = run_bare("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    for name in ("torch", "jupyterlab", "ipywidgets", "anywidget", "rich"):
        assert re.search(rf"missing +{name} .* -> run `make lab`", done.stdout)
    assert re.search("optional +chromium .* -> only `make test` uses it", done.stdout)
    assert done.stdout.endswith("Not ready: see what is missing above.\n")
    done = run_bare("replay")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "blockmgr: this command needs rich: run `make lab`\n"


def test_only_what_a_lesson_needs_makes_it_unready() -> None:
    fine = Finding("a", "1")
    little = Finding("b", "no", Verdict.OPTIONAL, "get it")
    assert is_ready([fine, little])
    assert not is_ready([fine, Finding("c", "no", Verdict.MISSING, "do")])
    assert report([little]) == "optional  b           no  -> get it\nReady."


# --- data -----------------------------------------------------------------------------


def test_data_lists_what_there_is_and_under_what_terms(tmp_path: Path) -> None:
    (tmp_path / "azure2023_code.csv.gz").write_bytes(b"changed")
    done = run("data", "--list", BLOCKMGR_DATA=str(tmp_path), COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"in {tmp_path}:" in done.stdout
    rows = {row.split()[1]: row for row in done.stdout.splitlines() if "2023" in row}
    assert "damaged: make data" in rows["azure2023_code"]
    assert "no: make data" in rows["azure2023_conv"]
    assert "CC BY 4.0, cite Patel" in rows["azure2023_conv"]


def test_data_without_a_network_is_one_line_a_trace(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    done = run(
        *("data", "azure2023_code", "mooncake_synthetic", "sharegpt_turns"),
        BLOCKMGR_DATA=str(tmp_path),
        https_proxy=nowhere,
        HTTPS_PROXY=nowhere,
        no_proxy="",
        NO_PROXY="",
    )
    assert (done.returncode, done.stdout) == (1, "")
    first, second, third = done.stderr.splitlines()
    assert first.startswith("blockmgr: azure2023_code can't be fetched from")
    assert "check the network" in second
    assert third.startswith("blockmgr: sharegpt_turns can't be downloaded")
    assert list(tmp_path.iterdir()) == []


# --- text -----------------------------------------------------------------------------


def test_odd_text_cannot_steer_the_terminal() -> None:
    mark = "\N{REPLACEMENT CHARACTER}"
    assert (
        printable("a\x1b[31mb\r\n\u202ec\0") == f"a{mark}[31mb{mark}{mark}{mark}c{mark}"
    )
    assert printable("héllo, 数 ") == "héllo, 数 "
    assert shorten("x" * 400) == "x" * 400
    assert shorten("x" * 401) == "x" * 400 + " ..."


def test_importing_the_package_imports_none_of_this() -> None:
    code = "import sys, blockmgr; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    for name in (
        "workloads",
        "simulate",
        "doctor",
        "download",
        "commands",
        "profile",
        "catalogue",
    ):
        assert f"blockmgr.{name}" not in loaded
    assert loaded.isdisjoint({"rich", "torch", "argparse", "urllib.request"})


# --- odd places to write to and to read from ------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full (Linux)")
@pytest.mark.parametrize("command", [("doctor",), ("replay",), ("data", "--list")])
def test_a_full_disk_is_one_line(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "blockmgr", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "blockmgr: the output could not be written: No space left on device"
    ]


def test_a_closed_output_is_no_crash() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m blockmgr doctor >&-', sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_home_of_nobody_is_taken_as_it_stands() -> None:
    done = run("doctor", BLOCKMGR_DATA="~nobody-of-this-name/x")
    assert (done.returncode, done.stderr) == (0, "")
    assert "~nobody-of-this-name/x" in done.stdout


def test_a_name_that_must_be_typed_is_never_cut() -> None:
    done = run("data", "--list", COLUMNS="40")
    assert all(name in done.stdout for name in TRACES)
