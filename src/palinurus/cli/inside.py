"""`pal` run by a command of the agent: it has no home here, so it asks the program that started it, which lets it look
(`tools/commands/look.py`), or says that it cannot know. It never takes the sandbox's empty folders for the home.
"""

from __future__ import annotations

import os
import socket
import sys

import msgspec

from palinurus.core.policy.looking import explain_refused_look, list_looks
from palinurus.errors import GatewayUnreachable, Unauthorized
from palinurus.tools.commands.look import LOOK_VARIABLE, LookAnswer

SECONDS = 60.0
UNKNOWN = "what the program does that started this command cannot be known from in here"


def run_inside(line: list[str]) -> int:
    """Have one line answered. Raises Unauthorized for lines that do more than look, GatewayUnreachable where nobody
    answers."""
    if why := explain_refused_look(line):
        raise Unauthorized(
            f"{why}; from inside a command of the agent `pal` can only look",
            fix="use your tools, or ask the person; here there are: " + ", ".join(list_looks()),
        )
    answer = _ask(line)
    sys.stderr.write(answer.err)
    sys.stdout.write(answer.out)
    return answer.code


def _ask(line: list[str]) -> LookAnswer:
    handle = os.environ.get(LOOK_VARIABLE, "")
    if not handle.isdigit():
        raise GatewayUnreachable(UNKNOWN, fix="only turns of the owner may ask, and not from a container")
    ours, theirs = socket.socketpair()
    try:
        with ours, theirs, socket.socket(fileno=os.dup(int(handle))) as door:
            ours.settimeout(SECONDS)
            socket.send_fds(door, [b"?"], [theirs.fileno()])
            theirs.close()
            ours.sendall(msgspec.json.encode(line) + b"\n")
            data = b"".join(iter(lambda: ours.recv(1 << 16), b""))
        return msgspec.json.decode(data, type=LookAnswer)
    except (OSError, msgspec.DecodeError):
        raise GatewayUnreachable(
            f"{UNKNOWN}: it does not answer any more", fix="`pal status` outside of the sandbox says how it is"
        ) from None
