"""GET /v1/models: agents, since a model's name names an agent here; and what to do instead of what is not served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp.web_response import Response

from palinurus.gateway.http import HttpFault, RouteRequest, reply_json

# How a path after /v1/ begins -> what to do instead. The first that fits.
_INSTEAD = {
    "chat/completions": "completions are made with POST and not kept; /v1/responses are, and can be asked for again",
    "completions": "use /v1/chat/completions",
    "responses/compact": "long conversations are compacted by themselves; go on with previous_response_id",
    "responses/input_tokens": "the prompt is made by the agent; `usage` of each response says what it took",
    "responses/": "a response is part of its conversation and stays with it; `pal sessions delete` forgets the whole",
    "responses": "use POST /v1/responses with `stream`: a WebSocket or a list of them is not served",
    "conversations": "what was said stays; say more with POST /v1/responses; `pal sessions delete` forgets the whole",
    "models": "models are agents here: `pal agents` lists, adds and deletes them",
    "audio/translations": "use /v1/audio/transcriptions, and have the agent translate",
    "audio": "voices are configured (messages.tts); use /v1/audio/speech and /v1/audio/transcriptions",
    **dict.fromkeys(("realtime", "live"), "use /v1/audio/transcriptions, /v1/responses and /v1/audio/speech in turn"),
    **dict.fromkeys(
        ("files", "uploads"), "send pictures within the message; other files belong in the agent's workspace"
    ),
    "containers": "commands run in the agent's own sandbox: ask it in a message",
    "batches": "send requests one by one, with `background` if they are to be fetched later",
    "vector_stores": "the agent searches its memory by itself; POST /v1/embeddings makes vectors",
    **dict.fromkeys(("images", "videos"), "ask for it in a message: the agent has the tools that are configured"),
    "moderations": "who may ask for what is configured (`pal policy explain`)",
    **dict.fromkeys(("assistants", "threads", "agents", "chatkit"), "use /v1/conversations and /v1/responses"),
    "evals": "agents are tested with `pal test`",
    "skills": "skills are kept with `pal skills`",
    "webhooks": "what calls this gateway is configured (hooks; docs/webhooks.md)",
    "organization": "there is one owner here; see `pal usage`, `pal devices` and `pal config`",
    "": "served are models, chat/completions, responses, conversations, embeddings and audio (docs/gateway.md)",
}


def refuse_unserved(path: str, methods: Iterable[str]) -> HttpFault:
    """What is not there, in OpenAI's form; `methods` are there at this path."""
    if not path.startswith("/v1/"):
        return HttpFault(404, f"use /v1{path}: the base URL ends with /v1", code="unknown_url")
    instead = next(words for begin, words in _INSTEAD.items() if path.startswith(f"/v1/{begin}"))
    if allow := ", ".join(methods):
        return HttpFault(405, f"{instead} (here: {allow})", code="method_not_allowed", headers={"Allow": allow})
    return HttpFault(404, f"{path[:64]} is not served: {instead}", code="unknown_url")


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
    row = {"object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
    return [{"id": name, **row} for name in dict.fromkeys(names)]
