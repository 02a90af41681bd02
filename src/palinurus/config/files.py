"""Reading and replacing the config file. Knows bytes and what can be wrong with a file, not what is in it."""

from __future__ import annotations

import errno
import os
import stat

from palinurus import crashpoints
from palinurus.config.findings import ConfigFinding
from palinurus.files import write_whole_file

MAX_BYTES = 4 * 1024 * 1024  # an avatar may be embedded, hence not smaller

_REASONS: dict[int, tuple[str, str]] = {
    errno.EACCES: ("may not be read", "check its owner and mode (chmod 600)"),
    errno.EPERM: ("may not be read", "check its owner and mode (chmod 600)"),
    errno.ELOOP: ("is a symbolic link that leads nowhere", "remove it or point it at a file"),
    errno.EISDIR: ("is a directory", "move it away"),
    errno.ENOTDIR: ("is below something that is not a directory", "check PALINURUS_HOME"),
}
_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xef\xbb\xbf", "starts with a byte order mark"),
    (b"\xff\xfe", "is UTF-16"),
    (b"\xfe\xff", "is UTF-16"),
)


def read_file(file: str) -> bytes | ConfigFinding | None:
    """The bytes; a Finding if it cannot be read; None if there is no such file."""
    try:
        # Not blocking, or a named pipe in its place would hang the start.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ConfigFinding((), *_reason(file, errno.ELOOP)) if os.path.islink(file) else None
    except OSError as error:
        return ConfigFinding((), *_reason(file, error.errno))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            return ConfigFinding((), *_reason(file, errno.EISDIR if stat.S_ISDIR(mode) else 0))
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return ConfigFinding((), *_reason(file, error.errno))
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        return ConfigFinding((), f"the config file is larger than {MAX_BYTES >> 20} MB", "is it the right file?")
    return data


def _reason(file: str, number: int | None) -> tuple[str, str]:
    words = os.strerror(number) if number else "is not a regular file"
    what, fix = _REASONS.get(number or 0, (words if not number else f"cannot be read: {words}", ""))
    return f"the config file {what}", fix


def decode_text(data: bytes) -> str | tuple[ConfigFinding, int]:
    """`data` as text; or what is wrong with it, and at which byte."""
    for mark, what in _MARKS:
        if data.startswith(mark):
            return ConfigFinding((), f"the config file {what}", "save it as UTF-8 without a byte order mark"), 0
    at = data.find(b"\0")
    if at >= 0:
        return ConfigFinding(
            (), "the config file holds a NUL byte", "it is not a text file, or it was cut by a crash"
        ), at
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return ConfigFinding((), "the config file is not valid UTF-8", "save it as UTF-8"), error.start


def replace_file(file: str, data: bytes, *, crash: bool = False) -> None:
    """Put `data` in place of `file`, whole or not at all, mode 0600, safe against power loss. Raises OSError.

    A symbolic link stays one: what it points at is replaced. `crash` passes the crash points; copies have none.
    """
    before = (lambda: crashpoints.pass_crashpoint("config.before")) if crash else None
    write_whole_file(file, data, follow=True, ready=before)
    if crash:
        crashpoints.pass_crashpoint("config.after")
