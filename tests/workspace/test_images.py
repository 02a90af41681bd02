from __future__ import annotations

import base64
import os
from pathlib import Path

from palinurus.workspace.images import ImageLimits, found

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LIMITS = ImageLimits()


async def test_named_images_are_loaded_for_models_that_see(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.jpg").write_bytes(b"\xff\xd8\xff\xe0rest")
    text = f"compare ./a.png with file://{tmp_path}/b.jpg and [media attached: a.png]"
    got = await found(text, str(tmp_path), LIMITS)
    assert [(image.mimeType, base64.b64decode(image.data)) for image in got.images] == [
        ("image/png", PNG),
        ("image/jpeg", b"\xff\xd8\xff\xe0rest"),
    ]
    assert (got.notes, got.text) == ((), text)
    assert await found(text, str(tmp_path), LIMITS, vision=False) == ((), (), text)


async def test_nothing_leaves_the_workspace(tmp_path: Path) -> None:
    work = tmp_path / "w"
    work.mkdir()
    (tmp_path / "x.png").write_bytes(PNG)
    (work / "link.png").symlink_to(tmp_path / "x.png")
    text = f"{tmp_path}/x.png ../x.png ./link.png {tmp_path}/none.png ~/x.png"
    got = await found(text, str(work), ImageLimits(home=str(tmp_path)))
    assert got.images == ()
    assert got.notes == tuple(f"{tmp_path}/{name}: outside the workspace" for name in ("x.png", "none.png"))
    allowed = await found(text, str(work), ImageLimits((str(tmp_path),), str(tmp_path)))
    assert len(allowed.images) == 1


async def test_what_is_not_an_image_or_too_much(tmp_path: Path) -> None:
    (tmp_path / "t.png").write_text("text")
    (tmp_path / "big.png").write_bytes(PNG + b"x" * 2000)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "d.png").mkdir()
    got = await found("./t.png ./big.png ./pipe.png ./d.png ./gone.png", str(tmp_path), ImageLimits(each=1024))
    assert got.images == ()
    said = {note.split("/")[-1].split(":")[0]: note for note in got.notes}
    assert "not a PNG" in said["t.png"]
    assert "larger than 1 KiB" in said["big.png"]
    assert "not a file" in said["pipe.png"] and "not a file" in said["d.png"]
    assert "No such file" in said["gone.png"]


async def test_counts_and_sums(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"{n}.png").write_bytes(PNG + bytes([n]))
    text = "./0.png ./1.png ./2.png ./3.png"
    few = await found(text, str(tmp_path), ImageLimits(most=3))
    assert (len(few.images), len(few.notes)) == (3, 1)
    small = await found(text, str(tmp_path), ImageLimits(total=len(PNG) * 2 + 5))
    assert (len(small.images), len(small.notes)) == (2, 2)


async def test_inline_data(tmp_path: Path) -> None:
    encoded = base64.b64encode(PNG).decode()
    got = await found(f"see data:image/jpeg;base64,{encoded} here", str(tmp_path), LIMITS)
    assert [(image.mimeType, image.data) for image in got.images] == [("image/png", encoded)]
    assert got.text == "see [image] here"
    bad = await found("data:image/png;base64,AAAAAAAAAAAAAAAAAAA", str(tmp_path), LIMITS)
    assert bad.images == () and len(bad.notes) == 1
