"""The page in this machine's chromium: its weight, a long conversation, a long answer. Without playwright, a browser or
a built page nothing is measured, and it says so."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import shutil
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import procs
from measures import Bench, Row
from system import TOKEN, mark

from palinurus.config.paths import PAGE_FOLDER

MANY, TOKENS, CHUNK, DELAY = 10_000, 5000, 4, 20  # DELAY: ms between two chunks, 200 tokens a second
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 120_000  # ms
# The first picture after the last message is in the document.
SEEN = """words => new Promise((done) => {
  const look = () => (document.querySelector(".log")?.textContent.includes(words)
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look));
  look();
})"""


def weigh() -> float:
    """kB of what the first screen fetches, as the gateway sends it."""
    with open(os.path.join(PAGE_FOLDER, "index.html"), encoding="utf-8") as handle:
        text = handle.read()
    names = set(re.findall(r'(?:href|src)="/([\w.-]+\.(?:js|css|svg|webmanifest))"', text)) | {"index.html"}
    total = 0
    for name in names:
        with open(os.path.join(PAGE_FOLDER, name), "rb") as part:
            total += len(gzip.compress(part.read()))
    return total / 1000


@asynccontextmanager
async def _browser() -> AsyncIterator[Any]:
    playwright: Any = importlib.import_module("playwright.async_api")
    async with playwright.async_playwright() as made:
        browser = await made.chromium.launch(executable_path=_chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


def _chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def _busy(pid: int) -> float:
    """Processor seconds of the pages' own threads: the first thread of each renderer."""
    total = 0.0
    for one in procs.tree(pid):
        if b"--type=renderer" in _line(one):
            with open(f"/proc/{one}/task/{one}/schedstat") as handle:
                total += int(handle.read().split()[0]) / 1e9
    return total


def _line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            return handle.read()
    except OSError:  # it has ended
        return b""


async def _open(bench: Bench, browser: Any, pid: int) -> tuple[float, float]:
    """Seconds until the end of the long conversation is on the screen, and how long its thread worked for it."""
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        url = f"http://127.0.0.1:{bench.system.port}/chat/agent%3Amain%3Along"
        await page.goto(f"{url}#token={TOKEN}")
        await page.evaluate(SEEN, f"Message {MANY - 1}:")  # the browser is let in, and has its files
        before = _busy(pid)
        await page.reload()
        took = await page.evaluate(SEEN, f"Message {MANY - 1}:")
        return took / 1000, _busy(pid) - before
    finally:
        await context.close()


async def _stream(bench: Bench, browser: Any, pid: int) -> tuple[float, float]:
    """Shares of a core while a long answer comes: of the page's thread, and of the whole browser, which paints."""
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        own = f"agent%3Amain%3A{uuid.uuid4()}"  # in one that holds an answer already its end would be seen at once
        await page.goto(f"http://127.0.0.1:{bench.system.port}/chat/{own}#token={TOKEN}")
        await page.wait_for_selector("pal-composer textarea")
        await page.fill("pal-composer textarea", mark(TOKENS, CHUNK, delay=DELAY)[1])
        began, busy, spent = await page.evaluate("performance.now()"), _busy(pid), procs.cpu(pid)
        await page.press("pal-composer textarea", "Enter")
        await page.wait_for_selector(".row.assistant .bar")
        seconds = (await page.evaluate("performance.now()") - began) / 1000
        return 100 * (_busy(pid) - busy) / seconds, 100 * (procs.cpu(pid) - spent) / seconds
    finally:
        await context.close()


def _pid() -> int:
    """The browser among what we started."""
    for one in procs.tree(os.getpid()):
        words = _line(one)
        if b"chrom" in words.split(b"\0")[0] and b"--type=" not in words:
            return one
    raise SystemExit("the browser cannot be found among our processes")


async def page(bench: Bench) -> list[Row]:
    """Weight, opening, streaming."""
    if not os.path.isfile(os.path.join(PAGE_FOLDER, "index.html")):
        print("# page: not built (`make web`); not measured", file=sys.stderr)
        return []
    rows = [Row("page: first screen, packed", [weigh()], "kB", 160.0)]
    if importlib.util.find_spec("playwright") is None or _chromium() is None:
        print("# page: no playwright or no chromium; only weighed", file=sys.stderr)
        return rows
    bench.system.down()
    bench.system.seed("long", MANY)
    await bench.system.up()
    async with _browser() as browser:
        pid = _pid()
        opened = [await _open(bench, browser, pid) for _ in range(bench.many(5))]
        shares = [await _stream(bench, browser, pid) for _ in range(1 if bench.quick else 2)]
    return [
        *rows,
        Row("page: 10,000 messages open", [wall for wall, _ in opened], "s", 0.8),
        Row("… processor time of the page's thread", [busy for _, busy in opened], "s", 0.8),
        Row("page: 5,000 tokens at 200 a second, page's thread", [own for own, _ in shares], "% of a core", 15.0),
        Row("… the whole browser, which paints without a GPU", [whole for _, whole in shares], "% of a core"),
    ]
