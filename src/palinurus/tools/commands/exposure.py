"""A command outside the sandbox, on files that the agent can change: which those are, what a card says about them, and
whether they are still the same when it starts.

Contained commands can write the workspace while a person reads the card. So all that runs there is stopped from the
question to the end of the call (`hold_still`), and the tree is compared before the start (`fingerprint_tree`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from palinurus.core.folders import is_inside
from palinurus.core.policy.command import classify_command, is_onlooker
from palinurus.core.policy.exec import ExecProgram
from palinurus.core.types.tool import ToolContext
from palinurus.tools.commands import descendants
from palinurus.tools.commands.record import MARK_VARIABLE
from palinurus.tools.commands.running import RunningCommand

MAX_TREE = 20_000  # files that are compared
LOOKS = 20  # for who was forked while the others were stopped
_SHOWN = 6  # links that a card names
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
# Programs that take their orders from files of the folder they run in, and which those are.
_ORDERS: dict[str, str] = {
    "git": ".git/config and .git/hooks", "make": "Makefile", "gmake": "Makefile", "just": "justfile",
    "npm": "package.json", "pnpm": "package.json", "yarn": "package.json", "cargo": "Cargo.toml and build.rs",
    "python": "modules it imports", "python3": "modules it imports", "pytest": "conftest.py and tests",
    "docker": "Dockerfile and compose files", "terraform": "*.tf", "tox": "tox.ini", "mvn": "pom.xml",
}  # fmt: skip


def list_own_folders(ctx: ToolContext) -> tuple[str, ...]:
    """Real paths of the folders in which the agent's own tools and contained commands can write."""
    roots = (ctx.workspace, *ctx.settings.cell.write, ctx.settings.cell.temporary, *_TEMPORARY)
    return tuple(dict.fromkeys(os.path.realpath(root) for root in roots if root and root != "/"))


def is_exposed(argv: tuple[str, ...], cwd: str, roots: Iterable[str]) -> bool:
    """Does it run in one of the folders, or is one of its words a file there (links followed)?"""
    places = (cwd, *(os.path.join(cwd, part) for word in argv[1:] for part in (word, word.partition("=")[2]) if part))
    return any(is_inside(_real(place), root) for place in places for root in roots)


def describe_exposure(programs: Iterable[ExecProgram], cwd: str, roots: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """What a card says: which code is read that the agent can write, and where links lead."""
    found: list[tuple[str, str]] = []
    links: dict[str, str] = {}
    for program in programs:
        name = os.path.basename(program.argv[0])
        own = any(is_inside(_real(cwd), root) for root in roots)
        if own and reads_orders(program):
            what = _ORDERS.get(name, "files of this folder")
            found.append(("reads code from the workspace", f"{name}: {what}, which the agent can change"))
        for word in program.argv[1:]:
            path = os.path.normpath(os.path.join(cwd, word))
            real = _real(path)
            if os.path.lexists(path) and real != os.path.join(_real(os.path.dirname(path)), os.path.basename(path)):
                links[word] = real
    found += [("leads elsewhere", f"{word} is a link to {real}") for word, real in list(links.items())[:_SHOWN]]
    return tuple(dict.fromkeys(found))


def reads_orders(program: ExecProgram) -> bool:
    """May it run something that it finds in files?"""
    return not is_onlooker(program.binary) and (
        os.path.basename(program.argv[0]) in _ORDERS or classify_command(program.argv, program.binary) != "plain"
    )


def fingerprint_tree(folder: str) -> str:
    """Changes with every file that is made, written, renamed or removed below the folder. "large" where there are more
    than can be compared."""
    count, total, waiting = 0, 0, [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    count, total = count + 1, total + hash((status.st_ino, status.st_ctime_ns, status.st_size))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            total += 1
        if count > MAX_TREE:
            return "large"
    return f"{count}:{total & (1 << 64) - 1:x}"


@contextmanager
def hold_still(running: Iterable[RunningCommand], roots: tuple[str, ...]) -> Iterator[None]:
    """Stop what can write in these folders, and let it go on afterwards."""
    able = [one for one in running if one.running and any(_real(path) in roots for path in one.job.spec.cell.write)]
    marks = tuple(f"{MARK_VARIABLE}={one.job.spec.mark}" for one in able)
    # by their keepers, too: an environment can be emptied. Who has none yet has 0, which is everybody's
    keepers, held = frozenset(one.child.pid for one in able) - {0}, set[descendants.SystemProcess]()
    for _ in range(LOOKS if able else 0):
        if not (more := descendants.find_strays(marks, keepers) - held):
            break
        descendants.signal_each(more, signal.SIGSTOP)
        held |= more
    try:
        yield
    finally:
        descendants.signal_each(held, signal.SIGCONT)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no path at all
        return path
