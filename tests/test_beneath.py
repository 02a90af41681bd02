"""The kernel watches the way: nothing leads out, no link is followed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from palinurus import beneath

pytestmark = pytest.mark.skipif(not beneath.has_openat2(), reason="this kernel has no openat2")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "file").write_text("x")
    (tmp_path / "in" / "link").symlink_to("deep")
    (tmp_path / "in" / "out").symlink_to("/etc")
    (tmp_path / "secret").write_text("s")
    handle = os.open(tmp_path / "in", os.O_PATH | os.O_DIRECTORY)
    yield handle
    os.close(handle)


@pytest.mark.parametrize("path", ["deep/file", "./deep/file", "deep/../deep/file", "deep//file"])
def test_below(folder: int, path: str) -> None:
    handle = beneath.open_beneath(folder, path, os.O_RDONLY)
    assert os.read(handle, 9) == b"x" and not os.get_inheritable(handle)
    os.close(handle)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../secret", errno.EXDEV),
        ("/etc/passwd", errno.EXDEV),
        ("deep/../../secret", errno.EXDEV),
        ("link/file", errno.ELOOP),
        ("out/passwd", errno.ELOOP),
        ("link", errno.ELOOP),
        ("missing", errno.ENOENT),
        ("deep/file/x", errno.ENOTDIR),
    ],
)
def test_not_below(folder: int, path: str, code: int) -> None:
    with pytest.raises(OSError) as caught:
        beneath.open_beneath(folder, path, os.O_RDONLY)
    assert caught.value.errno == code


def test_the_magic_links_of_proc(folder: int) -> None:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        for path in (f"proc/self/fd/{folder}", "proc/self/root/etc/passwd", "proc/self/cwd"):
            with pytest.raises(OSError) as caught:
                beneath.open_beneath(root, path, os.O_RDONLY)
            assert caught.value.errno == errno.ELOOP
    finally:
        os.close(root)
