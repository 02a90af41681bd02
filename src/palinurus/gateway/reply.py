"""Responses as aiohttp sends them: the headers every one carries, JSON, refusals."""

from __future__ import annotations

import msgspec
from aiohttp import web

from palinurus.gateway.fault import HttpFault

HEADERS = {
    "Server": "palinurus",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(self), geolocation=()",
    "Cache-Control": "no-store",
}


def reply_json(value: object, status: int = 200) -> web.Response:
    """`value` as JSON."""
    return reply_bytes(msgspec.json.encode(value), status=status)


def reply_bytes(body: bytes, content_type: str = "application/json", status: int = 200, **headers: str) -> web.Response:
    """Bytes that are JSON already, or another type. Header names with _ for -."""
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, body=body, content_type=content_type, headers={**HEADERS, **extra})


def reply_fault(fault: HttpFault) -> web.Response:
    """The error object. `x-should-retry` keeps OpenAI's SDK from sending an accepted message again."""
    headers = {**HEADERS, **fault.headers, "x-should-retry": "true" if fault.retry else "false"}
    response = web.Response(status=fault.status, body=fault.body(), content_type="application/json", headers=headers)
    if fault.close:
        response.force_close()
    return response
