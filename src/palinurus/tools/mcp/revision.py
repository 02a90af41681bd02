"""Which revision of MCP a server speaks, and what the newest one does otherwise: no handshake, questions as results
that are answered by asking again, changes on a stream of their own. Older servers are spoken to as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types
import pydantic
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

from palinurus.clock import Clock
from palinurus.tools.mcp import port

ROUNDS = 10  # questions in a row; a server that never ends is cut off
PAUSE = 0.2  # seconds before a server that only wants to be asked again is
AGAIN = 30.0  # seconds before a stream of changes that broke off is opened again
T = TypeVar("T")
# (answers, state): the request again
Send = Callable[[dict[str, Any] | None, str | None], Awaitable[T | mcp_types.InputRequiredResult]]


def is_closed(error: MCPError) -> bool:
    """Was it the connection that ended? Many servers use the same number for errors of their own."""
    return error.code == mcp_types.CONNECTION_CLOSED and error.message == "Connection closed"


async def agree_on_revision(session: ClientSession, watch: port.McpWatch) -> None:
    """The newest that both speak. Raises what the SDK raises; so also if somebody has to sign in first."""
    try:
        await session.discover()
    except MCPError as error:
        if is_closed(error) or watch.locked or watch.narrow:
            raise
        await session.initialize()
    except (pydantic.ValidationError, RuntimeError):  # an answer of something else; no version in common
        await session.initialize()


async def finish_request(session: ClientSession, clock: Clock, send: Send[T]) -> T:
    """What came in the end; questions on the way are put to those who answer all others. Raises what the SDK raises."""
    answers: dict[str, Any] | None = None
    state: str | None = None
    for _ in range(ROUNDS):
        told = await send(answers, state)
        if not isinstance(told, mcp_types.InputRequiredResult):
            return told
        answers, state = None, told.request_state
        if not told.input_requests:
            await clock.sleep(PAUSE)
            continue
        answers = {}
        for name, asked in told.input_requests.items():  # one after the other: a person answers them
            context = ClientRequestContext(session=session, request_id=name, meta=None)
            answer = await session.dispatch_input_request(context, asked)
            if isinstance(answer, mcp_types.ErrorData):
                raise MCPError.from_error_data(answer)
            answers[name] = answer
    raise RuntimeError(f"the server asked {ROUNDS} times in a row")


async def hear_changes(session: ClientSession, clock: Clock, watch: port.McpWatch) -> None:
    """Until cancelled: the list of tools became another. Only where the newest revision is spoken."""
    while session.discover_result is not None:
        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
            async with listen(session, tools_list_changed=True) as changes:
                if not changes.honored.tools_list_changed:
                    return
                async for _ in changes:
                    watch.changed()
        await clock.sleep(AGAIN)
        watch.changed()  # nobody said what happened meanwhile
