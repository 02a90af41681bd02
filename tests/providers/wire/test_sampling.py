"""What the config says under a model's `params` reaches the body of every wire, and the caller's word goes first."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.types.keys import ModelRef
from palinurus.providers import VENDORS, WIRES, load_row
from palinurus.providers.vendors import custom
from palinurus.providers.wire import compose_body, pick
from providers.kit import info, request

PARAMS = {"temperature": 0.3, "maxTokens": 700, "topP": 0.8}
# API -> where the answer's length, the temperature and the nucleus stand in its body
PLACES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "openai-completions": (("max_tokens",), ("temperature",), ("top_p",)),
    "anthropic-messages": (("max_tokens",), ("temperature",), ("top_p",)),
    "openai-responses": (("max_output_tokens",), ("temperature",), ("top_p",)),
    "google-generative-ai": tuple(("generationConfig", word) for word in ("maxOutputTokens", "temperature", "topP")),  # type: ignore[dict-item]
    "ollama": (("options", "num_predict"), ("options", "temperature"), ("options", "top_p")),
    "bedrock-converse-stream": tuple(("inferenceConfig", word) for word in ("maxTokens", "temperature", "topP")),  # type: ignore[dict-item]
}


def at(body: dict[str, Any], place: tuple[str, ...]) -> Any:
    return pick.get_object(body, *place[:-1]).get(place[-1])


@pytest.mark.parametrize("api", PLACES)
def test_params_reach_the_body(api: str) -> None:
    most, temperature, top_p = PLACES[api]
    encode = load_row(WIRES, api).encode
    body = encode(request(model=info(api, params={"temperature": 0.3, "maxTokens": 700})))
    assert (at(body, most), at(body, temperature), at(body, top_p)) == (700, 0.3, None)
    body = encode(request(model=info(api, params={"topP": 0.8})))
    assert (at(body, temperature), at(body, top_p)) == (None, 0.8)
    body = encode(request(model=info(api, params=PARAMS), max_tokens=50, temperature=0.9))
    assert (at(body, most), at(body, temperature)) == (50, 0.9)
    plain = encode(request(model=info(api)))
    assert at(plain, temperature) is None and at(plain, top_p) is None


def test_codex_takes_neither() -> None:
    api = "openai-codex-responses"
    encode = load_row(WIRES, api).encode
    assert encode(request(model=info(api, params=PARAMS))) == encode(request(model=info(api)))


def test_ollama_s_own_words_go_before_ours() -> None:
    model = info("ollama", params={**PARAMS, "num_predict": 9, "top_p": 0.5})
    options = load_row(WIRES, "ollama").encode(request(model=model))["options"]
    assert (options["num_predict"], options["top_p"]) == (9, 0.5)


CLAUDE = pytest.mark.parametrize(
    ("provider", "api"), [("anthropic", "anthropic-messages"), ("amazon-bedrock", "bedrock-converse-stream")]
)


@CLAUDE
@pytest.mark.parametrize("level", ["off", "high"])
def test_claude_s_newest_get_no_temperature(provider: str, api: str, level: str) -> None:
    """They refuse it, whether they think or not."""
    model = info(api, ref=ModelRef(provider, "claude-opus-4-8"), params=PARAMS, reasoning=True)
    body = compose_body(
        request(model=model, level=level), load_row(WIRES, api), load_row(VENDORS, provider), custom.VENDOR
    )
    _, temperature, top_p = PLACES[api]
    assert at(body, temperature) is None and at(body, top_p) is None


@CLAUDE
def test_a_thinking_budget_keeps_to_the_length_in_params(provider: str, api: str) -> None:
    ref = ModelRef(provider, "claude-haiku-4-5")
    model = info(api, ref=ref, params={"maxTokens": 700}, reasoning=True, max_tokens=64_000)
    body = compose_body(
        request(model=model, level="low"), load_row(WIRES, api), load_row(VENDORS, provider), custom.VENDOR
    )
    assert at(body, PLACES[api][0]) == 700 + 2048
