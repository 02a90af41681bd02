"""What every request of MCP's stateless revision says of itself, and how its answers are marked. Pure.

There is no handshake: the version and what the client can do come with each request, and headers repeat what is in the
body, for those on the way who do not read bodies. Who disagrees with himself is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from palinurus import __version__
from palinurus.gateway.mcp.face import (
    CAPABILITIES,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_METHOD,
    NO_RESOURCE,
    PARSE_ERROR,
    VERSIONS,
    McpFault,
    Params,
)
from palinurus.patterns import compile_late

STATELESS = "2026-07-28"
KEY = "io.modelcontextprotocol/"
VERSION, CLIENT, LEVEL = f"{KEY}protocolVersion", f"{KEY}clientCapabilities", f"{KEY}logLevel"
SERVER, SUBSCRIPTION = f"{KEY}serverInfo", f"{KEY}subscriptionId"
MISMATCH, MISSING, UNSUPPORTED = -32020, -32021, -32022
STATUS = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, MISMATCH, MISSING, UNSUPPORTED), 400),
    NO_METHOD: 404,
}
TASKS = f"{KEY}tasks"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # the field that Mcp-Name repeats
NAMED |= dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
CACHED = (*LISTS, "resources/read", "server/discover")
GONE = ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
_CODED = compile_late(r"=\?base64\?(.*)\?=")


class Envelope(msgspec.Struct, frozen=True):
    """What a client says with one request."""

    capabilities: Mapping[str, Any]
    level: str = ""  # from which on it wants to be told of log lines; "": of none
    token: object = None  # of whom wants to know how far it is

    @property
    def tasks(self) -> bool:
        """Does the client come back for what takes long?"""
        found = self.capabilities.get("extensions")
        return isinstance(found, dict) and TASKS in found

    def need_tasks(self) -> McpFault:
        """What is said to a client that does not, where it must."""
        return McpFault(MISSING, f"the client needs {TASKS}", {"requiredCapabilities": {"extensions": {TASKS: {}}}})


def is_stateless(message: Any, version: str) -> bool:
    """Is a message of that revision, or of one that we do not know?"""
    if version in VERSIONS:
        return False
    return bool(version) or VERSION in _read_meta(message)


def read_envelope(message: Params, headers: Mapping[str, str]) -> Envelope:
    """Raises McpFault."""
    meta = _read_meta(message)
    if missing := [name for name in (VERSION, CLIENT) if name not in meta]:
        raise McpFault(INVALID_PARAMS, f"params._meta needs {', '.join(missing)}")
    version, method = meta[VERSION], message["method"]
    if headers.get("MCP-Protocol-Version") != version:
        raise McpFault(MISMATCH, "MCP-Protocol-Version is not the version of params._meta")
    if headers.get("Mcp-Method") != method:
        raise McpFault(MISMATCH, "Mcp-Method is not the method of the body")
    value = message["params"].get(NAMED.get(method, ""))
    if value is not None and decode_header(headers.get("Mcp-Name", "")) != value:
        raise McpFault(MISMATCH, f"Mcp-Name is not params.{NAMED[method]}")
    if version != STATELESS:
        data = {"supported": [STATELESS, *VERSIONS], "requested": version}
        raise McpFault(UNSUPPORTED, "this version of the protocol is not spoken here", data)
    if not isinstance(meta[CLIENT], dict):
        raise McpFault(INVALID_PARAMS, f"params._meta: {CLIENT} is an object")
    return Envelope(meta[CLIENT], str(meta.get(LEVEL) or ""), meta.get("progressToken"))


def _read_meta(message: Any) -> Mapping[str, Any]:
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def decode_header(value: str) -> str | None:
    """As it was meant: what no header can hold comes in base64. None: that is none."""
    found = _CODED.fullmatch(value)
    if found is None:
        return value
    try:
        data = base64.b64decode(found[1], validate=True)
        return data.decode() if base64.b64encode(data).decode() == found[1] else None
    except (binascii.Error, ValueError):
        return None


def check_arguments_in_headers(schema: Any, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Arguments that the tool's schema wants repeated (`x-mcp-header`). Raises McpFault."""
    for path, kind, name in _list_repeated(schema, ()):
        value: Any = arguments
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        given = headers.get(f"Mcp-Param-{name}")
        said = decode_header(given) if given is not None else None
        if value is None and given is None:
            continue
        if value is None or given is None or not _is_same(kind, value, said):
            raise McpFault(MISMATCH, f"Mcp-Param-{name} is not the argument {'.'.join(path)}")


def _list_repeated(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    fields = schema.get("properties") if isinstance(schema, dict) else None
    for name, one in fields.items() if isinstance(fields, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("x-mcp-header"), str):
            yield (*path, name), str(one.get("type")), one["x-mcp-header"]
        yield from _list_repeated(one, (*path, name))


def _is_same(kind: str, value: Any, said: str | None) -> bool:
    if isinstance(value, bool):
        return said == ("true" if value else "false")
    if kind == "integer" and isinstance(value, int | float) and said is not None:
        return re.fullmatch(r"-?\d+(\.0+)?", said) is not None and int(said.partition(".")[0]) == value
    return said == str(value)


def describe_server() -> Params:
    """The answer to server/discover."""
    return {"supportedVersions": [STATELESS, *VERSIONS], "capabilities": {**CAPABILITIES, "extensions": {TASKS: {}}}}


def mark_result(method: str, result: Params) -> Params:
    """A result that is whole. What is in it is the owner's, and may be another the next moment."""
    fresh = {"ttlMs": 0, "cacheScope": "private"} if method in CACHED else {}
    info = {"name": "palinurus", "version": __version__}
    return {"resultType": "complete", **fresh, **result, "_meta": {**result.get("_meta", {}), SERVER: info}}


def translate_fault(fault: McpFault, params: Params) -> McpFault:
    """As this revision says it."""
    if fault.code == NO_RESOURCE:
        return McpFault(INVALID_PARAMS, fault.message, {"uri": params.get("uri")})
    return fault
