"""May this host be reached on behalf of the model or of content? Judges URLs, host names and addresses in any form.

Pure: it resolves nothing. The egress guard asks it twice, for the name before it is resolved and for every address that
came out. Python's own `is_global` is not asked: it calls 6to4, NAT64 and IPv4-compatible forms of 127.0.0.1 global.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from palinurus.patterns import compile_late

Kind: TypeAlias = Literal["private", "loopback", "metadata", "benchmark", "unique-local", "other"]
Address: TypeAlias = IPv4Address | IPv6Address

MAX_URL = 8192  # characters
PORTS = {"http": 80, "https": 443}
# Services that read a line at a time and would take an HTTP request for commands.
BAD_PORTS = frozenset(
    {1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
     111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
     540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060,
     5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211, 27017}
)  # fmt: skip

_CLOUD = "the address of a cloud's metadata service"
_V4_TABLE: tuple[tuple[str, Kind, str], ...] = (
    ("169.254.169.254/32", "metadata", _CLOUD),
    ("169.254.170.0/23", "metadata", _CLOUD),
    ("168.63.129.16/32", "metadata", _CLOUD),
    ("192.0.0.192/32", "metadata", _CLOUD),
    ("100.100.100.200/32", "metadata", _CLOUD),
    ("0.0.0.0/8", "loopback", "an address of this machine"),
    ("127.0.0.0/8", "loopback", "a loopback address"),
    ("10.0.0.0/8", "private", "a private address"),
    ("172.16.0.0/12", "private", "a private address"),
    ("192.168.0.0/16", "private", "a private address"),
    ("100.64.0.0/10", "private", "an address of a provider's inner network"),
    ("169.254.0.0/16", "other", "a link-local address"),
    ("192.0.0.0/24", "other", "an address reserved for protocols"),
    ("192.0.2.0/24", "other", "an address for documentation"),
    ("198.51.100.0/24", "other", "an address for documentation"),
    ("203.0.113.0/24", "other", "an address for documentation"),
    ("192.88.99.0/24", "other", "a relay address of 6to4"),
    ("198.18.0.0/15", "benchmark", "an address for benchmarks"),
    ("224.0.0.0/4", "other", "a multicast address"),
    ("240.0.0.0/4", "other", "a reserved address"),
)
_V4 = tuple((IPv4Network(net), kind, why) for net, kind, why in _V4_TABLE)
_V6_TABLE: tuple[tuple[str, Kind, str], ...] = (
    ("fd00:ec2::/32", "metadata", _CLOUD),
    ("fd20:ce::254/128", "metadata", _CLOUD),
    ("::/128", "loopback", "an address of this machine"),
    ("::1/128", "loopback", "a loopback address"),
    ("fc00::/7", "unique-local", "a private address"),
    ("fe80::/10", "other", "a link-local address"),
    ("fec0::/10", "other", "a site-local address"),
    ("ff00::/8", "other", "a multicast address"),
    ("2001:db8::/32", "other", "an address for documentation"),
    ("3fff::/20", "other", "an address for documentation"),
    ("2001::/23", "other", "an address reserved for protocols (Teredo and others)"),
    ("2002::/16", "other", "a 6to4 address"),
    ("3ffe::/16", "other", "a reserved address"),
)
_V6 = tuple((IPv6Network(net), kind, why) for net, kind, why in _V6_TABLE)
_GLOBAL = IPv6Network("2000::/3")  # all that is handed out so far
_NAT64 = IPv6Network("64:ff9b::/96")
# IPv6 forms that carry an IPv4 address: network, how far it stands from the right, and what it is xored with.
_CARRIERS: tuple[tuple[IPv6Network, int, int], ...] = (
    (IPv6Network("::ffff:0:0/96"), 0, 0),
    (IPv6Network("::ffff:0:0:0/96"), 0, 0),
    (_NAT64, 0, 0),
    (IPv6Network("64:ff9b:1::/48"), 0, 0),
    (IPv6Network("2002::/16"), 80, 0),
    (IPv6Network("2001::/32"), 0, 0xFFFFFFFF),
    (IPv6Network("::/96"), 0, 0),
)
_ISATAP = (0x00005EFE, 0x02005EFE)
# Names that mean this machine or its surroundings, whatever they resolve to.
_INNER = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa", "corp", "private")
_NAMED_LABEL = compile_late(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = compile_late(r"0x[0-9a-f]*|[0-9]+")
_DISPUTED = compile_late("[\u00df\u03c2\u200c\u200d]")  # the two standards for names make different hosts of these
_CONTROL = compile_late(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff]")


class AddressRefusal(msgspec.Struct, frozen=True):
    """Why not, in words; and the entry of allowedHosts that would allow it, "" where no setting does."""

    why: str
    entry: str = ""


class UrlParts(msgspec.Struct, frozen=True):
    """A URL that was understood. `host` is in its one form: an address, or a name in lower case and ASCII."""

    scheme: str
    host: str
    port: int
    path: str  # with query, without fragment

    @property
    def numeric(self) -> bool:
        """An address, not a name?"""
        return ":" in self.host or _NUMBER.fullmatch(self.host.rsplit(".", 1)[-1]) is not None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def entry(self) -> str:
        """As allowedHosts names it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


class OpenHosts(msgspec.Struct, frozen=True):
    """What the owner opened. `hosts` holds `host` and `host:port` in their one form (see `entry`)."""

    hosts: frozenset[str] = frozenset()
    private: bool = False
    benchmark: bool = False
    unique_local: bool = False

    def join(self, other: OpenHosts) -> OpenHosts:
        """What either of the two opens."""
        return OpenHosts(
            self.hosts | other.hosts,
            self.private or other.private,
            self.benchmark or other.benchmark,
            self.unique_local or other.unique_local,
        )

    def names(self, spot: UrlParts) -> bool:
        """Is exactly this host opened? A name that only leads to an opened address is not."""
        return spot.entry in self.hosts or spot.host in self.hosts


NO_OPEN_HOSTS = OpenHosts()  # nothing but the open internet


def parse_url(url: str) -> UrlParts | AddressRefusal:
    """The URL taken apart, its host in one form; or what is wrong with it. Says nothing about whether it is open."""
    text = url.strip(" \t\r\n")
    if not text or len(text) > MAX_URL:
        return AddressRefusal("the URL is empty" if not text else f"the URL has more than {MAX_URL} characters")
    if _CONTROL.search(text) or "\\" in text:
        return AddressRefusal("the URL contains white space, control characters or backslashes")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return AddressRefusal("this is not a URL: its host or port cannot be read")
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        return AddressRefusal(f"only http and https are fetched, not {scheme[:32] or 'a URL without a scheme'}")
    if "@" in parts.netloc:
        return AddressRefusal("a URL may not hold a user name or a password")
    if port is not None and not 0 < port < 65536:
        return AddressRefusal(f"{port} is no port")
    host = normalize_host(
        parts.netloc[1 : parts.netloc.index("]")] if parts.netloc.startswith("[") else parts.hostname or ""
    )
    if isinstance(host, AddressRefusal):
        return host
    query = f"?{parts.query}" if parts.query else ""
    return UrlParts(scheme, host, port or PORTS[scheme], (parts.path or "/") + query)


def normalize_host(text: str) -> str | AddressRefusal:
    """A host in its one form: numbers in every notation become an address, names lower-case ASCII."""
    if not text:
        return AddressRefusal("the URL names no host")
    if "%" in text:
        return AddressRefusal("a host may hold neither an interface (%) nor escapes")
    if ":" in text:
        try:
            return str(ip_address(text))
        except ValueError:
            return AddressRefusal(f"{text[:80]} is no address")
    name = _ascii(text)
    if name is None:
        return AddressRefusal(f"{text[:80]} is no host name, or one that must be written as xn--…")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        number = _number(labels)
        return str(number) if number is not None else AddressRefusal(f"{text[:80]} is no address")
    if len(name) > 253 or not all(_NAMED_LABEL.fullmatch(label) for label in labels):
        return AddressRefusal(f"{text[:80]} is no host name")
    return name


def _ascii(text: str) -> str | None:
    """Lower case, one form of each character, without the root's dot."""
    name = unicodedata.normalize("NFKC", text).lower().replace("\u3002", ".")
    if not name.isascii():
        if _DISPUTED.search(name):
            return None
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return None
    return name.removesuffix(".")


def _number(labels: list[str]) -> IPv4Address | None:
    """Decimal, octal or hexadecimal, one to four parts, the last one filling up: what resolvers make of numbers."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        return None
    values = []
    for label in labels:
        octal = len(label) > 1 and label[0] == "0" and label[1] != "x"
        base = 16 if label.startswith("0x") else 8 if octal else 10
        digits = label[2:] if base == 16 else label
        if len(digits) > 32:
            return None
        try:
            values.append(int(digits or "0", base))
        except ValueError:
            return None
    *front, last = values
    if any(value > 255 for value in front) or last >= 256 ** (4 - len(front)):
        return None
    return IPv4Address(sum(value << (24 - 8 * i) for i, value in enumerate(front)) + last)


def judge_url(at: UrlParts, rules: OpenHosts = NO_OPEN_HOSTS) -> AddressRefusal | None:
    """Before anything is resolved: is the name, the address or the port one that is never reached?"""
    if rules.names(at):
        return None
    if at.port in BAD_PORTS:
        return AddressRefusal(f"port {at.port} belongs to a service that is no web server", at.entry)
    if at.numeric:
        return judge_address(at, at.host, rules)
    if at.host in _INNER or at.host.endswith(tuple(f".{name}" for name in _INNER)):
        return AddressRefusal(f"{at.host} is a name of this machine or its own network", at.entry)
    if "." not in at.host:
        return AddressRefusal(f"{at.host} is a name without a dot, which only an inner network knows", at.entry)
    return None


def judge_address(at: UrlParts, address: str, rules: OpenHosts = NO_OPEN_HOSTS) -> AddressRefusal | None:
    """May `address`, which the host of `at` leads to, be connected to?"""
    try:
        value = ip_address(address)
    except ValueError:
        return AddressRefusal(f"{at.host} leads to something that is no address")
    found = _closed(value)
    if found is None:
        return None
    kind, why = found
    said = f"{at.host} is {why}" if str(value) == at.host else f"{at.host} leads to {address}, {why}"
    if rules.names(at):
        # A name the owner opened may lead into the inner network, but not to the keys of the machine.
        return AddressRefusal(said) if kind == "metadata" and str(value) != at.host else None
    opened = (
        (kind in ("private", "unique-local") and rules.private)
        or (kind == "unique-local" and rules.unique_local)
        or (kind == "benchmark" and rules.benchmark)
    )
    return None if opened else AddressRefusal(said, at.entry)


def _closed(value: Address) -> tuple[Kind, str] | None:
    """What is wrong with an address, the gravest first; None for one of the open internet."""
    if isinstance(value, IPv4Address):
        return next(((kind, why) for net, kind, why in _V4 if value in net), None)
    if value.scope_id:
        return "other", "an address on one interface"
    inner = [found for v4 in extract_ipv4(value) if (found := _closed(v4))]
    if inner:
        kind, why = min(inner, key=lambda found: found[0] != "metadata")
        return kind, f"{why} in the clothes of IPv6"
    own = next(((kind, why) for net, kind, why in _V6 if value in net), None)
    if own is not None or value in _GLOBAL or value in _NAT64 or value.ipv4_mapped is not None:
        return own
    return "other", "an address outside the open internet"


def extract_ipv4(value: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses an IPv6 address carries: mapped, compatible, NAT64, 6to4, Teredo (both), ISATAP."""
    number = int(value)
    if number <= 1:
        return []
    found = [(number >> shift ^ mask) & 0xFFFFFFFF for net, shift, mask in _CARRIERS if value in net]
    if number >> 96 == 0x20010000:  # Teredo names its server too
        found.append(number >> 64 & 0xFFFFFFFF)
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(number & 0xFFFFFFFF)
    return [IPv4Address(one) for one in found]


def normalize_allowed_host(text: str) -> str | None:
    """An entry of allowedHosts in its one form (`host` or `host:port`), or None if it cannot be read."""
    text = text.strip()
    text = text.split("://", 1)[1].rstrip("/") if "://" in text else text
    bare = text.count(":") > 1 and not text.startswith("[")
    found = parse_url(f"http://[{text}]" if bare else f"http://{text}")
    if isinstance(found, AddressRefusal) or found.path != "/":
        return None
    with_port = not bare and re.search(r":\d+\Z", text.rpartition("]")[2] or text) is not None
    return found.entry if with_port else found.host
