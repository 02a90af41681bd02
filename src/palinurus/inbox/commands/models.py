"""/models: what can be chosen with /model, numbered; and finding what a person meant by a word."""

from __future__ import annotations

from palinurus.config.settings import AgentSettings
from palinurus.core.levels import spellings
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.inbox.commands.command import CommandAnswer, CommandCall
from palinurus.inbox.commands.facts import find_session_model
from palinurus.providers.catalog import Catalog

SHOWN = 60


async def run_models(call: CommandCall) -> CommandAnswer:
    """/models [TEXT]: all, or those whose name holds the text."""
    now = find_session_model(call.desk.catalog, call.agent, call.record)
    return CommandAnswer(list_models(call.desk.catalog, call.agent, str(now.ref), call.args.strip().lower()))


def list_models(catalog: Catalog, agent: AgentSettings, current: str, wanted: str = "") -> str:
    """The numbered list; the numbers are those `/model N` takes."""
    every = list(enumerate(catalog.all(agent), 1))
    found = [(n, m) for n, m in every if wanted in str(m.ref).lower()]
    if not found:
        return f'No model matches "{wanted[:64]}".'
    aliases = {target: f" ({alias})" for alias, target in agent.aliases.items()}
    lines = [
        f"{n}. {m.ref}{aliases.get(str(m.ref), '')}{' *' if str(m.ref) == current else ''}" for n, m in found[:SHOWN]
    ]
    more = [f"… and {len(found) - SHOWN} more: /models TEXT narrows it down."] if len(found) > SHOWN else []
    return "\n".join(["Models (* in use; /model N or /model NAME switches):", *lines, *more])


def find_meant_model(catalog: Catalog, agent: AgentSettings, raw: str) -> ModelSpec | str:
    """The model a person wants: by number, clear word, alias, ref or id. A text says why there is none."""
    if spellings.is_clear_word(raw):
        return catalog.default(agent)
    if raw.isascii() and raw.isdigit():
        every = catalog.all(agent)
        number = int(raw[:6])
        return every[number - 1] if 0 < number <= len(every) else f"There is no model number {raw[:6]}; /models lists."
    found = catalog.find(raw, agent)
    if isinstance(found, ModelFailure):
        return f"{found.message[:1].upper()}{found.message[1:]}. /models lists what there is."
    key = catalog.key(found)
    if isinstance(key, ModelFailure):
        return f"{found.ref} cannot be used: {key.message}."
    return found
