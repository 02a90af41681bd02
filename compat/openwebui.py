"""Open WebUI from the package index in front of our gateway: it finds the models, and answers with and without a
stream. Its packages are many and large: uv brings them in minutes, pip did not in a quarter of an hour."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from typing import Any

import apiclients
import place
from tally import Tally

from palinurus.testing.home import TOKEN

VERSION = "0.12.4"
START = 600  # seconds


def drive(cache: str, tally: Tally) -> None:
    """Install, start, ask."""
    folder = os.path.join(cache, f"open-webui-{VERSION}")
    program = os.path.join(folder, "bin", "open-webui")
    tools = place.install_pip(folder, "uv")
    if not os.path.exists(program):
        line = [os.path.join(tools, "uv"), "pip", "install", "-q", "--python", os.path.join(tools, "python")]
        done = subprocess.run([*line, f"open-webui=={VERSION}"], capture_output=True, text=True)
        if done.returncode:
            raise place.NotInstalled(done.stderr.strip()[-300:])
    with apiclients.start_gateway() as base:
        _visit(program, base, tally)


def _visit(program: str, base: str, tally: Tally) -> None:
    root, port = tempfile.mkdtemp(prefix="openwebui-"), place.free_port()
    names = {"OPENAI_API_BASE_URL": base, "OPENAI_API_KEY": TOKEN, "DATA_DIR": root, "HF_HUB_OFFLINE": "1"}
    names |= {"WEBUI_AUTH": "False", "ENABLE_OLLAMA_API": "False", "RAG_EMBEDDING_ENGINE": "openai"}
    with open(os.path.join(root, "log"), "wb") as log:
        line = [program, "serve", "--host", "127.0.0.1", "--port", str(port)]
        page = subprocess.Popen(line, cwd=root, env={**os.environ, **names}, stdout=log, stderr=log)
    here = f"http://127.0.0.1:{port}/api"
    try:
        if not place.listens(port, START):
            tally.note("open webui: starts", False, f"see {root}/log")
            return
        time.sleep(1)
        token = _ask(f"{here}/v1/auths/signin", {"email": "", "password": ""}, "")["token"]
        models = [one["id"] for one in _ask(f"{here}/models", None, token)["data"]]
        tally.note("open webui: models", "openclaw" in models, str(models))
        asked: dict[str, Any] = {"model": "openclaw", "messages": [{"role": "user", "content": "SAY hello there"}]}
        said = _ask(f"{here}/chat/completions", asked, token)
        tally.note("open webui: chat", said["choices"][0]["message"]["content"] == "hello there", str(said))
        streamed = _fetch(f"{here}/chat/completions", {**asked, "stream": True}, token)
        rows = [json.loads(row[6:]) for row in streamed.splitlines() if row.startswith("data: {")]
        parts = [one["choices"][0]["delta"].get("content") or "" for one in rows if one.get("choices")]
        tally.note("open webui: stream", "".join(parts) == "hello there", streamed[:2000])
    finally:
        page.terminate()
        page.wait(30)


def _ask(url: str, body: dict[str, Any] | None, token: str) -> Any:
    return json.loads(_fetch(url, body, token))


def _fetch(url: str, body: dict[str, Any] | None, token: str) -> str:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(answer.read().decode())
