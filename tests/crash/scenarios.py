"""What happens while the gateway is killed. Each scenario drives a `World` and says what must be true at the end.

REACHED says how often each crash point is passed at least in a scenario: the whole sweep kills at each of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import NamedTuple

from crash.harness import REFUSED, World
from palinurus.agent.tapes.tape import list_tapes, read_tape
from palinurus.clock import SystemClock
from palinurus.core.history.repair import is_valid_history
from palinurus.core.types.changes import ChangeRules
from palinurus.core.types.messages import ToolResult
from palinurus.errors import BadRequest
from palinurus.sessions.entries import CompactionEntry, MessageEntry
from palinurus.sessions.transcript import read_transcript
from palinurus.testing import home
from palinurus.tools.changes.archive import ChangeArchive
from palinurus.tools.changes.undo import FileRestorer


class Scenario(NamedTuple):
    drive: Callable[[World], Awaitable[None]]
    expect: Callable[[World, str], list[str]]
    before: str = ""  # a crash that comes first
    defaults: dict | None = None  # agents.defaults of its world
    config: dict | None = None  # the rest of its config


def differs(what, got, wanted):
    return [] if got == wanted else [f"{what}: {got!r} instead of {wanted!r}"]


async def plain(world):
    await world.ask("SAY Hello, how are you today? I have been thinking of the sea.", key="k1")


def plain_told(world, _point):
    return differs("answer", world.answers.get("k1"), "Hello, how are you today? I have been thinking of the sea.")


EFFECT = "TOOL exec " + json.dumps({"command": "echo did >> effect.txt"})
READ = "TOOL read " + json.dumps({"path": "effect.txt"})


async def tool(world):
    await world.ask(f"{EFFECT}\n{READ}\nSAY All done, as you wished.", key="k1")


def tool_told(world, point):
    """The effect never happens twice. It may be missing only where nobody can know whether it had begun."""
    wrong = differs("answer", world.answers.get("k1"), "All done, as you wished.")
    count = world.read("effect.txt").count("did")
    unknown = point.startswith(("intent.after", "tool.during", "journal."))
    if count > 1 or (count == 0 and not unknown):
        wrong.append(f"the effect happened {count} times")
    return wrong


async def queue(world):
    """Three messages for one session; two wait while the first is answered slowly."""
    first = asyncio.ensure_future(world.ask("SLOW 10\nSAY one, after a while and slowly", key="k1"))
    await asyncio.sleep(0.1)
    await asyncio.gather(first, world.ask("SAY two", key="k2"), world.ask("SAY three", key="k3"))


def queue_told(world, _point):
    got = [world.answers.get(key) for key in ("k1", "k2", "k3")]
    return differs("answers", got, ["one, after a while and slowly", "two", "three"])


async def stream(world):
    await world.ask("WORDS 40\nSLOW 20", key="k1", stream=True)  # a busy gateway reads several pieces as one


def stream_told(world, _point):
    return differs("answer", world.answers.get("k1"), " ".join(f"w{n}" for n in range(40)))


async def channels(world):
    """One session written to from two channels, and a second one."""
    world.tell("m1", "SAY spooled answer to you")
    world.tell("m2", f"{EFFECT}\nSAY effect over the spool", to="other")
    await asyncio.gather(
        world.ask("SAY over http in main", key="k1"),
        world.ask("SAY over http elsewhere", key="k2", session="elsewhere"),
    )


def channels_told(world, _point):
    """Each person gets the answer to their own question, where they asked it."""
    wrong = differs("k1", world.answers.get("k1"), "over http in main")
    wrong += differs("k2", world.answers.get("k2"), "over http elsewhere")
    wrong += differs("m1", world.screen(), "spooled answer to you")
    wrong += differs("m2", world.screen("other"), "effect over the spool")
    count = world.read("effect.txt").count("did")
    return wrong if count <= 1 else [*wrong, f"the effect happened {count} times"]


async def steer(world):
    """One person writes on while the first message is answered: the rest becomes part of that run, or follows it."""
    world.tell("m1", f"{EFFECT}\nSLOW 10\nSAY the first of three answers")
    async with asyncio.timeout(60):
        while not (world.dead or world.read("effect.txt")):
            await asyncio.sleep(0.01)
    world.tell("m2", "SAY the second of three answers")
    world.tell("m3", "SAY the third of three answers")


def steer_told(world, _point):
    """Who writes three times in a row gets at least the answer to the last."""
    count = world.read("effect.txt").count("did")
    wrong = [] if count <= 1 else [f"the effect happened {count} times"]
    return wrong if "the third of three" in world.screen() else [*wrong, f"the screen shows {world.screen()!r}"]


FILLING = "the lamps along the harbour were lit before the generator failed\n" * 60
RULE = "Never sell the lighthouse LH-4471."
COMPACTING = {
    "compaction": {
        "maxActiveTranscriptBytes": 6000,
        "keepRecentTokens": 500,
        "memoryFlush": {"prompt": "TOOL note " + json.dumps({"text": "The user owns a lighthouse."})},
    }
}


WRITE = "TOOL write " + json.dumps({"path": "mended.txt", "content": "mended"})


async def compact(world):
    """The second turn does not fit beside the first: notes, a summary, then the answer, which uses a tool."""
    await world.ask(f"SAY The lamps were lit along the harbour.\n{RULE}\n{FILLING}", key="k1")
    await world.ask(f"{WRITE}\nSAY The generator was mended.\n{FILLING}", key="k2")
    await world.ask("SAY The harbour is quiet.", key="k3")


def compact_told(world, point):
    """The notes are there once, the summary counts, what must be kept is in it, every message is still on file."""
    wrong = differs("k1", world.answers.get("k1"), "The lamps were lit along the harbour.")
    wrong += differs("k2", world.answers.get("k2"), "The generator was mended.")
    wrong += differs("k3", world.answers.get("k3"), "The harbour is quiet.")
    days = glob.glob(os.path.join(world.work, "memory", "*.md"))
    notes = [world.read(os.path.relpath(day, world.work)) for day in days]
    wrong += differs("notes", notes, ["The user owns a lighthouse.\n"])
    (file,) = glob.glob(os.path.join(world.home, "agents", "main", "sessions", "*.jsonl"))
    transcript = read_transcript(file)
    made = [e for e in transcript.entries if isinstance(e, CompactionEntry)]
    wrong += [] if made else ["nothing was compacted"]
    wrong += [f"{e.id} lost the rule" for e in made if RULE not in e.summary]
    said = sum(isinstance(e, MessageEntry) for e in transcript.entries)
    wrong += [] if said >= 8 else [f"only {said} messages are on file"]
    wrong += [] if made and transcript.messages()[0].text.startswith("What was said before") else ["no summary is seen"]
    wrong += [] if is_valid_history(transcript.messages()) else ["the conversation is not valid"]
    written = world.read("mended.txt")
    unknown = point.startswith(("intent.after", "tool.during", "journal."))
    return wrong if written == "mended" or (not written and unknown) else [*wrong, f"the tool wrote {written!r}"]


CHILD = f"{EFFECT}\nSAY SAY the parent passes this on"
DEEP = f"{EFFECT}\nSAY SAY SAY the parent passes this on"
BOSS = "TOOL sessions_spawn " + json.dumps({"task": DEEP}) + "\nSAY the boss waits"
FAMILY = {"subagents": {"maxSpawnDepth": 2}, "sandbox": {"contain": "off"}}


async def child(world):
    """A sub-agent with an effect; what it reports makes its parent speak."""
    await world.ask("TOOL sessions_spawn " + json.dumps({"task": CHILD}) + "\nSAY started", key="k1")


async def nested(world):
    """A sub-agent that starts one of its own, and ends when that has reported."""
    await world.ask("TOOL sessions_spawn " + json.dumps({"task": BOSS}) + "\nSAY started", key="k1")


def interrupted(world):
    """Does a transcript say of a call of sessions_spawn that nobody knows what became of it?"""
    files = glob.glob(os.path.join(world.home, "agents", "main", "sessions", "*.jsonl"))
    results = [m for file in files for m in read_transcript(file).messages() if isinstance(m, ToolResult)]
    return any(m.toolName == "sessions_spawn" and m.isError and "unknown" in m.text for m in results)


def family_told(depth):
    def told(world, point):
        """Whoever was started was told of once, in a turn that was answered; an effect never happens twice."""
        wrong = differs("k1", world.answers.get("k1"), "started")
        rows = home.read_snapshot(world.home).inbox
        tasks = [row for row in rows if row["dedupe"].startswith("subagent/") and row["dedupe"].endswith(":0")]
        orders = [row for row in tasks if "/child:" not in row["dedupe"]]
        results = [row for row in rows if "/child:" in row["dedupe"]]
        if len(orders) != depth and not (len(orders) < depth and interrupted(world)):
            wrong.append(f"{len(orders)} sub-agents were started")
        wrong += differs("results", len(results), len(orders))
        wrong += [f"{row['dedupe']} ended {row['outcome']}" for row in results if row["outcome"] != "answered"]
        if len(orders) == depth:
            last = [row["note"] for row in results if row["session"] == "agent:main:main"]
            wrong += differs("the parent", last, ["the parent passes this on"])
        count = world.read("effect.txt").count("did")
        return wrong if count <= 1 else [*wrong, f"the effect happened {count} times"]

    return told


LEFT = "TOOL exec " + json.dumps({"command": "exec sleep 86399", "background": True})


async def tended(world):
    """A sub-agent leaves a command running."""
    await world.ask("TOOL sessions_spawn " + json.dumps({"task": f"{LEFT}\nSAY it runs"}) + "\nSAY started", key="k1")


def tended_told(world, point):
    """Told once, and nothing of it is left."""
    wrong = differs("k1", world.answers.get("k1"), "started")
    rows = [row["dedupe"] for row in home.read_snapshot(world.home).inbox if "/child:" in row["dedupe"]]
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            left += [pid] if os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(world.work) else []
    wrong += [] if len(rows) == 1 or (not rows and interrupted(world)) else [f"{len(rows)} results were told"]
    return wrong + differs("processes left", left, [])


async def job(world):
    """A reminder in a moment, asked for in one chat and told in another."""
    soon = SystemClock().now() + 300
    asked = {
        "name": "tea",
        "schedule": {"kind": "at", "at": soon},
        "payload": {"kind": "agentTurn", "message": "\nSAY tea time"},
        "delivery": {"mode": "announce", "channel": "spool", "to": "chat"},
    }
    words = "Remind me of tea in a moment, in the other chat."  # or the first job of a conversation is asked about
    await world.ask(f"{words}\nTOOL cron " + json.dumps({"action": "add", "job": asked}) + "\nSAY set up", key="k1")


def job_told(world, _point):
    """Told once; the slot has one message."""
    fires = [row["dedupe"] for row in home.read_snapshot(world.home).inbox if "/cron:" in row["dedupe"]]
    wrong = differs("k1", world.answers.get("k1"), "set up") + differs("fires", len(fires), 1)
    return wrong + differs("the chat", world.screen(), "tea time")


BEATING = {"heartbeat": {"every": "1s", "prompt": "SAY HEARTBEAT_OK"}}


async def beat(world):
    """A heartbeat that finds nothing, after a conversation."""
    await world.ask("SAY hello", key="k1")
    with open(os.path.join(world.work, "HEARTBEAT.md"), "w") as file:
        file.write("Look after the garden.\n")
    async with asyncio.timeout(60):
        while not world.dead and not any(beats(world, done=True)):
            await asyncio.sleep(0.05)


def beats(world, *, done):
    rows = home.read_snapshot(world.home).inbox
    return [row for row in rows if "/heartbeat:" in row["dedupe"] and (not done or row["state"] == "done")]


def beat_told(world, _point):
    """It ran once, or again in its time after it had ended; the conversation goes on as if it had not."""
    wrong = differs("k1", world.answers.get("k1"), "hello")
    (file,) = glob.glob(os.path.join(world.home, "agents", "main", "sessions", "*.jsonl"))
    wrong += differs("the conversation", [m.text for m in read_transcript(file).messages()], ["SAY hello", "hello"])
    ran = beats(world, done=False)
    wrong += [f"beat {row['id']} ended {row['outcome']}" for row in ran if row["outcome"] != "silent"]
    early = [b for a, b in pairwise(ran) if b["at"] < max(a["settled"], a["at"] + 900)]  # one is due each second
    return wrong + [f"{len(ran)} beats ran: {row['id']} before the one before it had ended" for row in early]


STUBBORN = "trap '' TERM INT HUP; echo did >> effect.txt; sleep 2; sleep 2; sleep 2"


async def begin_long(world, asked=f"{EFFECT}\nSLOW 40\nWORDS 200"):
    """A long answer, of which the first tool has done its work."""
    world.tell("m1", asked)
    async with asyncio.timeout(60):
        while not (world.dead or world.read("effect.txt")):
            await asyncio.sleep(0.01)


async def halt(world):
    """A long answer is stopped, and the stop is acknowledged."""
    await begin_long(world)
    await world.stop()


async def abort(world):
    """The same from a client, over WebSocket, while a command runs that takes its time to end: so the run's own end is
    on disk well after the stop."""
    await begin_long(world, "TOOL exec " + json.dumps({"command": STUBBORN}) + "\nWORDS 200")
    done = await world.call("chat.abort", sessionKey="main")
    world.stopped = bool(done and done["aborted"])


async def stop(world):
    """The same by a word in the chat."""
    await begin_long(world)
    if world.dead:
        return  # else it is the first that the next start reads, and nothing has begun
    world.tell("m2", "/stop")
    async with asyncio.timeout(60):
        while not (world.dead or "aborted" in world.screen()):
            await asyncio.sleep(0.01)
    world.stopped = "aborted" in world.screen()


def halt_told(world, point):
    """Once it is on disk it ends aborted, whenever the gateway died; the person is told, and sees no whole answer."""
    (row,) = (row for row in home.read_snapshot(world.home).inbox if row["dedupe"].endswith("/m1"))
    wrong = differs("effects", world.read("effect.txt").count("did"), 1)
    if point and not world.stopped and not point.startswith("dismiss.after"):
        return wrong  # nobody was told that it is stopped
    wrong += [f"m1 was stopped but {row['outcome']}"] if row["outcome"] != "aborted" else []
    wrong += ["m1 was stopped but shown whole"] if "w199" in world.screen() else []
    return wrong if world.screen() else [*wrong, "nobody was told"]


def list_transcripts(world):
    """The sessions that are there, and what is left of those that are not: (live, put away)."""
    names = os.listdir(os.path.join(world.home, "agents", "main", "sessions"))
    live = [name for name in names if name.endswith(".jsonl")]
    return live, [name for name in names if ".jsonl.deleted" in name]


async def delete(world):
    """A session is deleted after a conversation in it, and in another."""
    await world.ask("SAY this one stays", key="k1")
    await world.ask(f"{EFFECT}\nSAY this one goes", key="k2", session="gone")
    done = await world.call("sessions.delete", key="agent:main:gone")
    world.dropped = bool(done and done["ok"])


def delete_told(world, point):
    wrong = differs("answers", [world.answers.get(key) for key in ("k1", "k2")], ["this one stays", "this one goes"])
    count = world.read("effect.txt").count("did")
    return wrong + gone_told(world, point) + ([] if count <= 1 else [f"the effect happened {count} times"])


def gone_told(world, point):
    """Nothing of it returns once anybody was told, or it is on disk; nothing of it is thrown away; the other stays."""
    with contextlib.closing(sqlite3.connect(os.path.join(world.home, "state.db"))) as conn:
        keys = [row[0] for row in conn.execute("SELECT key FROM sessions ORDER BY key")]
    live, away = list_transcripts(world)
    if world.dropped or point.startswith("drop.after"):
        return differs("sessions", keys, ["agent:main:main"]) + differs("files", (len(live), len(away)), (1, 1))
    whole = "agent:main:main" in keys and len(live) + len(away) == 2
    return [] if whole else [f"of {keys} there is {live} and {away}"]


async def prune(world):
    """Who tidies up loses what has been quiet for a second."""
    await world.ask("SAY the quiet one", key="k1", session="gone")
    await asyncio.sleep(1.2)
    await world.ask("SAY the main one", key="k2")
    done = await world.call("sessions.cleanup")
    world.dropped = bool(done and done["actions"])


def prune_told(world, point):
    """Once somebody was told it is gone for good."""
    wrong = differs("answers", [world.answers.get(key) for key in ("k1", "k2")], ["the quiet one", "the main one"])
    return wrong + gone_told(world, point)


PRICED = {"id": "model", "name": "model", "input": ["text"], "contextWindow": 1_000_000, "maxTokens": 10}
PRICES = {"input": 0, "output": 1_000_000, "cacheRead": 0, "cacheWrite": 0}  # a dollar a token, of which five are said
SPENDING = {
    "models": {"providers": {"fake": {"models": [{**PRICED, "cost": PRICES}]}}},
    "budgets": {"session": {"hardUsd": 22}},
}


async def budget(world):
    """More messages than may be paid for."""
    for n in range(1, 6):
        await world.ask(f"SAY answer {n}", key=f"k{n}")


def budget_told(world, _point):
    """What was spent is known after the crash, too: each is answered or refused, and no more is spent than may be."""
    with contextlib.closing(sqlite3.connect(os.path.join(world.home, "state.db"))) as conn:
        (spent,) = conn.execute("SELECT coalesce(sum(cost), 0) FROM spent").fetchone()
    said = [world.answers.get(f"k{n}") for n in range(1, 6)]
    paid = [f"answer {n}" for n in range(1, 6) if said[n - 1] != REFUSED]
    wrong = differs("answers", said, paid + [REFUSED] * (5 - len(paid)))
    wrong += [] if 2 <= len(paid) <= 3 else [f"{len(paid)} were answered"]  # a call that a crash cut off may be paid
    return (
        wrong if 5 * len(paid) <= spent <= 22 else [*wrong, f"{len(paid)} answers, and {spent} dollars on the ledger"]
    )


LETTER = "TOOL message " + json.dumps({"message": "a letter for you", "target": "spool:chat"})


async def letter(world):
    """Asked for in one chat, sent to another with the message tool."""
    await world.ask(f"{LETTER}\nSAY it is sent", key="k1")


def letter_told(world, point):
    """Read once. It may be missing only where nobody can know whether the tool had begun."""
    wrong = differs("k1", world.answers.get("k1"), "it is sent")
    unknown = point.startswith(("intent.after", "tool.during", "journal."))
    return wrong + ([] if unknown and not world.screen() else differs("the chat", world.screen(), "a letter for you"))


NOTES, OLD = "notes.txt", "old words\n"
REWRITE = "TOOL write " + json.dumps({"path": NOTES, "content": "new words\n"})


async def change(world):
    """A run that changes files, with a tool and with a command, and is recorded."""
    with open(os.path.join(world.work, NOTES), "w") as handle:
        handle.write(OLD)
    await world.ask(f"{REWRITE}\n{EFFECT}\nSAY both are changed", key="k1")


def change_told(world, point):
    """Whatever was changed is known as the run's and can be put back; a tape is whole or not there."""
    wrong = differs("k1", world.answers.get("k1"), "both are changed")
    archive = ChangeArchive(world.home)
    for item in archive.list_runs():
        try:
            FileRestorer(archive, ChangeRules()).restore(archive.load(item))
        except BadRequest as exc:
            wrong.append(f"what {item} changed cannot be put back: {exc.message}")
    wrong += differs("files that were put back", (world.read(NOTES), world.read("effect.txt")), (OLD, ""))
    wrong += [f"a call goes on for ever: {name}" for name in os.listdir(os.path.join(world.home, "changes", "open"))]
    tapes = list_tapes(world.home)
    wrong += [f"half a tape of {name}" for name in tapes if not read_tape(world.home, name).end.lines]
    if not tapes and not point.startswith(("tape.", "settle.after", "journal.")):
        wrong.append("the tape of the run is missing")
    return wrong


SCENARIOS: dict[str, Scenario] = {
    "change": Scenario(change, change_told, config={"record": {"enabled": True}}),
    "letter": Scenario(letter, letter_told),
    "halt": Scenario(halt, halt_told),
    "abort": Scenario(abort, halt_told),
    "stop": Scenario(stop, halt_told),
    "delete": Scenario(delete, delete_told),
    "prune": Scenario(prune, prune_told, config={"session": {"maintenance": {"pruneAfter": "1s"}}}),
    "budget": Scenario(budget, budget_told, config=SPENDING),
    "beat": Scenario(beat, beat_told, defaults=BEATING),
    "job": Scenario(job, job_told),
    "tended": Scenario(tended, tended_told, defaults=FAMILY),
    "child": Scenario(child, family_told(1), defaults=FAMILY),
    "nested": Scenario(nested, family_told(2), defaults=FAMILY),
    "plain": Scenario(plain, plain_told),
    "tool": Scenario(tool, tool_told),
    "queue": Scenario(queue, queue_told),
    "stream": Scenario(stream, stream_told),
    "channels": Scenario(channels, channels_told),
    "steer": Scenario(steer, steer_told),
    "restart": Scenario(tool, tool_told, before="tool.after:1"),
    "compact": Scenario(compact, compact_told, defaults=COMPACTING),
}

# How often a point is passed at least. Found by running; a number that is too high fails the sweep.
TURN = ("accept.before", "accept.after", "claim.after", "prepare.after", "model.first", "model.done")
SETTLE = ("settle.before", "settle.after")
ACT = ("tool.during", "tool.after", "result.after")
FILE = ("journal.before", "journal.after")
SEND = ("outbox.claimed", "outbox.sent", "outbox.receipt")


def times(count, *groups):
    return {name: count for group in groups for name in group}


BORN = ("child.recorded", "child.accepted", "child.ended", "child.announced")
REACHED: dict[str, dict[str, int]] = {
    "halt": times(1, ("dismiss.before", "dismiss.after")) | times(1, SETTLE),
    "abort": times(1, ("dismiss.before", "dismiss.after")) | times(1, SETTLE),
    "stop": times(1, ("dismiss.before", "dismiss.after"))
    | times(2, SETTLE)
    | times(2, ("accept.after", "claim.after")),
    "delete": times(1, ("drop.before", "drop.after")) | times(2, SETTLE, FILE),
    "prune": times(1, ("drop.before", "drop.after")) | times(2, SETTLE),
    "budget": times(3, TURN, SETTLE) | times(5, ("accept.after", "settle.after")),
    "change": times(2, ACT, ("change.before", "change.after"))
    | times(1, ("intent.before", "intent.after", "tape.before", "tape.middle"), SETTLE)
    | times(2, FILE),
    "letter": times(1, TURN, SETTLE, ACT, SEND, ("intent.before", "intent.after")) | {"model.done": 2},
    "beat": times(2, TURN, SETTLE, FILE),
    "job": times(2, TURN, SETTLE) | times(1, SEND, ("cron.pending", "cron.accepted", "cron.ended")),
    "child": times(3, TURN, SETTLE, FILE) | times(2, ACT, ("intent.before", "intent.after")) | times(1, BORN),
    "tended": times(1, BORN) | {"tool.after": 2, "result.after": 2},
    "nested": times(5, TURN, SETTLE, FILE) | times(3, ACT, ("intent.before", "intent.after")) | times(2, BORN),
    "plain": times(1, TURN, SETTLE, FILE),
    "tool": times(1, TURN, SETTLE, ("intent.before", "intent.after"))
    | times(2, ACT)
    | times(4, FILE)
    | {"model.done": 3},
    "queue": times(3, TURN, SETTLE, FILE),
    "stream": times(1, TURN, SETTLE, FILE, ("model.middle",)),
    "channels": times(4, TURN, SETTLE, FILE)
    | times(2, SEND, ("accept.acked",))
    | times(1, ACT, ("intent.before", "intent.after")),
    "steer": times(1, TURN, SETTLE, ACT, SEND, ("intent.before", "intent.after"))
    | {"accept.before": 3, "accept.after": 3, "accept.acked": 3, "model.done": 2},
    "compact": times(3, TURN, SETTLE, FILE) | times(1, ACT, ("flush.after", "compact.before", "compact.after")),
    "restart": times(1, TURN, SETTLE, ACT, ("recover.before", "recover.after")) | times(2, FILE) | {"model.done": 2},
}
