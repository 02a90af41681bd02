"""Who is the owner on chat channels, who may command, what we are called in groups, which chats go to several agents.

`commands.ownerAllowFrom`, `commands.allowFrom`, `memory.allowFrom`, `tools.trustFrom`,
`messages.groupChat.mentionPatterns`, `broadcast`. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from palinurus.config.findings import ConfigFinding, ConfigPlace, suggest_nearest
from palinurus.config.forms import Free, list_ids, merge_raw
from palinurus.config.keypath import Path
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


# Group chats and lists of people (`accessGroups`). The platforms write chats in different places (`groups`, `channels`,
# `rooms`, `guilds.<server>.channels`, `groups.<chat>.topics`); here all become rows with one kind of key.
TEAM = "accessGroup:"
# What a name begins with where ids never do: such an entry can fit nobody, which its writer should know.
NAMES: dict[str, str] = {"telegram": "@#", "discord": "@#", "slack": "@#", "whatsapp": "@", "signal": "@"}


class GroupRow(msgspec.Struct, frozen=True):
    """A chat, or all chats of a server. `all`: whoever is there may speak unless a list says who."""

    key: str
    body: dict[str, Any]
    path: Path
    all: bool = False
    on: bool = True


def list_group_rows(section: Mapping[str, Any]) -> Iterator[GroupRow]:
    """Every chat that the section of an account names."""
    for ident, body in list_maps(section.get("groups")):
        yield GroupRow(ident, body, ("groups", ident))
        for topic, below in list_maps(body.get("topics")):
            yield GroupRow(f"{ident}:topic:{topic}", merge_raw(below, body), ("groups", ident, "topics", topic))
    for word in ("channels", "rooms"):
        for ident, body in list_maps(section.get(word)):
            yield GroupRow(ident, body, (word, ident), all=True)
    for guild, body in list_maps(section.get("guilds")):
        path: Path = ("guilds", guild)
        inside = dict(list_maps(body.get("channels")))
        for ident, below in inside.items():
            if ident != "*":
                yield GroupRow(ident, merge_raw(below, body), (*path, "channels", ident), all=True)
        # A server that lists channels means those only; its row then is there to say no.
        listed = not inside or "*" in inside
        key = "*" if guild == "*" else f"guild:{guild}"
        yield GroupRow(key, merge_raw(inside.get("*"), body), path, all=True, on=listed)


class AccessGroups:
    """`accessGroups`. A list that names one of them has its members; one that does not exist has none."""

    def __init__(self, section: Mapping[str, Any], findings: list[ConfigFinding]) -> None:
        self._section = section
        self._findings = findings

    def ids(self, written: Any, channel: str, path: Path) -> tuple[str, ...]:
        """The list as texts; numbers are what JSON made of ids."""
        found: list[str] = []
        for entry in list_ids(written):
            if entry.startswith(TEAM):
                found += self._members(entry.removeprefix(TEAM), channel, path)
                continue
            if entry[:1] in NAMES.get(channel, "\0"):
                text = f"{entry[:40]!r} is a name, and names change hands; it fits nobody"
                self._findings.append(ConfigFinding(path, text, "write the person's id", fatal=False))
            found.append(entry)
        return tuple(dict.fromkeys(found))

    def _members(self, name: str, channel: str, path: Path) -> list[str]:
        team = self._section.get(name)
        if not isinstance(team, dict) or team.get("type", "message.senders") != "message.senders":
            why = "there is no access group" if team is None else "only message.senders is supported, not"
            self._findings.append(
                ConfigFinding(path, f"{why} {name[:40]!r}: nobody", suggest_nearest(name, self._section), False)
            )
            return []
        members = team.get("members")
        by = members if isinstance(members, dict) else {}
        return [*list_ids(by.get("*")), *list_ids(by.get(channel))]


def list_maps(section: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries; one that is no object (`"C1": true`) says nothing more than that it is there. `users` is the older
    word for allowFrom."""
    for key, body in section.items() if isinstance(section, dict) else ():
        told = body if isinstance(body, dict) else {"enabled": False} if body is False else {}
        yield str(key), merge_raw(told, {"allowFrom": told.get("users")})
