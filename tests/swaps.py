"""An attacker who swaps a name for a link at the worst moment, made deterministic: Python tells of every file it is
about to open (an audit event), and at the n-th of them the swap is done. Tried for every n there is.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from palinurus.errors import PalinurusError

EXCHANGE = 2


class _Trap:
    """The one hook of this process: an audit hook cannot be taken away, so it is told what to do."""

    def __init__(self) -> None:
        self.root, self.spring, self.left, self.seen = "", None, 0, 0
        sys.addaudithook(self._hear)

    spring: Callable[[], None] | None

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or self.spring is None or not isinstance(args[0], str):
            return
        if args[0].startswith("/") and not args[0].startswith(self.root):
            return
        self.seen += 1
        if self.seen == self.left:
            spring, self.spring = self.spring, None
            spring()


_trap = cache(_Trap)


def exchange(one: Path, other: Path) -> None:
    """Two names change places, in one step."""
    done = ctypes.CDLL(None, use_errno=True).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE)
    assert done == 0, os.strerror(ctypes.get_errno())


async def swap_at_every_opening(root: Path, call: Callable[[], Any], one: Path, other: Path) -> list[Any]:
    """What `call` gives (or the error it raises) when `one` and `other` are exchanged just before the n-th file below
    `root` is opened, for every n; the names are put back each time."""
    results: list[Any] = []
    trap = _trap()
    for number in range(1, 40):
        trap.root, trap.seen, trap.left = str(root), 0, number
        trap.spring = lambda: exchange(one, other)
        try:
            made = call()
            results.append(await made if inspect.isawaitable(made) else made)
        except (OSError, PalinurusError) as exc:
            results.append(exc)
        finally:
            waiting, trap.spring = trap.spring, None
        if waiting is not None:  # there is no n-th opening: all were tried
            return results
        exchange(one, other)
    raise AssertionError("it never stops opening files")


@contextmanager
def swapping_all_the_time(one: Path, other: Path) -> Iterator[None]:
    """The same without a plan: a thread that exchanges the names as fast as it can. Both exist afterwards, in either
    place."""
    stop = threading.Event()
    names = (os.fsencode(one), os.fsencode(other))
    call = ctypes.CDLL(None).renameat2

    def swap() -> None:
        while not stop.is_set():
            call(-100, names[0], -100, names[1], EXCHANGE)

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
