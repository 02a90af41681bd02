import os
import stat
from pathlib import Path

import pytest

from palinurus.config import files
from palinurus.config.findings import ConfigFinding
from powers import powerless


def test_a_missing_file_is_None(tmp_path: Path) -> None:
    assert files.read_file(str(tmp_path / "no")) is None


def test_reads_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x00\xff")
    assert files.read_file(str(tmp_path / "f")) == b"\x00\xff"


def _message(found: object) -> str:
    assert isinstance(found, ConfigFinding)
    assert found.fatal
    return found.message


def test_a_directory(tmp_path: Path) -> None:
    assert "is a directory" in _message(files.read_file(str(tmp_path)))


def test_a_named_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in _message(files.read_file(str(tmp_path / "pipe")))


def test_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to(tmp_path / "nowhere")
    assert "leads nowhere" in _message(files.read_file(str(tmp_path / "l")))


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to(tmp_path / "l")
    assert "leads nowhere" in _message(files.read_file(str(tmp_path / "l")))


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert "not a directory" in _message(files.read_file(str(tmp_path / "f" / "g")))


def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("{}")
    (tmp_path / "f").chmod(0)
    with powerless():
        assert "may not be read" in _message(files.read_file(str(tmp_path / "f")))


def test_too_large(tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as stream:
        stream.truncate(files.MAX_BYTES + 1)
    assert "larger than 4 MB" in _message(files.read_file(str(tmp_path / "f")))


@pytest.mark.parametrize(
    ("data", "message", "at"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark", 0),
        ("{}".encode("utf-16"), "is UTF-16", 0),
        (b"{\n\0}", "NUL byte", 2),
        (b"{a: '\xff'}", "not valid UTF-8", 5),
    ],
)
def test_what_is_no_text(data: bytes, message: str, at: int) -> None:
    found = files.decode_text(data)
    assert isinstance(found, tuple)
    assert message in found[0].message
    assert found[1] == at


def test_text() -> None:
    assert files.decode_text("{a: 'ü'}".encode()) == "{a: 'ü'}"


def test_replace_is_private_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    file.chmod(0o644)
    files.replace_file(str(file), b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_replace_keeps_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("old")
    (tmp_path / "f").symlink_to(tmp_path / "real" / "f")
    files.replace_file(str(tmp_path / "f"), b"new")
    assert (tmp_path / "f").is_symlink()
    assert (tmp_path / "real" / "f").read_bytes() == b"new"


def test_a_failing_rename_leaves_the_target_and_no_rest(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()  # a file cannot be renamed over a directory
    with pytest.raises(OSError, match="directory"):
        files.replace_file(str(tmp_path / "f"), b"new")
    assert os.listdir(tmp_path) == ["f"]
