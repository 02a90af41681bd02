"""Where a channel's section speaks of group chats, and of lists of people. Pure.

The platforms write their chats in different places (`groups`, `channels`, `rooms`, `guilds.<server>.channels`,
`groups.<chat>.topics`); here all become rows with one kind of key. Also `accessGroups`: lists that have a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from palinurus.config.check import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path

TEAM = "accessGroup:"
# What a name begins with where ids never do: such an entry can fit nobody, which its writer should know.
NAMES: dict[str, str] = {"telegram": "@#", "discord": "@#", "slack": "@#", "whatsapp": "@", "signal": "@"}


class GroupRow(NamedTuple):
    """A chat, or all chats of a server. `all`: whoever is there may speak unless a list says who."""

    key: str
    body: dict[str, Any]
    path: Path
    all: bool = False
    on: bool = True


def list_group_rows(section: Mapping[str, Any]) -> Iterator[GroupRow]:
    """Every chat that the section of an account names."""
    for ident, body in _maps(section.get("groups")):
        yield GroupRow(ident, body, ("groups", ident))
        for topic, below in _maps(body.get("topics")):
            yield GroupRow(f"{ident}:topic:{topic}", {**body, **below}, ("groups", ident, "topics", topic))
    for word in ("channels", "rooms"):
        for ident, body in _maps(section.get(word)):
            yield GroupRow(ident, body, (word, ident), all=True)
    for guild, body in _maps(section.get("guilds")):
        path: Path = ("guilds", guild)
        inside = dict(_maps(body.get("channels")))
        for ident, below in inside.items():
            if ident != "*":
                yield GroupRow(ident, {**body, **below}, (*path, "channels", ident), all=True)
        # A server that lists channels means those only; its row then is there to say no.
        listed = not inside or "*" in inside
        key = "*" if guild == "*" else f"guild:{guild}"
        yield GroupRow(key, {**body, **inside.get("*", {})}, path, all=True, on=listed)


class AccessGroups:
    """`accessGroups`. A list that names one of them has its members; one that does not exist has none."""

    def __init__(self, section: Mapping[str, Any], findings: list[ConfigFinding]) -> None:
        self._section = section
        self._findings = findings

    def ids(self, written: Any, channel: str, path: Path) -> tuple[str, ...]:
        """The list as texts; numbers are what JSON made of ids."""
        found: list[str] = []
        for entry in _texts(written):
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
        return [*_texts(by.get("*")), *_texts(by.get(channel))]


def _texts(written: Any) -> list[str]:
    values = written if isinstance(written, list) else []
    return [str(v).strip() for v in values if isinstance(v, (str, int)) and not isinstance(v, bool) and str(v).strip()]


def _maps(section: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries; one that is no object (`"C1": true`) says nothing more than that it is there."""
    for key, body in section.items() if isinstance(section, dict) else ():
        yield str(key), body if isinstance(body, dict) else {"enabled": body is not False}
