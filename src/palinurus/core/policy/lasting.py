"""Files that outlast a session: those that make the agent what it is, and those that steer other programs. Pure.

What is written there acts later, on other days and perhaps outside the sandbox, so it needs the owner's word once
untrusted content was read. Paths are relative to the workspace, links followed.
"""

from __future__ import annotations

import re

from palinurus.patterns import compile_late

_SHAPING = frozenset((
    "agents.md", "soul.md", "identity.md", "user.md", "tools.md", "bootstrap.md", "boot.md", "memory.md",
    "heartbeat.md",
))  # fmt: skip
SHAPING_FOLDERS = ("memory", "skills", ".agents/skills", "hooks")
# Orders for editors, other agents, shells and services that people use in the same folder.
_STEERING_NAMES = frozenset((
    "agents.md", "claude.md", "claude.local.md", "gemini.md", "copilot-instructions.md", ".mcp.json", ".envrc",
    ".cursorrules", ".windsurfrules", ".clinerules",
    ".git", ".github",  # as a file or a link: what is there lies elsewhere
))  # fmt: skip
_STEERING_FOLDERS = frozenset((
    ".claude", ".vscode", ".cursor", ".codex", ".husky", ".devcontainer", ".zed", ".gemini", ".windsurf", ".opencode",
))  # fmt: skip
STEERING_HOME = (
    ".gitconfig", ".config/git/config", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pip/pip.conf", ".config/pip/pip.conf",
    ".netrc", ".ssh/config", ".curlrc", ".wgetrc", ".cargo/config.toml", ".cargo/config", ".config/go/env",
    ".bundle/config", ".config/pnpm/rc", ".config/uv/uv.toml", ".bashrc", ".profile",
)  # fmt: skip
# What a repository's config may say without running or reaching anything else.
_HARMLESS_SECTIONS = ("user", "branch", "init", "pull", "color", "advice", "column", "log", "status", "extensions")
_HARMLESS_CORE = frozenset((
    "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks",
    "autocrlf", "eol", "quotepath",
))  # fmt: skip
_SECTION = compile_late(r"\[\s*([^\]\s\"]+)")


def _parts(relative: str) -> list[str]:
    parts = [part.casefold() for part in relative.split("/") if part not in ("", ".")]
    return [] if ".." in parts else parts


def is_shaping_file(relative: str) -> bool:
    """Is it one of the files that make the agent what it is?"""
    if "/" not in relative:
        return relative.casefold() in _SHAPING
    parts = _parts(relative)
    if len(parts) < 2:
        return bool(parts) and parts[0] in _SHAPING
    return (
        (parts[0] == "memory" and parts[-1].endswith(".md"))
        or parts[0] in ("skills", "hooks")
        or parts[:2] == [".agents", "skills"]
    )


def is_memory_note(relative: str) -> bool:
    """Is it a note that is found again only by looking, and not shown to every run?"""
    return is_shaping_file(relative) and "/" in relative.strip("/")


def may_steer(name: str) -> bool:
    """Can a file of this name, in a folder that is not hidden, be one of those below? Most cannot."""
    return name[:1] == "." or name[-3:].lower() == ".md"


def is_steering_file(relative: str) -> bool:
    """Do other programs take orders from it: hooks and config of git, settings of editors and agents, workflows?"""
    if "/." not in relative and not may_steer(relative):
        return False
    parts = _parts(relative)
    if not parts or is_shaping_file(relative):
        return False
    if ".git" in parts[:-1]:
        below = parts[parts.index(".git") + 1 :]
        hook = "hooks" in below[:-1] and not below[-1].endswith(".sample")
        hook = hook or (
            not {"refs", "logs"} & {*below} and bool({"branches", "remotes"} & {*below[:-1]})
        )  # old remotes
        return hook or below[-1] in ("config", "config.worktree", "commondir")
    workflow = any(parts[at : at + 2] == [".github", "workflows"] for at in range(len(parts) - 2))
    return parts[-1] in _STEERING_NAMES or bool(_STEERING_FOLDERS.intersection(parts[:-1])) or workflow


def is_project_order(relative: str) -> bool:
    """The same in a project's folder, where no file makes an agent what it is: what lies in `skills/` or `memory/`
    there is code like any other, and AGENTS.md is an order to whoever works there."""
    return is_steering_file(f"project/{relative}")


def list_git_orders(config: str) -> tuple[str, ...]:
    """The lines of a git config that run a program or reach a place; two configs with the same ones do the same."""
    found, section, name = [], "", ""
    for line in config.splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text.rpartition("]")[0] or text
            match = _SECTION.match(text)
            name = match[1].lower() if match else text
            text = text[len(section) + 1 :].strip()
        if not text or text[0] in "#;" or name.split(".")[0] in _HARMLESS_SECTIONS:
            continue
        key = re.split(r"[\s=]", text, maxsplit=1)[0].lower()
        goes_on = text.endswith("\\")  # a line that goes on may say more than its first half
        if not goes_on and ((name == "core" and key in _HARMLESS_CORE) or (name == "remote" and key == "fetch")):
            continue
        found.append(f"{section} {text}")
    return tuple(sorted(found))
