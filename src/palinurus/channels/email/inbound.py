"""A mail as bytes -> what is handed in, or why it is not answered: what a person wrote (HTML as text, without what the
mail program quoted below it), and who really wrote it. Pure.

The chat is the correspondent's address, the thread the first mail of the conversation; the event is the Message-ID, so
a mail that comes twice is one turn. Whoever our mail server does not vouch for is `unverified:<address>`, whatever the
From line says: such an id is on nobody's list.
"""

from __future__ import annotations

import email.policy
import hashlib
import re
from calendar import timegm
from collections.abc import Sequence
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.untrusted import clean_label
from palinurus.patterns import compile_late

_BLOCKS = frozenset((
    "p", "div", "br", "tr", "table", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "hr",
    "section", "article", "header", "footer",
))  # fmt: skip
_SILENT = frozenset(("script", "style", "head", "title", "template", "noscript", "svg", "object"))
_VOID = frozenset(("br", "hr", "img", "meta", "link", "input", "area", "base", "col", "embed", "source", "wbr"))
_HIDDEN = compile_late(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:[;.\s]|$)", re.I
)
_BLANKS = compile_late(r"\n[ \t]*(?:\n[ \t]*)+")
_SPACES = compile_late(r"[ \t\r\f\v\xa0]+")
# The line before quoted text, as mail programs write it.
_WROTE = compile_late(
    r"^(?:on\b.{5,200}\bwrote|am\b.{5,200}\bschrieb\b.{0,120}|le\b.{5,200}\ba écrit|el\b.{5,200}\bescribió"
    r"|il\b.{5,200}\bha scritto|em\b.{5,200}\bescreveu|op\b.{5,200}\bschreef\b.{0,120})\s*:\s*$",
    re.IGNORECASE | re.DOTALL,
)
_DIVIDER = compile_late(
    r"^\s*-{2,}\s*(?:original message|ursprüngliche nachricht|message d'origine|mensaje original|forwarded message)"
    r"\s*-{2,}\s*$|^_{20,}\s*$",
    re.IGNORECASE,
)
_OUTLOOK = compile_late(r"^\*?(?:from|von|de|da)\s*:\*?\s.*\S@\S|^\*?(?:from|von|de|da)\s*:\*?\s\S", re.IGNORECASE)
_SENT = compile_late(r"^\*?(?:sent|gesendet|envoyé|enviado|date|datum)\s*:", re.IGNORECASE)
_FORWARD = compile_late(r"forwarded message|weitergeleitete nachricht", re.IGNORECASE)
LINES = 20_000  # more are not looked at


def extract_html_text(html: str) -> str:
    """The text a person would see."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (_SPACES.sub(" ", line).strip() for line in "".join(reader.out).split("\n"))
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._unseen: list[str] = []  # open elements that nobody sees, the outermost first
        self._quotes = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        hidden = tag in _SILENT or "hidden" in given or bool(_HIDDEN.search(given.get("style") or ""))
        if (self._unseen or hidden) and tag not in _VOID:
            self._unseen.append(tag)
        if tag == "blockquote":
            self._quotes += 1
        if tag in _BLOCKS:
            self.out.append("\n")
        if tag == "li" and not self._unseen:
            self.out.append("- ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:
            del self._unseen[len(self._unseen) - 1 - self._unseen[::-1].index(tag) :]
        if tag == "blockquote" and self._quotes:
            self._quotes -= 1
        if tag in _BLOCKS:
            self.out.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            flat = " ".join(data.splitlines()) if data.strip() else " "
            self.out.append(f"> {flat}" if self._quotes and flat.strip() else flat)


def strip_quotes(text: str) -> str:
    """Without the quoted mail below and the signature; all of it if nothing else is left, or if the quotes are
    answered piece by piece, or if something was forwarded to us."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:LINES]
    end = _quoted_from(lines)
    kept = [*lines[:end]]
    for at, line in enumerate(kept):
        if line in ("-- ", "--") and at and len(kept) - at <= 12:
            kept = kept[:at]
            break
    return "\n".join(kept).strip() or text.strip()


def _quoted_from(lines: list[str]) -> int:
    """Where the part begins that somebody else wrote, down to the end; the number of lines if there is none."""
    for at, line in enumerate(lines):
        if _FORWARD.search(line):
            return len(lines)
        if _DIVIDER.match(line) or (_OUTLOOK.match(line) and any(map(_SENT.match, lines[at + 1 : at + 4]))):
            return at
        head = line if line.rstrip().endswith(":") else " ".join(lines[at : at + 2])
        if _WROTE.match(head.strip()) and _only_quotes(lines[at + 1 :], skip=0 if head is line else 1):
            return at
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    return end


def _only_quotes(lines: list[str], skip: int) -> bool:
    rest = [line for line in lines[skip:] if line.strip()]
    return bool(rest) and all(line.lstrip().startswith(">") for line in rest)


_COMMENT = compile_late(r"\([^()]*\)")
_RESULT = compile_late(r"\s*(?P<method>dmarc|dkim|spf)\s*(?:/\s*\d+\s*)?=\s*(?P<result>[a-z]+)", re.IGNORECASE)
_PROPERTY = compile_late(r"(?<![a-z])(?P<name>[a-z]+\.[a-z-]+)\s*=\s*(?P<value>\"[^\"]*\"|[^\s;]+)", re.IGNORECASE)
# What says, per method, for which domain the result holds.
_ABOUT = {"dmarc": ("header.from",), "dkim": ("header.d", "header.i"), "spf": ("smtp.mailfrom", "smtp.helo")}
_DEEP = 10  # comments in comments


def is_verified_sender(results: Sequence[str], server: str, domain: str) -> bool:
    """Does `server` (its authserv-id) vouch that the mail comes from `domain`? A From line proves nothing; our own mail
    server has looked at signatures and senders and wrote its verdict into Authentication-Results (RFC 8601). `results`
    are all headers of that name, topmost first: only that server's counts, and only its topmost, because those below
    can have been in the mail when it came."""
    own = next((body for name, body in map(_split, results) if name == server.lower()), None) if server else None
    if own is None or not domain:
        return False
    passed = False
    for part in _uncommented(own).split(";"):
        found = _RESULT.match(part)
        if found is None:
            continue
        method, good = found["method"].lower(), found["result"].lower() == "pass"
        if method == "dmarc" and found["result"].lower() == "fail":
            return False
        passed = passed or (good and _about(method, part[found.end() :], domain.lower()))
    return passed


def _split(header: str) -> tuple[str, str]:
    head, _, rest = _uncommented(" ".join(header.split())).partition(";")
    return (head.split() or [""])[0].lower(), rest


def _uncommented(text: str) -> str:
    for _ in range(_DEEP):
        shorter = _COMMENT.sub(" ", text)
        if shorter == text:
            break
        text = shorter
    return text


def _about(method: str, part: str, domain: str) -> bool:
    told = {one["name"].lower(): one["value"].strip('"').lower() for one in _PROPERTY.finditer(part)}
    named = [told[name].rpartition("@")[2].rstrip(".") for name in _ABOUT[method] if told.get(name)]
    return bool(named) and _aligned(named[0], domain)


def _aligned(named: str, domain: str) -> bool:
    """The same domain, or one that the From domain lies below."""
    return named == domain or ("." in named and domain.endswith(f".{named}"))


UNVERIFIED = "unverified:"
TEXT = 200_000  # characters of a mail's own text
FILES = 20
PARTS = 200  # of one mail
MESSAGE_ID = compile_late(r"<[^<>\s]{1,250}>")
ADDRESS = compile_late(r"[^\s@<>\",;:()\[\]\\]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)
_ROBOTS = compile_late(r"^(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+_.-].*)?@", re.IGNORECASE)
_REPLY = compile_late(r"^\s*(?:re|aw|antw|sv|r|odp)\s*(?:\[\d+\]\s*)?:", re.IGNORECASE)
_BULK = frozenset(("bulk", "list", "junk", "auto_reply"))


class EmailIdentity(msgspec.Struct, frozen=True):
    """Our account: addresses that are ours, and the server whose verdicts count."""

    addresses: frozenset[str]
    server: str
    account: str


class EmailInbound(InboundWithFiles, frozen=True):
    """A mail to hand in. `references`: the mails before it and itself, oldest first."""

    subject: str = ""
    references: tuple[str, ...] = ()


def parse_mail(raw: bytes, me: EmailIdentity, now: int, where: str) -> EmailInbound | str:
    """The mail, or why it is left alone. `where` names it if it has no Message-ID. Raises nothing for hostile input
    but what `PARSE_ERRORS` lists."""
    mail = message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    address, name = _sender(mail)
    if not address:
        return "it does not say who wrote it"
    if address in me.addresses:
        return "it is our own"
    if why := explain_automatic_mail(mail, address):
        return why
    digest = hashlib.sha256(f"{where} {address}".encode()).hexdigest()[:32]
    ident = next(iter(_all(mail, "message-id")), f"<{digest}@mail>")
    before = _references(mail)
    subject = " ".join(_header(mail, "subject").split())[:300]
    verdicts = [str(one) for one in mail.get_all("authentication-results", [])]
    known = is_verified_sender(verdicts, me.server, address.rpartition("@")[2])
    words, files = _contents(mail)
    if subject and not before and not _REPLY.match(subject) and not words.startswith("/"):
        words = f"Subject: {clean_label(subject, 300)}\n\n{words}".strip()
    inbound = Inbound(
        Target("email", address, me.account, before[0] if before else ident),
        Sender(address if known else f"{UNVERIFIED}{address}", name),
        ident,
        words,
        at=_sent(mail, now),
    )
    return EmailInbound(inbound, files, subject, (*(one for one in before if one != ident), ident))


PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError, MessageError)


def explain_automatic_mail(mail: EmailMessage, address: str) -> str:
    """Why no answer may be given to such a mail; "" for one that a person wrote to us."""
    if _header(mail, "auto-submitted").partition(";")[0].strip().lower() not in ("", "no"):
        return "a program wrote it (Auto-Submitted)"
    if _header(mail, "precedence").strip().lower() in _BULK:
        return "it went to many (Precedence)"
    if any(mail.get(name) for name in ("list-id", "list-post", "list-unsubscribe")):
        return "it came through a mailing list"
    if any(mail.get(name) for name in ("x-autoreply", "x-autorespond", "x-failed-recipients", "x-loop")):
        return "a program wrote it"
    path = mail.get("return-path")
    if path is not None and not str(path).strip(" <>\t\r\n"):
        return "it is a bounce (empty Return-Path)"
    if mail.get_content_type() == "multipart/report":
        return "it is a report about another mail"
    return "nobody reads at that address" if _ROBOTS.match(address) else ""


def _header(mail: EmailMessage, name: str) -> str:
    found = mail.get(name)
    return str(found) if found is not None else ""


def _all(mail: EmailMessage, name: str) -> list[str]:
    return MESSAGE_ID.findall(" ".join(str(one) for one in mail.get_all(name, [])))


def _sender(mail: EmailMessage) -> tuple[str, str]:
    """Address and name; no address unless there is exactly one."""
    fields = mail.get_all("from", [])
    people = [one for field in fields for one in getattr(field, "addresses", ())]
    if len(fields) != 1 or len(people) != 1:
        return "", ""
    address = str(people[0].addr_spec).lower()
    return (address, clean_label(str(people[0].display_name), 80)) if ADDRESS.fullmatch(address) else ("", "")


def _references(mail: EmailMessage) -> tuple[str, ...]:
    """Mails before this one, the first of the conversation first; at most its beginning and the last nine."""
    found = list(dict.fromkeys((*_all(mail, "references"), *_all(mail, "in-reply-to"))))
    return tuple(found if len(found) <= 10 else (found[0], *found[-9:]))


def _sent(mail: EmailMessage, now: int) -> int:
    try:
        at = timegm(parsedate_to_datetime(_header(mail, "date")).utctimetuple()) * 1000  # "-0000" is UTC, not here
    except (ValueError, TypeError, OverflowError, IndexError):
        return now
    return at if 0 < at <= now else now


def _contents(mail: EmailMessage) -> tuple[str, tuple[RemoteFile, ...]]:
    plain, html, files = "", "", list[RemoteFile]()
    for number, part in enumerate(mail.walk()):
        if number >= PARTS or part.is_multipart():
            continue
        kind, attached = part.get_content_type(), part.get_content_disposition() == "attachment"
        if kind in ("text/plain", "text/html") and not attached and not part.get_filename():
            text = _decoded(part)
            plain, html = (plain or text, html) if kind == "text/plain" else (plain, html or text)
        elif kind not in ("application/pgp-signature", "application/pkcs7-signature") and len(files) < FILES:
            data = part.get_payload(decode=True)
            if isinstance(data, bytes) and data:
                files.append(RemoteFile((part.get_filename() or "")[:200] or "attachment", kind, data))
    text = plain if plain.strip() else extract_html_text(html)
    return strip_quotes(text[:TEXT]), tuple(files)


def _decoded(part: object) -> str:
    assert isinstance(part, EmailMessage)
    data = part.get_payload(decode=True)
    raw = data if isinstance(data, bytes) else b""
    try:
        return raw.decode(part.get_content_charset() or "utf-8", "replace")
    except (LookupError, UnicodeError):  # a charset that nobody knows
        return raw.decode("utf-8", "replace")
