"""A transcript as JSON, Markdown or HTML, for people and other programs. Pure; everything shown is escaped.

Markdown and HTML tell the current path from its first entry; JSON has every branch.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from palinurus.core.text import repair_surrogates
from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCall, ToolResult
from palinurus.patterns import compile_late
from palinurus.sessions import entries, tree
from palinurus.sessions.transcript import Transcript

_MIME = compile_late(r"image/[a-z0-9.+-]{1,40}", re.ASCII)
_BASE64 = compile_late(r"[A-Za-z0-9+/=\s]*", re.ASCII)
# Transcripts hold what strangers wrote: nothing of it may steer a terminal.
_CONTROL = compile_late(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TICKS = compile_late(r"`{3,}")


class ExportPiece(msgspec.Struct, frozen=True):
    """A part of what was said. `kind`: text, thinking, code, note, image."""

    kind: str
    text: str
    title: str = ""


class ExportBlock(msgspec.Struct, frozen=True):
    """One entry as read: who, when, and its pieces."""

    who: str
    at: str
    pieces: tuple[ExportPiece, ...]
    id: str
    label: str | None = None
    error: bool = False


def to_json(transcript: Transcript, key: str) -> str:
    """Header, every entry, the current path by ids, labels."""
    body: dict[str, Any] = {
        "key": key,
        "sessionId": transcript.session_id,
        "header": msgspec.to_builtins(transcript.header) if transcript.header else None,
        "leaf": transcript.leaf,
        "path": [entry.id for entry in transcript.path_to_leaf()],
        "labels": tree.collect_labels(transcript),
        "entries": [tree.to_plain_entry(entry) for entry in transcript.entries],
        "unreadable": len(transcript.bad),
    }
    text = json.dumps(body, ensure_ascii=False, indent=2, default=str)
    return repair_surrogates(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)) + "\n"


def iterate_blocks(transcript: Transcript) -> Iterator[ExportBlock]:
    """The current path, entry by entry, without those that are only about the tree."""
    labels = tree.collect_labels(transcript)
    for entry in transcript.path_to_leaf():
        pieces = tuple(_pieces(entry))
        if pieces and not tree.is_hidden(entry):
            error = (
                isinstance(entry, entries.MessageEntry)
                and isinstance(entry.message, ToolResult)
                and entry.message.isError
            )
            yield ExportBlock(
                tree.name_speaker(entry), _when(entry), pieces, entry.id, label=labels.get(entry.id), error=error
            )


def _when(entry: entries.TranscriptEntry) -> str:
    at = entries.get_moment(entry)
    return entries.to_iso(at)[:16].replace("T", " ") if 0 < at < 2**47 else ""


def _pieces(entry: entries.TranscriptEntry) -> Iterator[ExportPiece]:
    if isinstance(entry, entries.MessageEntry):
        content = entry.message.content
        for block in (TextBlock(content),) if isinstance(content, str) else content:
            yield _piece(block, code=isinstance(entry.message, ToolResult))
        if isinstance(entry.message, AssistantMessage) and entry.message.errorMessage:
            yield ExportPiece("note", entry.message.errorMessage, "error")
    elif isinstance(entry, entries.CustomMessageEntry):
        for part in (TextBlock(entry.content),) if isinstance(entry.content, str) else entry.content:
            yield _piece(part)
    elif isinstance(entry, entries.CompactionEntry):
        yield ExportPiece("note", entry.summary, "what went before was condensed")
    elif isinstance(entry, entries.BranchSummaryEntry):
        yield ExportPiece("note", entry.summary, "a branch that was left")
    elif isinstance(entry, entries.ModelChangeEntry):
        yield ExportPiece("note", f"{entry.provider}/{entry.modelId}", "model")
    elif isinstance(entry, entries.LevelChangeEntry):
        yield ExportPiece("note", entry.thinkingLevel, "thinking level")


def _piece(block: TextBlock | ThinkingBlock | ImageBlock | ToolCall, *, code: bool = False) -> ExportPiece:
    if isinstance(block, TextBlock):
        return ExportPiece("code" if code else "text", block.text)
    if isinstance(block, ThinkingBlock):
        return ExportPiece("thinking", "(redacted)" if block.redacted else block.thinking)
    if isinstance(block, ImageBlock):
        return ExportPiece("image", block.data, block.mimeType)
    arguments = repair_surrogates(json.dumps(block.arguments, ensure_ascii=False, indent=2, default=str))
    return ExportPiece("code", arguments, block.name or "tool")


def to_markdown(transcript: Transcript, key: str) -> str:
    """One heading an entry; tool calls and results in code fences."""
    out = [f"# {_line(key)}", ""]
    for block in iterate_blocks(transcript):
        out += [f"## {_line(_head(block))}", ""]
        for piece in block.pieces:
            out += [_MARKDOWN[piece.kind](piece), ""]
    return repair_surrogates(_CONTROL.sub("", "\n".join(out)))


def _head(block: ExportBlock) -> str:
    error = " (error)" if block.error else ""
    label = f" [{block.label}]" if block.label else ""
    return f"{block.who}{error}{f' · {block.at}' if block.at else ''}{label}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _fence(piece: ExportPiece) -> str:
    """A fence longer than any in the text, so that the text cannot close it."""
    longest = max((len(run) for run in _TICKS.findall(piece.text)), default=2)
    ticks = "`" * (longest + 1)
    name = f"→ `{_line(piece.title).replace('`', '')}`\n\n" if piece.title else ""
    return f"{name}{ticks}\n{piece.text}\n{ticks}"


def _quote(piece: ExportPiece) -> str:
    title = piece.title or piece.kind
    return "\n".join(f"> {line}" for line in [f"*{title}*", "", *piece.text.splitlines()])


def _picture(piece: ExportPiece) -> str:
    return f"*[{_line(piece.title)}, {len(piece.text) * 3 // 4} bytes]*"


_MARKDOWN = {
    "text": lambda piece: piece.text,
    "thinking": _quote,
    "note": _quote,
    "code": _fence,
    "image": _picture,
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
:root {{ --ink: #1d2330; --soft: #667085; --page: #fbfbfd; --card: #fff; --line: #e2e5ec;
  --mark: #0b63ce; --bad: #b42318 }}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: #e4e7ee; --soft: #98a2b3; --page: #12151c; --card: #1a1f29; --line: #2c3342;
  --mark: #6cb0ff; --bad: #f97066 }}
}}
* {{ box-sizing: border-box }}
body {{ margin: 0 auto; max-width: 52rem; padding: 2rem 1rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere }}
h1 {{ font-size: 1.2rem; font-weight: 600 }}
article {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin: 1rem 0;
  padding: .8rem 1rem }}
article.user {{ border-left: 4px solid var(--mark) }}
article.error {{ border-left: 4px solid var(--bad) }}
header {{ color: var(--soft); font-size: .85rem; display: flex; gap: .8rem; flex-wrap: wrap }}
header b {{ color: var(--ink) }}
header a {{ margin-left: auto; color: var(--soft); text-decoration: none; font-family: monospace }}
.text {{ white-space: pre-wrap; margin: .4rem 0 }}
pre {{ white-space: pre-wrap; overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; padding: .6rem;
  font: 13px/1.45 ui-monospace, monospace; margin: .4rem 0; max-height: 30rem }}
details, .note {{ color: var(--soft); margin: .4rem 0 }}
img {{ max-width: 100%; border-radius: 6px }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def to_html(transcript: Transcript, key: str) -> str:
    """One file that needs nothing else: no scripts, no addresses, light or dark as the reader's screen is."""
    body = "\n".join(_article(block) for block in iterate_blocks(transcript))
    return repair_surrogates(_PAGE.format(title=_safe(key), body=body or "<p>Nothing was said yet.</p>"))


def _article(block: ExportBlock) -> str:
    kinds = "user" if block.who == "user" else "error" if block.error else "other"
    label = f"<span>[{_safe(block.label)}]</span>" if block.label else ""
    ident = _safe(block.id)
    head = f'<b>{_safe(block.who)}</b><span>{_safe(block.at)}</span>{label}<a href="#{ident}">{ident}</a>'
    parts = "\n".join(_HTML[piece.kind](piece) for piece in block.pieces)
    return f'<article id="{ident}" class="{kinds}">\n<header>{head}</header>\n{parts}\n</article>'


def _safe(text: str) -> str:
    return html.escape(_CONTROL.sub("", text), quote=True)


def _image(piece: ExportPiece) -> str:
    """Only what is plainly an image in base64; SVG can carry scripts."""
    mime = piece.title.lower()
    if not _MIME.fullmatch(mime) or "svg" in mime or not _BASE64.fullmatch(piece.text):
        return '<p class="note">an image that cannot be shown</p>'
    return f'<img alt="" src="data:{mime};base64,{"".join(piece.text.split())}">'


def _details(piece: ExportPiece) -> str:
    return f'<details><summary>{piece.kind}</summary><div class="text">{_safe(piece.text)}</div></details>'


def _code(piece: ExportPiece) -> str:
    title = f'<p class="note">→ {_safe(piece.title)}</p>' if piece.title else ""
    return f"{title}<pre>{_safe(piece.text)}</pre>"


_HTML = {
    "text": lambda piece: f'<div class="text">{_safe(piece.text)}</div>',
    "thinking": _details,
    "note": lambda piece: f'<div class="note text">{_safe(piece.title)}: {_safe(piece.text)}</div>',
    "code": _code,
    "image": _image,
}

FORMATS = {"json": to_json, "markdown": to_markdown, "html": to_html}
SUFFIXES = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
