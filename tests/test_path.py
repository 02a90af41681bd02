"""A new person's path by the lines of the docs: home, key, Telegram, skill, plugin, service, backup; a real gateway."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path

from palinurus.testing.model import say
from palinurus.testing.server import ModelServer
from palinurus.testing.telegram.api import TOKEN
from palinurus.testing.telegram.server import FakeTelegram

DOCS = Path(__file__).parents[1] / "docs"
WAIT = 120.0


def shown(page: str, line: str) -> str:
    """The line, which must stand on the page."""
    assert line in (DOCS / page).read_text(encoding="utf-8"), f"{page} does not show {line!r}"
    return line


async def until(look: object, what: str) -> None:
    end = asyncio.get_running_loop().time() + WAIT
    while not look():  # type: ignore[operator]
        assert asyncio.get_running_loop().time() < end, what
        await asyncio.sleep(0.05)


async def test_from_nothing_to_a_chat_app_that_survives(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PALINURUS_GATEWAY_PORT": str(port)}

    async def pal(*words: str, given: str = "") -> str:
        line = [sys.executable, "-m", "palinurus", *words]
        pipes = {
            "stdin": asyncio.subprocess.PIPE,
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.STDOUT,
        }
        child = await asyncio.create_subprocess_exec(*line, cwd=tmp_path, env=environ, **pipes)
        said = (await asyncio.wait_for(child.communicate(given.encode()), WAIT))[0].decode()
        assert child.returncode == 0, f"pal {' '.join(words)}: {child.returncode}\n{said}"
        return said

    async with FakeTelegram() as fake, ModelServer(default=say("aye")) as model:
        shown("first-hour.md", "pal setup --non-interactive")
        await pal("setup", "--non-interactive")
        await pal("config", "set", "gateway.port", str(port))
        shown("models.md", "pal models add http://127.0.0.1:8080 --name lab")
        await pal("models", "add", model.url, "--name", "lab", "--use", "--no-try")
        shown("first-hour.md", "pal channels add telegram --set botToken=…")
        await pal("channels", "add", "telegram", "--set", f"botToken={TOKEN}", "--set", f"apiRoot={fake.url}")
        skill = tmp_path / "knots"
        skill.mkdir()
        (text,) = re.findall(r"```markdown\n(.*?)```", (DOCS / "skills.md").read_text(encoding="utf-8"), re.DOTALL)
        (skill / "SKILL.md").write_text(text, encoding="utf-8")
        await pal("skills", "install", str(skill), "--yes")
        assert "knots" in await pal("skills", "list")
        await pal("plugins", "new", "tides")
        await pal("plugins", "enable", "tides")
        shown("operations.md", "pal gateway start")
        await pal("gateway", "start")
        try:
            await fake.say("hello")
            await until(lambda: any("code" in text.lower() for text in fake.read()), "no code for a stranger")
            code = re.search(r"\b([A-Z0-9]{8})\b", " ".join(fake.read()))
            assert code is not None, fake.read()
            shown("first-hour.md", "pal pairing approve CODE")
            await pal("pairing", "approve", code[1])
            await fake.say("hello again")
            await until(lambda: "aye" in fake.read(), "no answer to who was let in")
            assert "knots" in str(model.requests[-1]) and "telegram" in await pal("channels", "status")
            await pal("backup", "create", "first.palbackup")
            assert "sound" in await pal("backup", "verify", "first.palbackup")
            await pal("gateway", "restart")
            await fake.say("still there?")
            await until(lambda: list(fake.read()).count("aye") == 2, "no answer after a restart")
        finally:
            await pal("gateway", "stop")
