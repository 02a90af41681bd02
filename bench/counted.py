"""`pal`, counting: python bench/counted.py FILE ARGUMENTS OF PAL…

With SIGUSR2, and at the end, a line of JSON goes into FILE: Python calls of all threads so far, operations given to the
store, modules loaded. They are the same on a busy machine as on a quiet one, as processor time is not.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import signal
import sys
import threading
from types import FrameType

CALLS, OPERATIONS = itertools.count(), itertools.count()  # `next` is one step: no thread loses another's
STORE = os.path.join("store", "sqlite", "writer.py")
OUT = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)


def count(frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        next(CALLS)
        if frame.f_code.co_name == "put" and frame.f_code.co_filename.endswith(STORE):
            next(OPERATIONS)


def tell(*_: object) -> None:
    found = {"calls": next(CALLS), "operations": next(OPERATIONS), "modules": len(sys.modules)}
    os.write(OUT, json.dumps(found).encode() + b"\n")


signal.signal(signal.SIGUSR2, tell)
atexit.register(tell)
threading.setprofile(count)
sys.setprofile(count)
sys.argv = ["pal", *sys.argv[2:]]

from palinurus.cli.main import main  # noqa: E402 - counted as well

sys.exit(main())
