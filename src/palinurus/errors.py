"""Every exception Palinurus raises on purpose. Failures *inside* a run are values, not these.

PalinurusError            what went wrong, and in `fix` what to do about it
├── ConfigError           the configuration cannot be used; one Problem per finding, each with file:line
├── StateError            the state directory cannot be used
│   ├── StateLocked       another gateway owns it
│   ├── StateUnwritable   read-only, wrong owner, not a directory
│   ├── StateBroken       the database is damaged or from a newer version
│   └── DiskFull          no space left; nothing was accepted
├── Draining              the gateway is stopping and takes no new work
├── QueueFull             too many messages wait in this lane
├── BadRequest            what a client sent cannot be understood
├── Unauthorized          no or wrong credentials
├── NotFound              no such session, message, model, file
└── GatewayUnreachable    no gateway answers at the address
"""

from __future__ import annotations

import msgspec


class PalinurusError(Exception):
    """Base of all. `str()` is one line for people; `fix` says what to do next (may be empty)."""

    exit_code = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.fix}" if self.fix else self.message


class Problem(msgspec.Struct, frozen=True):
    """One finding in a configuration file."""

    path: str  # key path, e.g. agents.defaults.model
    message: str
    file: str = ""
    line: int = 0
    hint: str = ""  # did-you-mean or the way out
    fatal: bool = True

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.line else f" ({self.file})" if self.file else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.path}: {self.message}{where}{hint}" if self.path else f"{self.message}{where}{hint}"


class ConfigError(PalinurusError):
    exit_code = 78  # EX_CONFIG

    def __init__(self, problems: tuple[Problem, ...], *, fix: str = "") -> None:
        super().__init__("\n".join(str(p) for p in problems), fix=fix)
        self.problems = problems


class StateError(PalinurusError):
    exit_code = 73  # EX_CANTCREAT


class StateLocked(StateError):
    exit_code = 75  # EX_TEMPFAIL: it may be free later

    def __init__(self, message: str, *, fix: str = "", command: str = "") -> None:
        super().__init__(message, fix=fix)
        self.command = command  # of `pal` which has it, where that is known


class StateUnwritable(StateError):
    pass


class StateBroken(StateError):
    pass


class DiskFull(StateError):
    pass


class Draining(PalinurusError):
    exit_code = 75


class QueueFull(PalinurusError):
    exit_code = 75


class BadRequest(PalinurusError):
    exit_code = 64  # EX_USAGE


class Unauthorized(PalinurusError):
    exit_code = 77  # EX_NOPERM


class NotFound(PalinurusError):
    exit_code = 66  # EX_NOINPUT


class GatewayUnreachable(PalinurusError):
    exit_code = 69  # EX_UNAVAILABLE
