"""memory.search: looking into an agent's memory as the agent itself does. Ours; for pages that show memories."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.gateway.rpc import READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.scene import get_context


class MemorySearchParams(MethodParams, frozen=True):
    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] | None = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None


async def search_memory(call: MethodCall, asked: MemorySearchParams) -> dict[str, Any]:
    """Search an agent's memory as its own tool does."""
    here = get_context(call)
    key = here.rows.key(asked.session_key or here.desk.settings.session.main_key, asked.agent_id)
    if here.desk.recall is None:
        raise MethodError("there is no memory here", code="UNAVAILABLE")
    found = await here.desk.recall.search(key.agent, str(key), asked.query, asked.limit, asked.min_score)
    made: dict[str, Any] = {"agentId": key.agent, "results": msgspec.to_builtins(found.hits)}
    if found.disabled:
        made |= {"disabled": True, "reason": found.disabled}
    return {**made, "note": found.note} if found.note else made


MEMORY_METHODS: tuple[GatewayMethod, ...] = (GatewayMethod("memory.search", READ, MemorySearchParams, search_memory),)
