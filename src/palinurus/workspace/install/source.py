"""Where a skill comes from: a folder, a ZIP file or a git address -> its files in memory. No hook, filter or script of
the source runs, nothing is written here and no link followed. Refused: absolute names, .., links, special files, names
that differ only in case, more than the limits.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO

import msgspec

from palinurus.core.skills.danger import SkillFile
from palinurus.core.skills.skill import SKILL_FILE
from palinurus.errors import BadRequest, NotFound
from palinurus.files import NotPlainFile, open_plain_file
from palinurus.patterns import compile_late

PATIENCE = 120.0  # seconds for a clone
_GIT = compile_late(r"(?:https|ssh|file)://[^\s]+|[\w.-]+@[\w.-]+:[\w./~-]+")
_USER = compile_late(r"(?<=://)[^/@\s]+@")
_SKIPPED = frozenset((".git", ".DS_Store", "__MACOSX", "__pycache__", "node_modules"))


class ArchiveLimits(msgspec.Struct, frozen=True):
    """Sizes in bytes."""

    files: int = 500
    each: int = 5 * 1024 * 1024
    total: int = 20 * 1024 * 1024
    depth: int = 8


class FileCollector:
    """Collects files and refuses what goes too far."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self.parts: list[SkillFile] = []
        self._limits = limits
        self._names: set[str] = set()
        self._left = limits.total

    def room(self) -> int:
        """How many bytes the next file may have."""
        return min(self._limits.each, self._left)

    def put(self, name: str, data: bytes, executable: bool) -> None:
        """Take one file. Raises BadRequest."""
        if len(data) > self.room():
            raise BadRequest(f"{name!r} is too large: skills are small folders", fix="leave large files out")
        if len(self.parts) >= self._limits.files:
            raise BadRequest(f"more than {self._limits.files} files", fix="point at the folder of one skill")
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
        if len(clean) > self._limits.depth:
            raise BadRequest(f"folders nested deeper than {self._limits.depth}: {name[:80]!r}")
        return None if not clean or any(part in _SKIPPED for part in clean) else "/".join(clean)


def read_zip(path: str | BinaryIO, limits: ArchiveLimits) -> list[SkillFile]:
    """The files of an archive. Raises BadRequest."""
    shown = os.path.basename(path) if isinstance(path, str) else "what came"
    collected = FileCollector(limits)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > limits.files * 4:
                raise BadRequest(f"more than {limits.files} files", fix="pack the folder of one skill")
            for entry in entries:
                _entry(archive, entry, collected)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as exc:
        raise BadRequest(
            f"{shown} is not an archive that can be read: {exc}",
            fix="give a .zip or .tar.gz, a folder, or a git address",
        ) from None
    return collected.parts


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, collected: FileCollector) -> None:
    name = collected.clean_name(entry.filename)
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BadRequest(f"{entry.filename[:80]!r} in the archive is a link or a special file")
    if name is None or entry.is_dir():
        return
    if entry.flag_bits & 1:
        raise BadRequest(f"{name!r} in the archive is encrypted")
    with archive.open(entry) as file:  # the sizes an archive tells of itself may lie: count what comes out
        collected.put(name, file.read(collected.room() + 1), bool(mode & 0o111))


def read_folder(path: str, limits: ArchiveLimits) -> list[SkillFile]:
    """The files of a directory. Raises BadRequest."""
    collected = FileCollector(limits)
    _walk(path, "", collected)
    return collected.parts


def _walk(root: str, inner: str, collected: FileCollector) -> None:
    try:
        with os.scandir(os.path.join(root, inner)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        raise BadRequest(f"cannot read {inner or root}: {exc.strerror}") from None
    for entry in entries:
        name = collected.clean_name(f"{inner}/{entry.name}" if inner else entry.name)
        if name is None:
            continue
        if entry.is_symlink():
            raise BadRequest(f"{name!r} is a link", fix="replace links by what they lead to")
        if entry.is_dir(follow_symlinks=False):
            _walk(root, name, collected)
        elif entry.is_file(follow_symlinks=False):
            data, executable = _file(entry.path, name, collected.room() + 1)
            collected.put(name, data, executable)
        else:
            raise BadRequest(f"{name!r} is not a file")


def _file(path: str, name: str, cap: int) -> tuple[bytes, bool]:
    try:
        with open_plain_file(path) as file:
            return file.read(cap), bool(os.fstat(file.fileno()).st_mode & 0o111)
    except NotPlainFile:
        raise BadRequest(f"{name!r} is not a file") from None
    except OSError as exc:
        raise BadRequest(f"cannot read {name!r}: {exc.strerror}") from None


class SkillDownload(msgspec.Struct, frozen=True):
    """The files, and where they are from: without passwords, with the commit for git."""

    parts: tuple[SkillFile, ...]
    origin: str
    commit: str = ""


def fetch_source(source: str, environ: Mapping[str, str], limits: ArchiveLimits = ArchiveLimits()) -> SkillDownload:  # noqa: B008 - frozen
    """All files of the source. Raises BadRequest, NotFound."""
    if os.path.isdir(source):
        return SkillDownload(tuple(read_folder(source, limits)), os.path.abspath(source))
    if os.path.isfile(source):
        if os.path.basename(source) == SKILL_FILE:
            return fetch_source(os.path.dirname(os.path.abspath(source)), environ, limits)
        return SkillDownload(tuple(read_zip(source, limits)), os.path.abspath(source))
    if _GIT.fullmatch(source):
        return _cloned(source, environ, limits)
    if "://" in source or source.startswith("ext::"):
        raise BadRequest(f"skills are not fetched from {source.split(':')[0]} addresses", fix="use https:// or ssh://")
    raise NotFound(f"there is no {source}", fix="give a folder, a .zip file or the address of a git repository")


def _cloned(url: str, environ: Mapping[str, str], limits: ArchiveLimits) -> SkillDownload:
    program = shutil.which("git", path=environ.get("PATH"))
    if program is None:
        raise NotFound("git is not installed", fix="install it, or give a folder or a .zip file")
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file", "GIT_LFS_SKIP_SMUDGE": "1"}
    shown = _USER.sub("", url)
    with tempfile.TemporaryDirectory(prefix="palinurus-skill-") as place:
        into = os.path.join(place, "clone")
        clone = ["clone", "--quiet", "--depth=1", "--no-tags", "--no-checkout", "--template=", "--", url, into]
        _git(program, clone, env, shown)
        # the user's config says how to fetch; here it would only say which programs filter the source's files
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        _git(program, ["-C", into, "checkout", "--quiet", "HEAD"], env, shown)
        commit = _git(program, ["-C", into, "rev-parse", "HEAD"], env, shown).strip()
        return SkillDownload(tuple(read_folder(into, limits)), shown, commit)


def find_newest_commit(url: str, environ: Mapping[str, str]) -> str:
    """What a repository's HEAD is now. Raises BadRequest, NotFound."""
    program = shutil.which("git", path=environ.get("PATH"))
    if program is None:
        raise NotFound("git is not installed", fix="install it")
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file"}
    return (
        _git(program, ["ls-remote", "--quiet", "--", url, "HEAD"], env, _USER.sub("", url)).partition("\t")[0].strip()
    )


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
        raise BadRequest(
            f"{shown} did not arrive within {PATIENCE:.0f} s",
            fix="look whether the address can be reached, and run it again",
        ) from None
    except subprocess.CalledProcessError as exc:
        last = _USER.sub("", (exc.stderr or "").strip().split("\n")[-1])[:200]
        raise BadRequest(
            f"git cannot fetch {shown}: {last}", fix="look whether the address is right and public"
        ) from None
    except OSError as exc:
        raise BadRequest(
            f"git cannot be started: {exc.strerror}", fix="install git, or give a folder or an archive"
        ) from None
    return done.stdout
