"""What methods work with: one value about sessions and runs, made when the gateway starts; and the params that
name a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from palinurus.config.settings import AgentSettings
from palinurus.core.types.keys import SessionKey
from palinurus.gateway.broadcaster import RunBroadcaster
from palinurus.gateway.rpc import MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionReader
from palinurus.inbox.commands.command import CommandContext

if TYPE_CHECKING:
    from palinurus.gateway.clients import GatewayClients

T = TypeVar("T")


class MethodContext(msgspec.Struct, frozen=True):
    program: CommandContext
    reader: SessionReader
    broadcaster: RunBroadcaster


def make_context(gateway: GatewayClients, program: CommandContext) -> MethodContext:
    """For one gateway; `broadcaster` is to follow the inbox."""
    reader = SessionReader(program)
    return MethodContext(program, reader, RunBroadcaster(gateway, program, reader))


def require(value: T | None, missing: str) -> T:
    """`value`, or the error that says what this gateway does not have."""
    if value is None:
        raise MethodError(missing, code="UNAVAILABLE")
    return value


def find_agent(call: MethodCall, ident: str | None) -> AgentSettings:
    """An agent by its id, else the default one. Raises MethodError."""
    settings = call.program.settings
    name = ident or settings.default_agent
    if (found := settings.agents.get(name.strip().lower())) is None:
        raise MethodError(f'unknown agent id "{name[:64]}"')
    return found


def refuse_busy(call: MethodCall, key: str) -> None:
    """Raises MethodError while the session's turn runs."""
    if call.context.reader.is_running(key):
        raise MethodError("the session is busy; try again when its run has ended", code="UNAVAILABLE", retryable=True)


def cut_page(found: list[Any], offset: int, limit: int) -> tuple[list[Any], int | None]:
    """A page of what was found, and where the next one begins; None: there is none."""
    end = offset + limit
    return found[offset:end], end if end < len(found) else None


class SessionParams(MethodParams, frozen=True):
    """The params of a method about one session."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None

    def resolve(self, call: MethodCall) -> SessionKey:
        """The session's key. Raises MethodError for what cannot be one."""
        return call.context.reader.key(self.session_key, self.agent_id)


class SessionKeyParams(MethodParams, frozen=True):
    """The same in the words of sessions.*."""

    key: NonEmpty
    agent_id: NonEmpty | None = None

    def resolve(self, call: MethodCall) -> SessionKey:
        """The session's key. Raises MethodError for what cannot be one."""
        return call.context.reader.key(self.key, self.agent_id)


class MainSessionParams(MethodParams, frozen=True):
    """The params of a method about the session that is named, else the main one."""

    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None

    def resolve(self, call: MethodCall) -> SessionKey:
        """The session's key. Raises MethodError for what cannot be one."""
        return call.context.reader.key(self.session_key or call.program.settings.session.main_key, self.agent_id)
