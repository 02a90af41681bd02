"""The door: a message is checked, routed and put on disk; only then may its sender be told."""

from __future__ import annotations

import msgspec

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound, Route
from palinurus.errors import BadRequest
from palinurus.inbox.route import route_inbound
from palinurus.store.ids import make_id
from palinurus.store.port import InboxItem

MAX_TEXT = 1_000_000  # characters
MAX_EVENT = 512

_encoder = msgspec.json.Encoder()


def build_item(inbound: Inbound, settings: Settings, clock: Clock) -> tuple[InboxItem, Route]:
    """The row to store and where it goes. Raises BadRequest with what is wrong."""
    if not inbound.text.strip() and not inbound.images and not inbound.files:
        raise BadRequest("the message is empty")
    if len(inbound.text) > MAX_TEXT:
        raise BadRequest(f"the message has {len(inbound.text):,} characters; at most {MAX_TEXT:,} are taken")
    if len(inbound.event) > MAX_EVENT:
        raise BadRequest(f"the event id or idempotency key is longer than {MAX_EVENT} characters")
    where = route_inbound(inbound, settings)
    if isinstance(where, str):
        raise BadRequest(where)
    now = clock.now()
    ident = make_id(now)
    target = inbound.target
    dedupe = f"{target.channel}/{target.account}/{inbound.event}" if inbound.event else f"id/{ident}"
    return InboxItem(ident, dedupe, str(where.key), where.lane, _encode(inbound), now), where


def _encode(inbound: Inbound) -> bytes:
    try:
        return _encoder.encode(inbound)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError) as exc:
        raise BadRequest(f"the message cannot be stored: {exc}") from exc
