"""The house: imports run one way, the lists agree, set-up fails in one plain line."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
FLOORS = ("blockmgr", "figures", "classroom")  # each may import those before it
HEAVY = {"torch", "numpy", "matplotlib", "ipywidgets", "anywidget", "IPython", "rich"}
DECIDES = (  # what decides about blocks; `events` and `audit` only look on
    *("block", "prefix", "pool", "table", "groups", "sequence", "manager"),
)
CORE = (*DECIDES, "events", "audit")
LARGEST_NOTEBOOK = 300_000  # bytes


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def notebooks() -> list[Path]:
    found = sorted((ROOT / "notebooks").glob("**/[!.]*.ipynb"))
    return [path for path in found if ".ipynb_checkpoints" not in path.parts]


# --- who imports whom ---------------------------------------------------------------


def imported(path: Path) -> Iterator[str]:
    """The top-level packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_run_one_way(floor: str) -> None:
    above = {*FLOORS[FLOORS.index(floor) + 1 :], "tests", "tools"}
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    wrong = [(str(f.relative_to(ROOT)), n) for f in files for n in imported(f)]
    assert [pair for pair in wrong if pair[1] in above] == []


def test_the_manager_alone_imports_nothing_heavy() -> None:
    code = f"import sys, blockmgr; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_package_imports_from_the_registry_without_saying_so() -> None:
    names = {canonicalize_name(Requirement(r).name) for x in EXTRAS.values() for r in x}
    ours = {*FLOORS, "__future__"}
    used = {
        n for floor in FLOORS for f in (ROOT / floor).rglob("*.py") for n in imported(f)
    }
    # IPython and traitlets are the two halves of ipywidgets that a widget's code names.
    names |= {"ipython", "traitlets"}
    names |= {"triton"}  # comes with PyTorch for CUDA
    others = {canonicalize_name(n) for n in used - ours - set(sys.stdlib_module_names)}
    assert others - names == set()


def code_lines(path: Path) -> int:
    """Lines of code: without blank lines, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    doc: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            doc.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        number not in doc and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in lines
    )


@pytest.mark.xfail(
    strict=True,
    reason="too long since fork, swap and windows came: about 1,260 lines, and 1,000 "
    "is the aim. Once it is met, this mark has to go",
)
def test_the_core_stays_under_a_thousand_lines_of_code() -> None:
    sizes = {name: code_lines(ROOT / "blockmgr" / f"{name}.py") for name in CORE}
    assert sum(sizes.values()) < 1000, sizes


def test_what_decides_stays_under_a_thousand_lines_of_code() -> None:
    sizes = {name: code_lines(ROOT / "blockmgr" / f"{name}.py") for name in DECIDES}
    assert sum(sizes.values()) < 1000, sizes


# --- the lists agree ----------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = [line for line in read("constraints.txt").splitlines() if line[:1] != "#"]
    return dict(line.split("==") for line in lines)


def test_every_package_is_listed() -> None:
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for floor in FLOORS
        for path in (ROOT / floor).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_data_file_is_packaged() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    left_out = [
        str(path.relative_to(ROOT))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*")
        if path.is_file()
        and path.suffix not in {".py", ".pyc", ".md"}
        and not any(
            PurePosixPath(path.relative_to(ROOT / floor)).match(p.removeprefix("**/"))
            for p in patterns
        )
    ]
    assert left_out == []


def test_versions_agree() -> None:
    version = PROJECT["project"]["version"]
    assert metadata.version("blockmgr-course") == version
    headings = re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert next(h for h in headings if h != "Unreleased") == version


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_a_tested_version_meets_every_bound(extra: str) -> None:
    for text in EXTRAS[extra]:
        requirement = Requirement(text)
        assert requirement.specifier, f"{text} has no lower bound"
        pin = pins().get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pin), f"{pin} breaks {text}"


def needed_on_linux() -> set[str]:
    """Names of everything that the extras bring along on Linux.

    What torch's CUDA build adds is left out: torch itself names the exact versions.
    """
    todo = [(text, "") for texts in EXTRAS.values() for text in texts]
    seen: set[str] = set()
    while todo:
        requirement = Requirement(todo[-1][0])
        linux = {
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
        }
        _, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate(
            {**linux, "extra": extra}
        )
        if (
            not applies
            or name in seen
            or name.startswith(("nvidia-", "cuda-", "triton"))
        ):
            continue
        seen.add(name)
        inner = metadata.requires(name) or []
        todo += [(text, e) for text in inner for e in ("", *requirement.extras)]
    return seen


def test_constraints_name_every_package_exactly_once() -> None:
    missing = needed_on_linux() - set(pins())
    assert missing == set(), "add these to constraints.txt, with their versions"
    lines = [line for line in read("constraints.txt").splitlines() if line[:1] != "#"]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[\w.]+", line) for line in lines)
    assert len(lines) == len(pins())


def test_conda_gets_what_pip_gets() -> None:
    environment = yaml.safe_load(read("environment.yml"))
    assert environment["name"] == PROJECT["project"]["name"]
    python, pip, section = environment["dependencies"]
    assert python == f"python{PROJECT['project']['requires-python']}"
    assert pip == "pip"
    assert section == {"pip": ["-c constraints.txt", "-e .[lab]"]}
    assert "lab" in EXTRAS


def test_notebooks_are_small_and_carry_no_dead_widgets() -> None:
    assert notebooks(), "there are no notebooks"
    for path in notebooks():
        name = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        assert len(text.encode()) < LARGEST_NOTEBOOK, name
        assert "widgets" not in json.loads(text)["metadata"], name
        assert str(ROOT) not in text, f"{name} holds this machine's folder"


def test_ci_script_is_a_script() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)
    subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=True)


def test_help_names_every_command() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    done = subprocess.run(
        ["make"], cwd=ROOT, env=plain(), capture_output=True, text=True, check=True
    )
    assert set(re.findall(r"^  make ([a-z-]+) ", done.stdout, re.MULTILINE)) == targets


# --- set-up -------------------------------------------------------------------------


def plain(**changes: str) -> dict[str, str]:
    """The environment without what an outer `make` or a person's choice left in it."""
    own = ("MAKE", "MFLAGS", "PIP_", "PYTHON", "TORCH")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    return {**kept, **changes}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the files that set-up reads, without a `.venv`."""
    (tmp_path / "tools").mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "tools/setup.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run_make(house: Path, *arguments: str, **env: str) -> list[str]:
    """What `make` said on the error stream before it failed, less make's own line."""
    done = subprocess.run(
        ["make", *arguments],
        cwd=house,
        env=plain(**env),
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    return [line for line in done.stderr.splitlines() if not line.startswith("make")]


def load_setup(house: Path) -> ModuleType:
    """The copy's own set-up, which sees the copy as the project."""
    spec = importlib.util.spec_from_file_location(
        "house_setup", house / "tools/setup.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def finished(house: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Set-up after it has finished (with an empty `.venv`, which it cannot tell)."""
    monkeypatch.delenv("PYTHON", raising=False)
    monkeypatch.delenv("TORCH", raising=False)
    module = load_setup(house)
    venv.create(module.VENV, symlinks=os.name != "nt")
    module.write_stamp()
    return module


def script(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_an_old_python_is_named_in_one_line(house: Path) -> None:
    old = script(house / "old", "#!/bin/sh\necho Python 3.9.2\n")
    (line,) = run_make(house, "lab", f"PYTHON={old}")
    assert "Python 3.11 or newer" in line and f"{old} is Python 3.9.2" in line
    assert not (house / ".venv").exists()


def test_a_python_that_is_not_there_is_named_in_one_line(house: Path) -> None:
    (line,) = run_make(house, "test", "PYTHON=python3.99")
    assert "python3.99 is not on this machine" in line and "PYTHON=" in line


def test_a_python_without_venv_is_named_in_one_line(house: Path) -> None:
    part = "import importlib.util as u\nfind = u.find_spec\n"
    part += "u.find_spec = lambda name, *a: name != 'ensurepip' and find(name, *a)\n"
    (house / "site").mkdir()
    script(house / "site/sitecustomize.py", part)
    (line,) = run_make(
        house, "lab", f"PYTHON={sys.executable}", PYTHONPATH=str(house / "site")
    )
    assert "no venv module" in line and "apt install python3" in line
    assert not (house / ".venv").exists()


def test_without_a_network_one_line_says_so_and_nothing_half_made_stays(
    house: Path,
) -> None:
    nowhere = "http://127.0.0.1:9"  # the discard port: refused at once
    (line,) = run_make(
        house,
        *("setup", f"PYTHON={sys.executable}"),
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL=nowhere,
        https_proxy=nowhere,
    )
    assert "pip reaches no package index" in line and "HTTPS_PROXY" in line
    assert not (house / ".venv").exists()
    assert (house / ".venv.lock").read_text(encoding="utf-8") == ""


def test_a_finished_venv_is_left_alone(finished: ModuleType) -> None:
    before = finished.STAMP.stat().st_mtime_ns
    assert finished.main() == 0
    assert finished.STAMP.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml"])
def test_other_versions_make_it_stale(finished: ModuleType, name: str) -> None:
    path = finished.ROOT / name
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("rich", "poor"), encoding="utf-8")
    assert not finished.is_current()
    assert finished.is_usable(), "it can be brought up to date in place"


def test_a_linters_setting_does_not(finished: ModuleType) -> None:
    path = finished.ROOT / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("line-length = 88", "line-length = 89"), encoding="utf-8"
    )
    assert finished.is_current()


def test_another_torch_or_a_moved_folder_means_a_new_venv(
    finished: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH", "cuda")
    assert not finished.is_usable()
    monkeypatch.delenv("TORCH")
    assert finished.is_usable()
    moved = finished.ROOT.with_name("moved")
    shutil.copytree(finished.ROOT, moved, symlinks=True)
    assert not load_setup(moved).is_usable()


def test_a_venv_that_was_cut_off_is_not_trusted(finished: ModuleType) -> None:
    with finished.only_one():
        assert finished.LOCK.read_text(encoding="utf-8") == "at work"
        assert finished.VENV.exists(), "this one may go on with what it has"
    assert finished.LOCK.read_text(encoding="utf-8") == ""
    finished.LOCK.write_text("at work", encoding="utf-8")  # as a kill leaves it
    with finished.only_one():
        assert not finished.VENV.exists()


def test_a_failure_removes_the_venv(
    finished: ModuleType,
) -> None:
    with pytest.raises(KeyboardInterrupt), finished.removed_on_failure():
        raise KeyboardInterrupt
    assert not finished.VENV.exists()


@pytest.mark.parametrize(
    ("choice", "gpu", "cuda"),
    [
        ("", "", False),
        ("", "GPU 0: H200", True),
        ("cpu", "GPU 0", False),
        ("cuda", "", True),
    ],
)
def test_torch_follows_the_gpu_unless_told(
    finished: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    gpu: str,
    cuda: bool,
) -> None:
    folder = finished.ROOT / "driver"
    folder.mkdir()
    script(folder / "nvidia-smi", f"#!/bin/sh\necho '{gpu}'\n")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("TORCH", choice)
    assert finished.wants_cuda() is cuda


def test_a_named_torch_lifts_its_pin_alone(
    finished: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"torch=={pins()['torch']}" in finished.limits().splitlines()
    monkeypatch.setenv("TORCH", "torch==2.99.0")
    left = finished.limits().splitlines()
    assert not [line for line in left if line.startswith("torch==")]
    assert f"numpy=={pins()['numpy']}" in left
    assert finished.torch_step() == [["torch==2.99.0"]]
