"""What people do with a fleet while it is harmed: a table of loads. Each writes down what it was told (`Scene`)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from palinurus.testing.telegram.server import FakeTelegram
from torture.fleet.history import Ack, Mark, StopAck
from torture.fleet.world import GONE, Fleet, Person, now_ms

PATIENCE = 90.0  # seconds until somebody takes a message
MARKS = "marks.txt"
LIMIT, CALL = 400_000, 20_000  # tokens that an agent with a budget may use, and one call of the model does


class Scene:
    """One cell: who says what, and what they were told. `cell` makes its sessions its own."""

    numbers = 0  # of tokens, over all cells

    def __init__(self, fleet: Fleet, telegram: FakeTelegram, dice: random.Random, cell: str, work: Path) -> None:
        self.fleet, self.telegram, self.dice, self.cell = fleet, telegram, dice, cell
        self.file = work / MARKS
        self.over = asyncio.Event()
        self.acks: list[Ack] = []
        self.stops: list[StopAck] = []
        self.jobs: list[str] = []
        self.approved = 0
        self.wrong: list[str] = []
        self.thrifty = f"thrifty{cell.partition('s')[0]}"  # the agent with a budget, which is this cell's alone

    def token(self, kind: str) -> str:
        Scene.numbers += 1
        return f"{kind}{Scene.numbers:05}"

    def session(self, name: str) -> str:
        return f"agent:main:{self.cell}-{name}"

    def leave_mark(self, token: str, before: float = 0.0) -> str:
        """A command that writes down that it did its work, and when, after `before` seconds."""
        line = f"sleep {before:g}; echo {token} $(date +%s%3N) >> {self.file}"
        return "TOOL exec " + json.dumps({"command": line})

    async def send(self, who: Person, token: str, text: str, session: str, **more: Any) -> None:
        """Until somebody says that it is accepted."""
        asked = {"sessionKey": session, "message": text, "idempotencyKey": token, **more}
        try:
            await who.insist("chat.send", PATIENCE, **asked)
        except TimeoutError:
            self.wrong.append(f"nobody took {token} within {PATIENCE:g} s")
            return
        self.acks.append(Ack(token, session, now_ms()))

    def read_marks(self) -> list[Mark]:
        if not self.file.exists():
            return []
        lines = (line.split() for line in self.file.read_text().splitlines())
        return [Mark(line[0], int(line[1])) for line in lines if len(line) == 2]


async def chat(scene: Scene, who: Person, name: str) -> None:
    """Some messages in a row, through whichever node."""
    for _ in range(scene.dice.randrange(1, 4)):
        token, session = scene.token("c"), scene.session(name)
        slow = scene.dice.choice(("", "SLOW 5\n", "SLOW 20\n"))
        await scene.send(who, token, f"{slow}SAY answer {token}", session)


async def tools(scene: Scene, who: Person, name: str) -> None:
    """A command with an effect at once, and one whose effect comes later."""
    token = scene.token("t")
    first, second = scene.leave_mark(f"{token}.a"), scene.leave_mark(f"{token}.b", scene.dice.uniform(0.2, 3))
    await scene.send(who, token, f"{first}\n{second}\nSAY done {token}", scene.session(name))


async def queue(scene: Scene, who: Person, name: str) -> None:
    """A long run; meanwhile, from somewhere else, a message for it, or a stop."""
    await _disturb(scene, who, name, ("steer", "collect", "interrupt", "abort", "command"))


async def stop(scene: Scene, who: Person, name: str) -> None:
    """A long run that is stopped from somewhere else, at any moment of it."""
    await _disturb(scene, who, name, ("abort",))


async def _disturb(scene: Scene, who: Person, name: str, kinds: Sequence[str]) -> None:
    kind = scene.dice.choice(kinds)
    token, session = scene.token("p" if len(kinds) == 1 else "q"), scene.session(name)
    other = Person(scene.fleet, scene.dice)
    long = "THINK " + "so " * 60 + f"\nSLOW 60\n{scene.leave_mark(token + '.late')}\nSAY done {token}"
    await scene.send(who, token, long, session)
    await asyncio.sleep(scene.dice.uniform(0.0, 1.0))
    with suppress(*GONE):  # then nobody heard the command
        if kind == "abort":
            await _stop(scene, other, token, session)
        elif kind == "command":
            await other.call("chat.send", sessionKey=session, message="/stop", idempotencyKey=scene.token("x"))
        else:
            more = scene.token("q")
            await scene.send(other, more, f"/queue {kind}\nSAY answer {more}", session)
    await _until_idle(scene, who, session)


async def _stop(scene: Scene, who: Person, token: str, session: str) -> None:
    try:
        told = await who.call("chat.abort", sessionKey=session, runId=token)
    except GONE:
        return  # nobody said that it is stopped
    if told.get("aborted"):
        scene.stops.append(StopAck(token, now_ms()))


async def _until_idle(scene: Scene, who: Person, session: str) -> None:
    """Nobody writes into a session that has work to do: of what waits, some may be dropped, by design."""
    while not scene.over.is_set() and await _is_busy(scene, session):
        await asyncio.sleep(0.4)


async def _is_busy(scene: Scene, session: str) -> bool:
    busy = "SELECT 1 FROM inbox WHERE session = $1 AND state IN ('queued', 'running') LIMIT 1"
    try:
        return bool(await scene.fleet.read(busy, session))
    except Exception:  # border: the database is away at the moment
        return True


async def children(scene: Scene, who: Person, name: str) -> None:
    """A sub-agent with an effect."""
    token = scene.token("s")
    task = f"{scene.leave_mark(token + '.child')}\nSAY SAY the child of {token} is done"
    spawn = "TOOL sessions_spawn " + json.dumps({"task": task})
    await scene.send(who, token, f"{spawn}\nSAY started", scene.session(name))
    await _until_idle(scene, who, scene.session(name))


async def jobs(scene: Scene, who: Person, name: str) -> None:
    """A job every second, made once."""
    if any(job.startswith(f"{name}:") for job in scene.jobs):
        await asyncio.sleep(0.5)
        return
    asked = {
        "name": f"{scene.cell}-{name}",
        "schedule": {"kind": "every", "everyMs": 1000},
        "payload": {"kind": "agentTurn", "message": "SAY tick"},
        "sessionTarget": "isolated",
        "delivery": {"mode": "none"},
    }
    made = await who.insist("cron.add", PATIENCE, **asked)
    scene.jobs.append(f"{name}:{made['id']}")


async def telegram(scene: Scene, who: Person, name: str) -> None:
    """Two people write; of two who poll for them the platform throws one out."""
    token, chat = scene.token("g"), scene.dice.choice(("ann", "bob"))
    await scene.telegram.say(f"SAY reply {token}", chat=chat, times=scene.dice.choice((1, 1, 2)))
    await asyncio.sleep(0.5)


async def approvals(scene: Scene, who: Person, name: str) -> None:
    """A command that a person must allow; asked on one node, answered on another."""
    token, session = scene.token("a"), f"agent:careful:{scene.cell}-{name}"
    await scene.send(who, token, f"{scene.leave_mark(token)}\nSAY done {token}", session)
    while await _is_busy(scene, session):
        with suppress(*GONE):
            for asked in await who.call("exec.approval.list"):
                await who.call("exec.approval.resolve", id=asked["id"], decision="allow-once")
                scene.approved += 1
        await asyncio.sleep(0.5)


async def budget(scene: Scene, who: Person, name: str) -> None:
    """Calls at the limit of what an agent may spend, on all nodes at once: the last ones are refused."""
    token, session = scene.token("b"), f"agent:{scene.thrifty}:{scene.cell}-{name}"
    await scene.send(who, token, f"USED {CALL}\nSLOW 5\nSAY answer {token}", session)


class Load(NamedTuple):
    act: Callable[[Scene, Person, str], Awaitable[None]]
    people: int = 4
    pause: float = 0.4  # seconds between two acts of one person


# the first letter of a load's tokens
KINDS = {
    "c": "chat",
    "t": "tools",
    "q": "queue",
    "p": "stop",
    "s": "children",
    "g": "telegram",
    "a": "approvals",
    "b": "budget",
}

LOADS: dict[str, Load] = {
    "chat": Load(chat, 6),
    "tools": Load(tools, 4),
    "queue": Load(queue, 4, 0.2),
    "stop": Load(stop, 5, 0.2),
    "children": Load(children, 3),
    "jobs": Load(jobs, 3),
    "telegram": Load(telegram, 2),
    "approvals": Load(approvals, 2),
    "budget": Load(budget, 6, 0.3),
}


async def live(scene: Scene, load: str, number: int) -> None:
    """One person, until it is over."""
    row, who = LOADS[load], Person(scene.fleet, scene.dice)
    while not scene.over.is_set():
        await row.act(scene, who, f"{load}{number}")
        await asyncio.sleep(scene.dice.uniform(0.5, 1.5) * row.pause)


async def remove_jobs(scene: Scene) -> None:
    who = Person(scene.fleet, scene.dice)
    for job in scene.jobs:
        await who.insist("cron.remove", PATIENCE, id=job.partition(":")[2])
