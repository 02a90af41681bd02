"""Versions of the program beside each other in one environment, and the pointer that says which one is in force.

A version is a folder that has its name only when it is whole. The pointer is a .pth file, read by Python at each start
and replaced in one step; without one, what was installed is in force. It counts only while the installation it was made
over is there: whoever installs another wheel by hand gets that one. Starts nothing.
"""

from __future__ import annotations

import ast
import compileall
import glob
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import BytesParser
from importlib import metadata
from urllib.parse import unquote, urlsplit

import msgspec

import palinurus
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.files import sync_folder, write_whole_file
from palinurus.patterns import compile_late

FOLDER = "palinurus-versions"
POINTER = "palinurus-version.pth"
KEPT = 3  # version folders
PACKED = ("src", "docs", "pyproject.toml", "constraints.txt", "README.md")  # of a checkout: what the program reads
# Before the environment's packages, after what PYTHONPATH names.
_LINE = (
    "import os, sys; p = {path!a}; s = {site!a}; os.path.isdir(p) and os.path.exists({base!a}) and "
    "sys.path.insert(sys.path.index(s) if s in sys.path else 0, p)\n"
)
_PATH = compile_late(r"p = ('[^']*'|\"[^\"]*\");")
_NEED = compile_late(r"\s*([A-Za-z0-9._-]+)\s*\(?([^;)]*)\)?\s*(;.*)?")
_BOUND = compile_late(r"\s*(==|>=|<=|<|>|!=|~=)\s*([0-9][0-9a-z.]*)\s*")


class Installation(msgspec.Struct, frozen=True):
    """Where this program was installed: into which environment, and from what."""

    site: str  # the folder for packages of this interpreter
    base: str  # what marks the installation: its metadata, or a checkout's source
    version: str  # of what was installed, whatever is in force
    checkout: str = ""  # the clone an editable installation runs from
    source: str = ""  # the folder of the wheel it was installed from, if pip wrote that down

    @property
    def folder(self) -> str:
        return os.path.join(self.site, FOLDER)

    @property
    def ground(self) -> str:
        """Where the package is that was installed."""
        return self.base if self.checkout else self.site

    @property
    def pointer(self) -> str:
        return os.path.join(self.site, POINTER)


class KeptVersion(msgspec.Struct, frozen=True):
    """A version that can be put in force, with its folder for sys.path."""

    name: str
    version: str
    path: str


def find_installation() -> Installation:
    """Raises PalinurusError where there is none that could be updated."""
    site = sysconfig.get_path("purelib")
    found = glob.glob(os.path.join(glob.escape(site), "palinurus-*.dist-info"))
    if len(found) != 1:
        raise PalinurusError(
            f"palinurus is not installed in {site} ({len(found)} of it are there)",
            fix="update where it is: `git pull` in the checkout, or its own environment's `pal update`",
        )
    about = _read_source(os.path.join(found[0], "direct_url.json"))
    place = unquote(urlsplit(str(about.get("url", ""))).path)
    version = os.path.basename(found[0]).removesuffix(".dist-info").split("-")[1]
    if (about.get("dir_info") or {}).get("editable"):
        source = os.path.join(place, "src")
        return Installation(site, source, read_version(source), checkout=place)
    return Installation(site, found[0], version, source=os.path.dirname(place))


def _read_source(file: str) -> dict[str, dict[str, bool]]:
    try:
        with open(file, "rb") as source:
            return msgspec.json.decode(source.read(), type=dict)
    except (OSError, msgspec.MsgspecError):
        return {}


def read_version(path: str) -> str:
    """The version of the package below `path`. Raises BadRequest where there is none."""
    try:
        with open(os.path.join(path, "palinurus", "__init__.py"), encoding="utf-8") as source:
            found = re.search(r'^__version__ = "([^"]+)"', source.read(), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        raise BadRequest(f"{path} holds no Palinurus", fix="name a wheel or a checkout of Palinurus")
    return found[1]


# --- the pointer -----------------------------------------------------------------------------------------------


def read_pointer(here: Installation) -> str:
    """The folder that is in force."""
    try:
        with open(here.pointer, encoding="utf-8") as source:
            line = source.read()
    except OSError:
        return here.ground
    found = _PATH.search(line)
    path = str(ast.literal_eval(found[1])) if found else ""
    return path if line == _render(here, path) and os.path.isdir(path) else here.ground


def _render(here: Installation, path: str) -> str:
    return _LINE.format(path=path, site=here.site, base=here.base)


def point_to(here: Installation, path: str) -> None:
    """Put a version in force for every start from now on. Raises OSError."""
    if path != here.ground:
        write_whole_file(here.pointer, _render(here, path).encode(), mode=0o644)
    elif os.path.exists(here.pointer):
        os.unlink(here.pointer)
        sync_folder(here.site)


def list_versions(here: Installation) -> list[KeptVersion]:
    """What can be put in force without fetching anything: what was installed first, then folders, newest first."""
    rows = [KeptVersion("installed", here.version, here.ground)]
    folders = [entry.path for entry in os.scandir(here.folder)] if os.path.isdir(here.folder) else []
    for folder in sorted(folders, key=os.path.getmtime, reverse=True):
        path = os.path.join(folder, "src") if os.path.isdir(os.path.join(folder, "src")) else folder
        if os.path.isfile(os.path.join(path, "palinurus", "__init__.py")) and not folder.endswith(".part"):
            rows.append(KeptVersion(os.path.basename(folder), read_version(path), path))
    return rows


def prune_versions(here: Installation) -> None:
    """Half of one that a kill left, and folders beyond the last few, go; what is in force or runs now stays."""
    running = os.path.dirname(os.path.dirname(os.path.abspath(palinurus.__file__)))
    kept = {read_pointer(here), running, *(row.path for row in list_versions(here)[1 : KEPT + 1])}
    for entry in os.scandir(here.folder) if os.path.isdir(here.folder) else ():
        if entry.is_dir() and not {entry.path, os.path.join(entry.path, "src")} & kept:
            shutil.rmtree(entry.path, ignore_errors=True)


# --- making one ------------------------------------------------------------------------------------------------


def find_wheel(place: str) -> str:
    """The wheel itself, or the newest of ours in a folder. Raises NotFound."""
    if os.path.isfile(place):
        return os.path.abspath(place)
    found = glob.glob(os.path.join(glob.escape(place), "palinurus-*.whl"))
    if not found:
        raise NotFound(f"there is no wheel of Palinurus in {place}", fix="`make wheel` in a checkout writes one")
    return os.path.abspath(max(found, key=lambda file: (to_number(os.path.basename(file).split("-")[1]), file)))


def name_wheel(wheel: str) -> str:
    """The name of its folder: two wheels of one version are two. Raises BadRequest for what is none of ours."""
    parts = os.path.basename(wheel).split("-")
    if parts[0] != "palinurus" or len(parts) < 5 or not zipfile.is_zipfile(wheel):
        raise BadRequest(f"{wheel} is no wheel of Palinurus", fix="palinurus-VERSION-py3-none-any.whl")
    with open(wheel, "rb") as source:
        return f"{parts[1]}-{hashlib.file_digest(source, 'sha256').hexdigest()[:8]}"


def unpack_wheel(here: Installation, wheel: str) -> KeptVersion:
    """Beside the others. Raises BadRequest, OSError."""
    name = name_wheel(wheel)
    path = os.path.join(here.folder, name)
    if not os.path.isdir(path):
        half = _begin(path)
        with zipfile.ZipFile(wheel) as packed:
            for row in packed.namelist():
                if not re.match(r"palinurus(-[^/]*\.dist-info)?/", row) or ".." in row.split("/"):
                    raise BadRequest(f"{wheel} holds {row[:80]!r}, which is none of ours")
            packed.extractall(half)
        _finish(half, path)
    return KeptVersion(name, read_version(path), path)


def unpack_archive(here: Installation, name: str, archive: str, page: str) -> KeptVersion:
    """A commit of a checkout, as `git archive` wrote it, with the page that was built for the one before."""
    path = os.path.join(here.folder, name)
    if not os.path.isdir(path):
        half = _begin(path)
        with tarfile.open(archive) as packed:
            packed.extractall(half, filter="data")
        target = os.path.join(half, "src", "palinurus", "gateway", "static")
        if os.path.isdir(page) and not os.path.isdir(target):
            shutil.copytree(page, target)
        _finish(half, path)
    source = os.path.join(path, "src")
    return KeptVersion(name, read_version(source), source)


def _begin(path: str) -> str:
    shutil.rmtree(f"{path}.part", ignore_errors=True)
    os.makedirs(f"{path}.part", mode=0o755)
    return f"{path}.part"


def _finish(half: str, path: str) -> None:
    """What is in it is compiled and on disk before it has its name: a gateway keeps no compiled module."""
    compileall.compile_dir(half, quiet=2, stripdir=half, prependdir=path)
    for around, _, names in os.walk(half):
        for name in names:
            with open(os.path.join(around, name), "rb") as file:
                os.fsync(file.fileno())
    os.rename(half, path)
    sync_folder(os.path.dirname(path))


# --- what it needs ---------------------------------------------------------------------------------------------


def list_unmet(path: str) -> list[str]:
    """Packages that a version needs and that are not here, as pip is to be told."""
    project = os.path.join(os.path.dirname(path), "pyproject.toml")
    if os.path.isfile(project):
        with open(project, "rb") as source:
            needs = [str(need) for need in tomllib.load(source)["project"]["dependencies"]]
    else:
        (info,) = glob.glob(os.path.join(glob.escape(path), "palinurus-*.dist-info", "METADATA"))
        with open(info, "rb") as source:
            needs = BytesParser().parse(source, headersonly=True).get_all("Requires-Dist") or []
    matches = [match for match in map(_NEED.fullmatch, needs) if match and "extra" not in (match[3] or "")]
    return [f"{m[1]}{m[2].strip()}" for m in matches if not _is_met(m[1], m[2], path)]


def _is_met(name: str, bounds: str, path: str) -> bool:
    here = next((d.version for d in metadata.distributions(name=name, path=[path, *sys.path])), "")
    found = [match for match in map(_BOUND.fullmatch, bounds.split(",")) if match]
    if not here or len(found) != len([bound for bound in bounds.split(",") if bound.strip()]):
        return False
    return all(_TESTS[match[1]](to_number(here), to_number(match[2])) for match in found)


def to_number(version: str) -> tuple[int, ...]:
    """To compare by: the numbers of its release, without zeros at the end."""
    numbers = [int(part) for part in re.findall(r"\d+", re.split(r"[+a-z]", version)[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


_TESTS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "~=": lambda a, b: a >= b and a[: max(1, len(b) - 1)] == b[: max(1, len(b) - 1)],
}
