"""Links under which others read one conversation as it was when the link was made: shares.* and GET /share/TOKEN.

The token is in the address and nowhere else: the store has its hash. A link gives no right but to read that page, which
is made here, has no script, is of no origin and asks nobody for anything. It ends with its time, when it is taken back,
with its conversation, and with `gateway.controlUi.sharing: false`.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from aiohttp.web_response import Response
from msgspec import Meta

from palinurus.core.format.blocks import parse_blocks
from palinurus.core.format.html import MATRIX, escape_html, write_html
from palinurus.core.spoken import read_spoken
from palinurus.core.stream.answer import read_answer
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.gateway import http, views
from palinurus.gateway.context import SessionKeyParams
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionReader
from palinurus.sessions.entries import MessageEntry, TranscriptEntry
from palinurus.sessions.titles import derive_title
from palinurus.sessions.tree import list_path_to
from palinurus.store.port import Store
from palinurus.store.records import Records

KIND = "share"
DAY = 86_400_000  # ms
MOST = 500  # links at a time
_NONE = HttpFault(404, "there is nothing here, or no longer", "not_found", code="not_found")


class SharedConversation(msgspec.Struct, frozen=True):
    """What a link opens. `leaf`: the last entry that is shown; what is said after it stays private."""

    id: str
    session: str
    session_id: str
    leaf: str
    title: str
    made: int
    until: int


class ShareCreateParams(SessionKeyParams, frozen=True, kw_only=True):
    days: Annotated[int, Meta(ge=1, le=365)] = 7
    title: Annotated[str, Meta(max_length=200)] = ""


class ShareRevokeParams(MethodParams, frozen=True):
    id: NonEmpty


def _records(store: Store) -> Records[SharedConversation]:
    return Records(store, KIND, SharedConversation)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def create_share(call: MethodCall, asked: ShareCreateParams) -> dict[str, Any]:
    """A link for one conversation. Its address is told now and never again."""
    program = call.program
    if not call.gateway.settings.gateway.sharing:
        raise MethodError("links are switched off (gateway.controlUi.sharing)", code="UNAVAILABLE")
    seen, transcript = await call.context.reader.open(asked.resolve(call))
    if seen.record is None or transcript is None or transcript.leaf is None:
        raise MethodError("there is nothing to share yet")
    records, now = _records(program.store), program.clock.now()
    if len(await _drop_old(records, now)) >= MOST:
        raise MethodError(f"there are {MOST} links already; take some back first")
    title = asked.title.strip() or seen.record.label or derive_title(views.list_visible_entries(transcript))
    token = secrets.token_urlsafe(24)
    made = SharedConversation(
        id=secrets.token_hex(6),
        session=str(seen.key),
        session_id=seen.record.sessionId,
        leaf=transcript.leaf,
        title=title,
        made=now,
        until=now + asked.days * DAY,
    )
    await records.put(_hash(token), made)
    return {**_tell(made), "path": f"{program.settings.gateway.page_base}/share/{token}"}


async def _drop_old(records: Records[SharedConversation], now: int) -> dict[str, SharedConversation]:
    """Those that still open something, by the hash of their token."""
    kept = {}
    for key, share in (await records.all()).items():
        if share.until > now:
            kept[key] = share
        else:
            await records.drop(key)
    return kept


def _tell(share: SharedConversation) -> dict[str, Any]:
    return {
        "id": share.id,
        "sessionKey": share.session,
        "title": share.title,
        "createdAtMs": share.made,
        "expiresAtMs": share.until,
    }


async def list_shares(call: MethodCall, asked: None) -> dict[str, Any]:
    """Every link that opens something, newest first; without their addresses, which nobody has."""
    program = call.program
    found = await _drop_old(_records(program.store), program.clock.now())
    shares = sorted(found.values(), key=lambda share: share.made, reverse=True)
    return {"enabled": call.gateway.settings.gateway.sharing, "shares": [_tell(share) for share in shares]}


async def revoke_share(call: MethodCall, asked: ShareRevokeParams) -> dict[str, Any]:
    """From now on the link opens nothing."""
    records = _records(call.program.store)
    found = [key for key, share in (await records.all()).items() if share.id == asked.id]
    for key in found:
        await records.drop(key)
    return {"ok": True, "revoked": bool(found)}


# --- what others see ---------------------------------------------------------------------------------------------


async def serve_share(visit: RouteRequest) -> Response | HttpFault:
    """The page behind a link; the same 404 for all that opens nothing."""
    program = visit.host.program
    if program is None or not visit.host.settings.gateway.sharing:
        return _NONE
    share = await _records(program.store).get(_hash(visit.match["token"]))
    if share is None or share.until <= program.clock.now():
        return _NONE
    record, transcript = await SessionReader(program).read(share.session)
    if record is None or transcript is None or record.sessionId != share.session_id:
        return _NONE  # deleted, or begun anew
    if transcript.entry(share.leaf) is None:
        return _NONE
    page = build_share_page(share.title, list_path_to(transcript, share.leaf))
    return http.reply_bytes(
        page.encode("utf-8", "replace"),
        "text/html",
        Content_Security_Policy=POLICY,
        X_Frame_Options="DENY",
        X_Robots_Tag="noindex, nofollow, noarchive",
    )


STYLE = """
:root { --ink: #1d2330; --soft: #5b6474; --page: #fbfbfd; --bubble: #eaf1f0; --line: #e2e5ec; --link: #0b63ce }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ee; --soft: #a3adbd; --page: #12151c; --bubble: #22303a;
 --line: #2c3342; --link: #6cb0ff } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 47rem; padding: 2rem 1rem 4rem; background: var(--page); color: var(--ink);
 font: 16px/1.6 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.3rem } header, footer { color: var(--soft); font-size: .85rem } header h1 { color: var(--ink) }
article { margin: 1.2rem 0 } article.user { background: var(--bubble); border-radius: 16px; padding: .6rem 1rem;
 margin-left: 12%; width: fit-content; margin-inline-start: auto }
article p { margin: .5rem 0 } a { color: var(--link) } blockquote { margin: 0; padding-left: 1rem;
 border-left: 3px solid var(--line); color: var(--soft) }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; padding: .7rem .9rem;
 font: .85rem/1.5 ui-monospace, monospace } .text { white-space: pre-wrap }
@media print { body { max-width: none; padding: 0 } pre { white-space: pre-wrap } article { break-inside: avoid } }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><p>A conversation with an agent, shared to be read.</p></header>
<main>
{body}
</main>
<footer>Palinurus</footer>
</body>
</html>
"""


def build_share_page(title: str, path: Iterable[TranscriptEntry]) -> str:
    """What the person and the agent said to each other: no tools, no thoughts, no files, nothing of the program's."""
    said = [made for entry in path if isinstance(entry, MessageEntry) and (made := _article(entry))]
    shown = escape_html(title or "A conversation")
    return _PAGE.format(title=shown, style=STYLE, body="\n".join(said) or "<p>Nothing was said.</p>")


def _article(entry: MessageEntry) -> str:
    message = entry.message
    if isinstance(message, UserMessage):
        words = read_spoken(message).words
        return f'<article class="user"><div class="text">{escape_html(words)}</div></article>' if words else ""
    if not isinstance(message, AssistantMessage):
        return ""
    texts = [read_answer(block.text).text for block in message.content if isinstance(block, TextBlock)]
    text = "\n\n".join(text for text in texts if text)
    return f"<article>{write_html(parse_blocks(text), MATRIX)}</article>" if text else ""


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("shares.create", ADMIN, ShareCreateParams, create_share),
    GatewayMethod("shares.list", ADMIN, None, list_shares),
    GatewayMethod("shares.revoke", ADMIN, ShareRevokeParams, revoke_share),
)
