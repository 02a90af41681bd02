"""HTTP as all routes do it: bodies read within limits, refusals as values in the shape OpenAI's clients expect, and
responses with the headers every one carries.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import unquote

import msgspec
from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from msgspec.structs import replace

from palinurus.core.types.caller import Caller
from palinurus.core.types.model import ModelFailure
from palinurus.errors import BadRequest, DiskFull, Draining, NotFound, PalinurusError, QueueFull, Unauthorized
from palinurus.gateway.limits import BODY, BODY_SECONDS

if TYPE_CHECKING:
    from palinurus.gateway.port import GatewayHost
    from palinurus.gateway.server import GatewayServer

S = TypeVar("S", bound=msgspec.Struct)
_UNKNOWN = "Object contains unknown field `"


class RouteRequest(msgspec.Struct, frozen=True):
    """One request on its way to a handler. On routes that need no scope `caller` is nobody, whatever
    credential came along."""

    request: BaseRequest
    match: re.Match[str]  # of its path
    gateway: GatewayServer
    address: str
    caller: Caller

    @property
    def host(self) -> GatewayHost:
        """The program."""
        return self.gateway.host

    def part(self, name: str) -> str:
        """A piece of the path, as it was meant."""
        return unquote(self.match[name])


class HttpFault(msgspec.Struct, frozen=True):
    """A request that gets no answer. `retry`: may the client try the same again by itself?"""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = {}
    retry: bool = False
    close: bool = False  # the connection is not worth keeping

    def body(self) -> bytes:
        """The JSON error object."""
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}
        )


RESPONSES_OFF = HttpFault(
    404, "responses are switched off (gateway.http.endpoints.responses)", "not_found", code="switched_off"
)


def make_bad_request(message: str, param: str | None = None, code: str = "invalid_value") -> HttpFault:
    """A 400."""
    return HttpFault(400, message, param=param, code=code)


class BodyProblem(msgspec.Struct, frozen=True):
    """Why a body was not read."""

    kind: Literal["encoding", "large", "late", "broken"]
    detail: str = ""


async def read_limited(request: BaseRequest, most: int, seconds: float, *, packed: bool = False) -> bytes | BodyProblem:
    """The body, of at most `most` bytes and within `seconds` for the whole of it; compressed only with `packed`."""
    if not packed and request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return BodyProblem("encoding")
    if (request.content_length or 0) > most:
        return BodyProblem("large")
    data = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.content.iter_any():
                data += chunk
                if len(data) > most:
                    return BodyProblem("large")
    except TimeoutError:
        return BodyProblem("late")
    except RequestPayloadError as exc:
        return BodyProblem("broken", str(exc))
    return bytes(data)


async def read_body(request: BaseRequest) -> bytes | HttpFault:
    """The body of a caller who is known, or the refusal."""
    data = await read_limited(request, BODY, BODY_SECONDS)
    if isinstance(data, bytes):
        return data
    status, text, code = {
        "encoding": (415, "compressed bodies are not accepted", "bad_encoding"),
        "large": (413, f"the body is larger than {BODY} bytes", "too_large"),
        "late": (408, "the body did not arrive in time", "slow_body"),
        "broken": (400, f"the body is broken: {data.detail}", "bad_body"),
    }[data.kind]
    return HttpFault(status, text, code=code, close=True)


def decode_body(decoder: msgspec.json.Decoder[S], data: bytes, *, strict: bool = False) -> S | HttpFault:
    """The body as the decoder's type, or what is wrong with it; `strict` says it in the words of the Responses API."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as exc:
        text, _, path = str(exc).partition(" - at `$")
        if strict and text.startswith(_UNKNOWN):
            name = text.removeprefix(_UNKNOWN).rstrip("`")
            return make_bad_request(f"Unrecognized key: {name}", name, code="unknown_parameter")
        return make_bad_request(text if strict else str(exc), path.strip("`.") or None, code="invalid_value")
    except (msgspec.DecodeError, UnicodeError) as exc:
        return make_bad_request(f"the body is not valid JSON: {exc}", code="invalid_json")
    except RecursionError:
        return make_bad_request("the body is nested too deeply", code="invalid_json")


async def read_json(request: BaseRequest, decoder: msgspec.json.Decoder[S]) -> S | HttpFault:
    """The body as the decoder's type, an empty one as {}; or the refusal."""
    data = await read_body(request)
    if isinstance(data, HttpFault):
        return data
    return decode_body(decoder, data or b"{}")


def join_headers(request: BaseRequest) -> dict[str, str]:
    """Names in lower case; a header that came twice is one with a comma. What is no UTF-8 is replaced: who signs or
    compares a value need not know of half characters."""
    joined = {key.lower(): ", ".join(request.headers.getall(key)) for key in request.headers}
    return {key: value.encode("utf-8", "replace").decode() for key, value in joined.items()}


# Errors of the program. The first class that fits wins, so children stand before parents.
_ERRORS: tuple[tuple[type[PalinurusError], HttpFault], ...] = (
    (BadRequest, HttpFault(400, "", "invalid_request_error")),
    (Unauthorized, HttpFault(401, "", "unauthorized")),
    (NotFound, HttpFault(404, "", "not_found")),
    (QueueFull, HttpFault(429, "", "rate_limit_error", code="queue_full", headers={"Retry-After": "5"}, retry=True)),
    (Draining, HttpFault(503, "", "api_error", code="draining", headers={"Retry-After": "5"}, retry=True)),
    (DiskFull, HttpFault(507, "", "api_error", code="disk_full")),
    (PalinurusError, HttpFault(500, "", "api_error")),
)

# Why a run failed -> what its caller is told. 401 and 403 would say that the *caller's* key is wrong: a bad
# provider key is the gateway's trouble, hence 502.
_RUNS: dict[str, HttpFault] = {
    "auth": HttpFault(502, "", "api_error", code="provider_auth"),
    "billing": HttpFault(502, "", "api_error", code="provider_billing"),
    "rate_limit": HttpFault(429, "", "rate_limit_error", code="provider_rate_limit"),
    "overloaded": HttpFault(503, "", "api_error", code="provider_overloaded"),
    "timeout": HttpFault(408, "", "api_error", code="timeout"),
    "overflow": HttpFault(400, "", "invalid_request_error", code="context_length_exceeded"),
    "not_found": HttpFault(404, "", "invalid_request_error", code="model_not_found"),
    "refused": HttpFault(400, "", "invalid_request_error", code="content_filter"),
    "aborted": HttpFault(409, "", "api_error", code="aborted"),
    "config": HttpFault(500, "", "api_error", code="config"),
    "asked": HttpFault(400, "", "invalid_request_error", code="unsupported_parameter"),  # what its model has not
}
_RUN = HttpFault(502, "", "api_error", code="provider_error")

# Outcomes of a message for which no failure is known (another process ran it, or it never ran).
_OUTCOMES: dict[str, HttpFault] = {
    "failed": HttpFault(500, "", "api_error", code="failed"),
    "refused": HttpFault(403, "", "api_error", code="refused"),
    "aborted": HttpFault(409, "", "api_error", code="aborted"),
    "dead": HttpFault(500, "", "api_error", code="dead"),
}


def make_error_fault(exc: PalinurusError) -> HttpFault:
    """What a caller is told about an exception of ours."""
    row = next(row for kind, row in _ERRORS if isinstance(exc, kind))
    return replace(row, message=str(exc))


def make_outcome_fault(outcome: str | None, note: str, failure: ModelFailure | None) -> HttpFault | None:
    """None when the message was answered (or silence was chosen); else what its caller is told.

    Never to be retried by the client on its own: the message was accepted and has its outcome.
    """
    if outcome in ("answered", "silent"):
        return None
    kind = (
        "asked" if failure and failure.kind == "config" and failure.status == 400 else failure.kind if failure else ""
    )
    row = _RUNS.get(kind, _RUN) if failure else _OUTCOMES.get(outcome or "", _OUTCOMES["failed"])
    message = (failure.message if failure else note) or note or f"the turn ended without an answer ({outcome})"
    headers: dict[str, str] = {}
    if failure and failure.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(failure.retry_after)))
    return replace(row, message=message, headers=headers)


HEADERS = {
    "Server": "palinurus",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(self), geolocation=()",
    "Cache-Control": "no-store",
}


def reply_json(value: object, status: int = 200) -> Response:
    """`value` as JSON."""
    return reply_bytes(msgspec.json.encode(value), status=status)


def reply_bytes(body: bytes, content_type: str = "application/json", status: int = 200, **headers: str) -> Response:
    """Bytes that are JSON already, or another type. Header names with _ for -."""
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, body=body, content_type=content_type, headers={**HEADERS, **extra})


def reply_fault(fault: HttpFault) -> Response:
    """The error object. `x-should-retry` keeps OpenAI's SDK from sending an accepted message again."""
    headers = {**HEADERS, **fault.headers, "x-should-retry": "true" if fault.retry else "false"}
    response = Response(status=fault.status, body=fault.body(), content_type="application/json", headers=headers)
    if fault.close:
        response.force_close()
    return response


async def open_event_stream(request: BaseRequest, headers: Mapping[str, str] = {}) -> StreamResponse:
    """A response that goes on as server-sent events; its head is written."""
    kind = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    response = StreamResponse(headers={**HEADERS, **kind, **headers})
    await response.prepare(request)
    return response


def encode_sse(name: str, data: bytes) -> bytes:
    """One server-sent event; `data` is JSON without line breaks."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
