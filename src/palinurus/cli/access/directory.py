"""`pal directory`: the people and groups that have a conversation here, with the ids that other commands take; and
`pal system`: something an agent is told that no person wrote."""

from __future__ import annotations

import argparse
import os

import msgspec

from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.reach.gateway import call_gateway
from palinurus.cli.render import strip_controls
from palinurus.config.settings import Settings
from palinurus.core.types.keys import parse_session_key, unescape_key_part
from palinurus.errors import BadRequest, NotFound, StateBroken
from palinurus.inbox.pairing import LET_IN, PairedPerson
from palinurus.sessions.record import SessionRecord
from palinurus.store.factory import open_reader

GROUPS = ("group", "channel", "room")


class DirectoryEntry(msgspec.Struct, frozen=True):
    """Somebody, or a group. `id` is the platform's."""

    channel: str
    id: str
    name: str = ""


def run_directory(argv: list[str]) -> int:
    """0. Raises BadRequest, ConfigError, StateError."""
    asked = parse_verb("directory", "People and groups that have a conversation here.", PLACES, argv, default="peers")
    settings = load_settings(dict(os.environ)).settings
    rows = [one for one in asked.run(settings) if asked.channel in ("", one.channel)]
    rows = [one for one in rows if asked.query.lower() in f"{one.id} {one.name}".lower()]
    if asked.json:
        print(to_json(rows, pretty=True))
    for one in () if asked.json else rows:
        print(strip_controls(f"{one.channel}:{one.id}" + (f"  {one.name}" if one.name else "")))
    if not rows and not asked.json:
        print("nobody yet: people and groups appear here once they have written")
    return 0


def list_people(settings: Settings) -> list[DirectoryEntry]:
    """Who was let in, and who has a conversation."""
    found: dict[tuple[str, str], DirectoryEntry] = {}
    try:
        with open_reader(settings.home) as reader:
            for row in reader.list_records(LET_IN):
                one = msgspec.json.decode(row.data, type=PairedPerson)
                found[one.channel, one.id] = DirectoryEntry(one.channel, one.id, one.name)
    except NotFound:
        return []
    for entry in _list_talks(settings, ("direct",)):
        found.setdefault((entry.channel, entry.id), entry)
    return sorted(found.values(), key=lambda one: (one.channel, one.id))


def list_groups(settings: Settings) -> list[DirectoryEntry]:
    """Every group that somebody wrote in."""
    return sorted(_list_talks(settings, GROUPS), key=lambda one: (one.channel, one.id))


def _list_talks(settings: Settings, kinds: tuple[str, ...]) -> list[DirectoryEntry]:
    """What session keys say: CHANNEL[:ACCOUNT]:KIND:ID."""
    found: dict[tuple[str, str], DirectoryEntry] = {}
    try:
        with open_reader(settings.home) as reader:
            rows = reader.sessions()
    except NotFound:
        return []
    for row in rows:
        key = parse_session_key(row.key)
        words = key.rest.split(":") if key else []
        at = next((n for n in (1, 2) if len(words) > n + 1 and words[n] in kinds), 0)
        if not at:
            continue
        try:
            record = SessionRecord.decode(row.data)
        except StateBroken:
            continue
        name = record.subject or record.displayName or record.label or ""
        ident = unescape_key_part(words[at + 1])
        found.setdefault((words[0], ident), DirectoryEntry(words[0], ident, name))
    return list(found.values())


def list_selves(settings: Settings) -> list[DirectoryEntry]:
    """Who we are on each channel, as the running gateway knows. Raises GatewayUnreachable."""
    told = call_gateway(settings, "channels.status", {})["channelAccounts"]
    return [
        DirectoryEntry(name, one["accountId"], one.get("name") or "") for name, rows in told.items() for one in rows
    ]


_FILTERS = (
    make_arg("--channel", default="", help="of this one only"),
    make_arg("--query", default="", help="what the id or the name has in it"),
    JSON,
)
PLACES = {
    "peers": Verb(list_people, "list people", _FILTERS),
    "groups": Verb(list_groups, "list groups and rooms", _FILTERS),
    "self": Verb(list_selves, "who the agent is on each channel (of a gateway that runs)", _FILTERS),
}


def run_system(argv: list[str]) -> int:
    """0. Raises BadRequest, GatewayUnreachable."""
    asked = parse_verb("system", "Events and heartbeats: what programs tell the agent.", EVENTS, argv)
    settings = load_settings(dict(os.environ)).settings
    print(strip_controls(asked.run(settings, asked)))
    return 0


def _event(settings: Settings, asked: argparse.Namespace) -> str:
    if not asked.text.strip():
        raise BadRequest("what shall it be told?", fix='pal system event --text "the backup is done"')
    params = {
        "text": asked.text,
        "mode": asked.mode,
        **({"sessionKey": asked.session_key} if asked.session_key else {}),
    }
    call_gateway(settings, "wake", params)
    return "it is told now" if asked.mode == "now" else "it is told with its next turn"


def _heartbeat(settings: Settings, asked: argparse.Namespace) -> str:
    if asked.what == "last":
        last = call_gateway(settings, "last-heartbeat", {})
        return "no heartbeat yet" if last is None else "\n".join(f"{name:<12} {value}" for name, value in last.items())
    call_gateway(settings, "set-heartbeats", {"enabled": asked.what == "enable"})
    return f"heartbeats are {'on' if asked.what == 'enable' else 'off'}"


def _presence(settings: Settings, asked: argparse.Namespace) -> str:
    found = call_gateway(settings, "system-presence", {})
    if asked.json:
        return to_json(found, pretty=True)
    return "\n".join(
        f"{one.get('host') or '?'}  {one.get('mode')}  {one.get('version') or ''}".rstrip() for one in found
    )


EVENTS = {
    "event": Verb(
        _event,
        "tell a session something: now, or with its next turn",
        (
            make_arg("--text", required=True, help="the text"),
            make_arg(
                "--mode", choices=("now", "next-heartbeat"), default="next-heartbeat", help="when the agent hears of it"
            ),
            make_arg("--session-key", default="", help="session (default: the main one)"),
        ),
    ),
    "heartbeat": Verb(
        _heartbeat,
        "show the last heartbeat; switch heartbeats on or off",
        (make_arg("what", choices=("last", "enable", "disable")),),
    ),
    "presence": Verb(_presence, "list who is connected", (JSON,)),
}
