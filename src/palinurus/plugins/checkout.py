"""The checkout this program runs from, if it does, and how a newer version of it is fetched: `git pull`, forward only,
from where its owner cloned it. An installed wheel has no such place: the owner installs the next one.
"""

from __future__ import annotations

import asyncio
import os

import palinurus
from palinurus.errors import PalinurusError

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(palinurus.__file__))))
SECONDS = 180.0
_REMOTE = '[remote "'
NEEDED = ("pyproject.toml", "constraints.txt")  # a change of these wants packages that may not be here


def find_update_source(root: str) -> str:
    """`root` if it is a clone that knows where it came from; else ""."""
    try:
        with open(os.path.join(root, ".git", "config"), encoding="utf-8", errors="replace") as file:
            return root if root and _REMOTE in file.read() else ""
    except OSError:
        return ""


async def update_checkout(root: str) -> str:
    """Fetch and take over what is new; says what changed, "" if nothing did. Raises PalinurusError with git's words."""
    before = await run_git(root, "rev-parse", "HEAD")
    await run_git(root, "pull", "--ff-only", "--no-rebase", "--quiet")
    after = await run_git(root, "rev-parse", "HEAD")
    if before == after:
        return ""
    count = await run_git(root, "rev-list", "--count", f"{before}..{after}")
    files = (await run_git(root, "diff", "--name-only", before, after)).split("\n")
    wanted = [name for name in NEEDED if name in files]
    more = f" {' and '.join(wanted)} changed: the owner installs what they name before the restart." if wanted else ""
    return f"{before[:9]} to {after[:9]}, {count} commits.{more}"


async def run_git(root: str, *words: str) -> str:
    """What git says, without the last line's end. Raises PalinurusError with its words."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/"), "GIT_TERMINAL_PROMPT": "0"}
    try:
        child = await asyncio.create_subprocess_exec(
            *("git", "-C", root, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
        )
    except OSError as exc:
        raise PalinurusError(f"git cannot be run: {exc.strerror}", fix="install git") from None
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await child.communicate()
    except TimeoutError:
        raise PalinurusError(
            f"git {words[0]} did not end within {SECONDS:g} seconds",
            fix="look whether the address can be reached, and run it again",
        ) from None
    finally:
        if child.returncode is None:
            child.kill()
    text = out.decode("utf-8", "replace").strip()
    if child.returncode:
        raise PalinurusError(f"git {words[0]}: {text[-400:]}")
    return text
