"""What a provider's refusal means: status and body -> `ModelFailure`, and the event a failed call ends with. Pure.

Messages are short, without markup and without anything that looks like a credential.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from palinurus.core.types.messages import AssistantMessage, ToolCall
from palinurus.core.types.model import (
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    StreamDecoder,
    StreamDone,
    StreamFailed,
)
from palinurus.patterns import compile_late
from palinurus.providers.redact import blank_secrets

LONGEST = 400  # characters of a message

_STATUS_GROUPS: dict[FailureKind, tuple[int, ...]] = {
    "format": (400, 422),
    "auth": (401, 403),
    "billing": (402,),
    "not_found": (404,),
    "timeout": (408, 504, 524),
    "server": (409, 425, 500, 502),
    "overflow": (413,),
    "rate_limit": (429,),
    "overloaded": (503, 529),
}
STATUSES: dict[int, FailureKind] = {status: kind for kind, found in _STATUS_GROUPS.items() for status in found}

# Error types and codes vendors put into the body, lower case.
_CODE_GROUPS: dict[FailureKind, str] = {
    "auth": "authentication_error invalid_api_key permission_error permission_denied unauthenticated",
    "billing": "billing_error insufficient_quota billing_hard_limit_reached billing_not_active",
    "rate_limit": "rate_limit_error rate_limit_exceeded resource_exhausted tokens requests",
    "overloaded": "overloaded_error overloaded service_unavailable unavailable",
    "server": "api_error server_error internal_error internal_server_error",
    "timeout": "timeout_error",
    "not_found": "not_found_error model_not_found",
    "overflow": "context_length_exceeded exceed_context_size_error request_too_large string_above_max_length",
    "refused": "content_filter content_policy_violation",
    "format": "invalid_request_error invalid_argument",
}
CODES: dict[str, FailureKind] = {code: kind for kind, codes in _CODE_GROUPS.items() for code in codes.split()}

# Phrases decide where statuses are vague; the first that is found wins, if the status allows the kind.
PHRASES: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        "overflow",
        compile_late(
            r"context.?(?:length|window|size|limit)|prompt is too long|input is too long|too many (?:input )?tokens"
            r"|maximum (?:prompt|input) length|input token count.{0,40}exceed|exceeds? the (?:maximum|max).{0,20}tokens"
            r"|reduce the length of|request (?:entity )?too large|exceeds the available context",
            re.I,
        ),
    ),
    (
        "billing",
        compile_late(r"credit balance|insufficient (?:quota|credit|balance|funds)|exceeded your current quota", re.I),
    ),
    ("overloaded", compile_late(r"overloaded|at capacity|temporarily unavailable", re.I)),
    ("rate_limit", compile_late(r"rate.?limit|too many requests", re.I)),
    (
        "not_found",
        compile_late(r"model.{0,60}(?:not found|does not exist|not exist)|no such model|unknown model", re.I),
    ),
    ("refused", compile_late(r"content (?:management )?policy|safety system", re.I)),
)
_VAGUE: frozenset[FailureKind] = frozenset({"format", "server", "rate_limit", "auth", "overflow", "not_found"})
# A 401 whose text mentions a model stays an auth failure; a 429 can only be one of three things.
_ALLOWED: dict[FailureKind, frozenset[FailureKind]] = {
    "format": frozenset({"overflow", "billing", "overloaded", "rate_limit", "not_found", "refused"}),
    "server": frozenset({"overflow", "overloaded", "rate_limit"}),
    "rate_limit": frozenset({"billing", "overloaded"}),
    "auth": frozenset({"billing"}),
    "not_found": frozenset(),
    "overflow": frozenset(),
}

_TAGS = compile_late(r"<(script|style)\b(?:(?!<\1\b).)*?</\1\s*>|<[^>]{0,500}>", re.I | re.S)
_TITLE = compile_late(r"<title[^>]{0,100}>(.{0,200}?)</title", re.I | re.S)
_SPACE = compile_late(r"\s+")


def classify_refusal(status: int, body: bytes, retry_after: float | None = None) -> ModelFailure:
    """An answer whose status is not 200."""
    code, message = _told(body)
    kind = STATUSES.get(status) or ("server" if status >= 500 else "format")
    named = CODES.get(code)
    if named is not None and (kind in _VAGUE) and named != "format":
        kind = named if named != "server" or kind == "format" else kind
    else:
        kind = _phrase(kind, message)
    return ModelFailure(kind, clip_message(message) or f"HTTP {status}", status, retry_after)


def classify_stream_error(error: Any) -> ModelFailure:
    """An error object that came inside a stream that had begun with 200."""
    code, message = _from_json({"error": error})
    status = _status(error)
    kind = CODES.get(code) or STATUSES.get(status) or _phrase("server", message)
    if kind == "format":
        kind = _phrase(kind, message)
    return ModelFailure(kind, clip_message(message) or code or "the provider reported an error", status)


def make_failed(request: ModelRequest, failure: ModelFailure, said: AssistantMessage | None = None) -> StreamFailed:
    """The last event of a call that failed, with what had come of the answer. Calls that were cut off are never run."""
    model = request.model
    said = said or AssistantMessage((), model.api, model.ref.provider, model.ref.model)
    message = msgspec.structs.replace(
        said,
        content=tuple([block for block in said.content if not isinstance(block, ToolCall)]),
        stopReason="aborted" if failure.kind == "aborted" else "error",
        errorMessage=failure.message,
    )
    return StreamFailed(failure, message)


def end_broken_stream(request: ModelRequest, decoder: StreamDecoder, failure: ModelFailure) -> list[ModelEvent]:
    """The stream broke off for `failure`; what had come is kept. A complete answer stays one, unless stopped."""
    events = decoder.close() or [make_failed(request, failure)]
    last = events[-1]
    if not isinstance(last, StreamDone | StreamFailed) or (isinstance(last, StreamDone) and failure.kind != "aborted"):
        return events
    partial = last.failure.partial if isinstance(last, StreamFailed) else True
    return [*events[:-1], make_failed(request, msgspec.structs.replace(failure, partial=partial), last.message)]


def parse_retry_after(values: Iterable[str | None], now: float) -> float | None:
    """Seconds to wait from `retry-after-ms`, then `retry-after` (seconds or an HTTP date). Garbage is None."""
    for scale, text in zip((0.001, 1.0), values, strict=False):
        if not text:
            continue
        try:
            seconds = float(text) * scale
        except ValueError:
            try:
                seconds = timegm(parsedate_to_datetime(text).utctimetuple()) - now
            except (ValueError, TypeError, OverflowError, IndexError):
                continue
        if seconds == seconds and seconds != float("inf"):
            return max(0.0, seconds)
    return None


def clip_message(text: str, secrets: Iterable[str] = ()) -> str:
    """One short line, credentials blanked."""
    text = _SPACE.sub(" ", blank_secrets(text[: LONGEST * 10], tuple(secrets))).strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _phrase(kind: FailureKind, message: str) -> FailureKind:
    allowed = _ALLOWED.get(kind, frozenset())
    return next((k for k, pattern in PHRASES if k in allowed and pattern.search(message)), kind)


def _told(body: bytes) -> tuple[str, str]:
    """(code, message) out of whatever was sent: JSON in a dozen shapes, a page, plain text, nothing."""
    text = body[:65536].decode("utf-8", "replace").strip()
    if text[:1] in ("{", "["):
        try:
            return _from_json(msgspec.json.decode(text))
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass
    if text[:1] == "<":
        title = _TITLE.search(text)
        return "", _TAGS.sub(" ", title.group(1) if title else text).strip()
    return "", text


def _from_json(value: Any) -> tuple[str, str]:
    if isinstance(value, list):
        value = value[0] if value else {}
    if not isinstance(value, dict):
        return "", str(value)[:LONGEST]
    error = value.get("error", value.get("errors", value))
    if isinstance(error, list):
        error = error[0] if error else {}
    if not isinstance(error, dict):
        return str(value.get("code") or "").lower(), str(error or "")
    code = ""
    for key in ("code", "type", "status"):
        word = error.get(key)
        if isinstance(word, str) and (not code or (code not in CODES and word.lower() in CODES)):
            code = word.lower()
    message = next((m for k in ("message", "detail", "msg", "error") if isinstance(m := error.get(k), str) and m), "")
    raw = error.get("metadata", {}).get("raw") if isinstance(error.get("metadata"), dict) else None
    return code, f"{message}: {raw}" if isinstance(raw, str) and raw else message


def _status(error: Any) -> int:
    code = error.get("code", error.get("status")) if isinstance(error, dict) else None
    return code if isinstance(code, int) and 100 <= code < 600 else 0
