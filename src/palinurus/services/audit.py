"""What `pal security audit` and the page list: settings that make the program less safe than it is by itself
(`config/sections/weakening.py`), files that others can read, skills that are not what the owner installed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from palinurus.config import paths
from palinurus.config.include import read_included
from palinurus.config.sections.weakening import WEAKENING, Weakness, list_weaknesses
from palinurus.config.settings import Settings
from palinurus.workspace.discovery import locate_bundled_skills, locate_installed_skills
from palinurus.workspace.install.packages import InstalledSkills

LOOKED_AT = len(WEAKENING)  # settings that could be weak


def list_findings(settings: Settings) -> list[Weakness]:
    """All of it. Reads the state directory."""
    return [*list_weaknesses(settings), *_list_readable_secrets(settings.home), *_list_strange_skills(settings.home)]


def _list_readable_secrets(home: str) -> Iterator[Weakness]:
    """Files of the state directory that hold secrets and that others may read."""
    file = paths.locate_config_file(home)
    included = [part.file for part in read_included(file, os.environ)[1][1:]]
    held = (file, *included, paths.locate_last_good(file), paths.locate_token_file(home), f"{home}/state.db")
    for path in dict.fromkeys((home, *held)):
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            continue
        if mode & 0o077:
            right = "700" if os.path.isdir(path) else "600"
            yield Weakness(path, f"can be read by others (mode {mode:o})", f"chmod {right} {path}", True)


def _list_strange_skills(home: str) -> Iterator[Weakness]:
    """Installed skills that are not as they were when the owner looked at them, or are used instead of one of ours."""
    place = InstalledSkills(locate_installed_skills(home))
    for name, what in place.drift().items():
        yield Weakness(f"skill {name}", what, f"install it again, or pal skills remove {name}", True)
    for name in place.pins():
        if os.path.isdir(os.path.join(locate_bundled_skills(), name)):
            yield Weakness(f"skill {name}", "is used instead of the bundled one", f"pal skills remove {name}")
