"""The joint between the connections (`gateway/ws`) and the methods (`gateway/methods`): what a method is, who calls it,
what it may raise, which events there are, and how one call is served. No I/O.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from palinurus.core.types.caller import ADMIN, APPROVALS, NODE, PAIRING, READ, SCOPES, WRITE, Caller
from palinurus.core.types.inbound import Sender, make_sender
from palinurus.errors import BadRequest, DiskFull, Draining, NotFound, PalinurusError, QueueFull, StateError
from palinurus.late import load_part
from palinurus.patterns import compile_late

if TYPE_CHECKING:  # the whole program hangs on these, which a client at the other end does not need
    from palinurus.gateway.clients import GatewayClients
    from palinurus.gateway.context import MethodContext
    from palinurus.inbox.commands.command import CommandContext

log = logging.getLogger(__name__)

__all__ = ["ADMIN", "APPROVALS", "NODE", "PAIRING", "READ", "SCOPES", "WRITE"]  # methods name their scopes from here

ALL_SESSIONS: Final = "sessions"  # the topic of sessions.subscribe; a session's own topic is `make_session_topic(key)`


def make_session_topic(key: str) -> str:
    """The topic of one session (sessions.messages.subscribe)."""
    return f"session:{key}"


class MethodParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """The base of a method's params: JSON names in camelCase, unknown fields refused."""


class NoParams(MethodParams, frozen=True):
    """The params of a method that takes none: what is given is refused."""


NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]  # a text that says something


class ClientDescription(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a client says about itself. Shown and logged; never a reason to allow anything."""

    id: str
    version: str
    platform: str
    mode: str
    display_name: str | None = None
    device_family: str | None = None
    model_identifier: str | None = None
    instance_id: str | None = None


class ConnectedClient(msgspec.Struct, frozen=True):
    """A caller that has logged in, and what it says of itself."""

    conn: str
    caller: Caller
    info: ClientDescription
    caps: frozenset[str] = frozenset()
    at: int = 0  # ms, when it logged in

    @property
    def label(self) -> str:
        """What people call it."""
        return self.info.display_name or self.info.id

    def may(self, scope: str | None) -> bool:
        """Whether it may do what needs `scope`."""
        return self.caller.may(scope)

    def hears(self, kind: GatewayEventKind) -> bool:
        """Whether it is told of such events."""
        return kind.nodes if self.caller.role == NODE else self.may(kind.scope)


class MethodError(Exception):
    """Raised by methods; becomes the error response. `message` is what clients match on."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "INVALID_REQUEST",
        details: Any = None,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms


class GatewayEventKind(msgspec.Struct, frozen=True):
    """An event clients may get. `scope` None: everyone logged in; `kept`: replayed to a client that reconnects."""

    scope: str | None
    kept: bool = True
    listed: bool = True  # in hello-ok's features.events
    nodes: bool = False  # told to nodes as well; those are told nothing else


EVENTS: dict[str, GatewayEventKind] = {
    "connect.challenge": GatewayEventKind(None, kept=False, nodes=True),
    "agent": GatewayEventKind(READ),
    "chat": GatewayEventKind(READ),
    "chat.send_timing": GatewayEventKind(READ, kept=False, listed=False),
    "chat.side_result": GatewayEventKind(READ, listed=False),
    "session.message": GatewayEventKind(READ),
    "session.operation": GatewayEventKind(READ),
    "session.tool": GatewayEventKind(READ),
    "sessions.changed": GatewayEventKind(READ),
    "presence": GatewayEventKind(None, kept=False),
    "tick": GatewayEventKind(None, kept=False, nodes=True),
    "shutdown": GatewayEventKind(None, kept=False, nodes=True),
    "health": GatewayEventKind(None, kept=False),
    "heartbeat": GatewayEventKind(None),
    "cron": GatewayEventKind(READ),
    "talk.mode": GatewayEventKind(WRITE, kept=False),
    "voicewake.changed": GatewayEventKind(READ, kept=False, nodes=True),
    "voicewake.routing.changed": GatewayEventKind(READ, kept=False, nodes=True),
    "canvas": GatewayEventKind(READ, kept=False, listed=False),
    "device.pair.requested": GatewayEventKind(PAIRING),
    "device.pair.resolved": GatewayEventKind(PAIRING),
    "node.pair.requested": GatewayEventKind(PAIRING),
    "node.pair.resolved": GatewayEventKind(PAIRING),
    "node.invoke.request": GatewayEventKind(NODE, kept=False, nodes=True),
    "node.invoke.cancel": GatewayEventKind(NODE, kept=False, listed=False, nodes=True),
    "node.event": GatewayEventKind(READ, kept=False, listed=False),
    "editor.request": GatewayEventKind(ADMIN, kept=False, listed=False),
    "exec.approval.requested": GatewayEventKind(APPROVALS),
    "exec.approval.resolved": GatewayEventKind(APPROVALS),
    "plugin.approval.requested": GatewayEventKind(APPROVALS),
    "plugin.approval.resolved": GatewayEventKind(APPROVALS),
}


class MethodCall(msgspec.Struct, frozen=True):
    """One request on its way to a method."""

    gateway: GatewayClients
    client: ConnectedClient
    id: str
    method: str
    reply: Callable[[Any], None]  # writes a response with ok=true under this id

    def ack(self, payload: Any) -> None:
        """Send the first of two responses (`status` should be "accepted"); what `run` returns is the second."""
        self.reply(payload)

    @property
    def sender(self) -> Sender:
        """Who asks, as the sender of a message."""
        return make_sender(self.client.caller, self.client.label)

    @property
    def context(self) -> MethodContext:
        """What methods about sessions and runs work with."""
        assert self.gateway.context is not None
        return self.gateway.context

    @property
    def program(self) -> CommandContext:
        """What methods may use of the program, as commands do."""
        return self.context.program


class GatewayMethod(msgspec.Struct, frozen=True):
    """A row of the method table. A frozen `params` type (see `MethodParams`) is checked before `run` is called."""

    name: str
    scope: str | None  # an operator scope, NODE, or None: everyone who has logged in
    params: type[msgspec.Struct] | None  # None: params are not looked at, `run` gets None
    run: Callable[[MethodCall, Any], Awaitable[Any]]  # returns the payload; raises MethodError
    write: bool = False  # changes the control plane (config, updates): rate-limited
    listed: bool = True  # in hello-ok's features.methods


def make_method_table(*groups: Iterable[GatewayMethod]) -> dict[str, GatewayMethod]:
    """One table of all groups. Raises ValueError for a name given twice."""
    made: dict[str, GatewayMethod] = {}
    for group in groups:
        for method in group:
            if method.name in made:
                raise ValueError(f"method {method.name} is there twice")
            made[method.name] = method
    return made


# --- one call, from its params to its answer ---------------------------------------------------------------------

_PLACE = compile_late(r" - at `([^`]*)`$")
_TYPES = {
    "int": "integer",
    "str": "string",
    "bool": "boolean",
    "float": "number",
    "object": "object",
    "array": "array",
    "null": "null",
}


async def serve_call(method: GatewayMethod, call: MethodCall, params: msgspec.Raw) -> Any:
    """Run one call that its caller may make: each answer goes to `call.reply`, the last one is returned too.

    Raises MethodError and nothing else.
    """
    try:
        given = None if method.params is None else decode_params(method.name, method.params, params)
        payload = await method.run(call, given)
        call.reply(payload)
        return payload
    except MethodError:
        raise
    except PalinurusError as error:
        raise to_method_error(error) from error
    except Exception as error:  # task boundary: one broken method must not be more than an error response
        log.exception("method %s failed", method.name)
        raise MethodError("internal error; the gateway's log says more", code="UNAVAILABLE") from error


def to_method_error(error: PalinurusError) -> MethodError:
    """What clients are told of an error that a method did not expect."""
    again = isinstance(error, Draining | QueueFull)
    code = "INVALID_REQUEST" if isinstance(error, BadRequest | NotFound) else "UNAVAILABLE"
    told = {"kind": type(error).__name__, "fix": error.fix} if error.fix or not isinstance(error, BadRequest) else None
    return MethodError(
        error.message, code=code, details=told, retryable=again or None, retry_after_ms=1000 if again else None
    )


_KINDS = {kind.__name__: kind for kind in (NotFound, Draining, QueueFull, DiskFull, StateError)}


def from_method_error(error: MethodError) -> PalinurusError:
    """At the other end: the same error again, with what to do about it."""
    told = error.details if isinstance(error.details, dict) else {}
    return _KINDS.get(str(told.get("kind")), BadRequest)(error.message, fix=str(told.get("fix") or ""))


def decode_params(method: str, kind: type[msgspec.Struct], raw: msgspec.Raw) -> Any:
    """The params as the method's own type. Raises MethodError with the words clients know."""
    data = memoryview(raw)
    try:
        return msgspec.json.decode(b"{}" if data.nbytes == 4 and bytes(data) == b"null" else data, type=kind)
    except msgspec.ValidationError as exc:
        words = str(exc)
        if (less := _drop_hint(method, words, data)) is not None:
            return decode_params(method, kind, less)
        raise MethodError(f"invalid {method} params: {explain_violation(words)}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise MethodError(f"invalid {method} params: must be object") from None


def _drop_hint(method: str, words: str, data: memoryview) -> msgspec.Raw | None:
    """The params without the field that was not known, if clients newer than this program may say it."""
    if not words.startswith("Object contains unknown field") or _PLACE.search(words):
        return None
    name = _quoted(words)
    if name not in load_part("newer").HINTS.get(method, "").split():
        return None
    given = msgspec.json.decode(data)
    del given[name]
    return msgspec.Raw(msgspec.json.encode(given))


def explain_violation(text: str) -> str:
    """A msgspec message in the words of a JSON schema validator."""
    found = _PLACE.search(text)
    place, text = (_pointer(found[1]), text[: found.start()]) if found else ("", text)
    if text.startswith("Object missing required field"):
        return (f"at {place}: " if place else "") + f"must have required property '{_quoted(text)}'"
    if text.startswith("Object contains unknown field"):
        return f"at {place or 'root'}: unexpected property '{_quoted(text)}'"
    if "enum value" in text or text.startswith("Invalid value"):
        words = "must be equal to one of the allowed values"
    elif "of length >= " in text:
        words = f"must NOT have fewer than {text.rpartition(' ')[2]} characters"
    elif "of length <= " in text:
        words = f"must NOT have more than {text.rpartition(' ')[2]} characters"
    elif bound := re.search(r"Expected `\w+` ([<>]=?) (\S+)$", text):
        words = f"must be {bound[1]} {bound[2]}"
    elif kinds := re.match(r"Expected `([^`]+)`", text):
        words = "must be " + ",".join(_TYPES.get(k.strip(), k.strip()) for k in kinds[1].split("|"))
    else:
        words = text
    return f"at {place}: {words}" if place else words


def _pointer(path: str) -> str:
    """`$.a[0].b` as /a/0/b."""
    return "".join(f"/{part}" for part in re.split(r"[.\[\]]+", path.lstrip("$")) if part)


def _quoted(text: str) -> str:
    return text.split("`")[1] if text.count("`") >= 2 else ""
