"""What a fleet did, judged from its rows and from what people, platforms and files saw. Pure: it knows no process, no
clock and no database, so what it says can be tried on stories made by hand (test_history.py).

Each rule is a row of RULES: its name is a column of the table that `make torture PART=fleet` prints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from palinurus.testing.home import HomeSnapshot, check_snapshot

TOKEN = re.compile(r"\b([a-z]+\d{5})\b")
ENDED = ("answered", "silent", "failed", "refused", "aborted", "dead")
TAKEOVER, QUICK = 2000, 1500  # milliseconds beyond a lease; for a stop to reach what runs, beyond a third of one


class Ack(NamedTuple):
    """Somebody was told that a message is accepted; `at` by the judge's clock, milliseconds."""

    token: str
    session: str
    at: int


class StopAck(NamedTuple):
    """Somebody was told that this message is stopped."""

    token: str
    at: int


class Mark(NamedTuple):
    """A line in the file that commands write to."""

    token: str
    at: int


class Death(NamedTuple):
    """A node was killed, or stopped for longer than its lease."""

    node: str
    at: int


class FleetStory(msgspec.Struct, frozen=True):
    """Rows are dicts with the names of the tables. Times are milliseconds of one machine's clock."""

    lease: int
    rows: HomeSnapshot
    steps: tuple[dict[str, Any], ...] = ()  # item, at, what, detail; in the order in which they were written
    acks: tuple[Ack, ...] = ()
    stops: tuple[StopAck, ...] = ()
    marks: tuple[Mark, ...] = ()
    deaths: tuple[Death, ...] = ()
    shown: tuple[str, ...] = ()  # what a platform shows to people
    spent: tuple[tuple[str, int], ...] = ()  # agent and tokens of each call in the ledger
    limits: tuple[tuple[str, int], ...] = ()  # agents that may not use more than so many
    nodes: int = 3
    calm: bool = True  # the database was there all the time: how long things took says something


class Attempt(NamedTuple):
    """One run of a message, from its claim to its end (0: none yet); `first` and `last` are the places of its steps."""

    item: str
    session: str
    start: int
    end: int
    how: str
    first: int
    last: int


def judge_fleet(story: FleetStory) -> dict[str, list[str]]:
    """What is wrong, by rule; no rule is missing."""
    return {name: list(rule(story)) for name, rule in RULES.items()}


def find_slowest_takeover(story: FleetStory) -> int:
    """Milliseconds from a node's death until all that it ran waits for another."""
    return max((taken - death.at for death, taken in _list_takeovers(story)), default=0)


def list_attempts(story: FleetStory) -> list[Attempt]:
    """Every run, in the order of the claims, from the steps."""
    sessions = {row["id"]: row["session"] for row in story.rows.inbox}
    going: dict[str, Attempt] = {}
    found: list[Attempt] = []
    for place, step in enumerate(story.steps):
        item, what = step["item"], step["what"]
        if what == "claimed":
            going[item] = Attempt(item, sessions.get(item, ""), step["at"], 0, "", place, len(story.steps))
        elif _ends(what) and item in going:
            found.append(going.pop(item)._replace(end=step["at"], how=what, last=place))
    return sorted((*found, *going.values()), key=lambda one: one.first)


def _ends(what: str) -> bool:
    return what in ("settled", "yielded", "interrupted", "nobody ran it") or _tells_loss(what)


def _tells_loss(what: str) -> bool:
    return what.startswith("node ") and what.endswith(" lost")


def _by_token(story: FleetStory) -> dict[str, list[dict[str, Any]]]:
    """The rows that a person's message became: of those that other messages made, the token is not in the key."""
    found: dict[str, list[dict[str, Any]]] = {ack.token: [] for ack in story.acks}
    for row in story.rows.inbox:
        for token in set(TOKEN.findall(row["dedupe"])) & found.keys():
            found[token].append(row)
    return found


def find_lost(story: FleetStory) -> Iterator[str]:
    """Each acknowledged message ends."""
    rows = {row["id"]: row for row in story.rows.inbox}
    for token, found in _by_token(story).items():
        if not found:
            yield f"{token} was acknowledged and is nowhere"
        for row in found:
            last = row
            while last.get("absorbed_by") in rows:
                last = rows[last["absorbed_by"]]
            if last["state"] != "done" or last["outcome"] not in ENDED:
                yield f"{token} is still {last['state']}"


def find_doubled(story: FleetStory) -> Iterator[str]:
    """One row for a key, one end for a row, one effect for a command, one message for a reply."""
    for item, count in Counter(step["item"] for step in story.steps if step["what"] == "settled").items():
        if count > 1:
            yield f"message {item} ended {count} times"
    for token, found in _by_token(story).items():
        if len(found) > 1:
            yield f"{token} was accepted {len(found)} times"
    for token, count in Counter(mark.token for mark in story.marks).items():
        if count > 1:
            yield f"the command of {token} did its work {count} times"
    unsure = {row["item"] for row in story.rows.outbox if "unknown" in row.get("error", "") or row["attempts"] > 1}
    tokens = {row["id"]: token for token, found in _by_token(story).items() for row in found}
    doubtful = {tokens.get(item, "") for item in unsure}
    for token, count in Counter(word for text in story.shown for word in set(TOKEN.findall(text))).items():
        if count > (2 if token in doubtful else 1):
            yield f"the reply to {token} was shown {count} times"


def find_overlap(story: FleetStory) -> Iterator[str]:
    """Of one session one run at a time; a command does its work while its message runs, and at no other time."""
    by_session: dict[str, list[Attempt]] = {}
    for one in list_attempts(story):
        by_session.setdefault(one.session, []).append(one)
    for session, runs in by_session.items():
        for before, after in pairwise(runs):
            if before.last > after.first:
                yield f"{session}: {after.item} began while {before.item} ran"
    hosts = {row["id"]: row.get("absorbed_by") or row["id"] for row in story.rows.inbox}
    runs_by_item: dict[str, list[Attempt]] = {}
    for one in list_attempts(story):
        runs_by_item.setdefault(one.item, []).append(one)
    # a message that became part of a run does its work in that
    runs_of = {
        token: [run for row in found for item in {row["id"], hosts[row["id"]]} for run in runs_by_item.get(item, ())]
        for token, found in _by_token(story).items()
    }
    for mark in story.marks:
        token, _, where = mark.token.partition(".")
        runs = runs_of.get(token, []) if where != "child" else []  # whose run is another session's
        if runs and not any(one.start - 50 <= mark.at <= (one.end or mark.at) + 250 for one in runs):
            yield f"the command of {token} went on at {mark.at}, when nobody ran it ({_spans(runs)})"


def _spans(runs: Iterable[Attempt]) -> str:
    return ", ".join(f"{one.start}-{one.end} {one.how}" for one in runs)


def find_disorder(story: FleetStory) -> Iterator[str]:
    """Messages of a session are stored, begun and written down in the order in which they were acknowledged."""
    place = {row["id"]: number for number, row in enumerate(story.rows.inbox)}
    first = {token: place[found[0]["id"]] for token, found in _by_token(story).items() if found}
    last: dict[str, tuple[int, str]] = {}
    for ack in sorted(story.acks, key=lambda ack: ack.token):
        if ack.token in first:
            before = last.get(ack.session, (-1, ""))
            if first[ack.token] < before[0]:
                yield f"{ack.session}: {ack.token} is stored before {before[1]}"
            last[ack.session] = (first[ack.token], ack.token)
    began: dict[str, str] = {}
    control = {row["id"] for row in story.rows.inbox if row.get("lane") == "control"}
    for one in list_attempts(story):
        before_item = began.get(one.session)
        if one.item in control:
            continue
        if before_item is not None and place.get(one.item, 0) < place.get(before_item, 0):
            yield f"{one.session}: {one.item} began after {before_item}, which came later"
        began[one.session] = one.item


def find_unstopped(story: FleetStory) -> Iterator[str]:
    """After an acknowledged stop: the message ends as stopped, says nothing more, and soon does nothing more."""
    rows, stopped = _by_token(story), {}
    for stop in story.stops:
        for row in rows.get(stop.token, ()):
            if not row.get("absorbed_by"):
                stopped[row["id"]] = stop
                if row["outcome"] != "aborted":
                    yield f"{stop.token} was stopped and is {row['outcome'] or row['state']}"
    for step in story.steps:
        stop = stopped.get(step["item"])
        if stop is not None and step["what"] == "reply queued" and step["at"] > stop.at:
            yield f"{stop.token} was stopped and said something {step['at'] - stop.at} ms later"
    late = {stop.token: stop.at + story.lease // 3 + QUICK for stop in story.stops}
    for mark in story.marks:
        token = mark.token.partition(".")[0]
        if token in late and mark.at > late[token]:
            yield f"{token} was stopped and its command did its work {mark.at - late[token]} ms too late"


def find_late(story: FleetStory) -> Iterator[str]:
    """What a dead node ran waits for others within its lease and two seconds; what waits in a free session starts."""
    if not story.calm:
        return
    for death, taken in _list_takeovers(story):
        if taken - death.at > story.lease + TAKEOVER:
            yield f"what {death.node} ran was taken over after {(taken - death.at) / 1000:.1f} s"
    rows = _by_token(story)
    starts: dict[str, int] = {}
    free: dict[str, int] = {}
    waits: dict[str, int] = {ack.token: ack.at for ack in story.acks}
    began = {found[0]["id"]: token for token, found in rows.items() if found}
    for one in list_attempts(story):
        if one.item not in starts:
            starts[one.item] = one.start
            since = max(waits.get(began.get(one.item, ""), one.start), free.get(one.session, 0))
            if one.start - since > story.lease + TAKEOVER:
                yield f"{began.get(one.item, one.item)} waited {(one.start - since) / 1000:.1f} s in a free session"
        free[one.session] = max(free.get(one.session, 0), one.end)


def find_overspent(story: FleetStory) -> Iterator[str]:
    """A budget is overstepped by one call of each node at most, and one for each run of its agent that was cut off: its
    call may be written down, and nobody lived to tell the others."""
    cut = [one.session.split(":") for one in list_attempts(story) if _tells_loss(one.how)]
    lost = Counter(key[1] for key in cut if len(key) > 1)
    for agent, most in story.limits:
        calls = [used for name, used in story.spent if name == agent]
        if calls and sum(calls) > most + (story.nodes + lost[agent]) * max(calls):
            yield f"{agent} used {sum(calls)} of {most} tokens in {len(calls)} calls"


def _list_takeovers(story: FleetStory) -> Iterator[tuple[Death, int]]:
    """Each death, and when the last message that it cut off was given to others."""
    told = [step for step in story.steps if _tells_loss(step["what"]) and step["detail"].startswith("attempt")]
    deaths = sorted(story.deaths, key=lambda death: death.at)
    for number, death in enumerate(deaths):
        until = next((one.at for one in deaths[number + 1 :] if one.node == death.node), death.at + 10 * story.lease)
        mine = [s["at"] for s in told if s["what"] == f"node {death.node} lost" and death.at <= s["at"] < until]
        if mine:
            yield death, max(mine)


def find_broken(story: FleetStory) -> Iterator[str]:
    """Everything else that the checker of homes knows: transcripts, replies, ends with reasons."""
    yield from check_snapshot(story.rows)


SESSIONS = {"telegram": ":telegram:", "jobs": ":cron:", "children": ":subagent:"}  # of a load, beside those named so


def find_whose(text: str, story: FleetStory, loads: Iterable[str]) -> str:
    """Of which of several loads a finding tells: by the name of its session, its message or its token. "": of none."""
    told, seen = set(TOKEN.findall(text)), text
    for row in story.rows.inbox:
        if row["id"] in text or told & set(TOKEN.findall(row["dedupe"])):
            seen += f" {row['session']}"
    return next((load for load in loads if f"-{load}" in seen or SESSIONS.get(load, "\0") in seen), "")


RULES: dict[str, Callable[[FleetStory], Iterator[str]]] = {
    "lost": find_lost,
    "doubled": find_doubled,
    "overlap": find_overlap,
    "out of order": find_disorder,
    "after a stop": find_unstopped,
    "late": find_late,
    "overspent": find_overspent,
    "otherwise": find_broken,
}
