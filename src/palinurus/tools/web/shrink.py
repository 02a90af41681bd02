"""Making an image smaller in a child process of its own: decoders meet hostile input, and the program never loads
Pillow. The child is in a sandbox in which it can read programs and nothing else. Blocks: called from threads.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import threading

from palinurus.core.media import IMAGES_EXTRA_HINT, MAX_IMAGE_SIDE
from palinurus.tools.sandbox.children import KeptChild
from palinurus.tools.sandbox.launch import prepare_launch, start_child
from palinurus.tools.sandbox.probe import make_empty_sandbox

SECONDS = 30.0
REAP = 5.0
_CHILD = "palinurus.tools.web.scale"


def shrink_image(data: bytes, size: int, side: int = MAX_IMAGE_SIDE) -> bytes | str:
    """A PNG or JPEG of at most `size` bytes and `side` pixels, or why there is none."""
    if importlib.util.find_spec("PIL") is None:
        return IMAGES_EXTRA_HINT
    # -I: nothing of the working directory or the environment is imported.
    argv = (sys.executable, "-I", "-X", "utf8", "-m", _CHILD, str(side), str(size))
    try:
        code, told = run_reader(argv, data, size + 1)
    except TimeoutError:
        return f"could not be made smaller in {SECONDS:g} seconds"
    except OSError as exc:
        return f"could not be made smaller: {exc.strerror or exc}"
    if code or not told or len(told) > size:
        said = told[:300].decode("utf-8", "replace").strip() if code == 1 else ""
        return f"could not be made smaller: {said or 'its decoder broke off'}"
    return told


def run_reader(argv: tuple[str, ...], data: bytes, most: int) -> tuple[int, bytes]:
    """The exit code and what it said, of a child that gets `data` and has an empty sandbox. Raises OSError."""
    with tempfile.TemporaryFile() as given:  # no name, and it needs nobody who feeds it
        given.write(data)
        given.seek(0)
        launch = prepare_launch(argv, "/", {"PATH": "/usr/bin:/bin"}, make_empty_sandbox())
        child = start_child(launch, stdin=given.fileno(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    ender = threading.Timer(SECONDS, child.kill)
    ender.start()
    try:
        told = _read_some(child.stdout.fileno(), most)
        late = not ender.is_alive()
        code = child.wait(REAP)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        ender.cancel()
        child.kill()
        child.stdout.close()
        if isinstance(child, KeptChild):
            child.close()
    if late:
        raise TimeoutError
    return code, told


def _read_some(handle: int, most: int) -> bytes:
    made = bytearray()
    while len(made) < most and (piece := os.read(handle, 1 << 16)):
        made += piece
    return bytes(made)
