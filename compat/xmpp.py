"""A real XMPP server (Prosody, from Debian) and a real client (slixmpp): TLS and SCRAM, a chat, a room, files, what is
said while we are away, `kill -9`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from typing import Any

import channel
import place
from tally import Tally, until

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
    port, server = _start_prosody(root)
    room, human = f"den@rooms.{DOMAIN}", f"human@{DOMAIN}"
    own = {"jid": f"pal@{DOMAIN}", "password": "pal pass phrase", "host": "127.0.0.1", "port": port, "rooms": [room]}
    own |= {"tlsCaFile": f"{root}/cert.pem", "dmPolicy": "allowlist", "allowFrom": [human], "groupPolicy": "open"}
    with channel.keep_running(server):
        place.need_listening(root, port)
        with channel.run_channel(root, "xmpp", own, human) as gateway:
            _talk([os.path.join(client, "python"), "127.0.0.1", str(port)], room, gateway, tally)


def _start_prosody(root: str) -> tuple[int, subprocess.Popen[bytes]]:
    port, http = place.free_port(), place.free_port()
    place.make_certificate(root, DOMAIN)
    os.makedirs(f"{root}/data")
    config = f"{root}/prosody.cfg.lua"
    with open(config, "w") as out:
        out.write(CONFIG.format(root=root, port=port, http=http, domain=DOMAIN))
    for name in ("human", "pal"):
        argv = ["prosodyctl", "--config", config, "register", name, DOMAIN, f"{name} pass phrase"]
        subprocess.run(argv, check=True, capture_output=True)
    server = place.spawn(["prosody", "-F", "--config", config], root, "server")
    return port, server


def _talk(client: list[str], room: str, gateway: channel.ChannelGateway, tally: Tally) -> None:
    python, *where = client
    script, root = os.path.join(os.path.dirname(__file__), "xmppclient.py"), gateway.root

    def say(text: str, wanted: str, to: str = f"pal@{DOMAIN}") -> dict[str, Any]:
        argv = [python, script, *where, f"{root}/cert.pem", f"human@{DOMAIN}", "human pass phrase", to, text, wanted]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        empty = {"texts": [], "files": [], "receipts": 0}
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {**empty, "why": done.stderr[-1500:]}

    first = say("SAY Hello there.", "Hello there.")
    tally.note("a chat over TLS and SCRAM", first["texts"] == ["Hello there."], json.dumps(first))
    tally.note("a receipt", first["receipts"] >= 1, json.dumps(first))
    named = say("pal: SAY In the room.", "In the room.", room)
    tally.note("a room", ["In the room." in one for one in named["texts"]] == [True], json.dumps(named))
    file = say(f"SAY MEDIA:{gateway.chart}", "chart.txt")
    held = _read(file["files"][0]) if file["files"] else b""
    tally.note("a file of ours", held == channel.CHART.encode(), json.dumps(file))
    gateway.kill()
    say("SAY While away.", "")
    gateway.begin()
    later = say("SAY Later.", "Later.")
    # Answers of before he came again are in his archive: a second look finds them.
    tally.note("after kill -9 it answers", "Later." in later["texts"], json.dumps(later))
    kept = until(lambda: _read_archive(root), r"^While away\.$", seconds=60)
    tally.note("what was said meanwhile is answered", kept == "While away.", kept[-800:])


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
