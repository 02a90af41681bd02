"""Who is the owner on chat channels, who may command, what we are called in groups, which chats go to several agents.

`commands.ownerAllowFrom`, `commands.allowFrom`, `memory.allowFrom`, `messages.groupChat.mentionPatterns`, `broadcast`.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentEntry
from palinurus.core.policy import admission
from palinurus.core.policy.admission import CHANNEL_SHORTHANDS, EVERYBODY
from palinurus.core.types.keys import parse_agent_id

_OWNERS: Path = ("commands", "ownerAllowFrom")


class PeopleSettings(msgspec.Struct, frozen=True):
    """By channel where it says so; ids are bare there."""

    owners: dict[str, tuple[str, ...]] = {}
    commands: dict[str, tuple[str, ...]] | None = None  # also under "*": for every channel; None: not said
    patterns: dict[str, tuple[str, ...]] = {}  # by agent
    broadcast: dict[str, tuple[str, ...]] = {}  # chat (or person) -> agents
    memory: frozenset[str] = frozenset()  # channel:id and channel:group:id that may know what the owner noted


def resolve_people(
    config: Config, written: Mapping[str, AgentEntry], agents: Collection[str], findings: list[ConfigFinding]
) -> PeopleSettings:
    """The settings; what is odd is added to `findings`."""
    entries = {parse_agent_id(key) or "": entry for key, entry in written.items()}
    channels = [name for name in config.channels or {} if name != "defaults"]
    return PeopleSettings(
        _owners((config.commands or {}).get("ownerAllowFrom"), channels, findings),
        _commands((config.commands or {}).get("allowFrom")),
        {agent: _patterns(config, entries.get(agent), findings) for agent in agents},
        _broadcast(config.broadcast or {}, agents, findings),
        _memory((config.memory or {}).get("allowFrom"), channels, findings),
    )


def _owners(written: Any, channels: list[str], findings: list[ConfigFinding]) -> dict[str, tuple[str, ...]]:
    """An id without a channel is used where there is only one channel: elsewhere somebody else may have it."""
    made: dict[str, tuple[str, ...]] = {}
    for index, entry in enumerate(_texts(written)):
        prefix, colon, rest = entry.partition(":")
        channel = CHANNEL_SHORTHANDS.get(prefix.lower(), prefix.lower())
        if entry == EVERYBODY or rest.strip() == EVERYBODY:
            text = "everybody cannot be the owner; nobody is by this entry"
            findings.append(ConfigFinding((*_OWNERS, index), text, "write channel:id", fatal=False))
        elif colon and channel in channels and rest.strip():
            made[channel] = (*made.get(channel, ()), rest.strip())
        elif len(channels) == 1:
            made[channels[0]] = (*made.get(channels[0], ()), entry)
        elif channels:
            text = f"{entry[:40]!r} does not say on which channel; it makes nobody the owner"
            findings.append(ConfigFinding((*_OWNERS, index), text, f"such as {channels[0]}:{entry[:40]}", fatal=False))
    return made


def _memory(written: Any, channels: list[str], findings: list[ConfigFinding]) -> frozenset[str]:
    made: set[str] = set()
    for index, entry in enumerate(_texts(written)):
        prefix, _, rest = entry.partition(":")
        channel = CHANNEL_SHORTHANDS.get(prefix.lower(), prefix.lower())
        if channel in channels and rest.strip() and not rest.endswith(EVERYBODY):
            made.add(f"{channel}:{rest.strip().removeprefix('direct:')}")
        else:
            text = f"{entry[:40]!r} names nobody; the owner's memory stays closed to them"
            fix = "write channel:id for a person, channel:group:id for a group"
            findings.append(ConfigFinding(("memory", "allowFrom", index), text, fix, fatal=False))
    return frozenset(made)


def _commands(written: Any) -> dict[str, tuple[str, ...]] | None:
    if not isinstance(written, dict):
        return None
    return {str(channel): tuple(_texts(ids)) for channel, ids in written.items()}


def _patterns(config: Config, entry: AgentEntry | None, findings: list[ConfigFinding]) -> tuple[str, ...]:
    """The agent's own, else everybody's, else its name."""
    shared = config.messages.group_chat if config.messages else None
    own = entry.group_chat if entry else None
    words = own.mention_patterns if own and own.mention_patterns is not None else None
    if words is None and shared is not None:
        words = shared.mention_patterns
    if words is None:
        return admission.make_name_patterns(entry.identity.name or "") if entry and entry.identity else ()
    good: list[str] = []
    for word in words:
        why = admission.find_pattern_problem(word)
        if why:
            path: Path = ("messages", "groupChat", "mentionPatterns")
            findings.append(ConfigFinding(path, f"{word[:60]!r} {why}; it is not used", fatal=False))
        else:
            good.append(word)
    return tuple(good)


def _broadcast(section: Mapping[str, Any], agents: Collection[str], findings: list[ConfigFinding]) -> dict[str, Any]:
    made: dict[str, tuple[str, ...]] = {}
    for chat, names in section.items():
        path: Path = ("broadcast", chat)
        if chat == "strategy":
            if names == "sequential":
                findings.append(
                    ConfigFinding(path, "'sequential' is not supported: agents answer side by side", "", False)
                )
            continue
        found: list[str] = []
        for name in _texts(names):
            agent = parse_agent_id(name) or ""
            if agent in agents:
                found.append(agent)
            else:
                findings.append(ConfigFinding(path, f"unknown agent {name[:40]!r}", suggest_nearest(name, agents)))
        if found:
            made[chat] = tuple(dict.fromkeys(found))
    return made


def _texts(written: Any) -> list[str]:
    values = written if isinstance(written, list) else []
    return [str(v).strip() for v in values if isinstance(v, (str, int)) and not isinstance(v, bool) and str(v).strip()]
