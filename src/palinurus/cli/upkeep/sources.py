"""What `pal update` can update to: a version that is here, a wheel, or a commit of the checkout. No package index: none
has Palinurus, and a package of that name there is not ours.
"""

from __future__ import annotations

import asyncio
import os

import msgspec

from palinurus.cli.upkeep import versions
from palinurus.cli.upkeep.versions import Installation, KeptVersion
from palinurus.core.text import format_count
from palinurus.errors import NotFound, PalinurusError
from palinurus.plugins.checkout import run_git


class UpdateSource(msgspec.Struct, frozen=True):
    """What to update to: a version that is here, a wheel, or a commit."""

    shown: str
    kept: KeptVersion | None = None
    wheel: str = ""
    commit: str = ""


def find_source(here: Installation, wanted: str) -> UpdateSource | None:
    """What is meant; without a word, what is newer where this came from. Raises NotFound, BadRequest."""
    if not wanted:
        return _find_newer(here)
    if wanted.endswith(".whl") or os.path.isdir(wanted):
        wheel = versions.find_wheel(wanted)
        return UpdateSource(f"{versions.name_wheel(wheel)} ({wheel})", wheel=wheel)
    for kept in versions.list_versions(here):
        if wanted in (kept.name, kept.version):
            return UpdateSource(f"{kept.version} ({kept.name})", kept=kept)
    if here.checkout:
        commit = ask_git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}")
        return UpdateSource(f"{wanted} ({commit[:12]})", commit=commit)
    raise NotFound(
        f"there is no version {wanted!r} here, and no package index has Palinurus",
        fix="name the wheel's file or its folder; `pal update --list` says what is here",
    )


def _find_newer(here: Installation) -> UpdateSource | None:
    if here.checkout:
        ask_git(here, "fetch", "--quiet")
        commit = ask_git(here, "rev-parse", "--verify", "--quiet", "@{upstream}")
        count = int(ask_git(here, "rev-list", "--count", f"HEAD..{commit}"))
        return UpdateSource(f"{commit[:12]} ({format_count(count, 'commit')})", commit=commit) if count else None
    if not here.source or not os.path.isdir(here.source):
        raise NotFound("nobody wrote down where this came from", fix="`pal update --to WHEEL` or a folder of wheels")
    wheel = versions.find_wheel(here.source)
    newer = versions.to_number(os.path.basename(wheel).split("-")[1]) > versions.to_number(find_present(here).version)
    return UpdateSource(f"{versions.name_wheel(wheel)} ({wheel})", wheel=wheel) if newer else None


def find_present(here: Installation) -> KeptVersion:
    """The version in force."""
    path = versions.read_pointer(here)
    return next((row for row in versions.list_versions(here) if row.path == path), versions.list_versions(here)[0])


def ask_git(here: Installation, *words: str) -> str:
    """What git says of the checkout. Raises NotFound with its words."""
    try:
        return asyncio.run(run_git(here.checkout, *words))
    except PalinurusError as exc:
        raise NotFound(exc.message, fix="name a wheel, a version (`pal update --list`), a tag or a branch") from None
