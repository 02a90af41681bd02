"""Folders beside the home workspace in which sessions may work: the owner's leave for each, kept in `folders.json` of
the state directory, and the question whether it still holds.

A leave is for one folder of this machine, known by its real path, device and inode: what takes its place later (a link,
a new folder of the same name) was not allowed. A "no" is kept too, so that nobody is asked twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from palinurus.config.sections.sandbox import find_guarded
from palinurus.config.settings import Settings
from palinurus.core.folders import is_inside
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, StateError
from palinurus.files import read_plain_file, write_whole_file

FILE = "folders.json"
MOST = 1 << 20  # bytes of the file
# Sessions of the owner alone. `main` is shared with the chats, the others are other people's or begun by nobody.
KINDS = ("other", "acp", "subagent")
# The system's, and those that everybody writes in: no projects.
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/var/lib", "/var/log", "/var/cache")
_SHARED = ("/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt", "/media")


class FolderLeave(msgspec.Struct, frozen=True):
    """What the owner said about one folder."""

    path: str
    device: int
    inode: int
    allowed: bool
    since: int  # milliseconds


def find_repository(start: str) -> str:
    """The root of the git repository around a directory; "" if there is none."""
    at = os.path.abspath(start)
    while True:
        if os.path.exists(os.path.join(at, ".git")):
            return at
        above = os.path.dirname(at)
        if above == at:
            return ""
        at = above


def list_leaves(home: str) -> tuple[FolderLeave, ...]:
    """What was said so far. A file that cannot be read gives no leave."""
    try:
        data = read_plain_file(os.path.join(home, FILE), MOST)  # our own
        return msgspec.json.decode(data, type=tuple[FolderLeave, ...])
    except (OSError, msgspec.MsgspecError):
        return ()


def find_leave(home: str, path: str) -> FolderLeave | None:
    """What was said about the folder that is there now; None if nothing was."""
    found = next((one for one in list_leaves(home) if one.path == path), None)
    return found if found is not None and _identify(path) == (found.device, found.inode) else None


def keep_leave(home: str, path: str, now: int, *, allowed: bool = True) -> FolderLeave:
    """Remember the owner's word about a folder. Raises BadRequest if there is none, StateError."""
    found = _identify(path)
    if found is None:
        raise BadRequest(f"{path} is no folder", fix="name one that is there, by its real path")
    leave = FolderLeave(path, *found, allowed=allowed, since=now)
    with _changing(home) as leaves:
        leaves[path] = leave
    return leave


def revoke_leave(home: str, path: str) -> bool:
    """Forget what was said about it. False if nothing was. Raises StateError."""
    with _changing(home) as leaves:
        return leaves.pop(path, None) is not None


def explain_unfit(path: str, settings: Settings, environ: Mapping[str, str]) -> str:
    """Why nobody may give leave for this folder; "" if one may."""
    if not os.path.isabs(path) or os.path.realpath(path) != path or not os.path.isdir(path):
        return f"{path} is not a folder"
    if guarded := find_guarded(path, settings.home, environ):
        return f"{guarded} is in {path}, and must stay closed; name a project's folder below it"
    if path in _SHARED or any(is_inside(path, folder) for folder in _SYSTEM):
        return f"{path} belongs to the system; name a project's folder"
    for agent in settings.agents.values():  # files of agents are watched as such there
        own = os.path.realpath(agent.workspace)
        if is_inside(path, own) or is_inside(own, path):
            return f"{path} and the workspace of agent {agent.id} ({own}) overlap"
    return ""


def explain_barred(path: str, settings: Settings, environ: Mapping[str, str]) -> str:
    """Why no session may work there now; "" if the owner allowed it and it is still the same folder."""
    if unfit := explain_unfit(path, settings, environ):
        return unfit
    found = find_leave(settings.home, path)
    if found is None:
        known = any(one.path == path and one.allowed for one in list_leaves(settings.home))
        what = f"{path} is another folder than the one that was allowed" if known else f"{path} was not allowed"
        return f"{what}; `pal folders allow {path}` gives leave"
    return "" if found.allowed else f"the owner said no to {path}; `pal folders allow {path}` gives leave"


def explain_mismatch(has: str | None, asked: str, key: SessionKey, *, begun: bool) -> str:
    """Why a session does not get the folder that is asked for; "" if it has it, or can have it."""
    if key.kind not in KINDS:
        return f"{key} is shared with your chats and works in the home workspace; choose another session"
    if has != asked and (has or begun):
        return f"{key} works in {has or 'the home workspace'} since it began; choose another session"
    return ""


def _identify(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if os.path.isdir(path) and not os.path.islink(path) else None


@contextmanager
def _changing(home: str) -> Iterator[dict[str, FolderLeave]]:
    """The leaves by path, to be changed; changes of several processes one after the other. Raises StateError."""
    file = os.path.join(home, FILE)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        guard = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # our own
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            leaves = {one.path: one for one in list_leaves(home)}
            yield leaves
            data = msgspec.json.format(msgspec.json.encode(tuple(leaves.values())), indent=2)
            write_whole_file(file, data + b"\n")  # our own
        finally:
            os.close(guard)
    except OSError as exc:
        raise StateError(f"{file} cannot be written: {exc.strerror}", fix="check its owner and mode") from None
