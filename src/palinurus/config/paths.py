"""Where things are in the state directory. Knows names only: it opens and creates nothing.

The environment is always handed in, so that tests and embedders can run several homes in one process.
"""

from __future__ import annotations

import os
import pwd
import zlib
from collections.abc import Mapping

from palinurus.errors import PalinurusError, StateUnwritable

PAGE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "gateway", "static")  # what `make web` builds
SITE_FOLDER = os.path.join(os.path.dirname(PAGE_FOLDER), "site")  # what `make docs` builds

PROFILES = ".palinurus-"  # with a name behind it, in the user's home
RESTORED = ".restored"  # after the home's name: a backup, unpacked, that is about to take its place
OURS = frozenset("palinurus.json state.db gateway.lock gateway.token plugins skills agents".split())
STORE_VARIABLE = "PALINURUS_STORE"  # where the state is, if it is a fleet's


def find_user_home(environ: Mapping[str, str]) -> str:
    """HOME of `environ`, else what the password database says. Raises PalinurusError if neither knows."""
    found = environ.get("HOME", "")
    if found:
        return os.path.abspath(found)
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise PalinurusError(
            "no home directory: HOME is not set and this user has no entry in the password database",
            fix="set PALINURUS_HOME to a directory",
        ) from None


def expand_path(path: str, environ: Mapping[str, str], base: str) -> str:
    """`path` as an absolute path: a leading ~ is the user's home, anything relative is taken from `base`."""
    if path == "~" or path.startswith("~/"):
        path = find_user_home(environ) + path[1:]
    return os.path.normpath(os.path.join(base, path))


def find_home(environ: Mapping[str, str]) -> str:
    """The state directory: PALINURUS_HOME, else ~/.palinurus. Absolute; it need not exist. Raises as `check_home`."""
    chosen = environ.get("PALINURUS_HOME", "").strip()
    home = expand_path(chosen or "~/.palinurus", environ, os.getcwd() if chosen else "/")
    check_home(home)
    return home


def check_home(home: str) -> None:
    """Raise StateUnwritable if that is plainly a folder for something else (`/`, a person's own, `/tmp`): others may
    enter it, and nothing in it is ours. We close our home to others: that would take the machine from them."""
    try:
        foreign = os.stat(home).st_mode & 0o077 and (names := os.listdir(home)) and not OURS.intersection(names)
    except OSError:  # whoever needs it says what is wrong with it
        return
    if foreign or os.path.dirname(home) == home:
        raise StateUnwritable(
            f"{home} is no home for Palinurus: it holds other things, and others may enter it",
            fix=f"set PALINURUS_HOME to a folder of its own, such as {os.path.join(home, '.palinurus')}",
        )


def find_profile(home: str) -> str:
    """The name of the profile that a state directory is (`pal --profile NAME`), "" for any other directory."""
    name = os.path.basename(home)
    return name[len(PROFILES) :] if name.startswith(PROFILES) else ""


def choose_port(home: str) -> int:
    """The gateway's port if the config names none: a profile's is made of its name, always the same."""
    name = find_profile(home)
    return 18800 + zlib.crc32(name.encode()) % 2000 * 10 if name else 18789


def locate_config_file(home: str) -> str:
    """The config file of a state directory."""
    return os.path.join(home, "palinurus.json")


def locate_proven_config(file: str) -> str:
    """The copy of a config file that ran well (cli/gateway/crashloop.py)."""
    return f"{file}.proven"


def locate_last_good(file: str) -> str:
    """The copy of the config that was in use before the present edit."""
    return file + ".last-good"


def locate_backup(file: str) -> str:
    """What the config was before the last `pal config set`."""
    return file + ".bak"


def locate_token_file(home: str) -> str:
    """The gateway's token, made at its first start."""
    return os.path.join(home, "gateway.token")


def locate_workspace(home: str) -> str:
    """The default agent's directory when the config names none."""
    return os.path.join(home, "workspace")


def locate_log_file(home: str) -> str:
    """What the gateway logged, as JSON lines."""
    return os.path.join(home, "logs", "gateway.log")
