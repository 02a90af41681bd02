from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.media import IMAGES_EXTRA_HINT, MAX_IMAGE_SIDE, read_dimensions
from palinurus.core.types.messages import ImageBlock
from palinurus.tools.web.shrink import shrink_image
from palinurus.workspace.images import ImageLimits, find_images, resize_images

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LIMITS = ImageLimits(shrink=shrink_image)


def without(**limits: Any) -> ImageLimits:
    """Nothing can be made smaller."""
    return ImageLimits(shrink=lambda data, size, side: IMAGES_EXTRA_HINT, **limits)


async def test_named_images_are_loaded_for_models_that_see(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.jpg").write_bytes(b"\xff\xd8\xff\xe0rest")
    text = f"compare ./a.png with file://{tmp_path}/b.jpg and [media attached: a.png]"
    got = await find_images(text, str(tmp_path), LIMITS)
    assert [(image.mimeType, base64.b64decode(image.data)) for image in got.images] == [
        ("image/png", PNG),
        ("image/jpeg", b"\xff\xd8\xff\xe0rest"),
    ]
    assert (got.notes, got.text) == ((), text)
    assert (await find_images(text, str(tmp_path), LIMITS, vision=False))[:3] == ((), (), text)


async def test_nothing_leaves_the_workspace(tmp_path: Path) -> None:
    work = tmp_path / "w"
    work.mkdir()
    (tmp_path / "x.png").write_bytes(PNG)
    (work / "link.png").symlink_to(tmp_path / "x.png")
    text = f"{tmp_path}/x.png ../x.png ./link.png {tmp_path}/none.png ~/x.png"
    got = await find_images(text, str(work), ImageLimits(home=str(tmp_path)))
    assert got.images == ()
    assert got.notes == tuple(f"{tmp_path}/{name}: outside the workspace" for name in ("x.png", "none.png"))
    allowed = await find_images(text, str(work), ImageLimits((str(tmp_path),), str(tmp_path)))
    assert len(allowed.images) == 1


async def test_what_is_not_an_image_or_too_much(tmp_path: Path) -> None:
    (tmp_path / "t.png").write_text("text")
    (tmp_path / "big.png").write_bytes(PNG + b"x" * 2000)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "d.png").mkdir()
    got = await find_images("./t.png ./big.png ./pipe.png ./d.png ./gone.png", str(tmp_path), without(each=1024))
    assert got.images == ()
    said = {note.split("/")[-1].split(":")[0]: note for note in got.notes}
    assert "not a PNG" in said["t.png"]
    assert "larger than 1 KiB; `pal extras add images`" in said["big.png"]
    assert "not a file" in said["pipe.png"] and "not a file" in said["d.png"]
    assert "No such file" in said["gone.png"]


async def test_counts_and_sums(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"{n}.png").write_bytes(PNG + bytes([n]))
    text = "./0.png ./1.png ./2.png ./3.png"
    few = await find_images(text, str(tmp_path), ImageLimits(most=3))
    assert (len(few.images), len(few.notes)) == (3, 1)
    small = await find_images(text, str(tmp_path), ImageLimits(total=len(PNG) * 2 + 5))
    assert (len(small.images), len(small.notes)) == (2, 2)


async def test_inline_data(tmp_path: Path) -> None:
    encoded = base64.b64encode(PNG).decode()
    got = await find_images(f"see data:image/jpeg;base64,{encoded} here", str(tmp_path), LIMITS)
    assert [(image.mimeType, image.data) for image in got.images] == [("image/png", encoded)]
    assert got.text == "see [image] here"
    bad = await find_images("data:image/png;base64,AAAAAAAAAAAAAAAAAAA", str(tmp_path), LIMITS)
    assert bad.images == () and len(bad.notes) == 1


async def test_what_is_larger_than_helps_is_made_smaller(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (3000, 1500), "red").save(tmp_path / "wide.jpg")
    pillow.new("RGB", (40, 20), "red").save(tmp_path / "x.bmp")
    (tmp_path / "bad.png").write_bytes(PNG[:16] + (5000).to_bytes(4) * 2 + b"nothing")
    text = "./wide.jpg ./x.bmp ./bad.png"
    got = await find_images(text, str(tmp_path), LIMITS)
    assert [image.mimeType for image in got.images] == ["image/jpeg", "image/png", "image/png"] and not got.notes
    assert read_dimensions(base64.b64decode(got.images[0].data), "image/jpeg") == (MAX_IMAGE_SIDE, MAX_IMAGE_SIDE // 2)
    smaller = await find_images("./wide.jpg", str(tmp_path), ImageLimits(side=100, shrink=shrink_image))
    assert read_dimensions(base64.b64decode(smaller.images[0].data), "image/jpeg") == (100, 50)
    as_before = await find_images(text, str(tmp_path), without())
    assert base64.b64decode(as_before.images[0].data) == (tmp_path / "wide.jpg").read_bytes()
    assert "x.bmp: not a PNG" in as_before.notes[0] and IMAGES_EXTRA_HINT in as_before.notes[0]


async def test_images_that_came_with_a_message(tmp_path: Path) -> None:
    small, large = (base64.b64encode(PNG + b"x" * more).decode() for more in (0, 2000))
    got = await resize_images((ImageBlock(small, "image/png"), ImageBlock(large, "image/png")), without(each=1024))
    assert [image.data for image in got.images] == [small]
    assert len(got.notes) == 1 and "larger than 1 KiB" in got.notes[0]
    assert (await resize_images((), LIMITS))[:3] == ((), (), "")
