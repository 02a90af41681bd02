"""POST /mcp: our MCP server over HTTP, a message a request, answered with JSON. No session, no stream: the server never
speaks first. Rights are those of the caller, method by method: memory needs operator.admin, speaking to the agent
operator.write.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types
import msgspec
from aiohttp.web_response import Response, StreamResponse
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import BaseModel, ValidationError

from palinurus import __version__, late
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest, read_body
from palinurus.gateway.mcp.face import McpGatewayServer
from palinurus.gateway.rpc import ADMIN, WRITE, ClientDescription, ConnectedClient, MethodCall, MethodError, serve_call

BODY = 4 * 1024 * 1024
Params = dict[str, Any]


class _Inside:
    """Methods of this gateway, with the rights of the HTTP caller."""

    def __init__(self, visit: RouteRequest) -> None:
        info = ClientDescription("mcp", __version__, "http", "mcp", display_name="MCP")
        self._gateway = visit.gateway.clients
        self._client = ConnectedClient(f"mcp-{uuid.uuid4()}", visit.caller, info)

    async def call(self, method: str, params: Params, *, final: bool = False) -> Any:
        found = late.load_part("methods")[method]
        if not self._client.may(found.scope):
            raise MethodError(f"{method} needs the scope {found.scope}")
        call = MethodCall(self._gateway, self._client, str(uuid.uuid4()), method, reply=lambda payload: None)
        return await serve_call(found, call, msgspec.Raw(msgspec.json.encode(params)))


async def handle_mcp(visit: RouteRequest) -> StreamResponse | HttpFault:
    """Answer one message."""
    data = await read_body(visit.request)
    if isinstance(data, HttpFault):
        return data
    try:
        asked = msgspec.json.decode(data[: BODY + 1])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _refuse(None, mcp_types.PARSE_ERROR, "the body is not JSON", status=400)
    if not isinstance(asked, dict) or not isinstance(asked.get("method"), str):
        answered = isinstance(asked, dict) and ("result" in asked or "error" in asked)
        return Response(status=202) if answered else _refuse(None, mcp_types.INVALID_REQUEST, "no method", status=400)
    if asked.get("id") is None:
        return Response(status=202)  # a notification
    settings = visit.host.settings
    target = f"agent:{settings.default_agent}:{settings.session.main_key}"
    may = visit.caller.may
    face = McpGatewayServer(_Inside(visit), target, send=may(WRITE), memory=may(ADMIN))
    params = asked.get("params")
    return await _answer(face, asked["id"], asked["method"], params if isinstance(params, dict) else {})


async def _answer(face: McpGatewayServer, ident: Any, method: str, params: Params) -> Response:
    serve = _serving(face).get(method)
    if serve is None:
        return _refuse(ident, mcp_types.METHOD_NOT_FOUND, f"Method not found: {method[:80]}")
    try:
        told = await serve(params)
    except ValidationError:
        return _refuse(ident, mcp_types.INVALID_PARAMS, f"params of {method} are not understood")
    except MCPError as error:
        return _refuse(ident, error.code, error.message)
    except MethodError as error:
        return _refuse(ident, mcp_types.INVALID_PARAMS, error.message)
    body = told.model_dump(mode="json", by_alias=True, exclude_none=True) if isinstance(told, BaseModel) else told
    return http.reply_json({"jsonrpc": "2.0", "id": ident, "result": body})


def _serving(face: McpGatewayServer) -> Mapping[str, Callable[[Params], Awaitable[Any]]]:
    return {
        "initialize": _initialize,
        "ping": _ping,
        "tools/list": lambda _: face.tools(None, None),
        "tools/call": lambda p: face.call(None, mcp_types.CallToolRequestParams.model_validate(p)),
        "resources/list": lambda _: face.resources(None, None),
        "resources/read": lambda p: face.read(None, mcp_types.ReadResourceRequestParams.model_validate(p)),
        "prompts/list": lambda _: face.prompts(None, None),
        "prompts/get": lambda p: face.prompt(None, mcp_types.GetPromptRequestParams.model_validate(p)),
        "completion/complete": lambda p: face.complete(None, mcp_types.CompleteRequestParams.model_validate(p)),
    }


async def _initialize(params: Params) -> Params:
    wanted = str(params.get("protocolVersion") or "")
    version = wanted if wanted in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
    can: Params = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
    info = {"name": "palinurus", "version": __version__}
    return {"protocolVersion": version, "capabilities": can, "serverInfo": info}


async def _ping(params: Params) -> Params:
    return {}


def _refuse(ident: Any, code: int, message: str, *, status: int = 200) -> Response:
    error = {"code": code, "message": message}
    return http.reply_json({"jsonrpc": "2.0", "id": ident, "error": error}, status)
