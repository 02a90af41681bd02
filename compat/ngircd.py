"""A real IRC server (ngIRCd, from Debian): TLS, a password, a room, private messages, lines longer than the server
takes, a nick that is taken, `kill -9`. The person at the other end is a few lines of the protocol."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import tempfile
import time

import channel
import place
from tally import Tally

ROOM = "#den"
CONFIG = """
[Global]
Name = irc.real.test
Info = compat
Listen = 127.0.0.1
Ports = {plain}
Password = server pass phrase
PidFile = {root}/ngircd.pid
[Limits]
MaxConnectionsIP = 0
PingTimeout = 120
PongTimeout = 60
[Options]
Ident = no
PAM = no
DNS = no
MorePrivacy = no
[SSL]
CertFile = {root}/cert.pem
KeyFile = {root}/key.pem
Ports = {port}
[Channel]
Name = {room}
Modes = n
"""


def drive(cache: str, tally: Tally) -> None:
    """Start the server, talk."""
    said = subprocess.run(["ngircd", "--version"], capture_output=True, text=True).stdout
    tally.version = re.sub(r"^ngIRCd ([\d.]+).*", r"\1", said.splitlines()[0]) if said else ""
    root = tempfile.mkdtemp(prefix="compat-irc-")
    print(f"compat: ngIRCd {tally.version}; logs in {root}", flush=True)
    port, plain = place.free_port(), place.free_port()
    place.make_certificate(root, "localhost")
    os.chmod(root, 0o755)  # started by root it becomes somebody else
    os.chmod(f"{root}/key.pem", 0o644)
    with open(f"{root}/ngircd.conf", "w") as out:
        out.write(CONFIG.format(root=root, port=port, plain=plain, room=ROOM))
    server = place.spawn(["ngircd", "-n", "-f", f"{root}/ngircd.conf"], root, "server")
    own = {"host": "localhost", "port": port, "tlsCaFile": f"{root}/cert.pem", "nick": "pal", "channels": [ROOM]}
    own |= {"password": "server pass phrase", "dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"}
    with channel.keep_running(server):
        place.need_listening(root, port)
        with channel.run_channel(root, "irc", own, "human") as gateway:
            _talk(gateway, port, root, tally)


def _talk(gateway: channel.ChannelGateway, port: int, root: str, tally: Tally) -> None:
    human = Person(port, f"{root}/cert.pem", "human")
    tally.has("connected over TLS with the server's password", gateway.see_status(), r"irc/\S+ +ready as pal")
    tally.note("a private message", human.ask("pal", "SAY Hello there.", "Hello there."), human.log())
    human.send(f"JOIN {ROOM}")
    tally.note("it is in the room", human.sees(rf" 353 human . {ROOM} :.*\bpal\b"), human.log())
    human.send(f"PRIVMSG {ROOM} :pal: In the room.")  # the model repeats what it was told, with who said it
    heard = human.sees(rf"^:pal\S* PRIVMSG {ROOM} :.*In the room\.$")
    tally.note("called by name in the room", heard, human.log())
    human.send("PRIVMSG pal :WORDS 300")  # w0 … w299, three lines at least
    got = human.gather("pal", "human", "w299")
    tally.note("a long answer in lines that the server takes", len(got) > 1 and b"w299" in got[-1], str(got))
    _leave(gateway, human, tally)
    human.close()


def _leave(gateway: channel.ChannelGateway, human: Person, tally: Tally) -> None:
    gateway.kill()
    tally.note("(the server sees it leave)", human.sees(r"^:pal\S* QUIT", 60), human.log())
    thief = Person(human.port, human.trust, "pal")  # the name is taken meanwhile
    gateway.begin()
    tally.has("a nick that is taken", gateway.see_status(), r"irc/\S+ +ready as pal_")
    tally.note("after kill -9 it answers", human.ask("pal_", "SAY Once more.", "Once more."), human.log())
    thief.send("QUIT")
    tally.note("its own nick is taken back when it is free", human.sees(r"^:pal_\S* NICK :?pal", 150), human.log())
    thief.close()


class Person:
    """Somebody on the server. Lines that came are kept."""

    def __init__(self, port: int, trust: str, nick: str) -> None:
        self.port, self.trust = port, trust
        context = ssl.create_default_context(cafile=trust)
        self._sock = context.wrap_socket(socket.create_connection(("localhost", port), 30), server_hostname="localhost")
        self._lines: list[str] = []
        self._rest = b""
        self._at = 0  # what was looked at
        for line in ("PASS :server pass phrase", f"NICK {nick}", f"USER {nick} 0 * :{nick}"):
            self.send(line)
        self.sees(r" 001 ")

    def send(self, line: str) -> None:
        self._sock.sendall(line.encode() + b"\r\n")

    def sees(self, pattern: str, seconds: float = 60) -> bool:
        """Whether such a line comes; what is before it is gone."""
        end = time.monotonic() + seconds
        while True:
            for number in range(self._at, len(self._lines)):
                if re.search(pattern, self._lines[number]):
                    self._at = number + 1
                    return True
            self._at = len(self._lines)
            if not self._read(end):
                return False

    def ask(self, to: str, text: str, wanted: str) -> bool:
        """Whether somebody answers exactly this."""
        self.send(f"PRIVMSG {to} :{text}")
        return self.sees(rf"^:{to}\S* PRIVMSG \w+ :{re.escape(wanted)}$")

    def gather(self, nick: str, to: str, last: str) -> list[bytes]:
        """Lines of somebody, until one has the last word."""
        found: list[bytes] = []
        while self.sees(rf"^:{nick}\S* PRIVMSG {to} :"):
            found.append(self._lines[self._at - 1].encode() + b"\r\n")
            if last.encode() in found[-1]:
                break
        return found

    def log(self) -> str:
        return "\n".join(self._lines[-25:])

    def close(self) -> None:
        self._sock.close()

    def _read(self, end: float) -> bool:
        self._sock.settimeout(max(end - time.monotonic(), 0.01))
        try:
            data = self._sock.recv(65_536)
        except (TimeoutError, OSError):
            return False
        if not data:
            return False
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        for line in (one.decode(errors="replace") for one in lines):
            self._lines.append(line)
            if line.startswith("PING"):
                self.send("PONG" + line[4:])
        return True
