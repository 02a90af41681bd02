"""A mail as bytes -> what is handed in, or why it is not answered. Pure.

The chat is the correspondent's address, the thread the first mail of the conversation; the event is the Message-ID, so
a mail that comes twice is one turn. Whoever our mail server does not vouch for is `unverified:<address>`, whatever the
From line says: such an id is on nobody's list.
"""

from __future__ import annotations

import email.policy
import hashlib
import re
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from palinurus.channels.email.proof import is_verified_sender
from palinurus.channels.email.text import extract_html_text, strip_quotes
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.untrusted import clean_label

UNVERIFIED = "unverified:"
TEXT = 200_000  # characters of a mail's own text
FILES = 20
PARTS = 200  # of one mail
MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")
ADDRESS = re.compile(r"[^\s@<>\",;:()\[\]\\]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)
_ROBOTS = re.compile(r"^(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+_.-].*)?@", re.IGNORECASE)
_REPLY = re.compile(r"^\s*(?:re|aw|antw|sv|r|odp)\s*(?:\[\d+\])?\s*:", re.IGNORECASE)
_BULK = frozenset(("bulk", "list", "junk", "auto_reply"))


class EmailIdentity(NamedTuple):
    """Our account: addresses that are ours, and the server whose verdicts count."""

    addresses: frozenset[str]
    server: str
    account: str


class EmailFile(NamedTuple):
    """A file of a mail."""

    name: str
    mime: str
    data: bytes


class EmailInbound(NamedTuple):
    """A mail to hand in. `references`: the mails before it and itself, oldest first."""

    inbound: Inbound
    files: tuple[EmailFile, ...]
    subject: str
    references: tuple[str, ...]


def parse_mail(raw: bytes, me: EmailIdentity, now: int, where: str) -> EmailInbound | str:
    """The mail, or why it is left alone. `where` names it if it has no Message-ID. Raises nothing for hostile input
    but what `STRANGE` lists."""
    mail = message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    address, name = _sender(mail)
    if not address:
        return "it does not say who wrote it"
    if address in me.addresses:
        return "it is our own"
    if why := explain_automatic_mail(mail, address):
        return why
    ident = (
        _first(_all(mail, "message-id")) or f"<{hashlib.sha256(f'{where} {address}'.encode()).hexdigest()[:32]}@mail>"
    )
    before = _references(mail)
    subject = " ".join(_header(mail, "subject").split())[:300]
    known = is_verified_sender(
        [str(one) for one in mail.get_all("authentication-results", [])], me.server, _domain(address)
    )
    words, files = _contents(mail)
    if subject and not before and not _REPLY.match(subject) and not words.startswith("/"):
        words = f"Subject: {clean_label(subject, 300)}\n\n{words}".strip()
    inbound = Inbound(
        Target("email", address, me.account, before[0] if before else ident),
        Sender(address if known else f"{UNVERIFIED}{address}", name),
        ident,
        words,
        _sent(mail, now),
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


def _first(found: list[str]) -> str:
    return found[0] if found else ""


def _sender(mail: EmailMessage) -> tuple[str, str]:
    """Address and name; no address unless there is exactly one."""
    fields = mail.get_all("from", [])
    people = [one for field in fields for one in getattr(field, "addresses", ())]
    if len(fields) != 1 or len(people) != 1:
        return "", ""
    address = str(people[0].addr_spec).lower()
    return (address, clean_label(str(people[0].display_name), 80)) if ADDRESS.fullmatch(address) else ("", "")


def _domain(address: str) -> str:
    return address.rpartition("@")[2]


def _references(mail: EmailMessage) -> tuple[str, ...]:
    """Mails before this one, the first of the conversation first; at most its beginning and the last nine."""
    found = list(dict.fromkeys((*_all(mail, "references"), *_all(mail, "in-reply-to"))))
    return tuple(found if len(found) <= 10 else (found[0], *found[-9:]))


def _sent(mail: EmailMessage, now: int) -> int:
    try:
        at = int(parsedate_to_datetime(_header(mail, "date")).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError, IndexError):
        return now
    return at if 0 < at <= now else now


def _contents(mail: EmailMessage) -> tuple[str, tuple[EmailFile, ...]]:
    plain, html, files = "", "", list[EmailFile]()
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
                files.append(EmailFile((part.get_filename() or "")[:200] or "attachment", kind, data))
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
