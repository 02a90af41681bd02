"""Skills that are about to be installed (files, hash, what they ask for, how they differ from what is there), where
installed ones lie, and the file that pins them: home/skills, home/skills/.lock.json.

A skill is written to a folder whose name begins with a dot and then renamed, so that nobody ever sees half of one.
After a kill at any moment the skills are those of before or after; what was left over goes at the next change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from palinurus.core.skills.danger import SkillFile, SkillFinding, find_dangers
from palinurus.core.skills.skill import SKILL_FILE, BrokenSkill, Skill, parse_skill
from palinurus.errors import BadRequest, NotFound, PalinurusError, StateLocked, StateUnwritable
from palinurus.files import sync_folder, write_whole_file
from palinurus.patterns import compile_late
from palinurus.workspace.discovery import LOCK
from palinurus.workspace.install.source import ArchiveLimits, read_folder

_GUARD = ".guard"
_STAGE, _OLD = ".stage", ".old-"
_NAME = compile_late(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WIDE = ArchiveLimits(5_000, 100 * 1024 * 1024, 500 * 1024 * 1024, 32)  # what is installed already, whoever made it


class SkillPackage(msgspec.Struct, frozen=True):
    """A skill that is about to be installed, or lies there."""

    skill: Skill
    parts: tuple[SkillFile, ...]  # names from the skill's own folder
    digest: str
    findings: tuple[SkillFinding, ...]


class SkillPackageChange(msgspec.Struct, frozen=True):
    """How a parcel differs from what is installed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()  # what it asks for now and did not before


def choose_package(parts: tuple[SkillFile, ...], origin: str, wanted: str = "", limit: int = 256_000) -> SkillPackage:
    """The one skill among these files, or the one called `wanted`. Raises BadRequest, NotFound."""
    folders = {part.name[: -len(SKILL_FILE)] for part in parts if f"/{part.name}".endswith(f"/{SKILL_FILE}")}
    # A skill inside a skill belongs to the outer one.
    outer = [f for f in sorted(folders) if not any(f != other and f.startswith(other) for other in folders)]
    made = [_made(prefix, parts, origin, limit) for prefix in outer]
    good = [one for one in made if isinstance(one, SkillPackage)]
    if wanted:
        good = [one for one in good if one.skill.name == wanted]
    if len(good) == 1:
        return good[0]
    if len(good) > 1:
        names = ", ".join(one.skill.name for one in good[:20])
        raise BadRequest(f"there are {len(good)} skills in it: {names}", fix="choose one with --skill NAME")
    if wanted:
        raise NotFound(f"there is no skill {wanted!r} in it", fix="leave --skill out to be told what is in it")
    reasons = [one.reason for one in made if isinstance(one, BrokenSkill)]
    raise BadRequest(f"its {SKILL_FILE} cannot be used: {reasons[0]}" if reasons else f"there is no {SKILL_FILE} in it")


def _made(prefix: str, parts: tuple[SkillFile, ...], origin: str, limit: int) -> SkillPackage | BrokenSkill:
    own = tuple(
        msgspec.structs.replace(part, name=part.name[len(prefix) :]) for part in parts if part.name.startswith(prefix)
    )
    head = next(part for part in own if part.name == SKILL_FILE)
    folder = os.path.basename(prefix.rstrip("/")) or os.path.splitext(os.path.basename(origin.rstrip("/")))[0]
    if len(head.data) > limit:
        return BrokenSkill(folder, prefix + SKILL_FILE, origin, f"{SKILL_FILE} is larger than {limit} bytes")
    found = parse_skill(head.data.decode("utf-8", "replace"), prefix + SKILL_FILE, folder, "installed")
    return found if isinstance(found, BrokenSkill) else SkillPackage(found, own, hash_parts(own), find_dangers(own))


def hash_parts(parts: tuple[SkillFile, ...]) -> str:
    """One hash over names, contents and which files can be started."""
    whole = hashlib.sha256()
    for part in sorted(parts, key=lambda p: p.name):
        inner = hashlib.sha256(part.data).hexdigest()
        whole.update(f"{part.name}\x00{int(part.executable)}\x00{inner}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def list_demands(wanted: Skill) -> tuple[str, ...]:
    """What a skill asks for, in words."""
    needs = wanted.requires
    rows = (
        ("programs", needs.bins),
        ("one of the programs", needs.any_bins),
        ("variables", (*needs.env, *((wanted.primary_env,) if wanted.primary_env not in ("", *needs.env) else ()))),
        ("config", needs.config),
        ("tools", wanted.tools),
        ("systems", wanted.os),
        ("a command that goes straight to the tool", (wanted.dispatch,) if wanted.dispatch else ()),
        ("would have you install", wanted.install),
    )
    made = [f"{what}: {', '.join(names)}" for what, names in rows if names]
    return (*made, "to be listed whatever it lacks (always)") if wanted.always else tuple(made)


def compare_packages(old: SkillPackage, new: SkillPackage) -> SkillPackageChange:
    """From the installed one to the new one."""
    before = {part.name: part for part in old.parts}
    after = {part.name: part for part in new.parts}
    return SkillPackageChange(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name])),
        tuple(line for line in list_demands(new.skill) if line not in list_demands(old.skill)),
    )


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

    def accept(self, name: str, at: int) -> str:
        """Pin it as it lies there now: a person has looked. The new hash. Raises NotFound, StateError."""
        found = self.read_package(name)
        if found is None:
            raise NotFound(f"no skill {name!r} is installed", fix="`pal skills list`")
        with self._changing():
            pins = self.pins()
            old = pins.get(name)
            self._pin({**pins, name: SkillPin(found.digest, old.origin if old else "by hand", at)})
        return found.digest

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
            sync_folder(self.root)
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
            if name.startswith((_STAGE, f".{LOCK}.")):
                _gone(path)
            elif name.startswith(_OLD):
                target = os.path.join(self.root, name[len(_OLD) :])
                if os.path.lexists(target):
                    _gone(path)
                else:  # killed between the two renames
                    os.rename(path, target)

    def _pin(self, pins: dict[str, SkillPin]) -> None:
        data = msgspec.json.format(msgspec.json.encode(pins), indent=2) + b"\n"
        write_whole_file(os.path.join(self.root, LOCK), data)


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
    sync_folder(stage)
    if not os.path.isfile(os.path.join(stage, SKILL_FILE)):
        raise BadRequest(f"there is no {SKILL_FILE} in it", fix="name the folder that holds SKILL.md")


def _gone(path: str) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
