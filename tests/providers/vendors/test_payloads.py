"""What each vendor is sent for each level: the fields `shape` adds to a body. One row each."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.levels import resolve
from palinurus.core.levels.resolve import LevelRequest
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec, Prompt
from palinurus.core.types.tool import ToolSpec
from palinurus.core.types.vendor import Vendor
from palinurus.providers import VENDORS, WIRES, load_row
from palinurus.providers.vendors import anthropic, claude, custom
from palinurus.providers.wire import build_vendor_headers

SEARCH = ToolSpec("web_search", "search", {"type": "object"})
READ = ToolSpec("read", "read", {"type": "object"})


def vendor_of(provider: str) -> Vendor:
    return load_row(VENDORS, provider) or custom.VENDOR


def asking(ref: str, level: str = "off", **options: Any) -> ModelRequest:
    provider, _, name = ref.partition("/")
    vendor = vendor_of(provider)
    facts = {"api": vendor.api, "base_url": vendor.base_url, "reasoning": True, "max_tokens": 64_000}
    facts |= {key: options.pop(key) for key in list(options) if key in ModelSpec.__struct_fields__ and key != "tools"}
    limit = options.pop("limit", None)
    model = ModelSpec(ModelRef(provider, name), **facts)
    return ModelRequest(model, Prompt("p"), (UserMessage("hi"),), level=level, max_tokens=limit, **options)


def shape(vendor: Vendor, body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    return (vendor if vendor.shapes(request.model.api) else custom.VENDOR).shape(body, request)


def shaped(ref: str, level: str = "off", body: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    request = asking(ref, level, **options)
    before = {"model": request.model.ref.model} if body is None else body
    return shape(vendor_of(request.model.ref.provider), before, request)


def added(ref: str, level: str = "off", body: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """The body without what a wire had put there."""
    out = shaped(ref, level, body, **options)
    return {key: value for key, value in out.items() if key not in ("model", "messages")}


def seed(*numbers: int) -> Any:
    return pytest.mark.seed(*numbers)


def rows(ref: str, table: dict[str, dict[str, Any]], *numbers: int) -> list[Any]:
    """One case per level; a key may name several."""
    return [
        pytest.param(ref, level, fields, id=f"{ref}-{level}", marks=seed(*numbers) if numbers else ())
        for levels, fields in table.items()
        for level in levels.split()
    ]


def effort(word: str) -> dict[str, Any]:
    return {"reasoning": {"effort": word, "summary": "auto"}, "include": ["reasoning.encrypted_content"]}


def adaptive(word: str) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": word}}


def enabled(budget: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": min(32_000 + budget, 64_000)}


def level3(word: str | None, on: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"thinkingLevel": word} if word else {}
    return {"generationConfig": {"thinkingConfig": found | ({"includeThoughts": True} if on else {})}}


def budget25(amount: int, on: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"thinkingBudget": amount} | ({"includeThoughts": True} if on else {})
    return {"generationConfig": {"thinkingConfig": found}}


DISABLED = {"thinking": {"type": "disabled"}}
NONE = {"reasoning": {"effort": "none"}}

OPENAI = [
    *rows(
        "openai/gpt-5.2",
        {
            "off": NONE,
            "minimal low": effort("low"),
            "medium adaptive": effort("medium"),
            "high": effort("high"),
            "xhigh max": effort("xhigh"),
        },
        33,
        34,
    ),
    *rows("openai/gpt-5.5-2026-01-01", {"off": NONE, "xhigh": effort("xhigh")}, 33, 34),
    *rows("openai/gpt-5.1", {"off": NONE, "xhigh max": effort("high"), "minimal": effort("low")}, 33, 34),
    *rows("openai/gpt-5", {"off": {}, "minimal": effort("minimal"), "xhigh": effort("high")}, 33, 35),
    *rows("openai/gpt-5-mini", {"off": {}, "minimal": effort("minimal"), "high": effort("high")}, 33, 35),
    *rows("openai/gpt-5-pro", {"off": {}, "minimal low medium high xhigh": effort("high")}, 33, 35),
    *rows("openai/gpt-5.2-pro", {"off": {}, "minimal low medium": effort("medium"), "xhigh": effort("xhigh")}, 33, 35),
    *rows("openai/gpt-5.1-codex-mini", {"off": {}, "minimal low high xhigh": effort("medium")}, 33, 35),
    *rows("openai/gpt-5.1-codex-max", {"off": NONE, "low": effort("medium"), "xhigh": effort("xhigh")}, 33, 34),
    *rows("openai/gpt-5.3-codex", {"off": {}, "minimal": effort("low"), "max": effort("xhigh")}, 33, 35),
    *rows("openai/o3", {"off": {}, "minimal": effort("low"), "xhigh": effort("high")}, 33, 35),
    *rows("openai-codex/gpt-5.4", {"off": NONE, "xhigh": effort("xhigh")}, 33),
]
CLAUDE = [
    *rows(
        "anthropic/claude-opus-4-8",
        {
            "off": DISABLED,
            "minimal low": adaptive("low"),
            "medium": adaptive("medium"),
            "high": adaptive("high"),
        },
    ),
    *rows("anthropic/claude-opus-4-8", {"adaptive": adaptive("high")}, 24),
    *rows("anthropic/claude-opus-4-8", {"xhigh": adaptive("xhigh")}, 25),
    *rows("anthropic/claude-opus-4-7", {"xhigh": adaptive("xhigh")}, 25),
    *rows("anthropic/claude-opus-4-8", {"max": adaptive("max")}, 26),
    *rows("anthropic/claude-opus-4-7", {"max": adaptive("max")}, 26),
    *rows(
        "anthropic/claude-sonnet-4-6",
        {"off": DISABLED, "adaptive high xhigh": adaptive("high"), "max": adaptive("max"), "low": adaptive("low")},
    ),
    *rows(
        "anthropic/claude-sonnet-4-5",
        {
            "off": DISABLED,
            "minimal": enabled(1024),
            "low": enabled(2048),
            "medium": enabled(8192),
            "high xhigh max": enabled(16384),
        },
    ),
    *rows(
        "anthropic/claude-fable-5",
        {
            "off high adaptive": {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"},
            }
        },
    ),
]
BEDROCK = [
    *rows("amazon-bedrock/us.anthropic.claude-opus-4-8", {"off": {}}),
    *rows(
        "amazon-bedrock/us.anthropic.claude-opus-4-8",
        {
            "adaptive high": {"additionalModelRequestFields": adaptive("high")},
            "xhigh": {"additionalModelRequestFields": adaptive("xhigh")},
        },
    ),
    *rows(
        "amazon-bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
        {
            level: {
                "additionalModelRequestFields": {
                    "thinking": {"type": "enabled", "budget_tokens": amount},
                    "anthropic_beta": ["interleaved-thinking-2025-05-14"],
                },
                "inferenceConfig": {"maxTokens": 32_000 + amount},
            }
            for level, amount in {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}.items()
        },
    ),
    *rows("amazon-bedrock/amazon.nova-pro-v1:0", {"high": {}}),
]
GOOGLE = [
    *rows(
        "google/gemini-3-pro-preview",
        {
            "off": level3("LOW", False),
            "minimal low": level3("LOW"),
            "medium high xhigh max": level3("HIGH"),
        },
        41,
    ),
    *rows("google/gemini-3-pro-preview", {"adaptive": level3(None)}, 39),
    *rows("google/gemini-3-flash-preview", {"adaptive": level3(None)}, 39),
    *rows(
        "google/gemini-3-flash-preview",
        {
            "off": level3("MINIMAL", False),
            "minimal": level3("MINIMAL"),
            "low": level3("LOW"),
            "medium": level3("MEDIUM"),
            "high max": level3("HIGH"),
        },
        41,
    ),
    *rows(
        "google/gemini-2.5-pro",
        {
            "off": {},
            "minimal": budget25(128),
            "low": budget25(2048),
            "medium": budget25(8192),
            "high xhigh": budget25(32768),
        },
        41,
    ),
    *rows(
        "google/gemini-2.5-flash",
        {"off": budget25(0, False), "minimal": budget25(128), "medium": budget25(8192), "high": budget25(24576)},
        41,
    ),
    *rows("google/gemini-2.5-flash-lite", {"off": budget25(0, False), "minimal": budget25(512)}, 41),
    *rows("google/gemini-2.5-pro", {"adaptive": budget25(-1)}, 40),
    *rows("google/gemini-2.5-flash", {"adaptive": budget25(-1)}, 40),
    *rows("google/gemini-2.5-flash-lite", {"adaptive": budget25(-1)}, 40),
    *rows(
        "google/gemma-4-31b-it", {"off": {}, "minimal low": level3("MINIMAL"), "medium high adaptive": level3("HIGH")}
    ),
]
OTHERS = [
    *rows(
        "deepseek/deepseek-v4-pro",
        {"off": DISABLED, "xhigh max": {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}},
        27,
    ),
    *rows(
        "deepseek/deepseek-v4-flash",
        {"minimal low medium high": {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}},
        28,
    ),
    *rows("deepseek/deepseek-reasoner", {"high off": {}}),
    *rows(
        "openrouter/acme/model",
        {
            "off": {},
            "low": {"reasoning": {"effort": "low"}},
            "adaptive": {"reasoning": {"effort": "medium"}},
            "max xhigh": {"reasoning": {"effort": "xhigh"}},
        },
    ),
    *rows("openrouter/openrouter/hunter-alpha", {"off low high": {}}, 38),
    *rows("openrouter/x-ai/grok-4", {"high": {}}),
    *rows(
        "openrouter/deepseek/deepseek-v4-pro",
        {"off": {}, "minimal low medium high": {"reasoning": {"effort": "high"}}},
        29,
        30,
    ),
    *rows("openrouter/deepseek/deepseek-v4-pro", {"xhigh": {"reasoning": {"effort": "xhigh"}}}, 29),
    *rows("openrouter/deepseek/deepseek-v4-pro", {"max": {"reasoning": {"effort": "xhigh"}}}, 31),
    *rows(
        "ollama/gpt-oss:20b",
        {
            "off": {"think": False},
            "minimal low": {"think": "low"},
            "medium": {"think": "medium"},
            "high xhigh adaptive": {"think": "high"},
        },
    ),
    *rows("ollama/gpt-oss:20b", {"max": {"think": "high"}}, 13, 32),
    *rows("minimax/MiniMax-M2.7", {"off": DISABLED}, 42),
    *rows("minimax/MiniMax-M2.7", {"low": enabled(2048)}),
    *rows("minimax/MiniMax-M3", {"adaptive low": {"thinking": {"type": "adaptive"}}}, 43),
    *rows("minimax/MiniMax-M3", {"off": {}}, 43),
    *rows("zai/glm-5", {"off": DISABLED, "low high": {}}, 44),
    *rows(
        "zai/glm-5.2",
        {
            "off": DISABLED,
            "low medium high adaptive": {"reasoning_effort": "high"},
            "max xhigh": {"reasoning_effort": "max"},
        },
        45,
    ),
    *rows("moonshot/kimi-k2.7-code", {"low off high": {}}, 46),
    *rows("moonshot/kimi-k2.6", {"off": DISABLED}, 47),
    *rows("moonshot/kimi-k2.6", {"minimal low high max": {"thinking": {"type": "enabled"}}}, 48),
    *rows("mistral/mistral-small-latest", {"off": {"reasoning_effort": "none"}, "high": {"reasoning_effort": "high"}}),
    *rows("mistral/mistral-large-latest", {"off high": {}}),
    *rows("xai/grok-4", {"off low high": {}}),
    *rows("xai/grok-3-mini", {"off": {}, "low": {"reasoning_effort": "low"}, "high": {"reasoning_effort": "high"}}),
    *rows("xai/grok-4.3", {"off": {"reasoning_effort": "none"}, "medium": {"reasoning_effort": "medium"}}),
    *rows("xai/grok-4.5", {"off": {}, "minimal low": {"reasoning_effort": "low"}}),
    *rows(
        "groq/qwen/qwen3-32b",
        {"off": {"reasoning_effort": "none"}, "low": {"reasoning_effort": "default", "reasoning_format": "parsed"}},
    ),
    *rows("groq/openai/gpt-oss-120b", {"off": {}, "minimal": {"reasoning_effort": "low"}}),
    *rows(
        "together/zai-org/GLM-5", {"off": {"reasoning": {"enabled": False}}, "low": {"reasoning": {"enabled": True}}}
    ),
    *rows("together/openai/gpt-oss-120b", {"off": {}, "high": {"reasoning_effort": "high"}}),
    *rows("together/MiniMaxAI/MiniMax-M2.7", {"off low": {}}),
    *rows(
        "fireworks/accounts/fireworks/models/glm-5",
        {
            "off": {"reasoning_effort": "none"},
            "low high xhigh": {"reasoning_effort": "high"},
            "max": {"reasoning_effort": "max"},
        },
    ),
    *rows(
        "fireworks/accounts/fireworks/models/deepseek-v4-pro",
        {"off": {"reasoning_effort": "none"}, "xhigh max": {"reasoning_effort": "xhigh"}},
    ),
    *rows("fireworks/accounts/fireworks/models/kimi-k2p6", {"off": {}, "high": {"reasoning_effort": "high"}}),
    *rows("cerebras/zai-glm-4.7", {"off": {"reasoning_effort": "none"}, "low high": {}}),
    *rows("cerebras/gpt-oss-120b", {"off": {}, "minimal": {"reasoning_effort": "low"}}),
    *rows("cerebras/qwen-3.8-27b", {"off": {"reasoning_effort": "none"}, "high": {"reasoning_effort": "high"}}),
    *rows("xiaomi/mimo-v2-pro", {"off": DISABLED, "low high max": {"thinking": {"type": "enabled"}}}),
    *rows("vllm/nemotron-3-nano", {"low": {"chat_template_kwargs": {"enable_thinking": True}}}),
    *[
        case
        for provider in ("fireworks", "cerebras", "litellm", "lmstudio", "sglang", "vllm", "acme", "github-copilot")
        for case in rows(f"{provider}/m", {"off": {}, "high": {"reasoning_effort": "high"}})
    ],
    *rows("vercel-ai-gateway/anthropic/claude-opus-4.8", {"off": DISABLED, "max": adaptive("max")}),
    *rows("vercel-ai-gateway/openai/gpt-5.5", {"low": enabled(2048)}),
    *rows(
        "vercel-ai-gateway/openai/gpt-5.5",
        {"xhigh": {"thinking": {"type": "enabled", "budget_tokens": 32768}, "max_tokens": 64_000}},
    ),
]


@pytest.mark.parametrize(("ref", "level", "fields"), [*OPENAI, *CLAUDE, *BEDROCK, *GOOGLE, *OTHERS])
def test_payload(ref: str, level: str, fields: dict[str, Any]) -> None:
    assert added(ref, level) == fields


@pytest.mark.parametrize("provider", [*VENDORS, "acme"])
def test_the_body_handed_in_is_left_alone(provider: str) -> None:
    body = {"model": "m", "messages": [{"role": "assistant", "content": "x"}], "generationConfig": {}}
    copy = {"model": "m", "messages": [{"role": "assistant", "content": "x"}], "generationConfig": {}}
    for level in ("off", "low", "high"):
        shaped(f"{provider}/m", level, body, fast=True)
        assert body == copy


@pytest.mark.parametrize(
    "ref", ["openai/gpt-4.1", "acme/m", "anthropic/claude-3-5-haiku", "openrouter/x/y", "zai/glm", "moonshot/v1"]
)
def test_a_model_that_does_not_reason_is_told_nothing(ref: str) -> None:
    assert added(ref, "high", reasoning=False) == {}
    assert added(ref, "off", reasoning=False) == {}


THINKING = [name for name in VENDORS if name != "builtin" and any(m.reasoning for m in load_row(VENDORS, name).models)]


@pytest.mark.parametrize("provider", THINKING)
def test_the_level_that_was_resolved_is_the_level_that_is_sent(provider: str) -> None:
    """Resolution, request and body in one process: a changed session level changes the body, or nothing is offered."""
    vendor = vendor_of(provider)
    known = next(m for m in vendor.models if m.reasoning)
    bodies = {}
    for word in ("off", "max"):
        request = asking(f"{provider}/{known.id}", tools=(READ,))
        level = resolve.resolve_thinking(request.model, LevelRequest(session=word), vendor).level
        request = asking(f"{provider}/{known.id}", level, tools=(READ,))
        wire = load_row(WIRES, request.model.api)
        bodies[level] = shape(vendor, wire.encode(request), request)
    assert len(bodies) == 2
    first, second = bodies.values()
    assert first != second


def test_where_nobody_knows_whether_a_model_reasons_only_a_wish_is_sent() -> None:
    for ref in ("acme/m", "litellm/m", "openrouter/acme/m", "lmstudio/m", "moonshot/m", "xiaomi/m"):
        assert added(ref, "off", reasoning=None) == {}, ref
        assert added(ref, "high", reasoning=None) == added(ref, "high", reasoning=True) != {}, ref
    assert added("acme/claude-x", "off", reasoning=None, api="anthropic-messages") == {}
    assert added("acme/claude-opus-4-8", "high", reasoning=None, api="anthropic-messages") == adaptive("high")


@pytest.mark.seed(67)
@pytest.mark.parametrize(
    ("level", "sent"),
    [("off", ()), ("none", ()), *[(lv, ("--effort", lv)) for lv in ("low", "medium", "high", "xhigh", "max")]],
)
def test_the_claude_command_line_takes_the_level_as_an_argument(level: str, sent: tuple[str, ...]) -> None:
    assert anthropic.build_effort_arguments(level) == sent


@pytest.mark.seed(67)
def test_levels_the_command_line_does_not_know_become_its_nearest() -> None:
    assert anthropic.build_effort_arguments("minimal") == ("--effort", "low")
    assert anthropic.build_effort_arguments("adaptive") == ("--effort", "high")
    assert anthropic.build_effort_arguments("xhigh", "claude-sonnet-4-6") == ("--effort", "high")


def test_a_budget_is_not_asked_for_in_the_middle_of_a_foreign_tool_round() -> None:
    """The API refuses it there; the next round thinks again."""
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": []}]}
    own = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}, call]}
    foreign = {"role": "assistant", "content": [call]}
    for message, kind in ((own, "enabled"), (foreign, "disabled")):
        body = {"messages": [{"role": "user", "content": []}, message, result], "max_tokens": 10}
        out = shaped("anthropic/claude-sonnet-4-5", "low", body)
        assert out["thinking"]["type"] == kind
        assert (out["max_tokens"] == 10) is (kind == "disabled")
        assert shaped("anthropic/claude-opus-4-8", "low", body)["thinking"] == {"type": "adaptive"}


# --- Responses ------------------------------------------------------------------------------------------------


def test_web_search_needs_more_than_minimal() -> None:
    assert added("openai/gpt-5", "minimal", tools=(SEARCH,)) == effort("low")
    assert added("openai/gpt-5", "minimal", tools=(READ,)) == effort("minimal")


@pytest.mark.seed(36, 37)
@pytest.mark.parametrize(
    ("efforts", "level", "sent"),
    [
        (["low", "xhigh"], "xhigh", "xhigh"),
        (["low", "high"], "xhigh", "high"),
        (["high", "max"], "max", "max"),
        (["none", "high"], "off", "none"),
        (["medium"], "off", None),
        (["medium"], "minimal", "medium"),
        ([], "high", None),
    ],
)
@pytest.mark.parametrize("api", ["openai-completions", "openai-responses"])
def test_a_custom_models_efforts_are_exactly_those_listed(api: str, efforts: list[str], level: str, sent: str) -> None:
    out = added("acme/m", level, api=api, compat={"supportedReasoningEfforts": efforts})
    got = out.get("reasoning", {}).get("effort") if api == "openai-responses" else out.get("reasoning_effort")
    assert got == sent


def test_a_custom_model_without_efforts_is_sent_none() -> None:
    assert added("acme/m", "high", compat={"supportsReasoningEffort": False}) == {}


def test_the_effort_map_of_the_config_comes_first() -> None:
    compat = {"reasoningEffortMap": {"high": "turbo", "off": "none"}, "supportedReasoningEfforts": ["none", "turbo"]}
    assert added("acme/m", "high", compat=compat) == {"reasoning_effort": "turbo"}
    assert added("acme/m", "off", compat=compat) == {"reasoning_effort": "none"}


def test_copilot_refuses_effort_none() -> None:
    assert added("github-copilot/gpt-5.2", "off", api="openai-responses") == {}
    assert added("github-copilot/gpt-5.2", "low", api="openai-responses") == effort("low")


def test_mini_takes_no_effort_beside_tools() -> None:
    assert added("openai/gpt-5.4-mini", "high", api="openai-completions", tools=(READ,)) == {}
    assert added("openai/gpt-5.4-mini", "high", api="openai-completions") == {"reasoning_effort": "high"}


@pytest.mark.parametrize(
    ("form", "off", "on"),
    [
        ("openrouter", {}, {"reasoning": {"effort": "high"}}),
        ("qwen", {"enable_thinking": False}, {"enable_thinking": True}),
        (
            "qwen-chat-template",
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True}},
        ),
        ("together", {"reasoning": {"enabled": False}}, {"reasoning": {"enabled": True}}),
        ("deepseek", DISABLED, {"thinking": {"type": "enabled"}}),
        ("zai", DISABLED, {"thinking": {"type": "enabled"}}),
        ("no-such-format", {}, {"reasoning_effort": "high"}),
        (7, {}, {"reasoning_effort": "high"}),
    ],
)
def test_thinking_formats(form: Any, off: dict[str, Any], on: dict[str, Any]) -> None:
    assert added("acme/m", "off", compat={"thinkingFormat": form}) == off
    assert added("acme/m", "high", compat={"thinkingFormat": form}) == on


# --- Claude ---------------------------------------------------------------------------------------------------


def test_a_budget_leaves_room_for_the_answer_or_is_not_sent() -> None:
    small = added("anthropic/claude-sonnet-4-5", "high", limit=4000, max_tokens=10_000)
    assert small == {"thinking": {"type": "enabled", "budget_tokens": 8976}, "max_tokens": 10_000}
    tiny = added("anthropic/claude-sonnet-4-5", "high", max_tokens=1500)
    assert tiny == DISABLED


def test_temperature_goes_with_thinking_and_always_on_the_latest() -> None:
    body = {"temperature": 0.5}
    assert "temperature" not in shaped("anthropic/claude-sonnet-4-5", "low", body)
    assert "temperature" in shaped("anthropic/claude-sonnet-4-5", "off", body)
    assert "temperature" not in shaped("anthropic/claude-opus-4-7", "off", body)


def test_thinking_and_a_forced_tool_or_a_prefilled_answer_exclude_each_other() -> None:
    body = {
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "{"}],
        "tool_choice": {"type": "any"},
    }
    on = shaped("anthropic/claude-opus-4-8", "high", body)
    assert [m["role"] for m in on["messages"]] == ["user"]
    assert on["tool_choice"] == {"type": "auto"}
    off = shaped("anthropic/claude-opus-4-8", "off", body)
    assert (off["messages"], off["tool_choice"]) == (body["messages"], body["tool_choice"])


@pytest.mark.parametrize(
    ("name", "level", "beta"),
    [
        ("claude-sonnet-4-5", "low", True),
        ("claude-sonnet-4-5", "off", False),
        ("claude-opus-4-8", "high", False),
    ],
)
def test_the_beta_header_is_for_models_with_budgets(name: str, level: str, beta: bool) -> None:
    headers = claude.build_claude_headers(asking(f"anthropic/{name}", level))
    assert headers == ({"anthropic-beta": "interleaved-thinking-2025-05-14"} if beta else {})


# --- quirks ---------------------------------------------------------------------------------------------------


def test_openrouter_nests_the_effort_and_keeps_one_that_is_there() -> None:
    body = {"reasoning_effort": "low", "reasoning": {"max_tokens": 100}}
    assert added("openrouter/acme/m", "high", body) == {"reasoning": {"max_tokens": 100}}
    assert added("openrouter/acme/m", "off", {"reasoning_effort": "low"}) == {}


def test_openrouter_strips_a_prefilled_answer_for_claude() -> None:
    body = {"messages": [{"role": "user"}, {"role": "assistant"}]}
    assert len(shaped("openrouter/anthropic/claude-opus-4.8", "high", body)["messages"]) == 1
    assert len(shaped("openrouter/anthropic/claude-opus-4.8", "off", body)["messages"]) == 2


def test_deepseek_history() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a", "reasoning_content": "r"},
            {"role": "assistant", "content": "b"},
        ]
    }
    on = shaped("deepseek/deepseek-v4-pro", "high", body)["messages"]
    assert [m.get("reasoning_content") for m in on] == [None, "r", ""]
    off = shaped("deepseek/deepseek-v4-pro", "off", body)["messages"]
    assert all("reasoning_content" not in m for m in off)


@pytest.mark.seed(42)
def test_minimax_m2_keeps_a_thinking_field_that_was_asked_for() -> None:
    own = {"type": "enabled", "budget_tokens": 4096}
    assert added("minimax/MiniMax-M2.7", "off", params={"thinking": own}) == {"thinking": own}
    assert added("minimax/MiniMax-M2.7", "off", {"thinking": own}) == {"thinking": own}


@pytest.mark.parametrize(
    ("level", "choice", "sent"),
    [
        pytest.param("low", "required", "auto", marks=seed(49)),
        pytest.param("low", {"type": "function", "function": {"name": "x"}}, "auto", marks=seed(49)),
        pytest.param("low", "auto", "auto", marks=seed(49)),
        pytest.param("low", "none", "none", marks=seed(49)),
        ("off", "required", "required"),
    ],
)
def test_moonshot_tool_choice(level: str, choice: Any, sent: Any) -> None:
    assert added("moonshot/kimi-k2.6", level, {"tool_choice": choice})["tool_choice"] == sent


@pytest.mark.parametrize(
    ("name", "given", "level", "sent"),
    [
        ("kimi-k2.6", {"type": "enabled", "keep": "all"}, "off", {"type": "enabled", "keep": "all"}),
        ("kimi-k2.5", {"type": "enabled", "keep": "all"}, "off", {"type": "enabled"}),
        ("kimi-k2.6", "disabled", "high", {"type": "disabled"}),
        ("kimi-k2.6", False, "high", {"type": "disabled"}),
        ("kimi-k2.6", ["what"], "high", {"type": "enabled"}),
    ],
)
def test_moonshots_own_params_beat_the_level(name: str, given: Any, level: str, sent: dict[str, str]) -> None:
    assert added(f"moonshot/{name}", level, params={"thinking": given}) == {"thinking": sent}


def test_zai_streams_calls_and_can_keep_thinking() -> None:
    assert added("zai/glm-5", "low", {"tools": [1]}) == {"tools": [1], "tool_stream": True}
    assert added("zai/glm-5", "low", {"tools": [1]}, params={"tool_stream": False}) == {"tools": [1]}
    kept = {"thinking": {"type": "enabled", "clear_thinking": False}}
    assert added("zai/glm-5", "low", params={"preserveThinking": True}) == kept


@pytest.mark.parametrize(
    ("params", "reasoning", "level", "sent"),
    [
        ({"think": "medium"}, True, "off", {"think": "medium"}),
        ({"thinking": True}, True, "off", {"think": True}),
        ({"think": {"a": 1}}, True, "low", {"think": "low"}),
        ({}, False, "high", {}),
        ({}, False, "off", {"think": False}),
    ],
)
def test_ollama_think(params: dict[str, Any], reasoning: bool, level: str, sent: dict[str, Any]) -> None:
    assert added("ollama/m", level, params=params, reasoning=reasoning) == sent


@pytest.mark.parametrize(
    ("name", "budget", "config"),
    [
        ("gemini-3-pro", -1, {"includeThoughts": True}),
        ("gemini-3-pro", 2048, {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-pro", 2049, {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3-flash", 0, {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash", 8192, {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash", 9000, {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-2.5-flash", 777, {"includeThoughts": True, "thinkingBudget": 777}),
    ],
)
def test_a_numeric_budget_for_gemini(name: str, budget: int, config: dict[str, Any]) -> None:
    out = added(f"google/{name}", "high", params={"thinkingBudget": budget})
    assert out == {"generationConfig": {"thinkingConfig": config}}


def test_mistral_ids_are_nine_letters_and_stay_paired() -> None:
    body = {
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "call_abc|fc_1"}, {"id": "abcdefgh9"}]},
            {"role": "tool", "tool_call_id": "call_abc|fc_1"},
            {"role": "tool", "tool_call_id": "abcdefgh9"},
        ],
        "max_completion_tokens": 5,
    }
    out = shaped("mistral/codestral-latest", "off", body)
    first, second = (call["id"] for call in out["messages"][0]["tool_calls"])
    assert [m["tool_call_id"] for m in out["messages"][1:]] == [first, second]
    assert len(first) == 9 and first.isalnum() and second == "abcdefgh9"
    assert out["max_tokens"] == 5 and "max_completion_tokens" not in out


def test_bedrock_cache_points() -> None:
    body = {"system": [{"text": "s"}, {"text": "v"}], "messages": [{"role": "user", "content": [{"text": "q"}]}]}
    point = {"cachePoint": {"type": "default"}}
    out = shaped("amazon-bedrock/us.anthropic.claude-sonnet-4-6", "off", body)
    assert out["system"] == [{"text": "s"}, point, {"text": "v"}]
    assert out["messages"][-1]["content"] == [{"text": "q"}, point]
    assert shaped("amazon-bedrock/meta.llama3-70b", "off", body) == body


def test_copilot_headers_tell_who_asks() -> None:
    headers = vendor_of("github-copilot").headers
    assert headers is not None
    assert headers(asking("github-copilot/gpt-4.1"))["X-Initiator"] == "user"


@pytest.mark.parametrize("provider", ["deepseek", "zai", "xai", "openai", "acme"])
def test_whoever_is_reached_through_messages_may_think_between_calls(provider: str) -> None:
    request = asking(f"{provider}/claude-haiku-4-5", "high", api="anthropic-messages")
    headers = build_vendor_headers(request, vendor_of(provider), custom.VENDOR)
    assert headers == {"anthropic-beta": claude.INTERLEAVED}
    assert build_vendor_headers(asking(f"{provider}/m", "high"), vendor_of(provider), custom.VENDOR) == {}


BUDGETS = {"low": 3000, "medium": 9000, "high": 30_000}


@pytest.mark.parametrize(
    ("ref", "level", "fields"),
    [
        ("anthropic/claude-haiku-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 3000}}),
        ("anthropic/claude-haiku-4-5", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("anthropic/claude-haiku-4-5", "max", {"thinking": {"type": "enabled", "budget_tokens": 30_000}}),
        ("google/gemini-2.5-pro", "medium", {"includeThoughts": True, "thinkingBudget": 9000}),
        ("google/gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("google/gemini-3-flash-preview", "low", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("vercel-ai-gateway/openai/gpt-5.4", "high", {"thinking": {"type": "enabled", "budget_tokens": 30_000}}),
    ],
)
def test_budgets_per_level_come_from_the_params(ref: str, level: str, fields: dict[str, Any]) -> None:
    sent = added(ref, level, params={"thinkingBudgets": BUDGETS})
    sent.pop("max_tokens", None)
    assert sent.get("generationConfig", {}).get("thinkingConfig", sent) == fields


@pytest.mark.parametrize("wrong", [7, {"low": "much"}, {"low": True}, {"low": -5}, {"low": None}])
def test_budgets_that_are_none_change_nothing(wrong: Any) -> None:
    ref = "anthropic/claude-haiku-4-5"
    assert added(ref, "low", params={"thinkingBudgets": wrong}) == added(ref, "low")


def test_a_vendor_of_facts_alone_follows_the_common_rules() -> None:
    """As docs/adding.md and plugins write one: its models think as they are told."""
    vendor = Vendor("harbour", "Harbour", "openai-completions", "https://api.harbour.example/v1")
    assert shape(vendor, {}, asking("harbour/tide-1", "high")) == {"reasoning_effort": "high"}
