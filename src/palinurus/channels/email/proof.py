"""Who really wrote a mail. A From line proves nothing; our own mail server has looked at signatures and senders and
wrote its verdict into Authentication-Results (RFC 8601). Only the header of that server counts, and only the topmost:
those below it can have been in the mail when it came. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMENT = re.compile(r"\([^()]*\)")
_RESULT = re.compile(r"\s*(?P<method>dmarc|dkim|spf)\s*(?:/\s*\d+\s*)?=\s*(?P<result>[a-z]+)", re.IGNORECASE)
_PROPERTY = re.compile(r"(?P<name>[a-z]+\.[a-z-]+)\s*=\s*(?P<value>\"[^\"]*\"|[^\s;]+)", re.IGNORECASE)
# What says, per method, for which domain the result holds.
_ABOUT = {"dmarc": ("header.from",), "dkim": ("header.d", "header.i"), "spf": ("smtp.mailfrom", "smtp.helo")}
_DEEP = 10  # comments in comments


def is_verified_sender(results: Sequence[str], server: str, domain: str) -> bool:
    """Does `server` (its authserv-id) vouch that the mail comes from `domain`? `results` are all headers of that
    name, topmost first."""
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
