"""Directives for the session: what each changes in its record, and the words that say so. Pure.

All or nothing: one directive that cannot be done leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palinurus.config.settings import Settings
from palinurus.core.levels import spellings, thinking
from palinurus.core.levels.parse import Directive
from palinurus.core.levels.spellings import DIRECTIVE_ORDER
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import Inbound
from palinurus.inbox.commands.command import is_admin, is_internal
from palinurus.inbox.commands.options import apply_exec, apply_queue, check_elevation
from palinurus.services.facts import SessionFacts


class DirectiveContext(msgspec.Struct, frozen=True):
    """What directives are judged by."""

    before: SessionFacts  # the session as it is
    after: SessionFacts  # … with the model that a /model beside them chooses
    inbound: Inbound
    settings: Settings
    problem: str = ""  # why the model of a /model cannot be had
    models: str = ""  # the list of models, if it was asked for


class DirectiveAnswer(msgspec.Struct, frozen=True):
    """The answer to one directive."""

    text: str
    changes: Mapping[str, Any] = {}
    refused: bool = False


class DirectiveResult(msgspec.Struct, frozen=True):
    """The answer to all of them. `changes` are fields of the record; None clears one."""

    texts: tuple[str, ...]
    changes: dict[str, Any]
    refused: bool = False

    @property
    def text(self) -> str:
        """Short parts in a row; lines apart if one of them has several lines."""
        return ("\n" if any("\n" in t for t in self.texts) else " ").join(self.texts)


class PlainLevel(msgspec.Struct, frozen=True):
    """A level with fixed words."""

    field: str
    noun: str  # in questions and refusals
    meaning: Callable[[object], str | None]
    said: Mapping[str, str]  # canonical word -> the confirmation
    reset: str
    options: str
    values: Mapping[str, Any] = {}  # what is stored, where that is not the word itself


PLAIN: dict[str, PlainLevel] = {
    "fast": PlainLevel(
        "fastMode",
        "fast mode",
        spellings.parse_fast,
        {"on": "Fast mode enabled.", "off": "Fast mode disabled.", "auto": "Fast mode set to auto."},
        "Fast mode reset to default.",
        "status, auto, on, off, default",
        {"on": True, "off": False},
    ),
    "verbose": PlainLevel(
        "verboseLevel",
        "verbose level",
        spellings.parse_verbose,
        {
            "on": "Verbose logging enabled.",
            "full": "Verbose logging set to full.",
            "off": "Verbose logging disabled.",
        },
        "Verbose level reset to default.",
        "on, full, off, default",
    ),
    "trace": PlainLevel(
        "traceLevel",
        "trace level",
        spellings.parse_trace,
        {"on": "Plugin trace enabled.", "off": "Plugin trace disabled."},
        "Trace level reset to default.",
        "on, off, default",
    ),
    "reasoning": PlainLevel(
        "reasoningLevel",
        "reasoning level",
        spellings.parse_reasoning,
        {
            "on": "Reasoning visibility enabled.",
            "off": "Reasoning visibility disabled.",
            "stream": "Reasoning stream enabled.",
        },
        "Reasoning level reset to default.",
        "on, off, stream, default",
    ),
    "elevated": PlainLevel(
        "elevatedLevel",
        "elevated level",
        spellings.parse_elevated,
        {
            "off": "Elevated mode disabled.",
            "on": "Elevated mode set to ask (approvals may still apply).",
            "ask": "Elevated mode set to ask (approvals may still apply).",
            "full": "Elevated mode set to full (auto-approve).",
        },
        "Elevated level reset to default.",
        "off, on, ask, full, default",
    ),
}

# Who may change them for the session, besides the owner: anyone trusted, or nobody.
_OWNER_ONLY: dict[str, str] = {"elevated": "Elevated mode", "exec": "Exec defaults"}


def apply_directives(directives: tuple[Directive, ...], scene: DirectiveContext) -> DirectiveResult:
    """Every directive judged; the changes if all of them can be done, else the refusals and no change."""
    parts: list[DirectiveAnswer] = []
    for name in DIRECTIVE_ORDER:
        directive = next((d for d in directives if d.name == name), None)
        if directive is not None and name in _ROWS:
            parts.append(_allowed(directive, scene.inbound) or _ROWS[name](directive, scene))
        if name == "exec":
            parts.extend(_remap(directives, scene.before, scene.after))
    refused = tuple(p.text for p in parts if p.refused)
    if refused:
        return DirectiveResult(refused, {}, True)
    changes: dict[str, Any] = {}
    for part in parts:
        changes.update(part.changes)
    return DirectiveResult(tuple(p.text for p in parts), changes)


def _asks(directive: Directive) -> bool:
    return (directive.raw is None and not directive.options) or (directive.raw or "").lower() == "status"


def _allowed(directive: Directive, inbound: Inbound) -> DirectiveAnswer | None:
    what = _OWNER_ONLY.get(directive.name)
    if what is None or _asks(directive) or is_admin(inbound):
        return None
    return DirectiveAnswer(f"{what} can be changed by the owner only.", refused=True)


def _elevated(directive: Directive, scene: DirectiveContext) -> DirectiveAnswer:
    """Like the others, but refused, with the gates that fail, where the turn could not be elevated anyway."""
    agent = scene.after.agent.id
    failing = () if _asks(directive) else check_elevation(directive, scene.inbound, scene.settings.approvals.get(agent))
    if failing:
        return DirectiveAnswer(f"Elevated mode is not available: {'; '.join(failing)}.", refused=True)
    return _plain(directive, scene)


def _think(directive: Directive, scene: DirectiveContext) -> DirectiveAnswer:
    raw, after = directive.raw, scene.after
    if raw is None or raw.lower() == "status":
        options = ", ".join(("default", *thinking.list_level_labels(after.offered)))
        shown = next((lv.display_name for lv in after.offered.levels if lv.id == after.level.level), after.level.level)
        return DirectiveAnswer(f"Current thinking level: {shown}.\nOptions: {options}.")
    if spellings.is_clear_word(raw):
        return DirectiveAnswer("Thinking level reset to default.", {"thinkingLevel": None})
    level, problem = thinking.check_level(raw, after.model, after.offered)
    if level is None:
        return DirectiveAnswer(problem, refused=True)
    shown = next(lv.display_name for lv in after.offered.levels if lv.id == level)
    text = "Thinking disabled." if level == "off" else f"Thinking level set to {shown}."
    return DirectiveAnswer(text, {"thinkingLevel": level})


def _plain(directive: Directive, scene: DirectiveContext) -> DirectiveAnswer:
    row, raw = PLAIN[directive.name], directive.raw
    if raw is None or raw.lower() == "status":
        return DirectiveAnswer(f"Current {row.noun}: {_now(directive.name, scene.after)}.\nOptions: {row.options}.")
    word = row.meaning(raw)
    if word is None and not spellings.is_clear_word(raw):
        return DirectiveAnswer(f'Unrecognized {row.noun} "{raw[:64]}". Valid levels: {row.options}.', refused=True)
    if directive.name == "verbose" and is_internal(scene.inbound) and not is_admin(scene.inbound):
        said = row.said[word] if word else row.reset
        return DirectiveAnswer(f"{said} For the current reply only: to keep it for the session, {ADMIN} is needed.")
    if word is None:
        return DirectiveAnswer(row.reset, {row.field: None})
    return DirectiveAnswer(row.said[word], {row.field: row.values.get(word, word)})


def _now(name: str, facts: SessionFacts) -> str:
    if name == "fast":
        where = {"session": "", "agent": " (config)", "params": " (config)"}.get(facts.fast.source, " (default)")
        return f"{facts.fast.mode or 'off'}{where}"
    return get_effective_level(name, facts)


def get_effective_level(name: str, facts: SessionFacts) -> str:
    """The effective level of verbose, trace, reasoning or elevated: the session's, the agent's default, off."""
    own = getattr(facts.record, PLAIN[name].field)
    return str(own or getattr(facts.agent, f"{name}_default", None) or "off")


def _model(directive: Directive, scene: DirectiveContext) -> DirectiveAnswer:
    after, raw = scene.after, directive.raw or ""
    ref = after.model.ref
    if scene.problem or scene.models:
        return DirectiveAnswer(scene.problem or scene.models, refused=bool(scene.problem))
    if _asks(directive):
        how = "chosen for this session" if after.record.modelOverride else "default"
        return DirectiveAnswer(
            f"Current model: {ref} ({how}).\nSwitch with /model <provider/model>; /models lists them."
        )
    if spellings.is_clear_word(raw):
        return DirectiveAnswer(f"Model reset to default ({ref}).", _chosen(None, None, None))
    alias = f"{raw} ({ref})" if raw.lower() in {a.lower() for a in after.agent.aliases} else str(ref)
    return DirectiveAnswer(f"Model set to {alias}.", _chosen(ref.provider, ref.model, "user"))


def _chosen(provider: str | None, model: str | None, source: str | None) -> dict[str, Any]:
    return {
        "providerOverride": provider,
        "modelOverride": model,
        "modelOverrideSource": source,
        "authProfileOverride": None,
        "authProfileOverrideSource": None,
    }


def _remap(directives: tuple[Directive, ...], before: SessionFacts, after: SessionFacts) -> list[DirectiveAnswer]:
    """A stored level that the new model does not offer is fitted to it, and that is said."""
    stored = before.record.thinkingLevel
    said = next((d.raw for d in directives if d.name == "think"), None)
    if before.model.ref == after.model.ref or stored is None or said is not None:
        return []
    fitted = thinking.remap_level(stored, after.offered)
    if fitted == stored or stored not in thinking.LEVEL_RANKS:
        return []
    return [DirectiveAnswer(thinking.explain_remapped_level(stored, fitted, after.model), {"thinkingLevel": fitted})]


def _queue(directive: Directive, scene: DirectiveContext) -> DirectiveAnswer:
    return DirectiveAnswer(
        *apply_queue(directive, scene.after.record, scene.settings.queue, scene.inbound.target.channel)
    )


def _exec(directive: Directive, scene: DirectiveContext) -> DirectiveAnswer:
    return DirectiveAnswer(*apply_exec(directive, scene.after.record))


_ROWS: dict[str, Callable[[Directive, DirectiveContext], DirectiveAnswer]] = {
    "think": _think,
    **dict.fromkeys(PLAIN, _plain),
    "elevated": _elevated,
    "exec": _exec,
    "model": _model,
    "queue": _queue,
}
