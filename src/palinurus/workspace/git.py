"""Puts a workspace under git: `git init` and a .gitignore. Nothing is committed; what to keep is the owner's choice."""

from __future__ import annotations

import os
import shutil
import subprocess

IGNORE = ".gitignore"
_LINES = """# Secrets and what machines write
.env
.env.*
*.key
*.pem
.DS_Store
node_modules/
__pycache__/
"""
_PATIENCE = 20.0  # seconds


def init_repository(workspace: str) -> list[str]:
    """Make a repository of a workspace that is in none. Returns what was made; [] where there is one, or no git.

    Never raises: a workspace without history is still a workspace.
    """
    program = shutil.which("git")
    if program is None or is_in_repository(workspace):
        return []
    # Nothing of the surroundings counts: no template with hooks, no GIT_DIR that points elsewhere.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        subprocess.run(
            [program, "-c", "init.defaultBranch=main", "init", "--quiet", "--template=", "--", workspace],
            check=True,
            capture_output=True,
            timeout=_PATIENCE,
            env=env,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    made = [os.path.join(workspace, ".git")]
    ignore = os.path.join(workspace, IGNORE)
    try:
        with open(ignore, "x", encoding="utf-8") as file:
            file.write(_LINES)
        made.append(ignore)
    except OSError:  # there already, or not to be written: the repository is what counts
        pass
    return made


def is_in_repository(path: str) -> bool:
    """Is the directory part of a repository already?"""
    at = os.path.realpath(path)
    while True:
        if os.path.lexists(os.path.join(at, ".git")):
            return True
        above = os.path.dirname(at)
        if above == at:
            return False
        at = above
