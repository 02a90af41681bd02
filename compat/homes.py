"""Real homes of OpenClaw (two versions), hermes and nanobot, made by these programs against a mock model, and what
`pal import` makes of them: every word and file is here, twice is once, the old home is as it was."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import place
from tally import Tally

NEWEST = "2026.9.6"
PYTHON = {"hermes": "hermes-agent==0.19.0", "nanobot": "nanobot-ai==0.3.5"}
WORDS = ("hello from before", "and a second line")
MODEL = {"id": "model", "name": "Model", "contextWindow": 200_000, "maxTokens": 8192}
PATIENCE = 600


def drive(package: str, cache: str, tally: Tally) -> None:
    """All four."""
    root = tempfile.mkdtemp(prefix="homes-")
    print(f"compat: homes of other programs in {root}", flush=True)
    with mock_model(root) as url:
        newest = os.path.join(cache, "palinurus-compat", NEWEST)
        install_newest(newest, os.path.join(package, "node_modules", "node", "bin"))
        for version, where in ((place.VERSION, package), (NEWEST, newest)):
            check(tally, "openclaw", version, make_openclaw(os.path.join(root, version), where, url))
        for program, wheel in PYTHON.items():
            binaries = install_python(os.path.join(cache, "palinurus-compat", wheel), wheel)
            make = make_hermes if program == "hermes" else make_nanobot
            check(tally, program, wheel.partition("==")[2], make(os.path.join(root, program), binaries, url))


@contextmanager
def mock_model(root: str) -> Iterator[str]:
    """A model that echoes; its address."""
    port = place.free_port()
    with open(os.path.join(root, "mock.log"), "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "palinurus.testing.server", "--port", str(port)], stdout=log, stderr=log
        )
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()


def install_newest(package: str, node: str) -> None:
    """The newest OpenClaw refuses to be installed by an older Node than it runs on."""
    if not os.path.exists(os.path.join(package, "node_modules", "openclaw", "openclaw.mjs")):
        os.makedirs(package, exist_ok=True)
        with open(os.path.join(package, "package.json"), "w", encoding="utf-8") as file:
            file.write('{"name": "compat", "private": true}\n')
        print(f"compat: installing openclaw@{NEWEST} (once, some minutes) …", flush=True)
        environ = {**os.environ, "PATH": node + os.pathsep + os.environ["PATH"]}
        names = [f"openclaw@{NEWEST}", f"node@{place.NODE}"]
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", *names], cwd=package, env=environ,
                       capture_output=True, check=True)  # fmt: skip


def install_python(folder: str, wheel: str) -> str:
    """A Python program in an environment of its own; the folder of its commands."""
    if not os.path.exists(os.path.join(folder, ".done")):
        print(f"compat: installing {wheel} (once) …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([os.path.join(folder, "bin", "pip"), "install", "-q", wheel], check=True, capture_output=True)
        open(os.path.join(folder, ".done"), "w").close()
    return os.path.join(folder, "bin")


def make_openclaw(home: str, package: str, url: str) -> str:
    root = os.path.join(home, ".openclaw")
    port = place.free_port()
    provider = {"baseUrl": url, "apiKey": "sk-mock", "api": "openai-completions", "models": [MODEL]}
    put(root, "openclaw.json", json.dumps({
        "gateway": {"mode": "local", "port": port, "auth": {"mode": "token", "token": "token-of-the-test"}},
        "models": {"providers": {"mock": provider}},
        "agents": {"defaults": {"model": {"primary": "mock/model"}, "workspace": "~/.openclaw/workspace"}},
        "mcp": {"servers": {"files": {"command": "true"}}},
    }))  # fmt: skip
    put(root, "skills/mine/SKILL.md", "---\nname: mine\ndescription: my own\n---\nDo it.\n")
    node = os.path.join(package, "node_modules", "node", "bin")
    environ = {**clean(), "HOME": home, "PATH": node + os.pathsep + os.environ["PATH"], "NO_COLOR": "1"}
    program = [os.path.join(node, "node"), os.path.join(package, "node_modules", "openclaw", "openclaw.mjs")]
    with open(os.path.join(home, "gateway.log"), "wb") as log:
        gateway = subprocess.Popen(
            [*program, "gateway", "run", "--port", str(port)], env=environ, stdout=log, stderr=log
        )
    try:
        wait_for(port)
        for words in WORDS:
            run([*program, "agent", "--agent", "main", "-m", words], environ)
        run([*program, "approvals", "allowlist", "add", "--agent", "main", "/usr/bin/git"], environ)
        job = ["--name", "brief", "--cron", "0 8 * * *", "--message", "morning brief", "--session", "isolated"]
        run([*program, "cron", "add", "--token", "token-of-the-test", *job], environ)
    finally:
        gateway.terminate()
        gateway.wait(60)
        subprocess.run(["pkill", "-f", f"gateway run --port {port}"])
        time.sleep(2)
    return root


def make_nanobot(home: str, binaries: str, url: str) -> str:
    root = os.path.join(home, ".nanobot")
    put(root, "config.json", json.dumps({
        "agents": {"defaults": {"model": "model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "sk-mock", "apiBase": url}},
    }))  # fmt: skip
    for words in WORDS:
        run([os.path.join(binaries, "nanobot"), "agent", "-m", words], {**clean(), "HOME": home})
    return root


def make_hermes(home: str, binaries: str, url: str) -> str:
    root = os.path.join(home, ".hermes")
    put(
        root,
        "config.yaml",
        f"model:\n  default: model\n  provider: custom\n  base_url: {url}\n  context_length: 128000\n",
    )
    put(root, ".env", "OPENAI_API_KEY=sk-mock\n")
    environ = {**clean(), "HOME": home}
    for words in WORDS:
        run([os.path.join(binaries, "hermes"), "chat", "-q", words], environ)
    run([os.path.join(binaries, "hermes"), "cron", "create", "every 2h", "morning brief", "--name", "brief"], environ)
    return root


def check(tally: Tally, program: str, version: str, root: str) -> None:
    """Import it twice, and look."""
    before, home = digest(root), os.path.join(os.path.dirname(root), "pal")
    first, second = bring(program, root, home), bring(program, root, home)
    name = f"import {program} {version}"
    lost = [line for line in first if line["fate"] == "lost" and line["part"] not in ("rest", "config", "keys")]
    tally.note(f"{name}: nothing a person made is lost", not lost, str(lost[:3]))
    tally.note(f"{name}: the second time nothing is new", all(x.get("done") for x in second if x["fate"] != "lost"), "")
    tally.note(f"{name}: the old home is as it was", digest(root) == before, "")
    said = b"".join(read(path) for path in walk(home) if path.endswith(".jsonl"))
    tally.note(f"{name}: every word is here", all(words.encode() in said for words in WORDS), "")
    done = subprocess.run([sys.executable, "-m", "palinurus", "--home", home, "doctor", "--json"], capture_output=True)
    tally.note(f"{name}: pal doctor reads it", b"Traceback" not in done.stderr, done.stderr.decode()[-300:])
    if program != "nanobot":  # its jobs are made by the model only
        jobs = subprocess.run([sys.executable, "-m", "palinurus", "--home", home, "cron", "list"], capture_output=True)
        tally.note(f"{name}: the job is here", b"brief" in jobs.stdout, jobs.stdout.decode()[-300:])


def bring(program: str, root: str, home: str) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "palinurus", "--home", home, "import", program, root, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"compat: pal import {program} failed\n{done.stderr.decode()}")
    lines: list[dict[str, str]] = json.loads(done.stdout)["lines"]
    return lines


def run(command: list[str], environ: dict[str, str]) -> None:
    """A command of theirs; what it says if it fails is shown, and the checks will tell."""
    done = subprocess.run(command, env=environ, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    if done.returncode:
        print(f"compat: {command[-3:]}: exit {done.returncode}: {(done.stderr or done.stdout).decode()[-300:]}")


def wait_for(port: int) -> None:
    if not place.listens(port, PATIENCE):
        raise SystemExit(f"compat: nothing listens on port {port}")


def clean() -> dict[str, str]:
    return {
        key: value for key, value in os.environ.items() if not key.startswith(("PALINURUS_", "OPENCLAW_", "HERMES_"))
    }


def put(root: str, name: str, text: str) -> None:
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def walk(root: str) -> list[str]:
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def digest(root: str) -> dict[str, str]:
    return {path: hashlib.sha256(read(path)).hexdigest() for path in walk(root)}
