"""What OpenAI's own client can ask for: all of it is answered, or refused with what to do instead."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import aiohttp
import pytest

from flow.test_app import running
from flow.test_http import served
from gateway.host import TOKEN
from palinurus.gateway.openai.models import refuse_unserved
from palinurus.testing.model import ScriptedModel, say

SERVED = {
    *("chat.completions.create", "chat.completions.parse", "chat.completions.stream"),
    *("conversations.create", "models.list", "models.retrieve"),
    *("responses.create", "responses.parse", "responses.stream"),
}
FOUND = ("conversations.", "responses.cancel", "responses.input_items.list", "responses.retrieve")
LOCAL = {  # they ask nobody, or nobody before they like their arguments
    *("webhooks.unwrap", "webhooks.verify_signature", "uploads.upload_file_chunked"),
    *(f"beta.agents.environments.files.{name}" for name in ("prepare", "prepare_directory", "upload")),
    "beta.agents.sessions.artifacts.for_result",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_every_method_of_the_client_is_answered_or_refused_in_openais_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "compat"))
    monkeypatch.delitem(sys.modules, "apitree", raising=False)
    import apitree

    model = ScriptedModel([say("x")] * 20)
    async with running(tmp_path / "h", model) as app, served(app) as gateway:
        base = f"http://127.0.0.1:{gateway.port}/v1"
        heard = await asyncio.to_thread(lambda: list(apitree.walk(base, TOKEN)))
    assert len(heard) > 400 and not [one for one in heard if one.wrong]
    assert {one.name for one in heard if not one.statuses} == LOCAL
    done = {one.name for one in heard if one.statuses == (200,)}
    spoken = {"audio.speech.create"} if shutil.which("espeak-ng") else set()
    assert {name for name in done if not name.startswith("beta.")} == SERVED | spoken
    lost = {one.name for one in heard if one.statuses == (404,) and one.name.startswith(FOUND)}
    assert len(lost) == 9  # they are served, and were asked for what is not there


@pytest.mark.parametrize("path", ["/v1/realtime?model=x", "/v1/responses", "/v1/live/x"])
async def test_a_websocket_of_openais_is_refused_as_such(http: aiohttp.ClientSession, path: str) -> None:
    """Not greeted as a client of the gateway's own protocol."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    headers |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version": "13"}
    answer = await http.get(path, headers=headers)
    error = (await answer.json())["error"]
    assert answer.status in (404, 405) and error["type"] == "invalid_request_error" and "/v1/" in error["message"]


async def test_a_base_url_without_v1_is_told(http: aiohttp.ClientSession) -> None:
    for path in ("/chat/completions", "/responses", "/embeddings"):
        answer = await http.post(path, json={})
        assert answer.status == 404 and f"use /v1{path}" in (await answer.json())["error"]["message"]


def test_each_family_has_its_own_words() -> None:
    told = {
        name: refuse_unserved(f"/v1/{name}", ()).message for name in ("files", "batches", "images/edits", "evals/x")
    }
    assert len(set(told.values())) == 4
    assert "served are" in refuse_unserved("/v1/something/new", ()).message
    assert refuse_unserved("/v1/responses/x", ("GET",)).headers == {"Allow": "GET"}
