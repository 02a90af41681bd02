"""Twilio's requests and its list of messages -> messages, and the signature of a request. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from calendar import timegm
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.core.types.inbound import Inbound, Sender, Target

MOST_FILES = 10  # Twilio's own limit
_PORTS = {"https": 443, "http": 80}


def read_form(body: bytes) -> list[tuple[str, str]]:
    """The fields of a request as they came, empty ones too: all of them are signed."""
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)


def verify_twilio(token: str, url: str, form: list[tuple[str, str]], given: str) -> bool:
    """X-Twilio-Signature: base64 of the HMAC-SHA1 over the address, then every name and value, sorted by name. Whether
    the usual port stands in the address differs, so both count."""
    tail = "".join(name + value for name, value in sorted(set(form)))
    fits = False
    for address in _spellings(url):
        right = base64.b64encode(hmac.new(token.encode(), (address + tail).encode(), hashlib.sha1).digest())
        fits |= hmac.compare_digest(right, given.encode("utf-8", "replace"))
    return fits and bool(token.strip())


def _spellings(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    host, port = parts.netloc.rpartition("@")[2], _PORTS.get(parts.scheme)
    bare = parts._replace(netloc=host.removesuffix(f":{port}")).geturl()
    return url, bare, parts._replace(netloc=f"{host.removesuffix(f':{port}')}:{port}").geturl()


def parse_form(form: Mapping[str, str], account: str, now: int) -> InboundWithFiles | None:
    """A request's message; None if it tells of none (a report on one of ours)."""
    ident, who = form.get("MessageSid", ""), form.get("From", "")
    if not ident or not who or form.get("MessageStatus", "received") != "received":
        return None
    count = int(form["NumMedia"]) if form.get("NumMedia", "").isdecimal() else 0
    files = [
        _file(url, form.get(f"MediaContentType{number}", ""))
        for number in range(min(count, MOST_FILES))
        if (url := form.get(f"MediaUrl{number}", ""))
    ]
    return _message(ident, who, form.get("Body", ""), now, account=account, files=tuple(files))


def parse_row(row: Mapping[str, Any], account: str, media: tuple[tuple[str, str], ...] = ()) -> InboundWithFiles:
    """A message of Twilio's list; `media` are the addresses and types of its files."""
    files = tuple(_file(url, mime) for url, mime in media[:MOST_FILES])
    text = str(row.get("body") or "")
    return _message(str(row["sid"]), str(row["from"]), text, read_date(row), account=account, files=files)


def _message(ident: str, who: str, text: str, at: int, account: str, files: tuple[RemoteFile, ...]) -> InboundWithFiles:
    target = Target("sms", who, account)
    return InboundWithFiles(Inbound(target, Sender(who), ident, text, at=at, mentioned=True), files)


def _file(url: str, mime: str) -> RemoteFile:
    kind, _, ending = mime.partition("/")
    name = f"{kind or 'file'}.{ending.partition(';')[0]}" if ending.isalnum() else kind or "file"
    return RemoteFile(name, mime, url)


def read_date(row: Mapping[str, Any]) -> int:
    """When Twilio got it, in milliseconds; 0 if it does not say."""
    try:
        return timegm(parsedate_to_datetime(str(row.get("date_created") or "")).utctimetuple()) * 1000
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
