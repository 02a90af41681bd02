"""Where installed skills lie, and the file that pins them: home/skills, home/skills/.lock.json.

A skill is written to a folder whose name begins with a dot and then renamed, so that nobody ever sees half of one.
After a kill at any moment the skills are those of before or after; what was left over goes at the next change.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from palinurus.core.skills.danger import SkillFile
from palinurus.core.skills.skill import SKILL_FILE
from palinurus.errors import BadRequest, NotFound, PalinurusError, StateLocked, StateUnwritable
from palinurus.workspace.archive import ArchiveLimits, read_folder
from palinurus.workspace.install.parcel import SkillPackage, choose_package, hash_parts

LOCK = ".lock.json"
_GUARD = ".guard"
_STAGE, _OLD = ".stage", ".old-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WIDE = ArchiveLimits(5_000, 100 * 1024 * 1024, 500 * 1024 * 1024, 32)  # what is installed already, whoever made it


class SkillPin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was installed: hash of the files, origin, when (ms since the epoch)."""

    sha256: str
    origin: str
    at: int
    commit: str = ""


class InstalledSkills:
    """The folder of installed skills."""

    def __init__(self, root: str) -> None:
        self.root = root

    def pins(self) -> dict[str, SkillPin]:
        """What is pinned. A lock file that cannot be read pins nothing."""
        try:
            with open(os.path.join(self.root, LOCK), "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, SkillPin])
        except (OSError, msgspec.DecodeError):
            return {}

    def drift(self) -> dict[str, str]:
        """Skills that are not as they were pinned, with what is the matter."""
        found: dict[str, str] = {}
        for name, pin in self.pins().items():
            path = os.path.join(self.root, name)
            if not os.path.isdir(path):
                found[name] = "pinned, but not there"
                continue
            try:
                if hash_parts(tuple(read_folder(path, _WIDE))) != pin.sha256:
                    found[name] = "changed since it was installed"
            except PalinurusError as exc:
                found[name] = exc.message
        return found

    def read_package(self, name: str) -> SkillPackage | None:
        """The skill of that name as it lies there; None if there is none that can be read."""
        try:
            parts = tuple(read_folder(os.path.join(self.root, check_skill_name(name)), _WIDE))
            return choose_package(parts, name)
        except PalinurusError:
            return None

    def put(self, new: SkillPackage, pin: SkillPin) -> str:
        """Install or replace. Returns the folder. Raises StateError, BadRequest."""
        name = check_skill_name(new.skill.name)
        target = os.path.join(self.root, name)
        with self._changing():
            stage = os.path.join(self.root, f"{_STAGE}-{os.getpid()}")
            _write(stage, new.parts)
            old = os.path.join(self.root, f"{_OLD}{name}")
            if os.path.lexists(target):
                os.rename(target, old)
            os.rename(stage, target)
            _synced(self.root)
            self._pin({**self.pins(), name: pin})
            _gone(old)
        return target

    def remove(self, name: str) -> None:
        """Take a skill away. Raises NotFound, StateError, BadRequest."""
        target = os.path.join(self.root, check_skill_name(name))
        with self._changing():
            pins = self.pins()
            if not os.path.lexists(target) and name not in pins:
                raise NotFound(f"no skill {name!r} is installed", fix="`pal skills list`")
            if os.path.lexists(target):
                aside = os.path.join(self.root, f"{_STAGE}-gone-{os.getpid()}")
                os.rename(target, aside)
            self._pin({key: pin for key, pin in pins.items() if key != name})
            self._tidy()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One change at a time; what an earlier one left behind is put right first."""
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            guard = os.open(os.path.join(self.root, _GUARD), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise StateUnwritable(f"cannot write {self.root}: {exc.strerror}", fix="make it writable") from None
        try:
            try:
                fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateLocked("another `pal skills` is changing skills", fix="try again when it is done") from None
            self._tidy()
            yield
        except OSError as exc:
            raise StateUnwritable(
                f"cannot change {self.root}: {exc.strerror}", fix="make room, make it writable"
            ) from None
        finally:
            os.close(guard)

    def _tidy(self) -> None:
        for name in os.listdir(self.root):
            path = os.path.join(self.root, name)
            if name.startswith(_STAGE):
                _gone(path)
            elif name.startswith(_OLD):
                target = os.path.join(self.root, name[len(_OLD) :])
                if os.path.lexists(target):
                    _gone(path)
                else:  # killed between the two renames
                    os.rename(path, target)

    def _pin(self, pins: dict[str, SkillPin]) -> None:
        path = os.path.join(self.root, LOCK)
        with open(f"{path}.new", "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(msgspec.json.format(msgspec.json.encode(pins), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)
        _synced(self.root)


def check_skill_name(name: str) -> str:
    """The name, if a folder may be called so. Raises BadRequest."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"a skill cannot be called {name[:80]!r}", fix="letters, digits, - . and _, 64 at most")
    return name


def _write(stage: str, parts: tuple[SkillFile, ...]) -> None:
    os.mkdir(stage, 0o700)
    for part in parts:
        path = os.path.join(stage, *part.name.split("/"))
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        mode = 0o700 if part.executable else 0o600
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(part.data)
            file.flush()
            os.fsync(file.fileno())
    _synced(stage)
    if not os.path.isfile(os.path.join(stage, SKILL_FILE)):
        raise BadRequest(f"there is no {SKILL_FILE} in it")


def _synced(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _gone(path: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
