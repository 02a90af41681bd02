"""The workspace's own files. Made once from templates, never overwritten; a file the owner deleted on purpose
(BOOTSTRAP.md above all) is not made again in a workspace that already has others. A new workspace can be put under git:
nothing is committed, what to keep is the owner's choice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterable

from palinurus.beneath import create_file_beneath
from palinurus.config.settings import AgentSettings
from palinurus.errors import StateUnwritable

NAMES: tuple[str, ...] = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md")
FIRST = "BOOTSTRAP.md"  # the first conversation; only where nothing else is yet
OTHERS: tuple[str, ...] = ("MEMORY.md",)  # the owner's; its presence means the workspace is not new
NOTES = "memory"  # the folder of daily notes
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


def ensure_workspace(workspace: str, skip: bool = False, without: Collection[str] = ()) -> list[str]:
    """Make the directory, the files it lacks and the folder for notes. Returns the names of files made, in order.

    `skip` (agents.defaults.skipBootstrap) makes the directory only, `without` leaves some files out. Raises
    StateUnwritable.
    """
    try:
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        if skip:
            return []
        wanted = (*NAMES, FIRST) if is_new_workspace(workspace) else NAMES
        if not os.path.lexists(notes := os.path.join(workspace, NOTES)):
            os.mkdir(notes, 0o700)
        return [name for name in wanted if name not in without and _make(workspace, name)]
    except OSError as exc:
        raise StateUnwritable(
            f"cannot write the workspace {workspace}: {exc.strerror}",
            fix="make it writable, or set agents.defaults.workspace to another directory",
        ) from None


def is_new_workspace(workspace: str) -> bool:
    """True if none of the files is there: a brand-new workspace."""
    return not any(os.path.lexists(os.path.join(workspace, name)) for name in (*NAMES, *OTHERS, FIRST))


def make_new_workspaces(agents: Iterable[AgentSettings]) -> None:
    """The files of workspaces that are brand-new; what is there stays as it is."""
    for agent in agents:
        if is_new_workspace(agent.workspace):
            ensure_workspace(agent.workspace, agent.skip_bootstrap, agent.skip_files)


def read_template(name: str) -> bytes:
    """What a new file of this name holds."""
    with open(os.path.join(os.path.dirname(__file__), "templates", name), "rb") as file:  # our own
        return file.read()


def _make(workspace: str, name: str) -> bool:
    try:
        create_file_beneath(workspace, name, read_template(name))
    except FileExistsError:
        return False
    return True


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
    try:
        create_file_beneath(workspace, IGNORE, _LINES.encode())
        made.append(os.path.join(workspace, IGNORE))
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
