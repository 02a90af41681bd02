"""How to get what a skill lacks on this machine: the exact line to type. Shown, never run. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from palinurus.core.skills.skill import Skill
from palinurus.patterns import compile_late

# Programs whose package has another name: program -> (apt, brew).
_PACKAGES = {
    "pdftotext": ("poppler-utils", "poppler"),
    "pdftoppm": ("poppler-utils", "poppler"),
    "convert": ("imagemagick", "imagemagick"),
    "rg": ("ripgrep", "ripgrep"),
    "fd": ("fd-find", "fd"),
    "gh": ("gh", "gh"),
    "python3": ("python3", "python"),
    "pip": ("python3-pip", "python"),
    "go": ("golang", "go"),
    "node": ("nodejs", "node"),
    "npm": ("npm", "node"),
}
# A recipe's kind -> the programs that could follow it, each with its line.
_RECIPES: dict[str, tuple[tuple[str, str], ...]] = {
    "apt": (("apt-get", "sudo apt-get install -y {what}"),),
    "brew": (("brew", "brew install {what}"), ("apt-get", "sudo apt-get install -y {plain}")),
    "node": (("npm", "npm install -g {what}"), ("pnpm", "pnpm add -g {what}")),
    "npm": (("npm", "npm install -g {what}"),),
    "go": (("go", "go install {what}"),),
    "uv": (("uv", "uv tool install {what}"), ("pipx", "pipx install {what}"), ("pip", "pip install --user {what}")),
    "pip": (("pipx", "pipx install {what}"), ("pip", "pip install --user {what}")),
}
_MANAGERS = (("apt-get", "sudo apt-get install -y {}", 0), ("brew", "brew install {}", 1))
_WORD = compile_late(r"[\w@./+:=-]{1,120}")


def suggest_install(skill: Skill, program: str, has: Callable[[str], bool]) -> str:
    """The line that gets `program`, by the skill's own recipe or this machine's packages; "" if nothing here can."""
    for recipe in skill.install:
        kind, _, what = recipe.partition(": ")
        if not _WORD.fullmatch(what):
            continue
        for manager, line in _RECIPES.get(kind, ()):
            if has(manager):
                whole = what if "@" in what or kind != "go" else f"{what}@latest"
                return line.format(what=shlex.quote(whole), plain=shlex.quote(what.rpartition("/")[2]))
    if not _WORD.fullmatch(program):
        return ""
    for manager, line, place in _MANAGERS:
        if has(manager):
            return line.format(_PACKAGES.get(program, (program, program))[place])
    return ""


def tell_permissions(skill: Skill, kinds: frozenset[str]) -> tuple[str, ...]:
    """What it may do once it is installed, in words for a person. `kinds` are those of the scanner's findings."""
    rows = (
        (True, "tells the agent what to do: its text is read as instructions when a task fits it"),
        ("executable" in kinds or "program" in kinds or "runs code" in kinds, "has code that the agent may run"),
        ("network" in kinds or "runs what it downloads" in kinds, "reaches the network"),
        ("installs" in kinds or bool(skill.install), "wants other programs installed (you do that, not it)"),
        ("secrets" in kinds, "looks at places where secrets are kept"),
        (bool(skill.primary_env or skill.requires.env), "gets the keys you give it, and no others"),
        (bool(skill.dispatch), f"its command goes straight to the tool {skill.dispatch}, without the model"),
        (skill.always, "is offered whatever it lacks"),
    )
    return tuple(words for true, words in rows if true)
