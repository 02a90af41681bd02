"""macOS: a profile for `sandbox-exec`, written from a sandbox's rules. A pure function and the command line around it.

Never tried on a Mac: what stands here was written from the language's public descriptions and checked for form alone
(tests/tools/sandbox/test_seatbelt.py). So nothing chooses it by itself; who wants it says `sandbox.contain: seatbelt`,
and `pal sandbox test` then tells what it holds. In the language the last rule that fits decides.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from palinurus.core.types.sandbox import SandboxSpec

PROGRAM = "/usr/bin/sandbox-exec"
# What every program there needs before its first line runs, besides the paths that Linux has as well.
SYSTEM = (
    "/System", "/Library/Apple", "/Library/Developer", "/Library/Frameworks", "/private/etc/ssl", "/private/etc/hosts",
    "/private/etc/services", "/private/etc/protocols", "/private/var/db/dyld", "/private/var/db/timezone",
    "/opt/homebrew", "/dev/autofs_nowait",
)  # fmt: skip
SERVICES = (
    "com.apple.system.logger",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
)
_RESOLVER = "/private/var/run/mDNSResponder"  # the socket by which names become addresses
_WIDE = 64  # ports of a range that are named one by one; of a wider one only this machine's are opened


def wrap_seatbelt(command: Sequence[str], cell: SandboxSpec, *, platform: str = sys.platform) -> tuple[str, ...]:
    """The command line that runs `command` inside. Raises OSError where there is no such program."""
    if platform != "darwin" or not os.access(PROGRAM, os.X_OK):
        raise OSError("sandbox-exec, which the configuration asks for, is a program of macOS")
    return (PROGRAM, "-p", write_profile(cell), *command)


def write_profile(cell: SandboxSpec) -> str:
    """The rules in the language of sandbox-exec. Raises OSError for a path that cannot be written in it."""
    read = _list_paths((*SYSTEM, *cell.read, *cell.write))
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        f"(allow process-exec {read})",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        f"(allow mach-lookup {' '.join(f'(global-name {_quote(name)})' for name in SERVICES)})",
        "(allow file-read-metadata)",
        f'(allow file-read* (literal "/") {read})',
        f"(allow file-write* {_list_paths(cell.write)})" if cell.write else "",
        '(allow file-ioctl (literal "/dev/tty"))',
        *_list_network(cell),
        f"(deny file-read* file-write* process-exec {_list_paths(cell.hide)})" if cell.hide else "",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _list_network(cell: SandboxSpec) -> list[str]:
    """Ports it may connect to; it may listen on the same ones, on this machine alone. The last rules take the sockets
    of other programs back."""
    if cell.connect == ():
        return ["(deny network*)"]
    lines = []
    if cell.connect is None:
        lines.append('(allow network-outbound (remote ip "*:*"))')
    for first, last in cell.connect or ():
        if last - first >= _WIDE:
            lines.append('(allow network-outbound (remote tcp "localhost:*"))')
            continue
        for port in range(first, last + 1):
            lines.append(f'(allow network-outbound (remote tcp "*:{port}"))')
            lines.append(f'(allow network-bind network-inbound (local tcp "localhost:{port}"))')
    lines += [] if cell.unix else ["(deny network-outbound (remote unix-socket))"]
    return [*dict.fromkeys(lines), f"(allow network-outbound (literal {_quote(_RESOLVER)}))"]


def _list_paths(paths: Iterable[str]) -> str:
    return " ".join(f"(subpath {_quote(path)})" for path in dict.fromkeys(paths))


def _quote(text: str) -> str:
    """A string of the language. A path with a control sign in it is no path of ours."""
    if not text.isprintable():
        raise OSError(f"{text!r} cannot stand in a sandbox-exec profile")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
