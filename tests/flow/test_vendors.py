"""What each vendor is sent for each level that a person sets: `/think` in, the body of the request out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from flow.test_app import settings
from flow.test_directives import tell
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.types.inbound import TurnOptions
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp

FIELDS = ("thinking", "output_config", "reasoning", "reasoning_effort", "think", "additionalModelRequestFields")
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
OFF: dict[str, Any] = {"thinking": {"type": "disabled"}}
ON: dict[str, Any] = {"thinking": {"type": "enabled"}}
BASE = "off minimal low medium high"


def claude(word: str) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": word}}


def bedrock(word: str) -> dict[str, Any]:
    return {"additionalModelRequestFields": claude(word)}


def openai(word: str) -> dict[str, Any]:
    return {"reasoning": {"effort": word, **({"summary": "auto"} if word != "none" else {})}}


def gemini(**config: Any) -> dict[str, Any]:
    return {"thinkingConfig": config}


def deepseek(word: str) -> dict[str, Any]:
    return {**ON, "reasoning_effort": word}


def routed(word: str) -> dict[str, Any]:
    return {"reasoning": {"effort": word}}


def row(ref: str, menu: str, default: str, sent: dict[str, Any], *numbers: int) -> Any:
    return pytest.param(ref, menu, default, sent, id=ref, marks=pytest.mark.seed(5, 16, 17, 18, *numbers))


FULL = "off minimal low medium adaptive high xhigh max"
NEW = {"off": OFF, "xhigh": claude("xhigh"), "max": claude("max"), "adaptive": claude("high"), "low": claude("low")}
GPT = {"off": openai("none"), "low": openai("low"), "xhigh": openai("xhigh")}
KIMI = {"off": OFF, "on": ON, "low": ON}
ROWS = [
    row("anthropic/claude-opus-4-8", FULL, "off", NEW, 11, 12, 13, 23, 24, 25, 26),
    row("anthropic/claude-opus-4-7", FULL, "off", NEW, 11, 12, 13, 23, 25, 26),
    row("anthropic/claude-sonnet-4-6", "off minimal low medium adaptive high max", "adaptive",
        {"default": claude("high"), "off": OFF}, 12, 22),
    row("amazon-bedrock/us.anthropic.claude-sonnet-4-6", "off minimal low medium adaptive high", "adaptive",
        {"default": bedrock("high"), "off": {}}, 12, 22),
    row("openai/gpt-5.2", f"{BASE} xhigh", "medium", GPT, 11, 33, 34),
    row("openai/gpt-5.5", f"{BASE} xhigh", "medium", GPT, 11, 33, 34),
    row("openai/gpt-5.3-codex", f"{BASE} xhigh", "medium", {**GPT, "off": {}}, 11, 33, 35),
    row("openai/gpt-5", BASE, "medium", {"off": {}, "high": openai("high")}, 33, 35),
    row("openai/gpt-4.1", "off", "off", {"off": {}}, 33),
    row("deepseek/deepseek-v4-pro", f"{BASE} xhigh max", "high",
        {"xhigh": deepseek("max"), "max": deepseek("max"), "low": deepseek("high"), "off": OFF}, 27, 28),
    row("openrouter/deepseek/deepseek-v4-pro", f"{BASE} xhigh", "high",
        {"xhigh": routed("xhigh"), "minimal": routed("high"), "medium": routed("high"), "off": {}}, 29, 30),
    row("openrouter/openrouter/hunter-alpha", BASE, "off", {"high": {}, "low": {}}, 38),
    row("ollama/gpt-oss:20b", "off low medium high max", "off",
        {"max": {"think": "high"}, "low": {"think": "low"}, "off": {"think": False}}, 13, 32),
    row("google/gemini-3-pro-preview", "off low adaptive high", "adaptive",
        {"adaptive": gemini(includeThoughts=True), "low": gemini(includeThoughts=True, thinkingLevel="LOW")},
        12, 39, 41, 55),
    row("google/gemini-2.5-flash", "off minimal low medium adaptive high", "medium",
        {"adaptive": gemini(includeThoughts=True, thinkingBudget=-1), "off": gemini(thinkingBudget=0),
         "low": gemini(includeThoughts=True, thinkingBudget=2048)}, 12, 40, 41),
    row("minimax/MiniMax-M2.7", BASE, "off",
        {"default": OFF, "low": {"thinking": {"type": "enabled", "budget_tokens": 2048}}}, 42),
    row("minimax/MiniMax-M3.1", "off adaptive", "adaptive",
        {"default": {"thinking": {"type": "adaptive"}}, "off": {}}, 43),
    row("zai/glm-4.7", "off on", "off", {"off": OFF, "on": {}}, 44),
    row("zai/glm-5.2", "off low high max", "off", {
        "off": OFF, "low": {"reasoning_effort": "high"}, "high": {"reasoning_effort": "high"},
        "max": {"reasoning_effort": "max"},
    }, 45),
    row("moonshot/kimi-k2.7-code", "on", "on", {"on": {}, "default": {}}, 46),
    row("moonshot/kimi-k2.6", "off on", "off", KIMI, 47, 48),
]  # fmt: skip


@asynccontextmanager
async def asked(home: Path, ref: str, **provider: Any) -> AsyncIterator[tuple[App, list[dict[str, Any]]]]:
    """An App whose vendor is this machine, which refuses everything; and the bodies that came."""
    bodies: list[dict[str, Any]] = []

    async def refuse(request: web.Request) -> web.Response:
        bodies.append(json.loads(await request.read() or b"{}"))
        return web.json_response({"error": {"message": "not today"}}, status=400)

    server = LoopbackHttp({EVERY_REQUEST: refuse})
    await server.start()
    found = {"baseUrl": server.url, "apiKey": "k", **provider}
    config = {"models": {"providers": {ref.partition("/")[0]: found}}, "agents": {"defaults": {"model": ref}}}
    app = App(settings(home, **config), KEYS, SystemClock())
    await app.start()
    try:
        yield app, bodies
    finally:
        await app.stop()
        await server.stop()


@pytest.mark.parametrize(("ref", "menu", "default", "sent"), ROWS)
async def test_what_a_level_is_for_a_model(
    tmp_path: Path, ref: str, menu: str, default: str, sent: dict[str, dict[str, Any]]
) -> None:
    async with asked(tmp_path / "h", ref) as (app, bodies):
        assert await tell(app, "/think") == (
            f"Current thinking level: {default}.\nOptions: {', '.join(('default', *menu.split()))}."
        )
        for level, fields in sent.items():
            said = await tell(app, f"/think {level}")
            assert said in (
                f"Thinking level set to {level}.",
                "Thinking disabled.",
                "Thinking level reset to default.",
            ) or (level == "low" and said == "Thinking level set to on.")
            bodies.clear()
            await tell(app, "hello")
            found = {name: bodies[0][name] for name in FIELDS if name in bodies[0]} | bodies[0].get(
                "generationConfig", {}
            )
            assert found == fields, level
        missing = next((level for level in FULL.split() if level not in menu.split() and level != "low"), "")
        if missing:
            told = f'Thinking level "{missing}" is not supported for {ref}. Use one of: {", ".join(menu.split())}.'
            assert await tell(app, f"/think {missing}") == told
            bodies.clear()
            assert await tell(app, f"hello /think {missing}") == told and not bodies


@pytest.mark.seed(84, 85)
async def test_fast_mode_of_minimax_is_another_model(tmp_path: Path) -> None:
    async with asked(tmp_path / "h", "minimax/MiniMax-M2.7") as (app, bodies):
        for word in ("on", "off", "default"):
            await tell(app, f"/fast {word}")
            await tell(app, "hello")
    assert [body["model"] for body in bodies] == ["MiniMax-M2.7-highspeed", "MiniMax-M2.7", "MiniMax-M2.7"]
    listed = [{"id": "MiniMax-M2.7", "reasoning": True, "params": {"fastMode": True}}]
    async with asked(tmp_path / "i", "minimax/MiniMax-M2.7", models=listed) as (app, bodies):
        await tell(app, "hello")
        await tell(app, "hello /fast off")
    assert [body["model"] for body in bodies] == ["MiniMax-M2.7-highspeed", "MiniMax-M2.7"]


@pytest.mark.seed(79, 82, 87)
@pytest.mark.parametrize("ref", ["anthropic/claude-opus-4-8", "openai/gpt-5.5"])
async def test_a_tier_is_a_price_of_the_vendors_own_address(tmp_path: Path, ref: str) -> None:
    listed = [{"id": ref.partition("/")[2], "reasoning": True, "params": {"serviceTier": "auto"}}]
    async with asked(tmp_path / "h", ref, models=listed) as (app, bodies):
        for word in ("on", "off"):
            await tell(app, f"hello /fast {word}")
    assert len(bodies) == 2 and not any("service_tier" in body for body in bodies)


@pytest.mark.seed(49)
@pytest.mark.parametrize(
    ("ref", "level", "sent"),
    [
        ("moonshot/kimi-k2.6", "on", "auto"),
        ("moonshot/kimi-k2.6", "off", "required"),
        ("moonshot/kimi-k2.7-code", "on", "auto"),
    ],
)
async def test_moonshot_chooses_tools_itself_while_it_thinks(tmp_path: Path, ref: str, level: str, sent: str) -> None:
    async with asked(tmp_path / "h", ref) as (app, bodies):
        for choice in ("required", "none", "auto"):
            await tell(app, f"hello /think {level}", options=TurnOptions(tool_choice=choice))
    assert [body["tool_choice"] for body in bodies] == [sent, "none", "auto"]


@pytest.mark.seed(137, 139)
@pytest.mark.parametrize(
    ("more", "model", "menu", "sent"),
    [
        ({"api": "anthropic-messages"}, {"id": "claude-opus-4-8"}, FULL, {"xhigh": claude("xhigh")}),
        ({}, {"id": "q", "compat": {"thinkingFormat": "qwen"}}, "off on", {"on": {"enable_thinking": True}}),
        ({}, {"id": "r", "compat": {"supportedReasoningEfforts": ["low", "xhigh"]}}, f"{BASE} xhigh",
         {"xhigh": {"reasoning_effort": "xhigh"}, "minimal": {"reasoning_effort": "low"}}),
        ({}, {"id": "s", "reasoning": False}, "off", {"off": {}}),
    ],
)  # fmt: skip
async def test_the_catalog_says_what_a_provider_of_ones_own_can(
    tmp_path: Path, more: dict[str, Any], model: dict[str, Any], menu: str, sent: dict[str, dict[str, Any]]
) -> None:
    provider = {"api": "openai-completions", **more, "models": [{"reasoning": True, **model}]}
    async with asked(tmp_path / "h", f"proxy/{model['id']}", **provider) as (app, bodies):
        assert (await tell(app, "/think")).endswith(f"Options: {', '.join(('default', *menu.split()))}.")
        for level, fields in sent.items():
            await tell(app, f"hello /think {level}")
            found = {name: bodies[-1][name] for name in (*FIELDS, "enable_thinking") if name in bodies[-1]}
            assert found == fields, level


@pytest.mark.seed(42)
@pytest.mark.parametrize("model", ["MiniMax-M2.7", "MiniMax-M2"])
async def test_minimax_m2_is_quiet_unless_its_params_say_otherwise(tmp_path: Path, model: str) -> None:
    for name, params in (("h", {}), ("i", {"params": {"thinking": {"type": "enabled", "budget_tokens": 4000}}})):
        listed = [{"id": model, "reasoning": True, **params}]
        async with asked(tmp_path / name, f"minimax/{model}", models=listed) as (app, bodies):
            await tell(app, "hello")
        assert bodies[0]["thinking"] == params.get("params", {}).get("thinking", {"type": "disabled"})
