"""Real clients of OpenAI's API against our gateway with a mock model: openai, litellm, langchain-openai and llm from
the package index (`apiuser.py`), Vercel's AI SDK from npm (`aisdk.mjs`). Ears and a voice are small programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import place
from tally import Tally

from palinurus.testing.home import TOKEN, make_home

PATIENCE = 600
HERE = os.path.dirname(os.path.abspath(__file__))
# Who -> what is installed. Newer litellm wants a certifi that the index of November 2026 does not have.
PACKAGES = {
    "openai": ("openai==3.51.0",),
    "litellm": ("litellm==1.105.0",),
    "langchain": ("langchain-openai==1.7.3",),
    "llm": ("llm==0.36",),
}
AI_SDK = ("ai@7.0.170", "@ai-sdk/openai@4.0.115", "@ai-sdk/openai-compatible@3.0.90")
SPEAKS = (
    "import sys, wave; o = wave.open(sys.argv[1], 'wb'); o.setnchannels(1); o.setsampwidth(2); o.setframerate(8000)"
)
SPEAKS += "; o.writeframes(bytes(1600)); o.close()"


def get_version(who: str) -> str:
    """Of the package that the row is named after."""
    return PACKAGES[who][0].partition("==")[2]


def drive_python(who: str) -> Callable[[str, Tally], None]:
    """A row for one of them."""

    def drive(cache: str, tally: Tally) -> None:
        folder = os.path.join(cache, PACKAGES[who][0].replace("==", "-"))
        python = os.path.join(place.install_pip(folder, *PACKAGES[who]), "python")
        _play(who, [python, os.path.join(HERE, "apiuser.py"), who], tally)

    return drive


def drive_ai_sdk(cache: str, tally: Tally) -> None:
    """Both providers."""
    folder = os.path.join(cache, AI_SDK[0])
    entry = os.path.join("node_modules", "ai", "package.json")
    place.install_npm(folder, *AI_SDK, "zod", f"node@{place.NODE}", entry=entry)
    script = shutil.copy(os.path.join(HERE, "aisdk.mjs"), folder)  # packages are looked for beside it
    _play("ai sdk", [os.path.join(folder, "node_modules", "node", "bin", "node"), script], tally)


@contextmanager
def start_gateway() -> Iterator[str]:
    """A gateway with a mock model: the address of its API."""
    root, mock, port = tempfile.mkdtemp(prefix="apiclients-"), place.free_port(), place.free_port()
    print(f"compat: a client of our API; logs in {root}", flush=True)
    running = [place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock")]
    try:
        place.listens(mock)
        home = make_home(root, _config(port), {}, url=f"http://127.0.0.1:{mock}/v1")
        pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(port)]
        running.append(place.spawn(pal, root, "gateway"))
        place.listens(port)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(15)


def _play(who: str, line: list[str], tally: Tally) -> None:
    root = tempfile.mkdtemp(prefix="apiclients-")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PALINURUS_", "PYTHON", "OPENAI_"))}
    environ |= {"LLM_USER_PATH": os.path.join(root, "llm"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # no list of prices
    with start_gateway() as base:
        full = [*line, base, TOKEN]
        done = subprocess.run(full, cwd=root, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    for said in done.stdout.splitlines():
        if said.startswith('{"name"'):
            row = json.loads(said)
            tally.note(f"{who}: {row['name']}", row["ok"], row["said"])
    tally.note(f"{who}: ran to its end", done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])


def _config(port: int) -> dict[str, object]:
    """`/bin/echo` hears the same words in everything."""
    hears = {"type": "cli", "command": "/bin/echo", "args": ["good morning"]}
    speaks = {"command": sys.executable, "args": ["-c", SPEAKS, "{{OutputPath}}"], "outputFormat": "wav"}
    return {
        "gateway": {
            "port": port,
            "http": {"endpoints": {"chatCompletions": {"enabled": True}, "responses": {"enabled": True}}},
        },
        "tools": {"media": {"audio": {"models": [hears]}}},
        "messages": {"tts": {"provider": "tts-local-cli", "providers": {"tts-local-cli": speaks}}},
    }
