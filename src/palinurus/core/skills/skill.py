"""A skill: what its header says, checked. Pure. The body is not kept; the model reads it when it needs it."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.hidden import has_hidden, is_hidden
from palinurus.core.skills.frontmatter import BadFrontMatter, FrontMatter, parse_front_matter
from palinurus.patterns import compile_late

SKILL_FILE = "SKILL.md"
NAME = 64  # characters, as the format has it
DESCRIPTION = 1024
VENDORS = ("openclaw", "palinurus", "clawdbot", "clawdis")  # whose part of `metadata` counts
_NAME = compile_late(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class SkillRequirements(msgspec.Struct, frozen=True):
    """What must be there."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()  # key paths


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill. `source` is the root it was found in, `path` its SKILL.md."""

    name: str
    description: str
    path: str = ""
    source: str = ""
    key: str = ""  # under which the config knows it
    homepage: str = ""
    emoji: str = ""
    user_invocable: bool = True
    model_invocable: bool = True
    dispatch: str = ""  # a tool its command goes to directly
    always: bool = False
    os: tuple[str, ...] = ()
    primary_env: str = ""
    requires: SkillRequirements = SkillRequirements()
    install: tuple[str, ...] = ()  # what its author would install; for people to read
    tools: tuple[str, ...] = ()  # allowed-tools
    warnings: tuple[str, ...] = ()  # odd, but it is used


class BrokenSkill(msgspec.Struct, frozen=True):
    """A folder that wants to be a skill and is none."""

    name: str  # of the folder
    path: str
    source: str
    reason: str


def parse_skill(text: str, path: str, folder: str, source: str = "") -> Skill | BrokenSkill:
    """The skill of this SKILL.md, which lies in `folder` (its name)."""
    head = parse_front_matter(text)
    if isinstance(head, BadFrontMatter):
        return BrokenSkill(folder, path, source, f"line {head.line}: {head.message}")
    name, described = _text(head.fields.get("name")), _text(head.fields.get("description"))
    missing = [field for field, found in (("name", name), ("description", described)) if not found]
    if missing:
        return BrokenSkill(folder, path, source, f"the header has no {' and no '.join(missing)}")
    own = _own(head.fields.get("metadata"))
    if isinstance(own, str):
        return BrokenSkill(folder, path, source, own)
    return _made(head, path, source, own, odd=_odd(name, described, folder))


def _made(head: FrontMatter, path: str, source: str, own: dict[str, Any], odd: tuple[str, ...]) -> Skill:
    fields = head.fields
    name = strip_invisible(_text(fields.get("name")))[:NAME]
    needs = own.get("requires")
    needs = needs if isinstance(needs, dict) else {}
    dispatch = _text(fields.get("command-tool")) if fields.get("command-dispatch") == "tool" else ""
    return Skill(
        name=name,
        description=strip_invisible(_text(fields.get("description")))[:DESCRIPTION],
        path=path,
        source=source,
        key=_text(own.get("skillKey")) or name,
        homepage=_text(own.get("homepage")) or _text(fields.get("homepage")),
        emoji=_text(own.get("emoji")),
        user_invocable=_flag(fields.get("user-invocable"), True),
        model_invocable=not _flag(fields.get("disable-model-invocation"), False),
        dispatch=dispatch,
        always=_flag(own.get("always"), False),
        os=_names(own.get("os")),
        primary_env=_text(own.get("primaryEnv")),
        requires=SkillRequirements(*(_names(needs.get(name)) for name in ("bins", "anyBins", "env", "config"))),
        install=tuple(_recipe(entry) for entry in _list(own.get("install")) if isinstance(entry, dict)),
        tools=_names(fields.get("allowed-tools")),
        warnings=odd,
    )


def strip_invisible(text: str) -> str:
    """The text in one line, without characters that are there but not seen."""
    shown = "".join(c for c in text if not is_hidden(c)) if has_hidden(text) else text
    return " ".join(shown.split())


def _own(metadata: Any) -> dict[str, Any] | str:
    """The part of `metadata` that is for us, or what is wrong with it."""
    if isinstance(metadata, str) and metadata.strip():  # JSON in quotes
        inner = parse_front_matter(f"---\nmetadata: {' '.join(metadata.split())}\n---")
        metadata = inner.fields.get("metadata") if isinstance(inner, FrontMatter) else metadata
    if metadata in (None, ""):
        return {}
    if not isinstance(metadata, dict):
        return "metadata is not an object"
    found: Any = next((metadata[name] for name in VENDORS if name in metadata), {})
    return found if isinstance(found, dict) else "metadata.openclaw is not an object"


def _odd(name: str, described: str, folder: str) -> tuple[str, ...]:
    found: list[tuple[bool, str]] = [
        (
            name != folder,
            f"its name {strip_invisible(name)[:NAME]!r} is not that of its folder {strip_invisible(folder)[:NAME]!r}",
        ),
        (not _NAME.fullmatch(name), "its name is not made of a-z, 0-9 and single hyphens"),
        (len(name) > NAME, f"its name is longer than {NAME} characters"),
        (len(described) > DESCRIPTION, f"its description is longer than {DESCRIPTION} characters and is cut"),
        (has_hidden(name + described), "its name or description has hidden characters; they are left out"),
    ]
    return tuple(text for wrong, text in found if wrong)


def _recipe(entry: dict[str, Any]) -> str:
    """An install recipe in words. It is shown, never run."""
    kind = _text(entry.get("kind")) or "?"
    what = next((_text(entry.get(k)) for k in ("formula", "package", "module", "url", "label") if entry.get(k)), "")
    return strip_invisible(f"{kind}: {what}" if what else kind)[:200]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _flag(value: Any, default: bool) -> bool:
    if isinstance(value, str):
        return {"yes": True, "on": True, "no": False, "off": False}.get(value.lower(), default)
    return value if isinstance(value, bool) else default


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    return tuple(one.strip() for one in _list(value) if isinstance(one, str) and one.strip())


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
