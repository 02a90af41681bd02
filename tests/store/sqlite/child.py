"""Run as a process of its own by the tests beside it: opens a store and dies, fills a disk, or works until stopped.

Prints one word per acknowledged step, so that the parent knows what must be found again.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import sys
from contextlib import closing

from palinurus import crashpoints
from palinurus.clock import SystemClock
from palinurus.errors import DiskFull, PalinurusError, StateBroken
from palinurus.store.port import InboxItem, OutboxRow, Settlement, TranscriptLine, UsageRow
from palinurus.store.sqlite import open_sqlite_store

A = "agents/main/sessions/a.jsonl"


def say(*words: object) -> None:
    print(" ".join(map(str, words)) + "\n", end="", flush=True)  # in one write


def line(ident: str, path: str = A, pad: int = 0) -> TranscriptLine:
    return TranscriptLine(path, ident, b'{"type":"message","id":"%s","x":"%s"}' % (ident.encode(), b"y" * pad))


async def turns(home: str, spec: str) -> None:
    """Two messages, the first answered and delivered; the crash point of `spec` strikes somewhere."""
    crashpoints.arm_crashpoint(spec)
    store = await open_sqlite_store(home, SystemClock())
    await store.recover()
    say("recovered")
    first = await store.accept(InboxItem("m1", "d1", "a", "main", b"1", 1), claim=True)
    say("accepted", "m1")
    await store.accept(InboxItem("m2", "d2", "a", "main", b"2", 2), claim=True)
    say("accepted", "m2")
    assert first.claim is not None
    await store.append(first.claim, [line("e1")])
    say("appended", "e1")
    spent = UsageRow("m1", "run", "a", "main", "p", "m", 1, 1, 1, 1, 1)
    reply = OutboxRow("r1", "m1", "fake", "chat", b"hi", 1)
    await store.settle(first.claim, Settlement("answered", "hi", (line("e2"),), (reply,), spent=(spent,)))
    say("settled", "m1")
    await store.mark_sending("r1", 5)
    say("sending", "r1")
    await store.mark_delivered("r1", "55", 6)
    say("delivered", "r1")
    await store.close()
    say("closed")


async def hold(home: str, spec: str) -> None:
    """Open, and wait to be killed."""
    await open_sqlite_store(home, SystemClock())
    say("open")
    await asyncio.Event().wait()


async def work(home: str, spec: str) -> None:
    """Accept, append and settle in several sessions until killed."""
    store = await open_sqlite_store(home, SystemClock())
    await store.recover()

    async def lane(name: str) -> None:
        for n in range(100_000):
            ident = f"{name}-{n:05}"
            got = await store.accept(InboxItem(ident, ident, name, "main", b"x" * 300, 1), claim=True)
            assert got.claim is not None
            path = f"agents/main/sessions/{name}.jsonl"
            await store.append(got.claim, [line(f"i{ident}", path, 200)])
            reply = OutboxRow(f"r{ident}", ident, "fake", name, b"hi", 1)
            await store.settle(got.claim, Settlement("answered", "", (line(f"o{ident}", path, 200),), (reply,)))
            say(ident)

    await asyncio.gather(*(lane(f"s{n}") for n in range(4)))


async def full(home: str, spec: str) -> None:
    """Fill the small disk `home` is on, make room, go on."""
    store = await open_sqlite_store(home, SystemClock())
    filler = os.path.join(os.path.dirname(home), "filler")
    with open(filler, "wb") as file:
        file.write(b"x" * 400_000)
    accepted, refused = 0, 0
    for n in range(400):
        try:
            await store.accept(InboxItem(f"m{n}", f"d{n}", f"s{n}", "main", b"x" * 20_000, n), claim=False)
            accepted += 1
        except DiskFull:
            refused += 1
            if refused == 1:
                assert await store.item(f"m{n}") is None
                assert await store.item("m0") is not None  # reading goes on
            if refused == 3:
                break
    os.remove(filler)
    await store.accept(InboxItem("after", "after", "after", "main", b"x" * 1000, 1), claim=False)
    await store.close()
    store = await open_sqlite_store(home, SystemClock())
    found = [await store.item(f"m{n}") is not None for n in range(accepted)]
    say(refused, all(found) and len(found) > 3, await store.item("after") is not None)
    await store.close()


async def small(home: str, spec: str) -> None:
    """Files may not grow past a limit: a transcript line is cut short by the kernel, the database then refused."""
    big = os.path.join(home, A)
    os.makedirs(os.path.dirname(big))
    with open(big, "wb") as file:
        file.write(b'{"id":"old"}'.ljust((1 << 20) - 1) + b"\n")
    store = await open_sqlite_store(home, SystemClock())
    held = (await store.accept(InboxItem("m1", "d1", "a", "main", b"1", 1), claim=True)).claim
    assert held is not None
    before = os.path.getsize(big)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before + 20, resource.RLIM_INFINITY))
    await store.append(held, [line("e1", pad=50)])
    say("size", os.path.getsize(big) == before)  # nothing of the half line is left
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
    try:
        await store.accept(InboxItem("m2", "d2", "b", "main", b"x" * 200_000, 1), claim=False)
    except PalinurusError as error:
        say(type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.append(held, [line("e2")])
    with open(big, "rb") as file:
        say("tail", file.read().endswith(b"\n" + line("e1", pad=50).data + b"\n" + line("e2").data + b"\n"))
    await store.close()


async def unsynced(home: str, spec: str) -> None:
    """The disk loses a transcript: what is refused then, what is taken, and what is found afterwards."""
    store = await open_sqlite_store(home, SystemClock())
    held = (await store.accept(InboxItem("m1", "d1", "a", "main", b"1", 1), claim=True)).claim
    assert held is not None
    replies = tuple(OutboxRow(f"r{n}", "m1", "fake", "chat", b"hi", 1) for n in (1, 2))
    await store.settle(held, Settlement("answered", "hi", (line("e1"),), replies))
    await store.mark_sending("r1", 1)
    async with asyncio.timeout(50):
        try:
            while True:
                await store.post_replies(())
                await asyncio.sleep(1.5)  # it is synced when nothing happens for a second
        except StateBroken:
            say("broken")
    await store.mark_delivered("r1", "55", 2)
    say("delivered")
    try:
        await store.mark_sending("r2", 3)
    except PalinurusError as error:
        say(type(error).__name__)
    await store.close()
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as conn:
        for state, attempts in conn.execute("SELECT state, attempts FROM outbox ORDER BY seq"):
            say(state, attempts)
        say("kept", conn.execute("SELECT count(*) FROM journal").fetchone()[0])


async def refuse(home: str, spec: str) -> None:
    """Open what cannot be opened."""
    try:
        await open_sqlite_store(home, SystemClock())
    except PalinurusError as error:
        say(type(error).__name__, error.message, "|", error.fix)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""))
