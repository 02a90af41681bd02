"""The measurements. Each returns rows: (what, samples, unit, target, how the target is compared, note).

Wall times are medians with the least in brackets: on a busy machine the least is nearer the truth. Processor time is
that of the gateway's process tree.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import client
import procs
import sockets
from system import TOKEN, Mock, System, checked, mark, pal

MS = 1e6
LEAN = "docs/decisions/0129-models-without-a-client.md"
MEMORY = "docs/decisions/0168-what-a-waiting-gateway-holds.md"


class Row(NamedTuple):
    what: str
    samples: list[float]
    unit: str
    target: float | None = None
    floor: bool = False  # the target is a least, not a most
    why: str = ""  # where it is told why the target is missed


class Bench(NamedTuple):
    """What measurements may use; the gateway is up unless they stop it."""

    system: System
    mock: Mock
    quick: bool

    def many(self, count: int) -> int:
        return max(2, count // 5) if self.quick else count


async def version(bench: Bench) -> list[Row]:
    """`pal --version` against a bare interpreter, interleaved."""
    bare = [sys.executable, "-c", "pass"]
    plain, ours = [], []
    for _ in range(bench.many(40)):
        plain.append(procs.timed(bare, bench.system.env, bench.system.work)[0] * 1000)
        ours.append(procs.timed([pal(), "--version"], bench.system.env, bench.system.work)[0] * 1000)
    ratio = [min(ours) / min(plain)]
    return [
        Row("`python -c pass`", plain, "ms"),
        Row("`pal --version`", ours, "ms"),
        Row("`pal --version` / `python -c pass` (least of each)", ratio, "x", 1.5),
    ]


async def ready(bench: Bench) -> list[Row]:
    """A gateway that has run before, started again; and its memory before it has done anything."""
    took, memory, cpu = [], [], []
    for _ in range(bench.many(8)):
        bench.system.down()
        took.append(await bench.system.up())
        cpu.append(procs.cpu(bench.system.pid))
        memory.append(await asyncio.to_thread(procs.quiet, procs.rss, bench.system.pid))
    return [
        Row("gateway ready", took, "s", 0.4, why=LEAN),
        Row("… processor time until then", cpu, "s"),
        Row("idle memory (RSS)", memory, "MB", 45.0, why=MEMORY),
    ]


async def once(bench: Bench) -> list[Row]:
    """`pal agent -m`: without a gateway (one turn and gone), and through the one that runs."""
    alone, through, cpu = [], [], []
    for up, took in ((False, alone), (True, through)):
        bench.system.down()
        if up:
            await bench.system.up()
        for n in range(bench.many(10) + 1):
            argv = [pal(), "agent", "--session", "once", "-m", mark()[1]]
            wall, spent = procs.timed(argv, bench.system.env, bench.system.work)
            if n:  # the first makes the session
                took.append(wall)
                cpu += [spent] if not up else []
    return [
        Row("one-shot `pal agent`, no gateway", alone, "s", 0.4, why=LEAN),
        Row("… its processor time", cpu, "s"),
        Row("… through the running gateway", through, "s"),
    ]


async def first(bench: Bench) -> list[Row]:
    """What was put off at the start is paid here: the first message a fresh gateway gets, beside its second."""
    out, second = [], []
    for _ in range(bench.many(8)):
        bench.system.down()
        await bench.system.up()
        for took in (out, second):
            ident, text = mark()
            turn = checked(await bench.system.turn("first", text), 20)
            took.append(((await answered(bench, ident, 1))[0]["arrived"] - turn.sent) / MS)
    return [
        Row("first message of a fresh gateway, in to model request out", out, "ms"),
        Row("… its second", second, "ms"),
    ]


async def hundred(bench: Bench) -> list[Row]:
    """Memory after one turn in each of 100 sessions, of a fresh gateway."""
    bench.system.down()
    await bench.system.up()
    for n in range(100):
        checked(await bench.system.turn(f"hundred-{n}", mark()[1]), 20)
    return [Row("memory after 100 sessions (RSS)", [procs.rss(bench.system.pid)], "MB", 55.0, why=MEMORY)]


async def request(bench: Bench) -> list[Row]:
    """Message in to model request out, with 20 and with 2,000 messages of history."""
    rows = []
    bench.system.down()
    for count in (20, 2000):
        bench.system.seed(f"long{count}", count)
    await bench.system.up()
    for count, target in ((20, 10.0), (2000, 30.0)):
        out, cpu = [], []
        for n in range(bench.many(20) + 2):
            ident, text = mark()
            before = procs.cpu(bench.system.pid)
            turn = checked(await bench.system.turn(f"long{count}", text), 20)
            call = await answered(bench, ident, 1)
            if n >= 2:  # the first loads the session and the lazy modules
                out.append((call[0]["arrived"] - turn.sent) / MS)
                cpu.append((procs.cpu(bench.system.pid) - before) * 1000)
        rows.append(Row(f"message in to model request out, {count:,} messages of history", out, "ms", target))
        rows.append(Row("… processor time of the whole turn", cpu, "ms"))
    return rows


async def record(bench: Bench) -> list[Row]:
    """What recording adds to message in to model request out: turns of two sessions by turns, one of them on tape."""
    bench.system.down()
    for session in ("plain", "taped"):
        bench.system.seed(session, 20)
    procs.timed([pal(), "record", "on", "--session", "taped"], bench.system.env, bench.system.work)
    await bench.system.up()
    took: dict[str, list[float]] = {"plain": [], "taped": []}
    for _ in range(bench.many(60) + 2):
        for session, out in took.items():
            ident, text = mark()
            turn = checked(await bench.system.turn(session, text), 20)
            out.append(((await answered(bench, ident, 1))[0]["arrived"] - turn.sent) / MS)
    plain, taped = (sorted(out[2:]) for out in took.values())
    if not os.path.isdir(os.path.join(bench.system.home, "tapes")):
        raise SystemExit("nothing was recorded")
    more = statistics.median(taped) - statistics.median(plain)
    return [
        Row("message in to model request out, recorded", taped, "ms"),
        Row("… more than without a tape (medians of turns by turns)", [more], "ms", 1.0),
        *(await import_module("explaining").tapes(bench)),
    ]


async def large(bench: Bench) -> list[Row]:
    """Message in to model request out in a session of 50 MB, and what its turns do to memory."""
    bench.system.down()
    bench.system.seed_large("large", 50)
    await bench.system.up()
    first, out, memory = [], [], []
    for n in range(bench.many(40) + 2):
        ident, text = mark()
        turn = checked(await bench.system.turn("large", text), 20)
        call = await answered(bench, ident, 1)
        took = (call[0]["arrived"] - turn.sent) / MS
        (out if n >= 2 else first).append(took)
        if n >= 2:
            memory.append(procs.rss(bench.system.pid))
    return [
        Row("message in to model request out, session of 50 MB", out, "ms", 30.0, why=LEAN),
        Row("… the first one after a start, which reads the file", first[:1], "ms"),
        Row("… memory with that session loaded (RSS)", memory, "MB"),
        Row("… and its growth over the measured turns", [max(memory[-1] - memory[0], 0.0)], "MB", 4.0),
    ]


async def stream(bench: Bench) -> list[Row]:
    """2,000 one-token events to an SSE client: in one burst, and one every millisecond (each read wakes us)."""
    tokens, rows = 2000, []
    for title, delay, target in (("in a burst", 0, 30.0), ("1 ms apart", 1, None)):
        each, rate, seen = [], [], []
        for n in range(bench.many(10 if not delay else 5) + 1):
            ident, text = mark(tokens, 1, delay=delay)
            before = procs.cpu(bench.system.pid)
            turn = checked(await bench.system.turn("stream", text), tokens)
            spent = procs.cpu(bench.system.pid) - before
            call = await answered(bench, ident, 1)
            if n:
                each.append(spent * 1e6 / tokens)
                rate.append(tokens / ((turn.done - call[0]["sent0"]) / 1e9))
                seen.append(float(turn.events))
        rows.append(Row(f"streaming 2,000 chunks {title}, processor time a chunk, end to end", each, "us", target))
        rows.append(Row("… events that reached the client (chunks that came together stay together)", seen, ""))
        if not delay:
            rows.append(Row("… tokens a second", rate, "/s"))
    return rows


# tool, argument, value, what holds commands ("": the best this machine has, namespaces as a rule), target
ROUNDS = (
    ("read", "path", "f%d.txt", "", 5.0),
    ("exec", "command", "echo+r%d", "", 10.0),
    ("exec", "command", "echo+r%d", "landlock", 8.0),
    ("exec", "command", "echo+r%d", "bubblewrap", 12.0),
)


async def tool(bench: Bench) -> list[Row]:
    """Rounds of model, tool, model: the gap between two model calls. A gateway for each way to hold commands, by turns:
    one after the other, the one that has run longest was the fastest, whatever held its commands."""
    table = [row for row in ROUNDS if row[3] != "bubblewrap" or shutil.which("bwrap")]
    systems = {kind: System(f"{bench.system.root}-{kind}", bench.mock.url) for *_, kind, _ in table if kind}
    found: list[tuple[list[float], list[float]]] = [([], []) for _ in table]
    rounds = bench.many(20)
    try:
        for kind, system in systems.items():
            system.contain(kind)
            await system.up()
        systems[""] = bench.system
        for n in range(8):
            for (name, key, value, kind, _), (gaps, spent) in zip(table, found, strict=True):
                system = systems[kind]
                ident, text = mark(tools=rounds, tool=name, key=key, val=value)
                before = procs.cpu(system.pid)
                checked(await system.turn(f"tool-{name}{kind}-{n}", text), 20)
                calls = await answered(bench, ident, rounds + 1)
                if n >= 2:  # the first make keepers and load what was put off
                    spent.append((procs.cpu(system.pid) - before) * 1000 / rounds)
                    gaps += [(after["arrived"] - call["sent1"]) / MS for call, after in pairwise(calls)]
    finally:
        for kind, system in systems.items():
            if kind:
                system.remove()
    rows = []
    for (name, _, _, kind, target), (gaps, spent) in zip(table, found, strict=True):
        rows.append(Row(f"a round with `{name}`{f', held by {kind} alone' * bool(kind)}", gaps, "ms", target, why=LEAN))
        rows.append(Row("… processor time", spent, "ms"))
    return rows


async def _direct(bench: Bench, text: str) -> client.Fetched:
    """The same turn without us: straight to the mock."""
    return await client.fetch(bench.mock.port, {}, {"stream": True, "messages": [{"role": "user", "content": text}]})


async def _at_once(work: list[Coroutine[Any, Any, client.Fetched]]) -> tuple[float, float]:
    """(seconds for all of it, seconds until the median one shows text). Raises SystemExit when one fails."""
    start = time.monotonic()
    got = await asyncio.gather(*work)
    took = time.monotonic() - start
    turns = [checked(one.read(), 200) for one in got]
    begun = start * 1e9
    return took, statistics.median((turn.text0 - begun) / 1e9 for turn in turns)


async def crowd(bench: Bench, count: int, times: int) -> list[list[float]]:
    """[bare seconds, ours, processor ms a session, bare first text, our first text] of so many sessions at once."""
    out: list[list[float]] = [[], [], [], [], []]
    for n in range(times):
        texts = [mark(200, 4, delay=20)[1] for _ in range(count)]
        bare = await _at_once([_direct(bench, text) for text in texts])
        before = procs.cpu(bench.system.pid)
        sessions = [bench.system.fetch(f"many-{count}-{n}-{i}", text) for i, text in enumerate(texts)]
        ours = await _at_once(sessions)
        cpu = (procs.cpu(bench.system.pid) - before) * 1000 / count
        for figures, value in zip(out, (bare[0], ours[0], cpu, bare[1], ours[1]), strict=True):
            figures.append(value)
    return out


async def many(bench: Bench) -> list[Row]:
    """200 sessions at once, 200 tokens each, 4 an event, 20 ms apart; and a bare client on the same server."""
    bare, ours, cpu, bare_first, first = await crowd(bench, 200, 2 if bench.quick else 4)
    return [
        Row("200 sessions at once, bare client", bare, "s"),
        Row("200 sessions at once, through the gateway", ours, "s"),
        Row("… gateway / bare client (least of each)", [min(ours) / min(bare)], "x", 1.5, why=LEAN),
        Row("… first text of the median session, bare client", bare_first, "s"),
        Row("… first text of the median session, through the gateway", first, "s"),
        Row("… processor time a session", cpu, "ms"),
        Row("memory after all this (RSS)", [procs.rss(bench.system.pid)], "MB"),
    ]


async def thousand(bench: Bench) -> list[Row]:
    """1,000 sessions at once in a fresh gateway, with its memory afterwards."""
    bench.system.down()
    await bench.system.up()
    bare, ours, cpu, _, first = await crowd(bench, 1000, 1)
    return [
        Row("1,000 sessions at once, bare client", bare, "s"),
        Row("1,000 sessions at once, through the gateway", ours, "s"),
        Row("… gateway / bare client", [ours[0] / bare[0]], "x"),
        Row("… first text of the median session, through the gateway", first, "s"),
        Row("… processor time a session", cpu, "ms"),
        Row("… memory afterwards (RSS)", [procs.rss(bench.system.pid)], "MB"),
    ]


async def decode(bench: Bench) -> list[Row]:
    """The pure decoders alone: one event a feed, as they come from a socket."""
    speech, script = import_module("palinurus.testing.wire"), import_module("palinurus.testing.model")
    model, wires = import_module("palinurus.testing.model"), import_module("palinurus.providers").WIRES
    turn = script.say(" w123" * 2000)
    rows = []
    for api in ("openai-completions", "anthropic-messages"):
        module, _, name = wires[api].partition(":")
        wire = getattr(import_module(module), name)
        events = speech.STREAM_ENCODERS[api](turn, [], 5)
        each = []
        for _ in range(bench.many(20) + 1):
            decoder = wire.decoder(model.make_request("hi", model.make_model_info(api)))
            gc.collect()
            start = time.process_time()
            for event in events:
                decoder.feed(event)
            decoder.close()
            each.append((time.process_time() - start) * 1e6 / len(events))
        rows.append(Row(f"decoding a chunk, {api}", each[1:], "us", 10.0))
    return rows


async def store(bench: Bench) -> list[Row]:
    """Accepts a second on this disk, 64 at a time, each durable."""
    open_store = import_module("palinurus.store.factory").open_store
    port, clock = import_module("palinurus.store.port"), import_module("palinurus.clock").SystemClock()
    make_id = import_module("palinurus.store.port").make_id
    total = 1000 if bench.quick else 5000
    with tempfile.TemporaryDirectory(dir=bench.system.root) as folder:
        opened = await open_store(folder, clock)

        def item(n: int) -> Any:
            key = f"agent:main:s{n % 50}"
            return port.InboxItem(make_id(clock.now()), f"bench:{n}", key, "main", b'{"text":"hello"}', clock.now())

        async def worker(first: int) -> None:
            for n in range(first, total, 64):
                await opened.accept(item(n), claim=False)

        start = time.monotonic()
        await asyncio.gather(*(worker(n) for n in range(64)))
        rate = total / (time.monotonic() - start)
        alone = []
        for n in range(bench.many(100)):
            start = time.monotonic()
            await opened.accept(item(total + n), claim=False)
            alone.append((time.monotonic() - start) * 1000)
        await opened.close()
    return [Row("store: durable accepts, 64 at a time", [rate], "/s"), Row("… one alone", alone, "ms")]


async def rpc(bench: Bench) -> list[Row]:
    """Round trips over one WebSocket, and what clients that only listen cost."""
    system, total = bench.system, 2000 if bench.quick else 10_000
    rates, cpu, single = [], [], []
    for _ in range(3):
        before = procs.cpu(system.pid)
        took = await sockets.round_trips(system.port, TOKEN, total)
        rates.append(total / took)
        cpu.append((procs.cpu(system.pid) - before) * 1e6 / total)
        single.append(total / await sockets.round_trips(system.port, TOKEN, total, window=1))
    acks = await sockets.acknowledged(system.port, TOKEN, [mark()[1] for _ in range(bench.many(200))])
    system.down()  # else it is the memory of whatever was measured before
    await system.up()
    links = await sockets.crowd(system.port, TOKEN, 500)
    memory = procs.rss(system.pid)
    await asyncio.gather(*(link.close() for link in links))
    return [
        Row("RPC round trips, `health`, one client, 32 under way", rates, "/s", 5000.0, floor=True),
        Row("… processor time of the gateway for one", cpu, "us"),
        Row("… one at a time (waits for the client's turn too)", single, "/s"),
        Row("chat.send, until it is on disk and acknowledged", acks, "ms"),
        Row("… 95 of 100 are faster than", [sorted(acks)[int(0.95 * len(acks))]], "ms", 5.0, why=LEAN),
        Row("500 connected clients of a fresh gateway, memory (RSS)", [memory], "MB", 120.0, why=LEAN),
    ]


async def children(bench: Bench) -> list[Row]:
    """A person's messages while 50 sub-agents work and report, against the same in quiet just before and after.

    Quiet on both sides, so that a machine that gets busier meanwhile does not look like us; and no figure unless all
    50 worked, and some still did at the last message.
    """

    async def took() -> float:
        ident, text = mark()
        turn = checked(await bench.system.turn("person", text), 20)
        return ((await answered(bench, ident, 1))[0]["arrived"] - turn.sent) / MS

    quiet, busy, count = [], [], bench.many(20)
    for storm in range(3):
        quiet += [await took() for _ in range(count + 2)][2:]
        orders = [mark(tools=5, tool="sessions_spawn", key="task", val=f"TASK+200+ms+{storm}.%d")[1] for _ in range(10)]
        await asyncio.gather(*(bench.system.turn(f"storm{n}", text) for n, text in enumerate(orders)))
        busy += [await took() for _ in range(count)]
        last = time.monotonic_ns()
        calls = await answered(bench, "", 50 * (storm + 1), seconds=120.0)
        if calls[-1]["sent1"] <= last:
            raise SystemExit("the sub-agents had ended before the last message was measured")
        await asyncio.sleep(2.0)  # their reports
        quiet += [await took() for _ in range(count)]
    ratio = statistics.median(busy) / statistics.median(quiet)
    return [
        Row("message in to model request out, in quiet", quiet, "ms"),
        Row("… while 50 sub-agents work and report", busy, "ms"),
        Row("… the medians, one to the other", [ratio], "x", 1.5),
    ]


async def answered(bench: Bench, ident: str, count: int, seconds: float = 1.0) -> list[dict[str, Any]]:
    """The mock's record of a turn; its log may be a moment behind."""
    for _ in range(int(seconds * 500)):
        calls = bench.mock.calls(ident)
        if len(calls) >= count:
            return calls
        await asyncio.sleep(0.002)
    raise SystemExit(f"the model was asked {len(bench.mock.calls(ident))} times instead of {count}")


# Name -> (measurement, does it need the gateway). In this order.
ALL: dict[str, tuple[Callable[[Bench], Awaitable[list[Row]]], bool]] = {
    "version": (version, False),
    "ready": (ready, True),
    "once": (once, True),
    "first": (first, True),
    "hundred": (hundred, True),
    "request": (request, True),
    "record": (record, True),
    "large": (large, True),
    "stream": (stream, True),
    "tool": (tool, True),
    "many": (many, True),
    "thousand": (thousand, True),
    "children": (children, True),
    "rpc": (rpc, True),
    "decode": (decode, False),
    "store": (store, False),
    "screen": (lambda bench: import_module("screen").screen(bench), True),
    "page": (lambda bench: import_module("page").page(bench), True),
    "judging": (lambda bench: import_module("judging").judging(bench), False),
    "questions": (lambda bench: import_module("judging").questions(bench), False),
    "cards": (lambda bench: import_module("explaining").cards(bench), False),
    "fleet": (lambda bench: import_module("fleet").fleet(bench), False),
    "lanes": (lambda bench: import_module("lanes").lanes(bench), False),
    "why": (lambda bench: import_module("explaining").why(bench), False),
    "changes": (lambda bench: import_module("explaining").changes(bench), False),
}


def load() -> float:
    """How busy the machine is with everyone's work."""
    return os.getloadavg()[0]
