"""A webhook's request and answer as values, for the door that reads it and the part that knows what it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class WebhookHead(NamedTuple):
    """What is known before the body is read. `headers` have lower-case names; one that came twice is joined."""

    name: str  # what stands behind the base path: "wake", "agent", or a hook's own
    headers: Mapping[str, str]


class WebhookTerms(NamedTuple):
    """The request may send its body, up to `size` bytes."""

    size: int


class WebhookAnswer(NamedTuple):
    """The answer: an object goes out as JSON, a text as text. `wrong`: the credential was, which is counted."""

    status: int
    body: dict[str, Any] | str
    wrong: bool = False
    retry: int = 0  # seconds after which it may be tried again


def refuse_webhook(status: int, error: str) -> WebhookAnswer:
    """A refusal in the shape clients of OpenClaw know."""
    return WebhookAnswer(status, {"ok": False, "error": error})


WEBHOOK_UNAUTHORIZED = WebhookAnswer(401, "Unauthorized", wrong=True)
WEBHOOK_NOT_FOUND = WebhookAnswer(404, "Not Found")
