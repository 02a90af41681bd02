"""A real homeserver (Synapse) and a real client with encryption (matrix-nio), both from the package index: an encrypted
chat in both directions, files, `kill -9` of our gateway, and what is said while it is away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

import place
from tally import Tally, until

from palinurus.testing.home import make_home

SYNAPSE, NIO = "1.163.2", "0.26.0"
PASSWORD = "a long pass phrase"
CONFIG = """
server_name: "real"
pid_file: "{root}/pid"
listeners: [{{port: {port}, bind_addresses: ["127.0.0.1"], type: http, tls: false, resources: [{{names: [client]}}]}}]
database: {{name: sqlite3, args: {{database: "{root}/db"}}}}
media_store_path: "{root}/media"
signing_key_path: "{root}/key"
trusted_key_servers: []
report_stats: false
enable_registration: true
enable_registration_without_verification: true
rc_message: {{per_second: 1000, burst_count: 1000}}
rc_login: {{address: {{per_second: 1000, burst_count: 1000}}, account: {{per_second: 1000, burst_count: 1000}}}}
"""


def drive(cache: str, tally: Tally) -> None:
    """Install, start, talk."""
    server = place.install_pip(os.path.join(cache, f"synapse-{SYNAPSE}"), f"matrix-synapse=={SYNAPSE}")
    client = place.install_pip(os.path.join(cache, f"nio-{NIO}"), f"matrix-nio[e2e]=={NIO}")
    root = tempfile.mkdtemp(prefix="compat-matrix-")
    print(f"compat: Synapse {SYNAPSE}, matrix-nio {NIO}; logs in {root}", flush=True)
    running: list[subprocess.Popen[bytes]] = []
    try:
        url = _start_synapse(os.path.join(server, "python"), root, running)
        _talk(os.path.join(client, "python"), root, url, running, tally)
    finally:
        for process in reversed(running):
            process.kill()
            process.wait(15)


def _start_synapse(python: str, root: str, running: list[subprocess.Popen[bytes]]) -> str:
    port = place.free_port()
    with open(os.path.join(root, "hs.yaml"), "w") as out:
        out.write(CONFIG.format(root=root, port=port))
    argv = [python, "-m", "synapse.app.homeserver", "--config-path", os.path.join(root, "hs.yaml")]
    subprocess.run([*argv, "--generate-keys"], check=True, capture_output=True, cwd=root)
    running.append(place.spawn(argv, root, "synapse"))
    place.listens(port, 90)
    for name in ("alice", "pal"):
        wanted = {"username": name, "password": PASSWORD, "auth": {"type": "m.login.dummy"}, "inhibit_login": True}
        _post(f"http://127.0.0.1:{port}", "register", wanted)
    return f"http://127.0.0.1:{port}"


def _post(url: str, path: str, given: dict[str, Any], token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    asked = urllib.request.Request(f"{url}/_matrix/client/v3/{path}", json.dumps(given).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return dict(json.load(answer))


def _talk(python: str, root: str, url: str, running: list[subprocess.Popen[bytes]], tally: Tally) -> None:
    mock, port = place.free_port(), place.free_port()
    running.append(place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock"))
    place.listens(mock)
    own = {"homeserver": url, "userId": "@pal:real", "password": PASSWORD, "dmPolicy": "allowlist"}
    own["allowFrom"] = ["@alice:real"]
    config = {"channels": {"matrix": own}, "commands": {"ownerAllowFrom": ["matrix:@alice:real"]}}
    home = make_home(root, config, {"chart.txt": "a chart\n"}, url=f"http://127.0.0.1:{mock}/v1")
    pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(port)]

    def begin() -> subprocess.Popen[bytes]:
        process = place.spawn(pal, root, "gateway")
        running.append(process)
        place.listens(port)
        return process

    def say(text: str, wanted: str, room: str) -> dict[str, Any]:
        script = os.path.join(os.path.dirname(__file__), "matrixclient.py")
        argv = [python, script, url, os.path.join(root, "alice"), "alice", PASSWORD, "@pal:real", room, text, wanted]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=150)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {"seen": [], "room": room, "why": done.stderr}

    gateway = begin()
    time.sleep(2)
    first = say("SAY Hello there.", "Hello there.", "")
    room = str(first.get("room"))
    tally.note("an encrypted chat, begun by the other side", _got(first, "Hello there."), json.dumps(first)[-1500:])
    gateway.kill()
    gateway.wait()
    gateway = begin()
    again = say("SAY And again.", "And again.", room)
    tally.note("after kill -9 both can read on", _got(again, "And again."), json.dumps(again)[-1500:])
    chart = os.path.join(root, "work", "chart.txt")
    file = say(f"SAY MEDIA:{chart}", "chart.txt", room)
    tally.note("an encrypted file of ours", any(one["text"] == "chart.txt" for one in file["seen"]), json.dumps(file))
    with open(os.path.join(root, "alice", "file.txt"), "w") as out:
        out.write("SAY a file's words\n")
    sent = say("FILE", "nothing", room)
    inbound = os.path.join(home, "media", "inbound")
    held = until(lambda: _read_all(inbound), "a file's words", seconds=20)
    tally.note("an encrypted file of theirs", "a file's words" in held, json.dumps(sent))
    gateway.kill()
    gateway.wait()
    away = say("SAY While away.", "nothing", room)
    tally.note("(nobody answers while we are away)", not away["seen"], json.dumps(away))
    begin()
    later = say("SAY Later.", "Later.", room)
    texts = [one["text"] for one in later["seen"]]
    tally.note("what was said meanwhile is answered", {"While away.", "Later."} <= set(texts), json.dumps(later))
    _check_trust(url, tally)


def _got(told: dict[str, Any], wanted: str) -> bool:
    """Once, and encrypted."""
    found = [one for one in told["seen"] if one["text"] == wanted]
    return len(found) == 1 and not found[0]["open"] and bool(told.get("encrypted"))


def _read_all(folder: str) -> str:
    found = ""
    for above, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(above, name), encoding="utf-8", errors="replace") as source:
                found += source.read()
    return found


def _check_trust(url: str, tally: Tally) -> None:
    """What the server tells others of our device: our account's own keys vouch for it."""
    from palinurus.channels.matrix.sealed.devices import parse_devices

    wanted = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": "alice"}, "password": PASSWORD}
    token = str(_post(url, "login", wanted)["access_token"])
    master, devices = parse_devices(_post(url, "keys/query", {"device_keys": {"@pal:real": []}}, token), "@pal:real")
    tally.note("our device is cross-signed", bool(master) and [one.believed for one in devices] == [True], str(devices))
