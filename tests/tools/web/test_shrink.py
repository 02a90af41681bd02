"""Images made smaller in a child process: what fits, what is refused, and that hostile ones end only the child."""

from __future__ import annotations

import io
import os
import socket
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from palinurus.core.media import MAX_IMAGE_SIDE
from palinurus.tools.sandbox.probe import detect_support
from palinurus.tools.web.shrink import run_reader, shrink_image

Image = pytest.importorskip("PIL.Image")


def saved(picture: object, kind: str, **words: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **words)  # type: ignore[attr-defined]
    return out.getvalue()


def opened(data: bytes | str) -> Image.Image:
    assert isinstance(data, bytes), data
    return Image.open(io.BytesIO(data))


def test_sides_and_bytes_fit_and_the_shape_stays() -> None:
    noise = Image.frombytes("RGB", (1600, 800), os.urandom(1600 * 800 * 3))
    made = shrink_image(saved(noise, "JPEG", quality=95), 300_000)
    assert opened(made).size == (MAX_IMAGE_SIDE, MAX_IMAGE_SIDE // 2) and len(made) <= 300_000
    assert "small enough" in str(shrink_image(saved(noise, "JPEG"), 1000))


def test_transparency_and_orientation_are_kept() -> None:
    clear = opened(shrink_image(saved(Image.new("RGBA", (2000, 100), (0, 0, 0, 0)), "PNG"), 1 << 20))
    assert (clear.format, clear.mode) == ("PNG", "RGBA")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    assert opened(shrink_image(saved(Image.new("RGB", (200, 100)), "JPEG", exif=exif), 1 << 20)).size == (100, 200)


def bomb(side: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    packed = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF", bomb(30_000), bomb(4000)])
def test_what_cannot_be_read_is_said(data: bytes) -> None:
    assert str(shrink_image(data, 1 << 20)).startswith("could not be made smaller: ")


def test_too_many_pixels_are_not_decoded() -> None:
    assert "6000 x 6000 pixels; at most 25 million" in str(shrink_image(bomb(6000), 1 << 20))


SNOOP = """
import os, socket, sys
def can(what):
    try:
        what()
        return "yes"
    except OSError:
        return "no"
sys.stdin.buffer.read()
tries = [lambda: open(sys.argv[1]).read(), lambda: open("/tmp/x", "w"), lambda: os.listdir(os.path.expanduser("~"))]
tries += [lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1)]
print(*map(can, tries))
"""


def test_the_child_has_nothing_but_its_pipes(tmp_path: Path) -> None:
    if not detect_support().landlock:
        pytest.skip("this machine has nothing to hold it with")
    (tmp_path / "key").write_text("canary")
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = (sys.executable, "-I", "-c", SNOOP, str(tmp_path / "key"), str(server.getsockname()[1]))
        code, told = run_reader(argv, b"x" * 300_000, 100)
    assert (code, told.split()[0], told.split()[3]) == (0, b"no", b"no")
    assert b"canary" not in told and b"yes" not in told.split()[:1]


def test_without_the_extra_the_program_says_which() -> None:
    code = (
        "import sys; sys.modules['PIL'] = None; from palinurus.tools.web.shrink import *; print(shrink_image(b'', 1))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "extras add images" in said
