"""Making an image smaller in a child process of its own: decoders meet hostile input, and the program never loads
Pillow. Blocks: called from threads.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from palinurus.core.media import IMAGES_EXTRA_HINT, MAX_IMAGE_SIDE

SECONDS = 30.0
_CHILD = "palinurus.workspace.scale"


def shrink_image(data: bytes, size: int, side: int = MAX_IMAGE_SIDE) -> bytes | str:
    """A PNG or JPEG of at most `size` bytes and `side` pixels, or why there is none."""
    if importlib.util.find_spec("PIL") is None:
        return IMAGES_EXTRA_HINT
    try:
        done = subprocess.run(
            # -I: nothing of the working directory or the environment is imported.
            [sys.executable, "-I", "-X", "utf8", "-m", _CHILD, str(side), str(size)],
            input=data,
            capture_output=True,
            timeout=SECONDS,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"could not be made smaller in {SECONDS:g} seconds"
    except OSError as exc:
        return f"could not be made smaller: {exc.strerror or exc}"
    if done.returncode or not done.stdout or len(done.stdout) > size:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"could not be made smaller: {told[-1][:300] if told else 'its decoder broke off'}"
    return done.stdout
