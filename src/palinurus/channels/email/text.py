"""What a person wrote in a mail: HTML as text, and without what the mail program quoted below it. Pure."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_BLOCKS = frozenset((
    "p", "div", "br", "tr", "table", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "hr",
    "section", "article", "header", "footer",
))  # fmt: skip
_SILENT = frozenset(("script", "style", "head", "title", "template", "noscript", "svg", "object"))
_VOID = frozenset(("br", "hr", "img", "meta", "link", "input", "area", "base", "col", "embed", "source", "wbr"))
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:[;.\s]|$)", re.I)
_BLANKS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_SPACES = re.compile(r"[ \t\r\f\v\xa0]+")
# The line before quoted text, as mail programs write it.
_WROTE = re.compile(
    r"^(?:on\b.{5,200}\bwrote|am\b.{5,200}\bschrieb\b.{0,120}|le\b.{5,200}\ba écrit|el\b.{5,200}\bescribió"
    r"|il\b.{5,200}\bha scritto|em\b.{5,200}\bescreveu|op\b.{5,200}\bschreef\b.{0,120})\s*:\s*$",
    re.IGNORECASE | re.DOTALL,
)
_DIVIDER = re.compile(
    r"^\s*-{2,}\s*(?:original message|ursprüngliche nachricht|message d'origine|mensaje original|forwarded message)"
    r"\s*-{2,}\s*$|^_{20,}\s*$",
    re.IGNORECASE,
)
_OUTLOOK = re.compile(r"^\*?(?:from|von|de|da)\s*:\*?\s.*\S@\S|^\*?(?:from|von|de|da)\s*:\*?\s\S", re.IGNORECASE)
_SENT = re.compile(r"^\*?(?:sent|gesendet|envoyé|enviado|date|datum)\s*:", re.IGNORECASE)
_FORWARD = re.compile(r"forwarded message|weitergeleitete nachricht", re.IGNORECASE)
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
