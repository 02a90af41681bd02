"""How the text of a model becomes a model: the four rules of the runtime page."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.core.types.keys import ModelRef, parse_model_ref
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.providers.catalog import Catalog
from providers.kit import agent, settings


def provider(name: str, *models: str) -> ProviderSettings:
    return ProviderSettings(name, base_url="http://x", models=tuple(ModelSettings(m) for m in models))


def find(text: str, *providers: ProviderSettings, **changes: Any) -> str:
    found = Catalog(settings(*providers), {}).find(text, agent(**changes))
    return str(found.ref) if isinstance(found, ModelSpec) else f"! {found.message}"


@pytest.mark.seed(383)
@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("openai/gpt-5.5", ("openai", "gpt-5.5")),
        ("openrouter/moonshotai/kimi-k2", ("openrouter", "moonshotai/kimi-k2")),
        ("a/b/c/d", ("a", "b/c/d")),
        (" OpenAI / gpt ", ("openai", "gpt")),
    ],
)
def test_the_first_slash_ends_the_provider(text: str, ref: tuple[str, str]) -> None:
    assert parse_model_ref(text) == ModelRef(*ref)
    if ref[0] in ("openai", "openrouter"):
        assert find(text) == "/".join(ref)


@pytest.mark.seed(384)
def test_an_id_with_a_slash_needs_its_provider() -> None:
    assert find("openrouter/moonshotai/kimi-k2") == "openrouter/moonshotai/kimi-k2"
    # Without it the first part is taken for a provider: here the maker's own, elsewhere nobody.
    assert find("moonshotai/kimi-k2") == "moonshot/kimi-k2"
    assert "unknown provider 'meta-llama'" in find("meta-llama/llama-4")


@pytest.mark.seed(385)
def test_without_a_provider_an_alias_goes_first_then_a_unique_match_then_the_default_provider() -> None:
    lab, den = provider("lab", "big", "twin"), provider("den", "small", "twin")
    aliases = {"big": "den/small", "Opus": "anthropic/claude-opus-4-8"}
    assert find("big", lab, den, aliases=aliases) == "den/small"  # the alias, although lab has the id
    assert find("opus", lab, den, aliases=aliases) == "anthropic/claude-opus-4-8"
    assert find("small", lab, den, model="lab/big") == "den/small"  # only den has it
    assert find("twin", lab, den, model="den/small") == "den/twin"  # both have it: the default's provider
    assert find("gpt-next", lab, den, model="openai/gpt-5.5") == "openai/gpt-next"  # nobody lists it
    assert find("twin", lab, den).startswith("! ")  # both have it and nothing decides
    assert find("nothing-like-it", lab, den).startswith("! ")


@pytest.mark.seed(386)
def test_a_default_that_its_provider_no_longer_has_gives_way_to_the_first_configured() -> None:
    lab, den = provider("lab", "big"), provider("den", "small")
    catalog = Catalog(settings(lab, den), {"ANTHROPIC_API_KEY": "k"})
    assert str(catalog.default(agent(model="den/gone")).ref) == "lab/big"
    assert str(catalog.default(agent(model="den/small")).ref) == "den/small"
    assert isinstance(catalog.find("den/gone", agent()), ModelFailure)  # asked for by name it is an error
    assert "did you mean" in catalog.explain_missing(agent(model="den/smal"))
