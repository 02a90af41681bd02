"""What a homeserver holds: one stream of events over all rooms, members, files, transaction ids. No network here.

A place in the stream is how many events there were ("s12"), and where there are keys, how many messages to our device
("s12.3").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ME = "@pal:fake"
ALICE, BOB = "@alice:fake", "@bob:fake"

MatrixJson = dict[str, Any]


def read_place(token: str, usual: int = 0) -> int:
    """The events before a place."""
    return int(token[1:].partition(".")[0]) if token else usual


class FakeMatrixState:
    """One homeserver."""

    def __init__(self) -> None:
        self.stream: list[MatrixJson] = []
        self.members: dict[str, dict[str, str]] = {}  # join or invite, by room and person
        self.names = {ME: "Pal", ALICE: "Alice", BOB: "Bob"}
        self.titles: dict[str, str] = {}
        self.direct: dict[str, list[str]] = {}
        self.media: dict[str, tuple[str, bytes]] = {}
        self.fetched = 0  # files that were asked for
        self.pinned: dict[str, list[str]] = {}
        self.typing: list[tuple[str, bool]] = []
        self._transactions: dict[str, str] = {}
        self._at = 1_767_225_600_000

    def room(self, room: str, *people: str, title: str = "") -> str:
        """A room with us and others in it."""
        self.members[room] = {ME: "join", **dict.fromkeys(people, "join")}
        if title:
            self.titles[room] = title
        return room

    def add(self, room: str, sender: str, kind: str, content: MatrixJson, **more: Any) -> MatrixJson:
        """Something happens in a room."""
        self._at += 1000
        event = {
            "type": kind, "room_id": room, "sender": sender, "content": content, "origin_server_ts": self._at,
            "event_id": f"${len(self.stream) + 1}:fake", **more,
        }  # fmt: skip
        self.stream.append(event)
        return event

    def member(self, room: str, who: str, how: str, by: str = "", **more: Any) -> MatrixJson:
        """Somebody is invited, comes or goes."""
        before = self.members.setdefault(room, {}).get(who)
        self.members[room][who] = how
        content = {"membership": how, **more}
        aside = {"unsigned": {"prev_content": {"membership": before}}} if before else {}
        return self.add(room, by or who, "m.room.member", content, state_key=who, **aside)

    def sync(self, since: str, limit: int) -> MatrixJson:
        """What happened since then; rooms we are not in only show that we are asked in."""
        start, now = read_place(since), len(self.stream)
        rooms: dict[str, dict[str, Any]] = {"join": {}, "invite": {}}
        for room in {event["room_id"] for event in self.stream[start:]}:
            mine = self.members.get(room, {}).get(ME)
            if mine == "invite":
                rooms["invite"][room] = {"invite_state": {"events": [e for e in self.stream if _asks(e, room)]}}
            elif mine == "join":
                rooms["join"][room] = {"timeline": self._timeline(room, start, limit)}
        told: MatrixJson = {"next_batch": f"s{now}", "rooms": rooms}
        if not since:
            told["account_data"] = {"events": [{"type": "m.direct", "content": self.direct}]}
        return told

    def _timeline(self, room: str, start: int, limit: int) -> MatrixJson:
        # To who came in just now the server shows what was before, as far as it fits.
        fresh = any(e["room_id"] == room and _joins(e) for e in self.stream[start:])
        places = [n for n, e in enumerate(self.stream) if e["room_id"] == room and (fresh or n >= start)]
        shown = places[-limit:]
        events, before = [self.stream[n] for n in shown], f"s{shown[0] if shown else start}"
        return {"events": events, "limited": len(places) > len(shown), "prev_batch": before}

    def messages(self, room: str, start: str, to: str, limit: int) -> MatrixJson:
        """Backwards from a place, to another one at most."""
        top, bottom = read_place(start, len(self.stream)), read_place(to)
        places = [n for n in range(top - 1, bottom - 1, -1) if self.stream[n]["room_id"] == room]
        page = places[:limit]
        told: MatrixJson = {"chunk": [self.stream[n] for n in page]}
        if len(places) > limit:
            told["end"] = f"s{page[-1]}"
        return told

    def once(self, transaction: str, make: Callable[[], MatrixJson]) -> str:
        """The event of a transaction: made the first time, the same again later."""
        if transaction not in self._transactions:
            self._transactions[transaction] = str(make()["event_id"])
        return self._transactions[transaction]

    def forget(self) -> None:
        """Transaction ids are not kept for ever."""
        self._transactions.clear()

    def event(self, ident: str) -> MatrixJson | None:
        return next((e for e in self.stream if e["event_id"] == ident), None)

    def redacted_ids(self) -> set[str]:
        return {e["redacts"] for e in self.stream if e["type"] == "m.room.redaction"}

    def edits(self) -> dict[str, MatrixJson]:
        """The newest content of events that were edited."""
        found: dict[str, MatrixJson] = {}
        for event in self.stream:
            about = event["content"].get("m.relates_to") or {}
            if about.get("rel_type") == "m.replace":
                found[about["event_id"]] = event["content"]["m.new_content"]
        return found


def _asks(event: MatrixJson, room: str) -> bool:
    return event["room_id"] == room and event["type"] == "m.room.member" and event.get("state_key") == ME


def _joins(event: MatrixJson) -> bool:
    mine = event["type"] == "m.room.member" and event.get("state_key") == ME
    return mine and event["content"]["membership"] == "join"
