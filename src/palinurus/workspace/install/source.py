"""Where a skill comes from: a folder, a ZIP file or a git address -> its files in memory. No hook, filter or script of
the source runs, nothing is written here and no link followed. Refused: absolute names, .., links, special files, names
that differ only in case, more than the caps.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from palinurus.core.skills.danger import SkillFile
from palinurus.core.skills.skill import SKILL_FILE
from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.texts import read_whole

_SKIPPED = frozenset((".git", ".DS_Store", "__MACOSX", "__pycache__", "node_modules"))


class ArchiveLimits(NamedTuple):
    """Sizes in bytes."""

    files: int = 500
    each: int = 5 * 1024 * 1024
    total: int = 20 * 1024 * 1024
    depth: int = 8


class FileCollector:
    """Collects files and refuses what goes too far."""

    def __init__(self, caps: ArchiveLimits) -> None:
        self.parts: list[SkillFile] = []
        self._caps = caps
        self._names: set[str] = set()
        self._left = caps.total

    def room(self) -> int:
        """How many bytes the next file may have."""
        return min(self._caps.each, self._left)

    def put(self, name: str, data: bytes, executable: bool) -> None:
        """Take one file. Raises BadRequest."""
        if len(data) > self.room():
            raise BadRequest(f"{name!r} is too large: skills are small folders", fix="leave large files out")
        if len(self.parts) >= self._caps.files:
            raise BadRequest(f"more than {self._caps.files} files", fix="point at the folder of one skill")
        if name.casefold() in self._names:
            raise BadRequest(f"two files are called {name!r}")
        self._names.add(name.casefold())
        self._left -= len(data)
        self.parts.append(SkillFile(name, data, executable))

    def clean_name(self, name: str) -> str | None:
        """The name in its clean form, None if it is to be skipped. Raises BadRequest."""
        parts = name.split("/")
        odd = name.startswith(("/", "~")) or "\\" in name or ":" in parts[0] or any(ord(c) < 32 for c in name)
        if odd or ".." in parts or len(name) > 400 or any(len(part) > 200 for part in parts):
            raise BadRequest(f"a file in it has a name that is refused: {name[:80]!r}")
        clean = [part for part in parts if part not in ("", ".")]
        if len(clean) > self._caps.depth:
            raise BadRequest(f"folders nested deeper than {self._caps.depth}: {name[:80]!r}")
        return None if not clean or any(part in _SKIPPED for part in clean) else "/".join(clean)


def read_zip(path: str, caps: ArchiveLimits) -> list[SkillFile]:
    """The files of an archive. Raises BadRequest."""
    basket = FileCollector(caps)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > caps.files * 4:
                raise BadRequest(f"more than {caps.files} files", fix="pack the folder of one skill")
            for entry in entries:
                _entry(archive, entry, basket)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as exc:
        raise BadRequest(f"{os.path.basename(path)} is not an archive that can be read: {exc}") from None
    return basket.parts


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, basket: FileCollector) -> None:
    name = basket.clean_name(entry.filename)
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BadRequest(f"{entry.filename[:80]!r} in the archive is a link or a special file")
    if name is None or entry.is_dir():
        return
    if entry.flag_bits & 1:
        raise BadRequest(f"{name!r} in the archive is encrypted")
    with archive.open(entry) as file:  # the sizes an archive tells of itself may lie: count what comes out
        basket.put(name, file.read(basket.room() + 1), bool(mode & 0o111))


def read_folder(path: str, caps: ArchiveLimits) -> list[SkillFile]:
    """The files of a directory. Raises BadRequest."""
    basket = FileCollector(caps)
    _walk(path, "", basket)
    return basket.parts


def _walk(root: str, inner: str, basket: FileCollector) -> None:
    try:
        with os.scandir(os.path.join(root, inner)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        raise BadRequest(f"cannot read {inner or root}: {exc.strerror}") from None
    for entry in entries:
        name = basket.clean_name(f"{inner}/{entry.name}" if inner else entry.name)
        if name is None:
            continue
        if entry.is_symlink():
            raise BadRequest(f"{name!r} is a link", fix="replace links by what they lead to")
        if entry.is_dir(follow_symlinks=False):
            _walk(root, name, basket)
        elif entry.is_file(follow_symlinks=False):
            data, executable = _file(entry.path, name, basket.room() + 1)
            basket.put(name, data, executable)
        else:
            raise BadRequest(f"{name!r} is not a file")


def _file(path: str, name: str, cap: int) -> tuple[bytes, bool]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as exc:
        raise BadRequest(f"cannot read {name!r}: {exc.strerror}") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BadRequest(f"{name!r} is not a file")
        return read_whole(handle, cap), bool(found.st_mode & 0o111)
    except OSError as exc:
        raise BadRequest(f"cannot read {name!r}: {exc.strerror}") from None
    finally:
        os.close(handle)


PATIENCE = 120.0  # seconds for a clone
_GIT = re.compile(r"(?:https|ssh|file)://[^\s]+|[\w.-]+@[\w.-]+:[\w./~-]+")
_USER = re.compile(r"(?<=://)[^/@\s]+@")


class SkillDownload(NamedTuple):
    """The files, and where they are from: without passwords, with the commit for git."""

    parts: tuple[SkillFile, ...]
    origin: str
    commit: str = ""


def fetch_source(source: str, environ: Mapping[str, str], caps: ArchiveLimits = ArchiveLimits()) -> SkillDownload:  # noqa: B008 - frozen
    """All files of the source. Raises BadRequest, NotFound."""
    if os.path.isdir(source):
        return SkillDownload(tuple(read_folder(source, caps)), os.path.abspath(source))
    if os.path.isfile(source):
        if os.path.basename(source) == SKILL_FILE:
            return fetch_source(os.path.dirname(os.path.abspath(source)), environ, caps)
        return SkillDownload(tuple(read_zip(source, caps)), os.path.abspath(source))
    if _GIT.fullmatch(source):
        return _cloned(source, environ, caps)
    if "://" in source or source.startswith("ext::"):
        raise BadRequest(f"skills are not fetched from {source.split(':')[0]} addresses", fix="use https:// or ssh://")
    raise NotFound(f"there is no {source}", fix="give a folder, a .zip file or the address of a git repository")


def _cloned(url: str, environ: Mapping[str, str], caps: ArchiveLimits) -> SkillDownload:
    program = shutil.which("git", path=environ.get("PATH"))
    if program is None:
        raise NotFound("git is not installed", fix="install it, or give a folder or a .zip file")
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file", "GIT_LFS_SKIP_SMUDGE": "1"}
    shown = _USER.sub("", url)
    with tempfile.TemporaryDirectory(prefix="palinurus-skill-") as place:
        into = os.path.join(place, "clone")
        _git(program, ["clone", "--quiet", "--depth=1", "--no-tags", "--template=", "--", url, into], env, shown)
        commit = _git(program, ["-C", into, "rev-parse", "HEAD"], env, shown).strip()
        return SkillDownload(tuple(read_folder(into, caps)), shown, commit)


def _git(program: str, args: list[str], env: Mapping[str, str], shown: str) -> str:
    settings = ["core.hooksPath=/dev/null", "core.symlinks=true", "core.fsmonitor=false", "credential.helper="]
    options = [word for setting in settings for word in ("-c", setting)]
    try:
        done = subprocess.run(
            [program, *options, *args],
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            env=env,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise BadRequest(f"{shown} did not arrive within {PATIENCE:.0f} s") from None
    except subprocess.CalledProcessError as exc:
        last = _USER.sub("", (exc.stderr or "").strip().split("\n")[-1])[:200]
        raise BadRequest(f"git cannot fetch {shown}: {last}") from None
    except OSError as exc:
        raise BadRequest(f"git cannot be started: {exc.strerror}") from None
    return done.stdout
