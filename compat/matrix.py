"""A real homeserver (Synapse) and a real client with encryption (matrix-nio), both from the package index: an encrypted
chat in both directions, files, `kill -9` of our gateway, and what is said while it is away."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import urllib.request
from typing import Any

import channel
import mail
import place
from tally import Tally, until

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
    url, running = _start_synapse(os.path.join(server, "python"), root)
    own = {"homeserver": url, "userId": "@pal:real", "password": PASSWORD, "dmPolicy": "allowlist"}
    own["allowFrom"] = ["@alice:real"]
    with channel.keep_running(running):
        place.need_listening(root, int(url.rpartition(":")[2]))
        _register(url)
        with channel.run_channel(root, "matrix", own, "@alice:real") as gateway:
            _talk(os.path.join(client, "python"), url, gateway, tally)


def _start_synapse(python: str, root: str) -> tuple[str, subprocess.Popen[bytes]]:
    port = place.free_port()
    with open(os.path.join(root, "hs.yaml"), "w") as out:
        out.write(CONFIG.format(root=root, port=port))
    argv = [python, "-m", "synapse.app.homeserver", "--config-path", os.path.join(root, "hs.yaml")]
    subprocess.run([*argv, "--generate-keys"], check=True, capture_output=True, cwd=root)
    running = place.spawn(argv, root, "synapse")
    return f"http://127.0.0.1:{port}", running


def _register(url: str) -> None:
    for name in ("alice", "pal"):
        wanted = {"username": name, "password": PASSWORD, "auth": {"type": "m.login.dummy"}, "inhibit_login": True}
        _post(url, "register", wanted)


def _post(url: str, path: str, given: dict[str, Any], token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    asked = urllib.request.Request(f"{url}/_matrix/client/v3/{path}", json.dumps(given).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return dict(json.load(answer))


def _talk(python: str, url: str, gateway: channel.ChannelGateway, tally: Tally) -> None:
    store = os.path.join(gateway.root, "alice")

    def say(text: str, wanted: str, room: str) -> dict[str, Any]:
        script = os.path.join(os.path.dirname(__file__), "matrixclient.py")
        argv = [python, script, url, store, "alice", PASSWORD, "@pal:real", room, text, wanted]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {"seen": [], "room": room, "why": done.stderr}

    first = say("SAY Hello there.", "Hello there.", "")
    room = str(first.get("room"))
    tally.note("an encrypted chat, begun by the other side", _got(first, "Hello there."), json.dumps(first)[-1500:])
    gateway.kill()
    gateway.begin()
    again = say("SAY And again.", "And again.", room)
    tally.note("after kill -9 both can read on", _got(again, "And again."), json.dumps(again)[-1500:])
    file = say(f"SAY MEDIA:{gateway.chart}", "chart.txt", room)
    held = [one.get("file") for one in file["seen"] if one["text"] == "chart.txt"]
    tally.note("an encrypted file of ours, fetched and opened", held == [channel.CHART], json.dumps(file))
    with open(os.path.join(store, "file.txt"), "w") as out:
        out.write("SAY a file's words\n")
    sent = say("FILE", "", room)
    inbound = os.path.join(gateway.home, "media", "inbound")
    words = until(lambda: mail.read_tree(inbound), "a file's words", seconds=90)
    tally.note("an encrypted file of theirs", "a file's words" in words, json.dumps(sent))
    gateway.kill()
    say("SAY While away.", "", room)
    gateway.begin()
    later = say("SAY Later.", "Later.", room)
    texts = [one["text"] for one in later["seen"]]
    tally.note("what was said meanwhile is answered", {"While away.", "Later."} <= set(texts), json.dumps(later))
    _check_trust(url, tally)


def _got(told: dict[str, Any], wanted: str) -> bool:
    """Once, and encrypted."""
    found = [one for one in told["seen"] if one["text"] == wanted]
    return len(found) == 1 and not found[0]["open"] and bool(told.get("encrypted"))


def _check_trust(url: str, tally: Tally) -> None:
    """What the server tells others of our device: our account's own keys vouch for it."""
    from palinurus.channels.matrix.sealed.devices import parse_devices

    wanted = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": "alice"}, "password": PASSWORD}
    token = str(_post(url, "login", wanted)["access_token"])
    master, devices = parse_devices(_post(url, "keys/query", {"device_keys": {"@pal:real": []}}, token), "@pal:real")
    tally.note("our device is cross-signed", bool(master) and [one.believed for one in devices] == [True], str(devices))
