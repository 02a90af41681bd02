"""What methods work with: one value about sessions and runs, made when the gateway starts; and the params that
name a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from palinurus.config.settings import AgentSettings
from palinurus.core.types.keys import SessionKey
from palinurus.errors import StateError
from palinurus.gateway.broadcaster import RunBroadcaster
from palinurus.gateway.rpc import MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionReader
from palinurus.inbox.commands.command import CommandContext
from palinurus.sessions.record import list_record_paths
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import TranscriptLine

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


BUSY = "the session is busy; try again when its run has ended"


def refuse_busy(call: MethodCall, key: str) -> None:
    """Raises MethodError while the session's turn runs."""
    if call.context.reader.is_running(key):
        raise MethodError(BUSY, code="UNAVAILABLE", retryable=True)


async def write_idle(
    call: MethodCall, key: str, transcript: Transcript, make: Callable[[int], tuple[TranscriptLine, ...]]
) -> tuple[TranscriptLine, ...]:
    """Add what `make` makes at this moment to a session in which nothing runs, nor begins meanwhile: it would hang on
    lines that may be refused. Raises MethodError if something does, or if it is another session by now."""
    program = call.program
    async with program.inbox.waiting.reserve(key) as free:
        if not free or await program.store.list_waiting(key):
            raise MethodError(BUSY, code="UNAVAILABLE", retryable=True)
        refuse_busy(call, key)
        row = await program.store.session(key)
        if row is None or list_record_paths(row)[0] != transcript.path:
            raise MethodError("another session has begun; look again")
        await program.transcripts.load(transcript.path)  # with what another node has said since it was opened
        now, mark = program.clock.now(), transcript.mark()
        lines = make(now)
        try:
            await program.store.write(lines, idle=key)
        except StateError:  # not when cancelled: what is on its way to the disk arrives there
            transcript.rollback(mark, lines)
            raise
        return lines


async def refuse_in_fleet(call: MethodCall) -> None:
    """Before the config is written. Raises MethodError where other nodes have one, too: theirs would differ."""
    store = call.program.store
    others = [node for node in await store.list_nodes() if node != store.node]
    if others:
        raise MethodError(
            f"nothing was written: the fleet has other gateways ({', '.join(others[:5])}), each with a config file of"
            " its own; change all the files",
            code="UNAVAILABLE",
        )


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
