"""`pal why …`: why a run was as it was, from the store and the transcript (`services/why.py` has the words; `cache.py`
those about the prompt cache). `pal trace ID`: one message from its acceptance to its receipt. Reads only, beside a
gateway and without one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from palinurus.cli.args import CommandParser, read_session_key, to_json
from palinurus.cli.main import PARTS, load_part, main
from palinurus.cli.reach.elsewhere import find_elsewhere, refuse_elsewhere
from palinurus.cli.reach.gateway import call_gateway
from palinurus.cli.render import strip_controls
from palinurus.config.paths import find_home
from palinurus.config.settings import Settings
from palinurus.core.types.card import CARD, read_cards
from palinurus.errors import BadRequest, NotFound
from palinurus.services.why import TOPICS, RunFacts, collect_run_facts, describe_run, format_why
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
from palinurus.store.factory import StateReader, open_reader
from palinurus.store.port import InboxRow, TraceStep


def run_trace(argv: list[str]) -> int:
    """Print the timeline. Returns 0; raises NotFound when no message has that id, or several begin with it."""
    parser = CommandParser("trace", "Follow one message through the system.")
    parser.add_argument("id", nargs="?", default="", help="the message's id, or the beginning of it (the last one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    far = find_elsewhere(os.environ)
    row, steps = _ask_trace(far, args.id) if far is not None else _read_trace(args.id)
    print(to_json(describe_trace(row, steps)) if args.json else format_trace(row, steps))
    return 0


def _read_trace(ident: str) -> tuple[InboxRow, list[TraceStep]]:
    """From the store of this home."""
    with open_reader(find_home(os.environ)) as reader:
        row = reader.item(ident) if ident else next(iter(reader.items(limit=1)), None)
        if row is None and not ident:
            raise NotFound("no message has been accepted yet", fix='pal agent -m "hello"')
        if row is None:
            raise NotFound(f"no message, or more than one, has an id that begins with {ident!r}", fix=_recent(reader))
        return row, list_steps(reader.trace(row.id))


def _ask_trace(far: Settings, ident: str) -> tuple[InboxRow, list[TraceStep]]:
    """From the gateway elsewhere."""
    item = ident or _ask_why(far, "")["item"]
    told = call_gateway(far, "runs.trace", {"item": item})
    row = InboxRow(
        told["item"], "", told["sessionKey"], told["lane"], body=b"", at=told["acceptedAt"], state=told["state"],
        outcome=told["outcome"], note="", attempts=told["attempts"], absorbed_by=told["absorbedBy"] or "",
    )  # fmt: skip
    steps = [TraceStep(row.id, line["at"], line["kind"], _tell_step(line)) for line in told["timeline"]]
    return row, steps


def _tell_step(line: dict[str, Any]) -> str:
    if line["kind"] != "model":
        return str(line["detail"])
    return f"{line['detail']}, {line['ms']} ms, {line['input']} in, {line['output']} out"


def _ask_why(far: Settings, text: str) -> dict[str, Any]:
    """What the gateway elsewhere has on file about the message that is meant. Raises NotFound, BadRequest."""
    if text in LAST:
        rows = call_gateway(far, "sessions.list", {"limit": 1})["sessions"]
        if not rows:
            raise NotFound("no message has been accepted yet", fix="`pal chat` starts a conversation")
        where = {"sessionKey": rows[0]["key"]}
    else:
        try:
            found = call_gateway(far, "runs.trace", {"item": text})
            where = {"sessionKey": found["sessionKey"], "item": found["item"]}
        except BadRequest:  # no message is called so: perhaps a session is
            where = {"sessionKey": str(read_session_key(text))}
    told: dict[str, Any] = call_gateway(far, "chat.why", {**where, "facts": True})
    return told


def list_steps(written: Sequence[TraceStep]) -> list[TraceStep]:
    """What is shown: of a call's card only when its first word came, before the call (`pal why` has all)."""
    steps: list[TraceStep] = []
    for step in written:
        if step.what != CARD:
            steps.append(step)
            continue
        for card in read_cards([step.detail]):
            if card.first is not None:
                place = len(steps) - bool(steps and steps[-1].what == "model")
                told = f"of call {card.number}, {card.first} ms after it was asked for"
                steps.insert(place, TraceStep(step.item, card.at + card.first, "first word", told))
    return steps


def describe_trace(row: InboxRow, steps: list[TraceStep]) -> dict[str, Any]:
    """The whole trace as plain data."""
    return {
        "id": row.id,
        "session": row.session,
        "lane": row.lane,
        "state": row.state,
        "outcome": row.outcome,
        "note": row.note,
        "attempts": row.attempts,
        "absorbedBy": row.absorbed_by or None,
        "acceptedAt": row.at,
        "steps": [{"at": step.at, "what": step.what, "detail": step.detail} for step in steps],
    }


def format_trace(row: InboxRow, steps: list[TraceStep]) -> str:
    """The trace for people: a heading, then one line per step with the time since the message was accepted."""
    when = datetime.fromtimestamp(row.at / 1000).astimezone().isoformat(" ", "milliseconds")
    end = row.outcome or row.state
    head = [f"message  {row.id}", f"session  {row.session}  (lane {row.lane})", f"received {when}", f"state    {end}"]
    if row.absorbed_by:
        head[-1] += f" by {row.absorbed_by}: its answer is there (pal trace {row.absorbed_by})"
    width = max((len(step.what) for step in steps), default=0)
    lines = [f"{_since(step.at - row.at):>10}  {step.what:<{width}}  {_line(step.detail)}".rstrip() for step in steps]
    return "\n".join([*head, "", *lines])


def _since(ms: int) -> str:
    if ms < 0:
        return f"-{_since(-ms)}"  # the clock was set back meanwhile
    if ms < 1000:
        return f"+{ms} ms"
    if ms < 60_000:
        return f"+{ms / 1000:.2f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"+{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"+{minutes}:{seconds:02}"


def _line(text: str) -> str:
    """One printable line: control characters could move the reader's cursor."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= 200 else clean[:199] + "…"


def _recent(reader: StateReader) -> str:
    rows = reader.items(limit=3)
    return "the latest are " + ", ".join(row.id for row in rows) if rows else "no message has been accepted yet"


# What `pal why` answers that is no topic of a run, and the command that knows it.
ELSEWHERE = {
    "job": ("cron", "why"),
    "config": ("config", "explain"),
    "policy": ("policy", "explain"),
}
WHAT = (*(topic for topic in TOPICS if topic != "short"), "cache", *ELSEWHERE)
LAST = ("", "last")
RECENT = 50  # messages among which the last one is that is no command


def run_why(argv: list[str]) -> int:
    """Print the explanation. Returns 0; raises NotFound, BadRequest."""
    parser = CommandParser("why", "Explain what happened. `pal why` alone tells of the last message.")
    parser.add_argument("what", nargs="?", default="run", help=f"last, {', '.join(WHAT)}; or the id of a message")
    parser.add_argument(
        "name", nargs="*", help="a message's id, or a session (default: the last message); tool: NAME [ID]"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    if asked.what in ELSEWHERE:
        return main([*ELSEWHERE[asked.what], *asked.name, *(["--json"] if asked.json else [])])
    far = find_elsewhere(os.environ)
    if asked.what == "cache" and far is not None:
        raise refuse_elsewhere(far, "why cache", "pal why, which tells how much of a prompt was read from the cache")
    if asked.what == "cache":
        show: Any = load_part(PARTS["cache"])
        return int(show(asked.name[0] if asked.name else "", as_json=asked.json))
    topic, words = (asked.what, asked.name) if asked.what in TOPICS else ("run", [asked.what, *asked.name])
    tool = words.pop(0) if topic == "tool" and words else ""
    if len(words) > 1:
        raise BadRequest(f"{words[1]!r}: one message at a time", fix="`pal why --help`")
    text = words[0] if words else ""
    told = _ask_why(far, text) if far is not None else describe_run(_gather(find_home(os.environ), text))
    print(to_json(told) if asked.json else strip_controls(format_why(told, topic, tool)))
    return 0


def _gather(home: str, text: str) -> RunFacts:
    """All that is on file about the message that is meant. Raises NotFound."""
    with open_reader(home) as reader:
        row = _find_message(reader, text)
        ledger, steps = reader.list_usage(row.at, row.session), reader.trace(row.id)
        session = reader.session(row.session)
    path = SessionRecord.decode(session.data).path(session.agent) if session is not None else ""
    return collect_run_facts(row, steps, ledger, read_transcript(os.path.join(home, path)) if path else None)


def _find_message(reader: StateReader, text: str) -> InboxRow:
    """By id or its beginning, or the last one of a session, or the last one of all."""
    if text in LAST:
        rows = [row for row in reader.items(limit=RECENT) if row.lane != "control"]  # commands ask no model
        if not rows:
            raise NotFound("no message has been accepted yet", fix="`pal chat` starts a conversation")
        return rows[0]
    found = reader.item(text)
    if found is not None:
        return found
    try:
        rows = reader.items(limit=1, session=str(read_session_key(text)))
    except BadRequest:
        rows = []
    if not rows:
        told = f"no message, or more than one, begins with {text!r}, and no session or topic is called so"
        raise NotFound(told, fix=f"{_recent(reader)}; topics are {', '.join(WHAT)}")
    return rows[0]
