"""What happens while the gateway is killed. Each scenario drives a `World` and says what must be true at the end.

REACHED says how often each crash point is passed at least in a scenario: the whole sweep kills at each of these.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from crash.harness import World


class Scenario(NamedTuple):
    drive: Callable[[World], Awaitable[None]]
    expect: Callable[[World, str], list[str]]
    before: str = ""  # a crash that comes first


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
    await world.ask("WORDS 40\nSLOW 2", key="k1", stream=True)


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
    async with asyncio.timeout(10):
        while not (world.dead or world.read("effect.txt")):
            await asyncio.sleep(0.01)
    world.tell("m2", "SAY the second of three answers")
    world.tell("m3", "SAY the third of three answers")


def steer_told(world, _point):
    """Who writes three times in a row gets at least the answer to the last."""
    count = world.read("effect.txt").count("did")
    wrong = [] if count <= 1 else [f"the effect happened {count} times"]
    return wrong if "the third of three" in world.screen() else [*wrong, f"the screen shows {world.screen()!r}"]


SCENARIOS: dict[str, Scenario] = {
    "plain": Scenario(plain, plain_told),
    "tool": Scenario(tool, tool_told),
    "queue": Scenario(queue, queue_told),
    "stream": Scenario(stream, stream_told),
    "channels": Scenario(channels, channels_told),
    "steer": Scenario(steer, steer_told),
    "restart": Scenario(tool, tool_told, before="tool.after:1"),
}

# How often a point is passed at least. Found by running; a number that is too high fails the sweep.
TURN = ("accept.before", "accept.after", "claim.after", "prepare.after", "model.first", "model.done")
SETTLE = ("settle.before", "settle.after")
ACT = ("tool.during", "tool.after", "result.after")
FILE = ("journal.before", "journal.after")
SEND = ("outbox.claimed", "outbox.sent", "outbox.receipt")


def times(count, *groups):
    return {name: count for group in groups for name in group}


REACHED: dict[str, dict[str, int]] = {
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
    "restart": times(1, TURN, SETTLE, ACT, ("recover.before", "recover.after")) | times(2, FILE) | {"model.done": 2},
}
