"""models.login.*, models.logout, mcp.*: signing in to vendors and to tool servers from a page, and how the servers are.

A sign-in is begun (`start`: what to show), looked at (`poll`), helped (`paste`: the address that a browser on another
machine ended at) or ended (`cancel`). Tokens never leave the program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from palinurus.core.untrusted import clean_label
from palinurus.errors import PalinurusError
from palinurus.gateway.context import require
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams

if TYPE_CHECKING:  # loaded when somebody signs in, and where servers are configured
    from palinurus.services.signins import RunningSignIn, SignInTable
    from palinurus.tools.mcp.server import McpServer
    from palinurus.tools.mcp.servers import McpServers

NO_SERVERS = "no MCP servers are configured: `pal mcp add NAME --url ADDRESS`"
Kind = Literal["models", "mcp"]
T = TypeVar("T")


class VendorLoginParams(MethodParams, frozen=True):
    provider: NonEmpty
    device: bool = False  # a code that is typed on another device
    profile: str = ""  # a name, for a second account at the same vendor
    client_id: str = ""  # a client of the owner's own, where the vendor asks for one
    client_secret: str = ""


class VendorLogoutParams(MethodParams, frozen=True):
    provider: NonEmpty
    profile: str = ""


class ServerLoginParams(MethodParams, frozen=True):
    name: NonEmpty
    device: bool = False
    scope: str = ""
    client_id: str = ""
    client_secret: str = ""


class ServerNameParams(MethodParams, frozen=True):
    name: NonEmpty


class RunningLoginParams(MethodParams, frozen=True):
    id: NonEmpty


class PastedAddressParams(MethodParams, frozen=True):
    id: NonEmpty
    address: NonEmpty


def _find_table(call: MethodCall, kind: Kind) -> SignInTable:
    return require(require(call.program.logins, "nobody can sign in here")(kind), NO_SERVERS)


async def _try(work: Awaitable[T]) -> T:
    try:
        return await work
    except PalinurusError as exc:
        raise MethodError(exc.message + (f" ({exc.fix})" if exc.fix else "")) from None


def _find_going(call: MethodCall, kind: Kind, ident: str) -> RunningSignIn:
    try:
        return _find_table(call, kind).find(ident)
    except PalinurusError as exc:
        raise MethodError(f"{exc.message}: {ident[:80]}") from None


def _show(going: RunningSignIn) -> dict[str, Any]:
    shown = going.shown
    told: dict[str, Any] = {"id": going.ident, "kind": shown.kind, "url": shown.url, "state": going.state}
    told |= {"code": shown.code} if shown.code else {}
    told |= {"expiresAt": shown.expires} if shown.expires else {}
    return told | ({"note": going.session.note} if going.session.note else {})


async def start_vendor_login(call: MethodCall, asked: VendorLoginParams) -> dict[str, Any]:
    """Begin to sign in to a vendor; what a person needs."""
    client = {"client_id": asked.client_id, "client_secret": asked.client_secret} if asked.client_id else {}
    table = _find_table(call, "models")
    start = table.start(asked.provider, device=asked.device, profile=asked.profile, client=client)
    return _show(await _try(start))


async def start_server_login(call: MethodCall, asked: ServerLoginParams) -> dict[str, Any]:
    """Begin to sign in to a tool server; what a person needs."""
    said = {"client_id": asked.client_id, "client_secret": asked.client_secret, "scope": asked.scope}
    table = _find_table(call, "mcp")
    return _show(await _try(table.start(asked.name, device=asked.device, client=said)))


def _poll(kind: Kind) -> Callable[[MethodCall, RunningLoginParams], Awaitable[dict[str, Any]]]:
    async def poll_login(call: MethodCall, asked: RunningLoginParams) -> dict[str, Any]:
        """How it is: waiting, done (as whom) or failed (why)."""
        going = _find_going(call, kind, asked.id)
        told = {"id": going.ident, "state": going.state, "account": going.account, "problem": going.problem}
        return {name: value for name, value in told.items() if value}

    return poll_login


def _paste(kind: Kind) -> Callable[[MethodCall, PastedAddressParams], Awaitable[dict[str, Any]]]:
    async def paste_address(call: MethodCall, asked: PastedAddressParams) -> dict[str, Any]:
        """The address that a browser elsewhere was sent to."""
        wrong = _find_going(call, kind, asked.id).session.paste(asked.address)
        return {"taken": not wrong, **({"problem": wrong} if wrong else {})}

    return paste_address


def _cancel(kind: Kind) -> Callable[[MethodCall, RunningLoginParams], Awaitable[dict[str, Any]]]:
    async def cancel_login(call: MethodCall, asked: RunningLoginParams) -> dict[str, Any]:
        """End it."""
        _find_going(call, kind, asked.id)
        await _find_table(call, kind).cancel(asked.id)
        return {"id": asked.id, "cancelled": True}

    return cancel_login


async def list_vendor_logins(call: MethodCall, asked: NoParams | None) -> dict[str, Any]:
    """Where one can sign in, and who is."""
    table = _find_table(call, "models")
    return {"places": table.list_places(), "signIns": table.describe()}


async def log_out_of_vendor(call: MethodCall, asked: VendorLogoutParams) -> dict[str, Any]:
    """Revoke where that can be told, and forget."""
    return {"done": await _try(_find_table(call, "models").sign_out(asked.provider, asked.profile))}


async def log_out_of_server(call: MethodCall, asked: ServerNameParams) -> dict[str, Any]:
    """Revoke where that can be told, and forget."""
    return {"done": await _try(_find_table(call, "mcp").sign_out(asked.name))}


async def list_servers(call: MethodCall, asked: NoParams | None) -> dict[str, Any]:
    """Every configured server, and how it is."""
    servers = call.program.toolservers
    rows = [_describe(call, servers, one.name) for one in call.program.settings.mcp.servers.values()]
    return {"servers": rows}


async def get_server_status(call: MethodCall, asked: ServerNameParams) -> dict[str, Any]:
    """One server, with its tools."""
    if asked.name not in call.program.settings.mcp.servers:
        raise MethodError(f"there is no MCP server {asked.name[:80]!r}")
    servers = call.program.toolservers
    found = servers.all.get(asked.name) if servers is not None else None
    listed = [
        {"name": clean_label(str(one.get("name")), 80), "description": clean_label(str(one.get("description")), 300)}
        for one in (found.listed if found is not None else ())
    ]
    return {**_describe(call, servers, asked.name), "listed": listed}


def _describe(call: MethodCall, servers: McpServers | None, name: str) -> dict[str, Any]:
    settings = call.program.settings.mcp.servers[name]
    server = servers.all.get(name) if servers is not None else None
    told: dict[str, Any] = {
        "name": name,
        "enabled": settings.enabled,
        "transport": settings.wires[0],
        "where": settings.place,
        "contained": bool(settings.command) and settings.contained,
        "state": _name_state(server),
    }
    if server is None or servers is None:
        return told
    told |= {"tools": len(server.listed), "waiting": list(servers.waiting.get(name, ()))}
    told |= {"problem": server.problem} if server.problem and not server.connected else {}
    if server.facts is not None:
        told["server"] = clean_label(f"{server.facts.name} {server.facts.version}".strip(), 120)
        told["protocol"] = clean_label(server.facts.protocol, 40)
    if settings.url:
        told |= {"wantsSignIn": server.locked, "signedIn": bool(servers.tokens and servers.tokens.has(settings))}
    return told


def _name_state(server: McpServer | None) -> str:
    if server is None:
        return "off"
    return "connected" if server.connected else "starting" if server.starting else "stopped"


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("models.login.list", ADMIN, NoParams, list_vendor_logins),
    GatewayMethod("models.login.start", ADMIN, VendorLoginParams, start_vendor_login),
    GatewayMethod("models.login.poll", ADMIN, RunningLoginParams, _poll("models")),
    GatewayMethod("models.login.paste", ADMIN, PastedAddressParams, _paste("models")),
    GatewayMethod("models.login.cancel", ADMIN, RunningLoginParams, _cancel("models")),
    GatewayMethod("models.logout", ADMIN, VendorLogoutParams, log_out_of_vendor),
    GatewayMethod("mcp.list", READ, NoParams, list_servers),
    GatewayMethod("mcp.status", READ, ServerNameParams, get_server_status),
    GatewayMethod("mcp.login.start", ADMIN, ServerLoginParams, start_server_login),
    GatewayMethod("mcp.login.poll", ADMIN, RunningLoginParams, _poll("mcp")),
    GatewayMethod("mcp.login.paste", ADMIN, PastedAddressParams, _paste("mcp")),
    GatewayMethod("mcp.login.cancel", ADMIN, RunningLoginParams, _cancel("mcp")),
    GatewayMethod("mcp.logout", ADMIN, ServerNameParams, log_out_of_server),
)
