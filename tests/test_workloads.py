"""Real traces: finding, reading, downloading, simulating, and drawing from profiles."""

import gzip
import hashlib
import json
import random
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import pytest

from blockmgr.catalogue import TRACES, Trace
from blockmgr.download import DownloadError, download, is_intact
from blockmgr.errors import BadTrace, InvalidRequest
from blockmgr.profile import bucket, bucket_width, load_profile, profile_names
from blockmgr.simulate import Simulation, simulate
from blockmgr.textfile import unpacked_chunks
from blockmgr.workloads import (
    AgentRequest,
    AzureRequest,
    Lengths,
    MathProblem,
    MissingTrace,
    MooncakeRequest,
    Turn,
    data_folder,
    find_trace,
    read_agents,
    read_alpaca,
    read_azure,
    read_gsm8k,
    read_mooncake,
    read_sharegpt,
)

GOOD = MappingProxyType(
    {"timestamp": 3, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]}
)


def line(**changes: object) -> str:
    """One line of a Mooncake trace, good but for the changes."""
    return json.dumps({**GOOD, **changes}) + "\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


# --- readers --------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_a_mooncake_trace_is_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    text = (line() + line(timestamp=4.5, input_length=512, hash_ids=[0])).encode()
    path = tmp_path / "any name"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert read_mooncake(path) == [
        MooncakeRequest(3, 600, 7, (0, 9)),
        MooncakeRequest(4.5, 512, 7, (0,)),
    ]


def test_azure_times_count_from_the_first_request(tmp_path: Path) -> None:
    text = (  # as published: \r\n, seven decimals, no end of line at the end
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 18:15:46.6805900,374,44\r\n"
        "2023-11-16 18:15:50.9951690,396,109"
    )
    assert read_azure(write(tmp_path / "a.csv", text)) == [
        AzureRequest(0.0, 374, 44),
        AzureRequest(4.314579, 396, 109),
    ]


def test_sharegpt_and_alpaca_are_read(tmp_path: Path) -> None:
    turns = "conv,turn,prompt_tokens,output_tokens\n0,0,74,918\n0,1,1290,905\n"
    lengths = "prompt_tokens,output_tokens\n7,45\n"
    assert read_sharegpt(write(tmp_path / "s", turns)) == [
        Turn(0, 0, 74, 918),
        Turn(0, 1, 1290, 905),
    ]
    assert read_alpaca(write(tmp_path / "l", lengths)) == [Lengths(7, 45)]


SESSION: dict[str, object] = {"t": 1, "in": 150, "out": 9, "keep": 0, "new": [5, 7]}


def session(*requests: object, size: int = 64) -> str:
    """One line of the agent sessions."""
    return json.dumps({"trace": "a", "block_size": size, "requests": requests}) + "\n"


def test_ids_of_agents_go_on_from_the_request_before(tmp_path: Path) -> None:
    second = {**SESSION, "t": 2.5, "in": 128, "keep": 1, "new": [8]}
    shorter = {**SESSION, "in": 64, "keep": 1, "new": []}
    text = session(SESSION, second, shorter) + session({**SESSION, "new": [0, 1]})
    assert read_agents(write(tmp_path / "agents", text)) == [
        AgentRequest(0, 1.0, 150, 9, (5, 7)),
        AgentRequest(0, 2.5, 128, 9, (5, 8)),
        AgentRequest(0, 1.0, 64, 9, (5,)),
        AgentRequest(1, 1.0, 150, 9, (9, 10)),  # the same ids, but never the same block
    ]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("{", "a JSON object"),
        ("[]", "a session with block_size 64"),
        (session(SESSION, size=16), "a session with block_size 64"),
        (session(), "a session with requests"),
        (session(7), "requests with t, in, out, keep and new"),
        (session({"t": 1}), "requests with t, in, out, keep and new"),
        (session({**SESSION, "t": -1}), "a time t"),
        (session({**SESSION, "t": "1"}), "a time t"),
        (session({**SESSION, "t": float("nan")}), "a time t"),
        (session({**SESSION, "out": -1}), "whole numbers as in, out and keep"),
        (session({**SESSION, "in": True}), "whole numbers as in, out and keep"),
        (session({**SESSION, "in": 10**30}), "whole numbers as in, out and keep"),
        (session({**SESSION, "new": [5, -7]}), "new as a list of whole numbers"),
        (session({**SESSION, "new": 5}), "new as a list of whole numbers"),
        (session({**SESSION, "new": [5, 5]}), "2 different ids"),
        (session({**SESSION, "new": [5]}), "2 different ids"),
        (session({**SESSION, "new": [5, 6, 7]}), "2 different ids"),
        (session({**SESSION, "in": 0, "new": []}), "0 different ids"),
        (session({**SESSION, "keep": 3}), "2 different ids"),
    ],
)
def test_a_bad_session_is_named_with_its_line(
    tmp_path: Path, second: str, expected: str
) -> None:
    path = write(tmp_path / "agents", session(SESSION) + second + "\n")
    with pytest.raises(BadTrace, match=f"line 2: expected {expected}"):
        read_agents(path)


def test_math_problems_are_read_and_bad_ones_named(tmp_path: Path) -> None:
    good = json.dumps({"question": "1 + 1?", "answer": "2"}) + "\n"
    assert read_gsm8k(write(tmp_path / "g", good)) == [MathProblem("1 + 1?", "2")]
    for bad in ("7", "{", '{"question": "?"}', '{"question": 1, "answer": "2"}'):
        with pytest.raises(BadTrace, match="line 2: expected a"):
            read_gsm8k(write(tmp_path / "g", good + bad))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("[1, 2]\n", "a request with timestamp"),
        ('{"format": "kvtrace-v1/1"}\n', "a request with timestamp"),
        (line()[:-9], "a JSON object"),
        ("\n", "a JSON object"),
        ("[" * 100_000 + "\n", "a JSON object"),
        (line().replace("600", "9" * 5_000), "a JSON object"),
        (line(timestamp=-1), "a timestamp"),
        (line(timestamp=float("nan")), "a timestamp"),
        (line(timestamp=float("inf")), "a timestamp"),
        (line(timestamp=True), "a timestamp"),
        (line(timestamp="now"), "a timestamp"),
        (line(input_length=0, hash_ids=[]), "an input_length"),
        (line(input_length=10**30), "an input_length"),
        (line(input_length="600"), "an input_length"),
        (line(output_length=-1), "an output_length"),
        (line(output_length=None), "an output_length"),
        (line(hash_ids=7), "hash_ids as a list"),
        (line(hash_ids=[0, 1.5]), "hash_ids as a list"),
        (line(hash_ids=[0, -1]), "hash_ids as a list"),
        (line(hash_ids=[0]), "2 different hash_ids for 600 tokens"),
        (line(hash_ids=[0, 0]), "2 different hash_ids for 600 tokens"),
        ("x" * 1_000_001, "less than 1000000 characters"),
    ],
)
def test_a_bad_line_is_named_with_its_number(
    tmp_path: Path, second: str, expected: str
) -> None:
    path = write(tmp_path / "trace.jsonl", line() + second + line())
    with pytest.raises(BadTrace) as caught:
        read_mooncake(path)
    assert str(caught.value).startswith(f"{path}, line 2: expected {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TIMESTAMP,ContextTokens\n", "line 1: expected the columns TIMESTAMP, C"),
        ("a,b,c\n", "line 1: expected the columns TIMESTAMP, ContextTokens, Gen"),
        ("{HEAD}2023-11-16 18:15:46,374", "line 2: expected the columns"),
        ("{HEAD}2023-11-16 18:15:46,374,4,4", "line 2: expected the columns"),
        ("{HEAD}yesterday,374,44", "line 2: expected a date and time"),
        ("{HEAD}2023-11-16 18:15:46,-374,44", "line 2: expected a whole number"),
        ("{HEAD}2023-11-16 18:15:46,374,", "line 2: expected a whole number"),
        ("{HEAD}2023-11-16 18:15:46,374,1_0", "line 2: expected a whole number"),
        ("{HEAD}2023-11-16 18:15:46,374,\u0663", "line 2: expected a whole number"),
        ("{HEAD}2023-11-16 18:15:46,374," + "9" * 99, "line 2: expected a whole num"),
        ("{HEAD}", "holds no requests"),
        ("", "holds no requests"),
    ],
)
def test_a_bad_table_is_named_with_its_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    path = write(tmp_path / "a.csv", text.replace("{HEAD}", head))
    with pytest.raises(BadTrace, match=expected):
        read_azure(path)


def test_a_packed_trace_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    rng = random.Random(1)  # ids that don't pack well, so that the file is long
    rows = [line(hash_ids=[rng.getrandbits(60), n]) for n in range(500)]
    packed = gzip.compress("".join(rows).encode(), mtime=0)
    path = tmp_path / "t.gz"
    for cut in [*range(2, len(packed), 997), len(packed) - 1]:
        path.write_bytes(packed[:cut])
        with pytest.raises(BadTrace, match=r"t\.gz is damaged after line \d+: "):
            read_mooncake(path)
    path.write_bytes(packed[:-8] + b"\0\0\0\0" + packed[-4:])  # a wrong check sum
    with pytest.raises(BadTrace, match="damaged after line 500"):
        read_mooncake(path)
    with pytest.raises(BadTrace, match="damaged"):
        list(unpacked_chunks(path))


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=r"there is no file .*nowhere: check its name"):
        read_mooncake(tmp_path / "nowhere")
    with pytest.raises(BadTrace, match="is a folder: name a file in it"):
        read_mooncake(tmp_path)
    path = tmp_path / "picture"
    path.write_bytes(b"\x89PNG\xff\xfe\xfd" * 20)
    with pytest.raises(BadTrace, match="picture, line 1: expected text in UTF-8"):
        read_mooncake(path)


# --- finding --------------------------------------------------------------------------


def test_the_data_folder_is_the_named_one_or_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("BLOCKMGR_DATA", raising=False)
    assert data_folder() == tmp_path / "blockmgr"
    monkeypatch.setenv("BLOCKMGR_DATA", "~/traces")
    assert data_folder() == Path.home() / "traces"
    monkeypatch.setenv("BLOCKMGR_DATA", "")
    assert data_folder() == tmp_path / "blockmgr"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path.home() / ".cache" / "blockmgr"


def test_a_missing_trace_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKMGR_DATA", str(tmp_path))
    with pytest.raises(MissingTrace, match="`make data`, or name its folder in"):
        find_trace("azure2023_conv")
    with pytest.raises(MissingTrace, match="profiles have its figures"):
        find_trace("sharegpt_turns")
    with pytest.raises(MissingTrace, match="no trace is called 'mooncake': choose"):
        find_trace("mooncake")
    path = write(tmp_path / "azure2023_conv.csv.gz", "")
    assert find_trace("azure2023_conv") == path


def test_every_trace_names_its_home_and_licence() -> None:
    for name, trace in TRACES.items():
        assert trace.name == name
        assert trace.file.startswith(name)
        assert trace.origin and trace.licence and len(trace.sha256) == 64
    addresses = [t.address for t in TRACES.values() if t.address]
    assert len(addresses) == 4
    assert all(address.startswith("https://") for address in addresses)


# --- downloading, from a server on this machine ---------------------------------------

CONTENT = line().encode() * 10_000
PAGES = {
    "/right": CONTENT,
    "/other": CONTENT.replace(b"600", b"601"),
    "/longer": CONTENT + b"more" * 100_000,
}


class Home(BaseHTTPRequestHandler):
    """The public home of a trace, with pages on which something is wrong."""

    def do_GET(self) -> None:
        if self.path not in (*PAGES, "/cut"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGES.get(self.path, CONTENT))))
        self.end_headers()
        self.wfile.write(PAGES.get(self.path, CONTENT[:70_000]))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Home)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def known(home: str, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A trace whose home is our server."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    digest = hashlib.sha256(CONTENT).hexdigest()
    return Trace(
        "toy", "toy.jsonl.gz", "", "us", "", digest, len(CONTENT), f"{home}/right"
    )


def test_a_download_is_stored_packed_and_intact(tmp_path: Path, known: Trace) -> None:
    seen: list[int] = []
    path = download(known, tmp_path / "new" / "folder", seen.append)
    assert path == tmp_path / "new" / "folder" / "toy.jsonl.gz"
    assert gzip.decompress(path.read_bytes()) == CONTENT
    assert seen == sorted(seen) and seen[-1] == known.size
    assert is_intact(known, path)
    assert not is_intact(replace(known, sha256="0" * 64), path)
    assert not is_intact(known, tmp_path)
    assert [file.name for file in path.parent.iterdir()] == ["toy.jsonl.gz"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("/other", r"sent something else \(780,000 bytes, expected 780,000\)"),
        ("/longer", r"sent something else \(786,432 bytes, expected 780,000\)"),
        ("/cut", r"70,000 bytes, expected 780,000\) or broke off"),
        ("/nowhere", r"toy can't be fetched from 127.* \(Not Found\): check the net"),
    ],
)
def test_a_failed_download_leaves_everything_as_it_was(
    tmp_path: Path, known: Trace, page: str, expected: str
) -> None:
    assert known.address is not None
    moved = replace(known, address=known.address.replace("/right", page))
    old = write(tmp_path / "toy.jsonl.gz", "what was here before")
    with pytest.raises(DownloadError, match=expected):
        download(moved, tmp_path)
    assert old.read_text(encoding="utf-8") == "what was here before"
    assert list(tmp_path.iterdir()) == [old]


def test_no_network_and_no_folder_are_one_clear_line(
    tmp_path: Path, known: Trace
) -> None:
    deaf = replace(known, address="http://127.0.0.1:9/x")
    with pytest.raises(DownloadError, match=r"refused.*: check the network\. Lessons"):
        download(deaf, tmp_path)
    file = write(tmp_path / "file", "")
    with pytest.raises(DownloadError, match=r"can't write to .*name another folder"):
        download(known, file)
    with pytest.raises(DownloadError, match="toy can't be downloaded: see us"):
        download(replace(known, address=None), tmp_path)
    (tmp_path / "toy.jsonl.gz").mkdir()  # in the way
    with pytest.raises(DownloadError, match=r"can't write .*toy\.jsonl\.gz"):
        download(known, tmp_path)


# --- simulating -----------------------------------------------------------------------


def prompts(*ids: str, tail: int = 512) -> list[MooncakeRequest]:
    """Requests whose blocks are named by letters; `tail` tokens in the last block."""
    return [
        MooncakeRequest(0, 512 * len(p) - 512 + tail, 1, tuple(map(ord, p)))
        for p in ids
    ]


def test_a_trace_small_enough_to_follow_by_hand() -> None:
    # Pool of 4.           ABC: 3 new.  queue: . C B A
    #                      ADE: finds A; takes '.', then C (evicted): B E D A
    #                      AB:  finds A and B: E D B A     AC: finds A; evicts E
    run = simulate(prompts("ABC", "ADE", "AB", "AC", tail=100), 4)
    assert run == Simulation(
        num_blocks=4,
        requests=4,
        too_long=0,
        blocks=10,
        tokens=4 * 100 + 6 * 512,
        hit_blocks=0 + 1 + 2 + 1,
        hit_tokens=512 + (512 + 100) + 512,
        evictions=2,
    )
    assert run.hit_rate == run.hit_tokens / run.tokens


def test_a_block_that_was_partly_filled_gives_what_was_in_it() -> None:
    # A has 100 tokens at first. The second prompt finds these, and fills the block.
    partly, whole = prompts("A", tail=100), prompts("AB", "AB", "A")
    run = simulate([*partly, *whole], 9)
    assert run.hit_blocks == 0 + 1 + 2 + 1
    assert run.hit_tokens == 0 + 100 + 1024 + 512
    back = simulate([*whole, *partly, *whole], 9)  # what was full stays full
    assert back.hit_tokens == 0 + 1024 + 512 + 100 + 1024 + 1024 + 512
    assert simulate(partly * 2, 9).hit_tokens == 0 + 100


def test_blocks_of_another_size_count_their_own_tokens() -> None:
    requests = [AgentRequest(0, 0.0, 150, 1, (1, 2)), AgentRequest(0, 1.0, 70, 1, (1,))]
    run = simulate([*requests, requests[0]], 9, block_size=64)
    assert (run.tokens, run.hit_blocks, run.hit_tokens) == (370, 3, 64 + 128)


def test_a_request_longer_than_the_pool_keeps_its_start() -> None:
    run = simulate(prompts("ABCDE", "ABCDE", "X", "ABC"), 3)
    assert (run.too_long, run.hit_blocks) == (2, 0 + 3 + 0 + 2)
    assert run.evictions == 1 + 1  # X takes C's block, C takes X's


def test_a_pool_larger_than_the_trace_evicts_nothing() -> None:
    requests = prompts("ABC", "ADE", "ABC")
    exact, huge = simulate(requests, 9), simulate(requests, 10**11)
    assert exact.evictions == huge.evictions == 0
    assert replace(huge, num_blocks=9) == exact


def plain_lru(requests: list[MooncakeRequest], size: int) -> tuple[int, int]:
    """(blocks found, evictions) by the textbook: one dict, oldest first."""
    held: OrderedDict[int, None] = OrderedDict()
    found = evicted = 0
    for request in requests:
        for block in request.hash_ids:
            if block not in held:
                break
            found += 1
        kept = request.hash_ids[:size]
        old = len(held)
        fresh = sum(block not in held for block in kept)
        for block in reversed(kept):
            held[block] = None
            held.move_to_end(block)
        while len(held) > size:
            held.popitem(last=False)
        evicted += old + fresh - len(held)
    return found, evicted


def test_the_pool_agrees_with_a_plain_lru_on_random_trees() -> None:
    rng = random.Random(7)
    branches: dict[tuple[int, int], int] = {}
    requests = []
    for _ in range(600):
        ids, node = [], -1
        for _ in range(rng.randint(1, 12)):
            step = (node, rng.choice([0, 0, 0, 1, 2]))
            node = branches.setdefault(step, len(branches))
            ids.append(node)
        requests.append(MooncakeRequest(0, 512 * len(ids), 1, tuple(ids)))
    for size in (1, 2, 7, 30, 200, 1_000):
        run = simulate(requests, size)
        assert (run.hit_blocks, run.evictions) == plain_lru(requests, size)
        assert run.too_long == sum(len(r.hash_ids) > size for r in requests)
        assert run.hit_tokens == run.hit_blocks * 512


def test_a_simulation_needs_a_block_and_a_request_and_tells_its_progress() -> None:
    for size, requests in ((0, prompts("A")), (-1, prompts("A")), (4, [])):
        with pytest.raises(InvalidRequest, match="at least 1 block and 1 request"):
            simulate(requests, size)
    seen: list[int] = []
    simulate(prompts("A") * 300, 4, seen.append)
    assert seen == [0, 256, 300]


# --- profiles -------------------------------------------------------------------------


def test_every_profile_says_where_it_comes_from() -> None:
    assert len(profile_names()) == 9
    folder = resources.files("blockmgr") / "profiles"
    size = 0
    for name in profile_names():
        profile = load_profile(name)
        assert profile.name == name
        trace = TRACES[profile.trace]
        assert profile.source["sha256"] == trace.sha256
        assert profile.source["licence"] == trace.licence
        assert profile.command == f"python tools/profiles.py {name}"
        counts = sum(count for _, _, count in profile.lengths)
        assert counts == profile.figures["requests"]
        size += len((folder / f"{name}.json").read_bytes())
    assert size < 150_000


def test_equal_seeds_draw_equal_requests_everywhere() -> None:
    profile = load_profile("sharegpt_first_turns")
    drawn = profile.draw(1_000, seed=3)
    assert drawn == profile.draw(1_000, seed=3) != profile.draw(1_000, seed=4)
    assert drawn[:10] == profile.draw(10, seed=3)
    assert drawn[:3] == [Lengths(26, 559), Lengths(106, 65), Lengths(7, 545)]


@pytest.mark.parametrize("name", profile_names())
def test_drawn_requests_are_like_the_trace(name: str) -> None:
    profile = load_profile(name)
    drawn = profile.draw(40_000, seed=0)
    cells = {(prompt, output) for prompt, output, _ in profile.lengths}
    got = {(bucket(row.prompt_tokens), bucket(row.output_tokens)) for row in drawn}
    assert got <= cells
    for column in ("prompt_tokens", "output_tokens"):
        largest = max(getattr(row, column) for row in drawn)
        assert largest <= profile.figures[column]["largest"]
        mean = sum(getattr(row, column) for row in drawn) / len(drawn)
        wanted = profile.figures[column]["total"] / profile.figures["requests"]
        assert mean == pytest.approx(wanted, rel=0.03)


def test_bad_draws_and_unknown_profiles_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="can't draw -1 requests"):
        load_profile("alpaca_lengths").draw(-1, seed=0)
    assert load_profile("alpaca_lengths").draw(0, seed=0) == []
    for name in ("../errors", "nothing"):
        with pytest.raises(MissingTrace, match=r"no profile is called .*alpaca"):
            load_profile(name)


def test_buckets_cover_every_length_once() -> None:
    start = 0
    for length in range(70_000):
        if length == start + bucket_width(start):
            start = length
        assert bucket(length) == start
        assert bucket_width(start) <= max(1, start / 4)
