"""How a command asks the program that started it about itself: `pal status` inside the sandbox is answered by this very
program, which alone knows its home.

A command of the owner gets one end of a pair of sockets. Over it a process hands us a socket of its own, and over that
one line goes in and one answer out: processes side by side do not meet, there is no name in any folder that could be
left behind or guessed, and when this program is gone, the other end says so. What may be asked: `core/policy/looking`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from palinurus.core.policy.looking import explain_refused_look
from palinurus.tasks import TaskSet

LOOK_VARIABLE = "PALINURUS_LOOK"  # the number of the handle, for processes inside
HOME_VARIABLE = "PALINURUS_HOME"
ASKING_SECONDS = 5.0  # for the line to come, and for the answer to be taken
AT_ONCE = 4  # visits; more are turned away
LINE = 1 << 16


class LookAnswer(msgspec.Struct, frozen=True):
    """What the line printed."""

    code: int = 0
    out: str = ""
    err: str = ""


Look: TypeAlias = Callable[[list[str]], Awaitable[LookAnswer]]


class LookDoor:
    """Hands handles to commands and answers what comes over them."""

    def __init__(self, home: str, look: Look) -> None:
        self.home = home
        self._look = look
        self._visits = TaskSet("a look from inside")
        self._open: set[socket.socket] = set()

    @contextlib.contextmanager
    def lend(self) -> Iterator[tuple[tuple[int, ...], Mapping[str, str]]]:
        """Handles and variables for a command that is started meanwhile. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        self._open.add(ours)
        asyncio.get_running_loop().add_reader(ours.fileno(), self._knock, ours)  # asyncio prints what it is given
        with theirs:  # a command that was not started leaves nobody at the other end: then ours ends as well
            yield (theirs.fileno(),), {LOOK_VARIABLE: str(theirs.fileno())}

    async def close(self) -> None:
        """From here on nobody is answered."""
        for ours in tuple(self._open):
            self._end(ours)
        await self._visits.close()

    def _knock(self, ours: socket.socket) -> None:
        try:
            byte, handles, _, _ = socket.recv_fds(ours, 1, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            return
        except OSError:
            byte, handles = b"", []
        if not byte:  # nobody has the other end any more
            self._end(ours)
        for handle in handles:
            if (visitor := _take_socket(handle)) is None:
                continue
            if len(self._visits) < AT_ONCE:
                self._visits.start(self._serve(visitor))
            else:
                visitor.close()

    def _end(self, ours: socket.socket) -> None:
        self._open.discard(ours)
        asyncio.get_running_loop().remove_reader(ours.fileno())
        ours.close()

    async def _serve(self, visitor: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(sock=visitor, limit=LINE)
        except OSError:
            visitor.close()
            return
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                asked = msgspec.json.decode(await reader.readline(), type=list[str])
            why = explain_refused_look(asked)
            answer = LookAnswer(77, err=why) if why else await self._look(asked)
            writer.write(msgspec.json.encode(answer))
            async with asyncio.timeout(ASKING_SECONDS):
                await writer.drain()
        except (OSError, ValueError, TimeoutError, msgspec.DecodeError):
            pass  # a visitor who says nothing sensible, or has gone: there is nobody to tell
        finally:
            writer.close()


def _take_socket(handle: int) -> socket.socket | None:
    """A handle that came from inside may be anything: only a stream of this machine is used."""
    try:
        made = socket.socket(fileno=handle)
    except OSError:
        os.close(handle)
        return None
    if made.family != socket.AF_UNIX or made.type != socket.SOCK_STREAM:
        made.close()
        return None
    made.setblocking(False)
    return made
