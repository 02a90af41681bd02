"""Who is the owner on chat channels, who may command, what we are called in groups, which chats go to several agents.

`commands.ownerAllowFrom`, `commands.allowFrom`, `memory.allowFrom`, `tools.trustFrom`,
`messages.groupChat.mentionPatterns`, `broadcast`. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Free, list_ids
from palinurus.config.sections.agents import AgentLayers
from palinurus.core.policy import admission
from palinurus.core.policy.admission import CHANNEL_SHORTHANDS, EVERYBODY
from palinurus.core.types.keys import parse_agent_id


class PeopleSettings(msgspec.Struct, frozen=True):
    """By channel where it says so; ids are bare there."""

    owners: dict[str, tuple[str, ...]] = {}
    commands: dict[str, tuple[str, ...]] | None = None  # also under "*": for every channel; None: not said
    patterns: dict[str, tuple[str, ...]] = {}  # by agent
    broadcast: dict[str, tuple[str, ...]] = {}  # chat (or person) -> agents
    trusted: frozenset[str] = frozenset()  # the same, and channel:*, whose turns use the machine as the owner's do
    memory: frozenset[str] = frozenset()  # channel:id and channel:group:id that may know what the owner noted


def resolve_people(written: Free, agents: Mapping[str, AgentLayers], here: ConfigPlace) -> PeopleSettings:
    """The settings from the whole config as written; what is odd is noted at `here`."""
    channels = [name for name in written.get("channels") or {} if name != "defaults"]
    commands, shared = written.get("commands") or {}, (written.get("messages") or {}).get("groupChat") or {}
    return PeopleSettings(
        _owners(commands.get("ownerAllowFrom"), channels, here.below("commands", "ownerAllowFrom")),
        _commands(commands.get("allowFrom")),
        {agent: _patterns(shared, layers.own, here) for agent, layers in agents.items()},
        _broadcast(written.get("broadcast") or {}, agents, here.below("broadcast")),
        memory=_named(written, ("memory", "allowFrom"), channels, here, what="the owner's memory stays closed to them"),
        trusted=_named(written, ("tools", "trustFrom"), channels, here, what="nothing is opened", all_of=True),
    )


def _owners(written: Any, channels: list[str], here: ConfigPlace) -> dict[str, tuple[str, ...]]:
    """An id without a channel is used where there is only one channel: elsewhere somebody else may have it."""
    made: dict[str, tuple[str, ...]] = {}
    for index, entry in enumerate(list_ids(written)):
        prefix, colon, rest = entry.partition(":")
        channel = CHANNEL_SHORTHANDS.get(prefix.lower(), prefix.lower())
        if entry == EVERYBODY or rest.strip() == EVERYBODY:
            text = "everybody cannot be the owner; nobody is by this entry"
            here.below(index).odd("", text, "write channel:id")
        elif colon and channel in channels and rest.strip():
            made[channel] = (*made.get(channel, ()), rest.strip())
        elif len(channels) == 1:
            made[channels[0]] = (*made.get(channels[0], ()), entry)
        elif channels:
            text = f"{entry[:40]!r} does not say on which channel; it makes nobody the owner"
            here.below(index).odd("", text, f"such as {channels[0]}:{entry[:40]}")
    return made


def _named(
    written: Free, path: tuple[str, str], channels: list[str], here: ConfigPlace, *, what: str, all_of: bool = False
) -> frozenset[str]:
    """People and groups, as channel:id and channel:group:id; with `all_of` also whole channels, as channel:*."""
    made: set[str] = set()
    for index, entry in enumerate(list_ids((written.get(path[0]) or {}).get(path[1]))):
        prefix, _, rest = entry.partition(":")
        channel, rest = CHANNEL_SHORTHANDS.get(prefix.lower(), prefix.lower()), rest.strip()
        if channel in channels and rest and (not rest.endswith(EVERYBODY) or (all_of and rest == EVERYBODY)):
            made.add(f"{channel}:{rest.removeprefix('direct:')}")
        else:
            fix = "write channel:id for a person, channel:group:id for a group"
            here.below(*path, index).odd("", f"{entry[:40]!r} names nobody; {what}", fix)
    return frozenset(made)


def _commands(written: Any) -> dict[str, tuple[str, ...]] | None:
    if not isinstance(written, dict):
        return None
    return {str(channel): tuple(list_ids(ids)) for channel, ids in written.items()}


def _patterns(shared: Free, own: Free, here: ConfigPlace) -> tuple[str, ...]:
    """The agent's own, else everybody's, else its name."""
    words = (own.get("groupChat") or {}).get("mentionPatterns")
    if words is None:
        words = shared.get("mentionPatterns")
    if words is None:
        identity = own.get("identity")
        return admission.make_name_patterns(identity.get("name") or "") if identity else ()
    good: list[str] = []
    for word in words:
        why = admission.find_pattern_problem(word)
        if why:
            here.odd("messages.groupChat.mentionPatterns", f"{word[:60]!r} {why}; it is not used")
        else:
            good.append(word)
    return tuple(good)


def _broadcast(section: Free, agents: Collection[str], here: ConfigPlace) -> dict[str, tuple[str, ...]]:
    made: dict[str, tuple[str, ...]] = {}
    for chat, names in section.items():
        if chat == "strategy":
            if names == "sequential":
                here.odd("strategy", "'sequential' is not supported: agents answer side by side")
            continue
        found: list[str] = []
        for name in list_ids(names):
            agent = parse_agent_id(name) or ""
            if agent in agents:
                found.append(agent)
            else:
                here.below(chat).bad("", f"unknown agent {name[:40]!r}", suggest_nearest(name, agents))
        if found:
            made[chat] = tuple(dict.fromkeys(found))
    return made
