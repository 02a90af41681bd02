"""A real XMPP server (Prosody, from Debian) and a real client (slixmpp): TLS and SCRAM, a chat, a room, files, what is
said while we are away, `kill -9`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

import place
from tally import Tally

from palinurus.testing.home import make_home

SLIXMPP = "1.17.0"
DOMAIN = "real.test"
CONFIG = """
run_as_root = true
pidfile = "{root}/prosody.pid"
data_path = "{root}/data"
modules_enabled = {{ "roster"; "saslauth"; "tls"; "disco"; "carbons"; "mam"; "ping"; "smacks"; "offline" }}
authentication = "internal_hashed"
storage = "internal"
c2s_require_encryption = true
c2s_ports = {{ {port} }}
c2s_interfaces = {{ "127.0.0.1" }}
s2s_ports = {{ }}
http_ports = {{ {http} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{ }}
archive_expires_after = "1w"
default_archive_policy = true
certificates = "{root}"
ssl = {{ key = "{root}/key.pem"; certificate = "{root}/cert.pem" }}
log = {{ info = "{root}/prosody.log" }}
VirtualHost "{domain}"
Component "rooms.{domain}" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_log_by_default = true
  restrict_room_creation = false
  muc_room_default_public_jids = true
Component "files.{domain}" "http_file_share"
  http_external_url = "http://127.0.0.1:{http}/"
  http_host = "127.0.0.1"
"""


def drive(cache: str, tally: Tally) -> None:
    """Install the client, start the server, talk."""
    client = place.install_pip(os.path.join(cache, f"slixmpp-{SLIXMPP}"), f"slixmpp=={SLIXMPP}")
    if shutil.which("prosody") is None:
        raise place.NotInstalled("prosody: `apt-get install prosody`")
    root = tempfile.mkdtemp(prefix="compat-xmpp-")
    print(f"compat: Prosody, slixmpp {SLIXMPP}; logs in {root}", flush=True)
    running: list[subprocess.Popen[bytes]] = []
    try:
        port = _start_prosody(root, running)
        _talk(os.path.join(client, "python"), root, port, running, tally=tally)
    finally:
        for process in reversed(running):
            process.kill()
            process.wait(15)


def _start_prosody(root: str, running: list[subprocess.Popen[bytes]]) -> int:
    port, http = place.free_port(), place.free_port()
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={DOMAIN}"]
    made += ["-addext", f"subjectAltName=DNS:{DOMAIN}", "-keyout", f"{root}/key.pem", "-out", f"{root}/cert.pem"]
    subprocess.run(made, check=True, capture_output=True)
    os.makedirs(f"{root}/data")
    config = f"{root}/prosody.cfg.lua"
    with open(config, "w") as out:
        out.write(CONFIG.format(root=root, port=port, http=http, domain=DOMAIN))
    for name in ("human", "pal"):
        argv = ["prosodyctl", "--config", config, "register", name, DOMAIN, f"{name} pass phrase"]
        subprocess.run(argv, check=True, capture_output=True)
    running.append(place.spawn(["prosody", "-F", "--config", config], root, "server"))
    place.listens(port, 60)
    return port


def _talk(python: str, root: str, port: int, running: list[subprocess.Popen[bytes]], *, tally: Tally) -> None:
    mock, ours = place.free_port(), place.free_port()
    running.append(place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock"))
    place.listens(mock)
    room, human = f"den@rooms.{DOMAIN}", f"human@{DOMAIN}"
    own = {"jid": f"pal@{DOMAIN}", "password": "pal pass phrase", "host": "127.0.0.1", "port": port, "rooms": [room]}
    own |= {"tlsCaFile": f"{root}/cert.pem", "dmPolicy": "allowlist", "allowFrom": [human], "groupPolicy": "open"}
    config = {"channels": {"xmpp": own}, "commands": {"ownerAllowFrom": [f"xmpp:{human}"]}}
    home = make_home(root, config, {"chart.txt": "a chart\n"}, url=f"http://127.0.0.1:{mock}/v1")
    pal = [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", str(ours)]

    def begin() -> subprocess.Popen[bytes]:
        process = place.spawn(pal, root, "gateway")
        running.append(process)
        place.listens(ours)
        time.sleep(3)
        return process

    def say(text: str, wanted: str, to: str = f"pal@{DOMAIN}") -> dict[str, Any]:
        script = os.path.join(os.path.dirname(__file__), "xmppclient.py")
        argv = [
            python,
            script,
            "127.0.0.1",
            str(port),
            f"{root}/cert.pem",
            human,
            "human pass phrase",
            to,
            text,
            wanted,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=150)
        empty = {"texts": [], "files": [], "receipts": 0}
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {**empty, "why": done.stderr[-1500:]}

    gateway = begin()
    first = say("SAY Hello there.", "Hello there.")
    tally.note("a chat over TLS and SCRAM", first["texts"] == ["Hello there."], json.dumps(first))
    tally.note("a receipt", first["receipts"] >= 1, json.dumps(first))
    named = say("pal: SAY In the room.", "In the room.", room)
    tally.note("a room", ["In the room." in one for one in named["texts"]] == [True], json.dumps(named))
    chart = os.path.join(root, "work", "chart.txt")
    file = say(f"SAY MEDIA:{chart}", "chart.txt")
    tally.note("a file of ours", bool(file["files"]) and _read(file["files"][0]) == b"a chart\n", json.dumps(file))
    gateway.kill()
    gateway.wait()
    away = say("SAY While away.", "nothing", f"pal@{DOMAIN}")
    tally.note("(nobody answers while we are away)", not away["texts"], json.dumps(away))
    begin()
    later = say("SAY Later.", "Later.")
    # Answers of before he came again are in his archive: a second look finds them.
    tally.note("after kill -9 it answers", "Later." in later["texts"], json.dumps(later))
    tally.note("what was said meanwhile is answered", "While away." in _read_archive(root), _read_archive(root)[-800:])


def _read_archive(root: str) -> str:
    """What the server keeps of the person's conversations: each text once for every message that holds it."""
    found = ""
    for above, _, names in os.walk(f"{root}/data"):
        for name in names:
            with open(os.path.join(above, name), encoding="utf-8", errors="replace") as source:
                found += source.read()
    return "While away." if found.count("While away.") > found.count("SAY While away.") else found


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return bytes(answer.read())
