"""A real `pal gateway`, a process with the umask a person's shell has: its agent drives a browser, a kill leaves
nothing of it, and what nobody uses is not loaded."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channels.scene import until
from cli.place import SRC
from palinurus.core.types.messages import TextBlock, ToolResult
from palinurus.testing.home import get_work_dir, make_home
from palinurus.testing.model import ScriptStep, resolve_step, say
from palinurus.testing.server import ModelServer, ModelServerRequest
from ports import reserve_port
from support import find_programs
from tools.browser.kit import until_gone
from tools.browser.player import act, needs_chromium, step
from tools.browser.site import TaskSite

LOOK = step("snapshot")
WATCH = """
import os, signal, sys, threading, time
from palinurus.cli.main import main
def look():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    time.sleep(1)  # what is begun beside the start has ended, too
    print(*sorted(sys.modules), file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=look, daemon=True).start()
sys.exit(main(["gateway", "--port", sys.argv[2]]))
"""
# Of each part a small piece says whether there is such a thing; `core` and `config` are everybody's.
IDLE = {
    "palinurus.tools.canvas.offer",
    "palinurus.services.nodes.part",
}
PARTS = re.compile(
    r"palinurus\.(tools\.(browser|canvas|nodes)|services\.nodes|gateway\.(canvas|methods)|app\.pictures)\.?"
)


class Seen:
    """The conversation of a request as the steps of a browser's player read it."""

    def __init__(self, asked: ModelServerRequest) -> None:
        told = asked.conversation.results
        self.messages = [ToolResult(f"c{n}", "browser", (TextBlock(text),)) for n, text in enumerate(told)]


def play(steps: Sequence[ScriptStep]) -> Any:
    """The model's part: a step after each result, then all that it was told."""

    def answer(asked: ModelServerRequest) -> Any:
        seen = Seen(asked)
        done = len(seen.messages)
        return resolve_step(steps[done], seen) if done < len(steps) else say("toured")  # type: ignore[arg-type]

    return answer


def environ(home: str) -> dict[str, str]:
    return {**os.environ, "PALINURUS_HOME": home, "PYTHONPATH": SRC}


@asynccontextmanager
async def gateway(home: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """`pal gateway`, ready; killed at the end if nobody did before."""
    pal, log = [sys.executable, "-m", "palinurus"], Path(home, "log")
    with log.open("wb") as out:
        order = [*pal, "gateway", "--port", str(reserve_port())]
        running = subprocess.Popen(order, env=environ(home), stdout=out, stderr=out, umask=0o022)
    try:
        await until(lambda: Path(home, "gateway.json").exists() or running.poll() is not None)
        assert running.poll() is None, log.read_text()
        yield running
    finally:
        running.kill()
        running.wait()


async def ask(home: str, text: str) -> dict[str, Any]:
    """`pal agent`, as JSON."""
    order = [sys.executable, "-m", "palinurus", "agent", "--json", "-m", text]
    done = await asyncio.to_thread(subprocess.run, order, env=environ(home), capture_output=True, timeout=190)
    told: dict[str, Any] = json.loads(done.stdout or done.stderr)
    return told


@needs_chromium
@pytest.mark.seed(276, 297)
async def test_an_agent_tours_pages_and_a_kill_leaves_no_browser(tmp_path: Path) -> None:
    site = TaskSite()
    await site.start()
    try:
        upload, download, confirm = (site.url(path) for path in ("/upload", "/download", "/confirm"))
        steps = [
            step("open", targetUrl=upload),
            LOOK,
            step("upload", inputRef="@button File", paths=["notes.txt"]),
            act("click", ref="@button Send file"),
            step("navigate", targetUrl=download),
            LOOK,
            step("download", ref="@link Report", path="in/report.txt"),
            step("navigate", targetUrl=confirm),
            LOOK,
            step("dialog", accept=True),
            act("click", ref="@button Delete"),
            act("wait", text="proof"),
            *(step(action) for action in ("screenshot", "pdf", "console", "cookies", "tabs")),
        ]
        async with ModelServer([], default=play(steps)) as model:
            config = {"tools": {"web": {"fetch": {"allowedHosts": site.entries}}}}
            home = make_home(tmp_path, config, {"notes.txt": "buy milk\n"}, url=model.url)
            async with gateway(home) as running:
                said = f"send notes.txt to {upload}, fetch {download}, delete at {confirm}"
                told = await ask(home, said)
                results = model.requests[-1].conversation.results
                assert "toured" in json.dumps(told) and len(results) == len(steps), (told, results[-1:])
                pages = [str(path) for path in Path(get_work_dir(home)).rglob("*.pdf")]
                assert len(pages) == 1 and Path(pages[0]).read_bytes().startswith(b"%PDF")
                assert Path(get_work_dir(home), "in", "report.txt").exists()
                lines = "".join(path.read_text() for path in Path(home).rglob("sessions/*.jsonl"))
                assert '"mimeType":"image/png"' in lines
                assert len(find_programs(f"{home}/browser")) > 3
                running.kill()
                await until_gone(f"{home}/browser")
    finally:
        await site.stop()


@pytest.mark.parametrize("wanted", [True, False])
async def test_what_nobody_has_used_is_not_loaded(tmp_path: Path, wanted: bool) -> None:
    config = {
        "browser": {"enabled": wanted},
        "canvasHost": {"enabled": wanted},
        "tts": {"auto": "always"} if wanted else {},
    }
    home = make_home(tmp_path, config, url="http://127.0.0.1:9/v1")
    order = [sys.executable, "-c", WATCH, f"{home}/gateway.json", str(reserve_port())]
    done = await asyncio.to_thread(subprocess.run, order, env=environ(home), capture_output=True, timeout=190)
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.decode().split()
    assert "palinurus.app.wiring" in loaded
    assert {name for name in loaded if PARTS.match(name) and name.count(".") > 2} == IDLE
