"""The main program of the child that makes one image smaller: stdin to stdout, or the reason there. Only this file
imports Pillow. Images are hostile input: few formats, few pixels, and limits of the kernel.
"""

from __future__ import annotations

import contextlib
import io
import resource
import sys

from PIL import Image, ImageOps

from palinurus.core.media import MAX_IMAGE_PIXELS

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
LADDER = (85, 75, 65, 55, 45, 35)  # JPEG qualities, until it fits
_LIMITS = (
    (resource.RLIMIT_AS, 1 << 30),
    (resource.RLIMIT_CPU, 30),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, 64),
)


def scale_image(data: bytes, side: int, size: int) -> bytes:
    """A PNG or JPEG of at most `side` pixels and `size` bytes; of a film the first picture. Raises ValueError,
    OSError for what cannot be read or not made small enough."""
    with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
        if opened.width * opened.height > MAX_IMAGE_PIXELS:
            limit = f"at most {MAX_IMAGE_PIXELS // 1_000_000} million are decoded"
            raise ValueError(f"it has {opened.width} x {opened.height} pixels; {limit}")
        drawn = opened.format in ("PNG", "GIF", "BMP") or opened.has_transparency_data
        opened.draft("RGB", (side, side))
        picture = ImageOps.exif_transpose(opened)
        picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    if drawn and len(made := _saved(picture, "PNG")) <= size:
        return made
    flat = Image.new("RGB", picture.size, "white")
    flat.paste(picture, mask=picture.getchannel("A") if picture.mode == "RGBA" else None)
    for quality in LADDER:
        if len(made := _saved(flat, "JPEG", quality)) <= size:
            return made
    raise ValueError("it cannot be made small enough")


def _saved(picture: Image.Image, kind: str, quality: int = 75) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, quality=quality)
    return out.getvalue()


def main(side: int, size: int) -> int:
    """Exit code 0 with the image on stdout, 1 with the reason there."""
    for kind, most in _LIMITS:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    try:
        made = scale_image(sys.stdin.buffer.read(), side, size)
    except MemoryError:
        sys.stdout.write("it needs too much memory")
        return 1
    except Exception as exc:  # noqa: BLE001 - process boundary: whatever a decoder raises is a reason
        sys.stdout.write(str(exc)[:300] or type(exc).__name__)
        return 1
    sys.stdout.buffer.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
