"""Checks of the state directory: who may read it, who holds it, whether it is sound, whether there is room."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator

from palinurus.cli.doctor.finding import DoctorCase, DoctorFinding
from palinurus.errors import NotFound, PalinurusError, StateLocked
from palinurus.sessions.scan import scan_transcript
from palinurus.store.sqlite import lock as locks
from palinurus.store.sqlite.reader import open_reader

LOW_DISK = 200_000_000
TRANSCRIPTS = 500  # newest files that are read
AGENTS = ("workspace", "cells", "sandboxes")  # folders of the state directory whose content is the agents' business


def check_modes(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Everything of ours must be readable by its owner only; the workspace's files are the owner's business."""
    home = case.home
    if not os.path.isdir(home):
        yield DoctorFinding("warn", f"home: {home} does not exist yet", "`pal setup`")
        return
    loose = [path for path in (home, *_ours(home)) if _mode(path) & 0o077]
    if not loose:
        yield DoctorFinding("ok", f"home: {home}, modes are right")
    for path in loose:
        mode = 0o700 if os.path.isdir(path) else 0o600
        yield DoctorFinding(
            "fail",
            f"home: {path} can be read by others (mode {_mode(path):o})",
            f"chmod {mode:o} {path}",
            lambda path=path, mode=mode: os.chmod(path, mode),  # type: ignore[misc]
        )
    uid = os.stat(home).st_uid
    if uid != os.geteuid():
        yield DoctorFinding("fail", f"home: {home} belongs to user {uid}, you are {os.geteuid()}", "run as its owner")


def _ours(home: str) -> Iterator[str]:
    for folder, folders, names in os.walk(home):
        if folder == home:
            folders[:] = [name for name in folders if name not in AGENTS]
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                yield path


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return 0  # gone meanwhile


def check_lock(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Who holds the state."""
    if not os.path.isdir(case.home):
        return
    try:
        locks.take_lock(case.home).release()
    except StateLocked as exc:
        if case.running:
            yield DoctorFinding("ok", "gateway: running")
        else:
            yield DoctorFinding("fail", f"lock: {exc.message}, but no gateway answers", exc.fix)
    except PalinurusError as exc:
        yield DoctorFinding("fail", f"lock: {exc.message}", exc.fix)
    else:
        yield DoctorFinding("ok", "gateway: not running, the state is free")


def check_database(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is it sound?"""
    try:
        with open_reader(case.home) as reader:
            found = reader.integrity()
            waiting = len(reader.items(10_000, state="queued"))
    except NotFound:
        yield DoctorFinding("ok", "database: none yet")
        return
    except PalinurusError as exc:
        yield DoctorFinding("fail", f"database: {exc.message}", exc.fix)
        return
    for line in found:
        yield DoctorFinding("fail", f"database: {line}", "stop the gateway, keep a copy of state.db, restore a backup")
    if not found:
        rest = f", {waiting} messages wait" if waiting else ""
        yield DoctorFinding("ok", f"database: sound{rest}")


def check_transcripts(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Can they be read?"""
    paths_ = [p for p in _ours(case.home) if p.endswith(".jsonl")]
    paths_.sort(key=lambda p: -os.stat(p).st_mtime)
    broken = 0
    for path in paths_[:TRANSCRIPTS]:
        try:
            with open(path, "rb") as file:
                bad = scan_transcript(file.read()).bad
        except OSError as exc:
            yield DoctorFinding("fail", f"transcript: {path}: {exc.strerror}", "check its owner and mode")
            continue
        if bad:
            broken += 1
            yield DoctorFinding(
                "warn",
                f"transcript: {path}: {len(bad)} broken lines, the first at byte {bad[0].offset} ({bad[0].reason})",
                "nothing to do: they are left out when the session is read",
            )
    if not broken:
        yield DoctorFinding("ok", f"transcripts: {min(len(paths_), TRANSCRIPTS)} read, all sound")


def check_disk(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is there room?"""
    place = case.home
    while not os.path.exists(place):
        place = os.path.dirname(place)
    free = shutil.disk_usage(place).free
    if free < LOW_DISK:
        yield DoctorFinding(
            "fail", f"disk: {free // 1_000_000} MB free", "make room: nothing is accepted on a full disk"
        )
    else:
        yield DoctorFinding("ok", f"disk: {free // 1_000_000_000} GB free")
