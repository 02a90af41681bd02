"""What a project says to agents in files of its own: AGENTS.md and CLAUDE.md at the top of the folder. They are the
repository's words, not the owner's: they are shown as such, and taint like a file that was read.
"""

from __future__ import annotations

import os

from palinurus.core.prompt.bootstrap import BootstrapFile, inject_files
from palinurus.core.prompt.facts import FileFact
from palinurus.workspace.texts import FileTexts

PROJECT_FILES = ("AGENTS.md", "CLAUDE.md")


class ProjectFiles:
    """The files of all folders in which sessions work, read again when they changed."""

    def __init__(self) -> None:
        self._texts = FileTexts()

    def read(self, folder: str, limit: int, total: int) -> tuple[FileFact, ...]:
        """Within `limit` characters each and `total` together; one that says the same as another is left out."""
        found: list[BootstrapFile] = []
        for name in PROJECT_FILES:
            text = self._texts.read(folder, name).text
            if text and text not in [one.text for one in found]:
                found.append(BootstrapFile(name, os.path.join(folder, name), text))
        return inject_files(found, limit, total).files
