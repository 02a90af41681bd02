"""Where a skill comes from: a folder, a ZIP file or a git address -> its files in memory. No hook, filter or script of
the source runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from palinurus.core.skills.danger import SkillFile
from palinurus.core.skills.skill import SKILL_FILE
from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.archive import ArchiveLimits, read_folder, read_zip

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
