"""Workspace files in the prompt: announced, injected in a fixed order, and HEARTBEAT.md below the boundary.

What is cut, missing or blank was decided before; here files only find their place.
"""

from __future__ import annotations

from palinurus.core.prompt.conduct import strip_lines
from palinurus.core.prompt.facts import FileFact, StableFacts

FILE_WEIGHTS: dict[str, int] = {
    "agents.md": 10,
    "soul.md": 20,
    "identity.md": 30,
    "user.md": 40,
    "tools.md": 50,
    "bootstrap.md": 60,
    "memory.md": 70,
}
DYNAMIC_FILES = frozenset(("heartbeat.md",))  # changes often: below the boundary
_LAST = 1000


def get_base_name(name: str) -> str:
    """The file's own name in lower case, without directories."""
    return name.replace("\\", "/").rpartition("/")[2].lower()


def list_stable_files(facts: StableFacts) -> list[FileFact]:
    """The files above the boundary, in order: known ones by weight, the others by path; blank ones left out."""
    kept = [file for file in facts.files if get_base_name(file.name) not in DYNAMIC_FILES and file.text.strip()]
    return sorted(kept, key=lambda file: (FILE_WEIGHTS.get(get_base_name(file.name), _LAST), file.name))


def write_bootstrap_pending(facts: StableFacts) -> str:
    if not facts.pending:
        return ""
    return (
        "## Bootstrap Pending\n"
        "This workspace is new: BOOTSTRAP.md below holds the first conversation. Follow it before normal work, write "
        "what you learn into the workspace files, and delete BOOTSTRAP.md when it is done. Do not pretend it is done."
    )


def write_bootstrap_notice(facts: StableFacts) -> str:
    """That files were shortened; by how much is for the diagnostics."""
    cut = [file.name for file in facts.files if file.truncated]
    if not cut or facts.knobs.warn == "off":
        return ""
    return (
        "## Bootstrap Context Notice\n"
        f"Shortened below: {', '.join(cut)}. The files themselves are whole: read them when a part that is missing "
        "may matter."
    )


def write_workspace_files(facts: StableFacts) -> str:
    return (
        "## Workspace Files (injected)\n"
        "Palinurus loads these files, which the person edits, and includes them under Project Context."
        if facts.files
        else "## Workspace Files (injected)\nNo workspace file is included in this run."
    )


def write_project_context(facts: StableFacts) -> str:
    files = list_stable_files(facts)
    if not files:
        return ""
    head = ["# Project Context", "These workspace files are part of your instructions."]
    if any(get_base_name(file.name) == "soul.md" and not file.missing for file in files):
        head.append("SOUL.md is who you are: embody its persona and tone, and do not answer in stock phrases instead.")
    return "\n".join(head) + "\n\n" + "\n\n".join(_shown(file) for file in files)


def write_dynamic_context(facts: StableFacts) -> str:
    files = [file for file in facts.files if get_base_name(file.name) in DYNAMIC_FILES and file.text.strip()]
    if not files:
        return ""
    head = "# Dynamic Project Context\nThese files change often; what they say goes for this run."
    return "\n\n".join((head, *(_shown(file) for file in files)))


def _shown(file: FileFact) -> str:
    return f"## {file.name}\n\n{strip_lines(file.text)}"
