from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palinurus.errors import BadRequest
from palinurus.workspace.install.source import ArchiveLimits, read_folder, read_zip

CAPS = ArchiveLimits()


def pack(path: Path, *entries: tuple[str, bytes, int]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return str(path)


def test_an_archive_in_memory(tmp_path: Path) -> None:
    path = pack(
        tmp_path / "a.zip",
        ("s/SKILL.md", b"x", 0o100644),
        ("s/run.sh", b"#!", 0o100755),
        ("s/.git/config", b"y", 0o100644),
        ("__MACOSX/s", b"z", 0o100644),
    )
    assert [(p.name, p.data, p.executable) for p in read_zip(path, CAPS)] == [
        ("s/SKILL.md", b"x", False),
        ("s/run.sh", b"#!", True),
    ]
    assert os.listdir(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "C:/x", "a\\..\\x", "~/x", "a\nb", "a/" * 9 + "x"])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest):
        read_zip(pack(tmp_path / "a.zip", (name, b"x", 0)), CAPS)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_special_files(tmp_path: Path, kind: int) -> None:
    with pytest.raises(BadRequest, match="link or a special file"):
        read_zip(pack(tmp_path / "a.zip", ("SKILL.md", b"/etc/passwd", kind | 0o644)), CAPS)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.zip", ("big", b"\x00" * 3_000_000, 0))
    assert os.path.getsize(path) < 10_000
    with pytest.raises(BadRequest, match="too large"):
        read_zip(path, msgspec.structs.replace(CAPS, each=1_000_000))
    with pytest.raises(BadRequest, match="too large"):
        read_zip(
            pack(tmp_path / "b.zip", ("a", b"x" * 600, 0), ("b", b"x" * 600, 0)),
            msgspec.structs.replace(CAPS, total=1000),
        )


def test_too_many_and_two_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="more than 2 files"):
        read_zip(
            pack(tmp_path / "a.zip", *((f"{n}", b"", 0) for n in range(3))), msgspec.structs.replace(CAPS, files=2)
        )
    with pytest.raises(BadRequest, match="two files"):
        read_zip(pack(tmp_path / "b.zip", ("A", b"", 0), ("a", b"", 0)), CAPS)


@given(st.binary(max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_bytes_for_an_archive(tmp_path: Path, data: bytes) -> None:
    good = pack(tmp_path / "g.zip", ("SKILL.md", b"words" * 20, 0))
    torn = Path(good).read_bytes()
    (tmp_path / "x.zip").write_bytes(torn[: len(data)] + data + torn[len(data) * 2 :])
    try:
        read_zip(str(tmp_path / "x.zip"), CAPS)
    except BadRequest:
        pass


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "x").write_text("1")
    (tmp_path / "SKILL.md").write_text("2")
    assert [(p.name, p.data) for p in read_folder(str(tmp_path), CAPS)] == [("SKILL.md", b"2"), ("scripts/x", b"1")]
    (tmp_path / "l").symlink_to("SKILL.md")
    with pytest.raises(BadRequest, match="link"):
        read_folder(str(tmp_path), CAPS)
    (tmp_path / "l").unlink()
    os.mkfifo(tmp_path / "p")
    with pytest.raises(BadRequest, match="not a file"):
        read_folder(str(tmp_path), CAPS)
