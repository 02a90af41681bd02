"""GET /v1/models: agents, since a model's name names an agent here."""

from __future__ import annotations

from typing import Any

from aiohttp.web_response import Response

from palinurus.gateway.http import HttpFault, RouteRequest, reply_json


def list_models(visit: RouteRequest) -> Response:
    """GET /v1/models."""
    return reply_json({"object": "list", "data": _models(visit)})


def find_model(visit: RouteRequest) -> Response | HttpFault:
    """GET /v1/models/<id>."""
    wanted = visit.part("id")
    found = next((row for row in _models(visit) if row["id"] == wanted), None)
    if found is None:
        return HttpFault(404, f"there is no model {wanted[:64]!r}", param="model", code="model_not_found")
    return reply_json(found)


def _models(visit: RouteRequest) -> list[dict[str, Any]]:
    """Agents, since a model name here names an agent."""
    names = ["palinurus", "openclaw", "openclaw/default", *(f"openclaw/{name}" for name in visit.host.settings.agents)]
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
        for name in dict.fromkeys(names)
    ]
