"""One connection's state as the server's lines change it: capabilities, login, nick, rooms. Pure: `feed` takes a line
and says what to send; when `ready` is set we are in.
"""

from __future__ import annotations

import base64
import secrets

import msgspec

from palinurus.channels.irc.messages import IrcContext
from palinurus.channels.irc.wire import IrcLine, fold_name, format_line
from palinurus.channels.kit import RecentDict
from palinurus.config.secrets import Secret

WANTED = (
    "message-tags", "server-time", "account-tag", "account-notify", "extended-join", "echo-message", "batch",
    "draft/chathistory", "chathistory",
)  # fmt: skip
_LOGINS = 5000  # nicks whose login is remembered
_NO_ROOM = frozenset(("403", "405", "407", "471", "473", "474", "475", "476", "477", "480"))


class IrcSettings(msgspec.Struct, frozen=True):
    """What the config says about who we are."""

    nick: str
    username: str
    realname: str
    rooms: tuple[str, ...]
    account: str  # of the config
    login: str = ""  # at the services; "" = the nick
    secret: Secret = Secret()  # at the services
    password: Secret = Secret()  # of the server
    service: str = "NickServ"
    register: str = ""  # the address to register our nick with at the services; "" = it is registered


class IrcRefusal(Exception):
    """The server does not let us in; its text is for people. `login`: our credentials are wrong."""

    def __init__(self, why: str, login: bool = False) -> None:
        super().__init__(why)
        self.login = login


class IrcSession:
    """`feed` every line; send what it returns."""

    def __init__(self, plan: IrcSettings) -> None:
        self.plan = plan
        self.nick = plan.nick
        self.mask = ""
        self.mapping = "rfc1459"
        self.caps: set[str] = set()
        self.logins: RecentDict[str, str] = RecentDict(_LOGINS)
        self.masks: RecentDict[str, str] = RecentDict(_LOGINS)  # nick -> nick!user@host, as last seen
        self.joined: set[str] = set()
        self.refused: dict[str, str] = {}  # room -> why we are not in it
        self.welcome = False
        self.ready = False
        self._offered: set[str] = set()
        self._tries = 0
        self._token = f"ready-{secrets.token_hex(4)}"

    @property
    def here(self) -> IrcContext:
        # Where every line of a person who is logged in says so, one that does not is of somebody who is not.
        logins = {} if "account-tag" in self.caps else self.logins
        return IrcContext(self.nick, self.plan.account, self.mapping, logins)

    def fold(self, name: str) -> str:
        return fold_name(name, self.mapping)

    def opening(self) -> list[bytes]:
        """The first lines."""
        first = [format_line("PASS", self.plan.password.reveal())] if self.plan.password else []
        user = b"USER %s 0 * " % self.plan.username.encode() + format_line("", self.plan.realname).lstrip()
        return [b"CAP LS 302\r\n", *first, format_line("NICK", self.nick), user]

    def feed(self, got: IrcLine) -> list[bytes]:
        """Take in a line. Raises IrcRefusal."""
        if "!" in got.source:
            self._saw(got)
        handler = _HANDLERS.get(got.command)
        if handler is not None:
            return handler(self, got)
        if got.command in _NO_ROOM and self.welcome:
            self.refused[self.fold(got.get(1))] = got.get(-1)
        return []

    def missing(self) -> list[str]:
        """Rooms we want to be in and are not."""
        return [room for room in self.plan.rooms if self.fold(room) not in self.joined]

    def _saw(self, got: IrcLine) -> None:
        low = self.fold(got.nick)
        if low == self.fold(self.nick):
            self.mask = got.source
        self.masks[low] = got.source

    # --- coming in

    def _cap(self, got: IrcLine) -> list[bytes]:
        verb, more, names = got.get(1), got.get(2) == "*", got.get(-1).split()
        if verb == "LS":
            self._offered |= {name.partition("=")[0] for name in names}
            return [] if more else self._ask()
        if verb == "ACK":
            self.caps |= set(names)
            return [b"AUTHENTICATE PLAIN\r\n"] if "sasl" in names else [b"CAP END\r\n"]
        if verb == "DEL":
            self.caps -= set(names)
        return [b"CAP END\r\n"] if verb == "NAK" else []

    def _ask(self) -> list[bytes]:
        wanted = [name for name in WANTED if name in self._offered]
        if self.plan.secret and not self.plan.register and "sasl" in self._offered:
            wanted.append("sasl")
        return [format_line("CAP", "REQ", " ".join(wanted))] if wanted else [b"CAP END\r\n"]

    def _authenticate(self, got: IrcLine) -> list[bytes]:
        who = self.plan.login or self.plan.nick
        word = base64.b64encode(f"{who}\0{who}\0{self.plan.secret.reveal()}".encode()).decode()
        rows = [word[at : at + 400] for at in range(0, len(word), 400)]
        if len(rows[-1]) == 400:
            rows.append("+")
        return [f"AUTHENTICATE {row}\r\n".encode() for row in rows]

    def _in(self, got: IrcLine) -> list[bytes]:
        return [b"CAP END\r\n"]

    def _wrong(self, got: IrcLine) -> list[bytes]:
        raise IrcRefusal(f"the login was refused ({got.get(-1)[:100]}); check nickserv.password", login=True)

    def _shut(self, got: IrcLine) -> list[bytes]:
        raise IrcRefusal(f"the server refuses us: {got.get(-1)[:200]}", login=got.command == "464")

    def _taken(self, got: IrcLine) -> list[bytes]:
        """Our nick is somebody else's: another one, until we may have ours."""
        if self.welcome:
            return []
        self._tries += 1
        wanted = self.plan.nick
        self.nick = wanted + "_" * self._tries if self._tries < 4 else f"{wanted[:5]}{secrets.token_hex(2)}"
        return [format_line("NICK", self.nick)]

    def _bad_nick(self, got: IrcLine) -> list[bytes]:
        if self.welcome:
            return []
        raise IrcRefusal(f"the server does not take the nick {self.nick!r}; set another as channels.irc.nick")

    def _welcome(self, got: IrcLine) -> list[bytes]:
        self.welcome = True
        self.nick = got.get(0) or self.nick
        return []

    def _supports(self, got: IrcLine) -> list[bytes]:
        for one in got.params[1:-1]:
            key, _, value = one.partition("=")
            if key == "CASEMAPPING":
                self.mapping = value
            elif key == "BOT" and len(value) == 1:
                return [format_line("MODE", self.nick, f"+{value}")]
        return []

    def _motd(self, got: IrcLine) -> list[bytes]:
        """We are in: log in the old way if there was no other, enter the rooms, and ask when that is done."""
        out: list[bytes] = []
        if self.plan.secret and self.plan.register:
            words = f"REGISTER {self.plan.secret.reveal()} {self.plan.register}"
            out.append(format_line("PRIVMSG", self.plan.service, words))
        elif self.plan.secret and "sasl" not in self.caps:
            out.append(format_line("PRIVMSG", self.plan.service, f"IDENTIFY {self.plan.secret.reveal()}"))
        out += [format_line("JOIN", room) for room in self.plan.rooms]
        return [*out, format_line("PING", self._token)]

    def _pong(self, got: IrcLine) -> list[bytes]:
        if got.get(-1) == self._token:
            self.ready = True
        return []

    def _ping(self, got: IrcLine) -> list[bytes]:
        return [format_line("PONG", got.get(0))]

    # --- who is who

    def _nick(self, got: IrcLine) -> list[bytes]:
        old, new = self.fold(got.nick), self.fold(got.get(0))
        self.masks.pop(old, None)
        self.masks[new] = f"{got.get(0)}!{got.source.partition('!')[2]}"
        self.logins.pop(new, None)
        if old in self.logins:
            self.logins[new] = self.logins.pop(old)
        if old == self.fold(self.nick):
            self.nick, self.mask = got.get(0), self.masks[new]
        return []

    def _join(self, got: IrcLine) -> list[bytes]:
        if self.fold(got.nick) == self.fold(self.nick):
            self.joined.add(self.fold(got.get(0)))
            self.refused.pop(self.fold(got.get(0)), None)
        elif "extended-join" in self.caps:
            self._logged(got, got.get(1))
        return []

    def _part(self, got: IrcLine) -> list[bytes]:
        """Who shares no room with us may give his nick to another without our seeing it: his login is forgotten."""
        out = self.fold(got.get(1) if got.command == "KICK" else got.nick)
        self.logins.pop(out, None)
        if out == self.fold(self.nick):
            self.joined.discard(self.fold(got.get(0)))
            self.logins.clear()
        return []

    def _account(self, got: IrcLine) -> list[bytes]:
        self._logged(got, got.get(0))
        return []

    def _logged(self, got: IrcLine, account: str) -> None:
        low = self.fold(got.nick)
        if account and account != "*":
            self.logins[low] = account
        else:
            self.logins.pop(low, None)

    def _quit(self, got: IrcLine) -> list[bytes]:
        self.logins.pop(self.fold(got.nick), None)
        self.masks.pop(self.fold(got.nick), None)
        return []


_HANDLERS = {
    "CAP": IrcSession._cap, "AUTHENTICATE": IrcSession._authenticate, "903": IrcSession._in, "907": IrcSession._in,
    "902": IrcSession._wrong, "904": IrcSession._wrong, "905": IrcSession._wrong, "906": IrcSession._wrong,
    "433": IrcSession._taken, "436": IrcSession._taken, "437": IrcSession._taken,
    "432": IrcSession._bad_nick, "464": IrcSession._shut, "465": IrcSession._shut,
    "001": IrcSession._welcome, "005": IrcSession._supports, "376": IrcSession._motd, "422": IrcSession._motd,
    "PONG": IrcSession._pong, "PING": IrcSession._ping, "NICK": IrcSession._nick, "JOIN": IrcSession._join,
    "PART": IrcSession._part, "KICK": IrcSession._part, "ACCOUNT": IrcSession._account, "QUIT": IrcSession._quit,
}  # fmt: skip
