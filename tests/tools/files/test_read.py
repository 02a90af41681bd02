"""read: windows of text, images, binaries, and every way to fail."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palinurus.core.types.messages import ImageBlock
from palinurus.tools.files.read import MAX_IMAGE, detect_image_type

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40


async def test_lines_with_continuation(do: Any, ctx: Any, workspace: Path) -> None:
    ctx.set(result_chars=100_000)
    (workspace / "f").write_text("".join(f"line {i}\n" for i in range(1, 5001)))
    result = await do("read", path="f")
    assert result.text.startswith("line 1\nline 2\n")
    assert result.text.endswith("line 2000\n\n[Lines 1-2000 of 5000. Continue with offset=2001.]")
    result = await do("read", path="f", offset=4999)
    assert result.text == "line 4999\nline 5000\n"
    result = await do("read", path="f", offset="3", limit="2")
    assert result.text == "line 3\nline 4\n\n[Lines 3-4 of 5000. Continue with offset=5.]"


async def test_fifty_kilobytes_and_the_result_limit(do: Any, ctx: Any, workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"{i:04} {'x' * 95}\n" for i in range(1, 1001)))
    ctx.set(result_chars=100_000)
    assert (await do("read", path="f")).details["lines"] == 50 * 1024 // 101
    ctx.set(result_chars=5000)
    result = await do("read", path="f")
    # the window shrinks to what may be shown, so the hint is right and nothing is cut out of the middle
    assert result.details["lines"] == 4700 // 101
    assert "left out" not in result.text
    assert f"Continue with offset={result.details['lines'] + 1}." in result.text


async def test_a_first_line_that_is_too_long(do: Any, workspace: Path) -> None:
    (workspace / "f").write_text("short\n" + "x" * 200_000 + "\nend\n")
    assert (await do("read", path="f", limit=1)).text.startswith("short\n")
    result = await do("read", path="f", offset=2)
    assert "Line 2 of f is 200000 bytes or more" in result.text and "Use exec" in result.text


@pytest.mark.parametrize("content", ["a\nb\nc", "a\nb\nc\n"])
async def test_offset_beyond_the_end_names_the_line_count(do: Any, workspace: Path, content: str) -> None:
    (workspace / "f").write_text(content)
    result = await do("read", path="f", offset=4)
    assert result.isError and "has 3 lines" in result.text
    assert (await do("read", path="f", offset=3)).text.strip() == "c"


async def test_large_files_are_read_in_another_thread_with_the_same_result(do: Any, ctx: Any, workspace: Path) -> None:
    (workspace / "big").write_text("".join(f"{i}\n" for i in range(1, 400_001)))
    result = await do("read", path="big", offset=399_999)
    assert result.text == "399999\n400000\n"
    result = await do("read", path="big", offset=200_000, limit=1)
    assert result.text == "200000\n\n[Lines 200000-200000 of 400000. Continue with offset=200001.]"
    assert "has 400000 lines" in (await do("read", path="big", offset=400_001)).text


async def test_encodings(do: Any, workspace: Path) -> None:
    (workspace / "bom").write_bytes(b"\xef\xbb\xbfhello\r\nworld\r\n")
    assert (await do("read", path="bom")).text == "hello\nworld\n"
    (workspace / "latin").write_bytes("a caf\u00e9 in the long and winding street".encode("latin-1"))
    assert (await do("read", path="latin")).text == "a caf\ufffd in the long and winding street"
    (workspace / "empty").write_bytes(b"")
    assert (await do("read", path="empty")).text == "(empty file)"


async def test_binary_files_are_described(do: Any, workspace: Path) -> None:
    (workspace / "x.pdf").write_bytes(b"%PDF-1.7\n\x00\x01")
    result = await do("read", path="x.pdf")
    assert "PDF document, 11 bytes; begins 25 50 44 46" in result.text
    assert not result.isError


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\x00" * 20, "image/jpeg"),
        (b"GIF89a" + b"\x00" * 20, "image/gif"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
async def test_images_are_shown_by_what_they_are(do: Any, workspace: Path, data: bytes, mime: str) -> None:
    (workspace / "photo.txt").write_bytes(data)  # names lie
    result = await do("read", path="photo.txt")
    image = result.content[1]
    assert isinstance(image, ImageBlock)
    assert (image.mimeType, base64.b64decode(image.data)) == (mime, data)


async def test_images_over_the_cap(do: Any, workspace: Path) -> None:
    (workspace / "big.png").write_bytes(PNG + b"\x00" * MAX_IMAGE)
    result = await do("read", path="big.png")
    assert len(result.content) == 1 and "Too large to show" in result.text
    (workspace / "fits.png").write_bytes(PNG + b"\x00" * 300_000)
    assert len((await do("read", path="fits.png")).content) == 2


async def test_errors(do: Any, workspace: Path) -> None:
    (workspace / "dir").mkdir()
    assert "is a directory; use ls" in (await do("read", path="dir")).text
    assert "directory" in (await do("read", path=".")).text
    assert "does not exist" in (await do("read", path="nope")).text
    (workspace / "f").write_text("x")
    assert (await do("read", path="f/g")).isError


def test_no_image() -> None:
    assert detect_image_type(b"") == "" and detect_image_type(b"RIFF....WAVE") == ""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300).filter(lambda d: b"\x00" not in d), limit=st.integers(1, 5))
async def test_following_the_hints_gives_the_whole_file(do: Any, workspace: Path, data: bytes, limit: int) -> None:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if detect_image_type(data) or data.startswith(b"\xef\xbb\xbf"):
        return
    (workspace / "f").write_bytes(data)
    from_hints, offset = "", 1
    for _ in range(400):
        result = await do("read", path="f", offset=offset, limit=limit)
        if result.text.startswith(("(empty file)", "[binary data")):
            return
        assert not result.isError, result.text
        total, lines = result.details["total"], result.details["lines"]
        text = result.text
        if offset + lines - 1 < total:
            text = text[: text.rindex("\n[Lines")]
        from_hints += text
        offset += lines
        if offset > total:
            break
    assert from_hints == data.decode("utf-8", "replace").replace("\r\n", "\n")
