"""Finding models: refs, aliases, ids, typos; defaults; and what is known about each."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.model import ModelFailure, ModelSpec, TokenPrice
from palinurus.providers import MOST_CONTEXT, VENDORS, load_row
from palinurus.providers.catalog import Catalog
from providers.kit import agent, settings

BENCH = ProviderSettings(
    "bench",
    base_url="http://127.0.0.1:9/v1/",
    api="openai-completions",
    api_key=Secret("k"),
    headers={"a": "1"},
    timeout=7,
    models=(
        ModelSettings(
            "big",
            name="Big",
            reasoning=True,
            input=("text", "image"),
            cost={"input": 1, "output": 2},
            context_window=1000,
            max_tokens=10,
            headers={"b": "2"},
            compat={"x": 1},
            params={"p": 1, "q": 1},
        ),
        ModelSettings("org/small", api="anthropic-messages"),
    ),
)


def find(text: str, *providers: ProviderSettings, environ: dict[str, str] | None = None, **changes: Any) -> Any:
    return Catalog(settings(*providers), environ or {}).find(text, agent(**changes))


def test_config_facts() -> None:
    found = find("bench/big", BENCH, model_params={"bench/big": {"q": 2}})
    assert isinstance(found, ModelSpec)
    assert (found.api, found.base_url, found.name) == ("openai-completions", "http://127.0.0.1:9/v1", "Big")
    assert (found.reasoning, found.vision, found.context_window, found.max_tokens) == (True, True, 1000, 10)
    assert found.price == TokenPrice(1, 2, 0, 0)
    assert found.headers == {"a": "1", "b": "2"}
    assert (found.compat, found.params, found.timeout) == ({"x": 1}, {"p": 1, "q": 2}, 7)


def test_vendor_facts_and_what_the_config_adds() -> None:
    own = ProviderSettings(
        "anthropic", base_url="https://proxy.example", models=(ModelSettings("claude-opus-4-6", max_tokens=5),)
    )
    plain, changed = find("anthropic/claude-opus-4-6"), find("anthropic/claude-opus-4-6", own)
    assert plain.api == changed.api == "anthropic-messages" and plain.reasoning and changed.reasoning
    assert (plain.base_url, changed.base_url) == ("https://api.anthropic.com", "https://proxy.example")
    assert changed.max_tokens == 5 and changed.context_window == plain.context_window


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("bench/big", "bench/big"),
        (" bench/big ", "bench/big"),
        ("BENCH/big", "bench/big"),
        ("bench/org/small", "bench/org/small"),
        ("big", "bench/big"),
        ("BIG", "bench/big"),
        ("org/small", "bench/org/small"),
        ("fast", "bench/big"),
        ("Fast", "bench/big"),
        ("claude-opus-4-6", "anthropic/claude-opus-4-6"),
        ("anthropic/claude-next-9", "anthropic/claude-next-9"),
        ("ollama/qwen3:4b", "ollama/qwen3:4b"),
        ("builtin/demo", "builtin/demo"),
    ],
)
def test_found(text: str, ref: str) -> None:
    found = find(text, BENCH, aliases={"fast": "bench/big"}, environ={"ANTHROPIC_API_KEY": "k"})
    assert isinstance(found, ModelSpec), found
    assert str(found.ref) == ref


def test_the_api_of_one_model_may_differ() -> None:
    assert find("bench/org/small", BENCH).api == "anthropic-messages"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", "config", "no model"),
        ("antropic/claude-opus-4-6", "config", "did you mean 'anthropic/claude-opus-4-6'"),
        ("nobody-at-all/x", "config", "pal models"),
        ("bench/bog", "not_found", "did you mean 'bench/big'"),
        ("builtin/gpt", "not_found", "builtin has no model"),
        ("claude-opus-4-66", "not_found", "did you mean 'claude-opus-4-6'"),
        ("zzzzzz", "not_found", "unknown model"),
        ("/", "not_found", "unknown model"),
    ],
)
def test_not_found(text: str, kind: str, words: str) -> None:
    found = find(text, BENCH)
    assert isinstance(found, ModelFailure) and found.kind == kind and words in found.message, found


def test_an_id_two_providers_have_must_be_written_out() -> None:
    other = ProviderSettings("other", base_url="http://x", models=(ModelSettings("big"),))
    found = find("big", BENCH, other)
    assert isinstance(found, ModelFailure) and "bench/big, other/big" in found.message


def test_a_provider_without_a_list_takes_any_model() -> None:
    assert str(find("lab/anything/at-all", ProviderSettings("lab", base_url="http://x")).ref) == "lab/anything/at-all"


def default(
    *providers: ProviderSettings, environ: dict[str, str] | None = None, ollama: Any = (), **changes: Any
) -> str:
    found = Catalog(settings(*providers), environ or {}, ollama=ollama).default(agent(**changes))
    return str(found.ref)


def test_defaults() -> None:
    both = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"}
    assert default(BENCH, environ=both, model="bench/big") == "bench/big"
    assert default(BENCH, environ=both) == "bench/big"
    assert default(environ=both).startswith("anthropic/")
    assert default(environ={"OPENAI_API_KEY": "a"}, ollama=["q"]).startswith("openai/")
    assert default(environ={"GROQ_API_KEY": "a"}, ollama=["q"]).startswith("groq/")
    assert default(ollama=["qwen3:4b", "other"]) == "ollama/qwen3:4b"
    assert default() == "builtin/demo"


def test_a_bare_id_alias_then_unique_then_the_default_provider() -> None:
    other = ProviderSettings("other", base_url="http://x", models=(ModelSettings("big"), ModelSettings("tiny")))
    free = ProviderSettings("lab", base_url="http://x")
    found = {
        "big": "other/big",  # both have it: the default model's provider
        "org/small": "bench/org/small",
        "tiny": "other/tiny",
        "mine": "bench/big",
    }
    for text, ref in found.items():
        got = find(text, BENCH, other, model="other/tiny", aliases={"mine": "bench/big"})
        assert str(got.ref) == ref, text
    assert str(find("something-new", BENCH, free, model="lab/x").ref) == "lab/something-new"
    assert str(find("claude-next-9", model="anthropic/claude-opus-4-8").ref) == "anthropic/claude-next-9"
    assert str(find("new", free, model="Main", aliases={"main": "lab/x"}).ref) == "lab/new"
    missing = find("huge", BENCH, other, model="other/tiny")  # that provider lists its models: huge is none of them
    assert isinstance(missing, ModelFailure) and missing.kind == "not_found" and "other has no model" in missing.message
    twice = find("big", BENCH, other, model="anthropic/claude-opus-4-8")
    assert isinstance(twice, ModelFailure) and "bench/big, other/big" in twice.message


@pytest.mark.parametrize("stale", ["bench/removed", "gone/model", "gone-model"])
def test_a_default_that_is_no_longer_there_gives_way_to_the_first_listed_one(stale: str) -> None:
    catalog, one = Catalog(settings(BENCH), {"ANTHROPIC_API_KEY": "k"}), agent(model=stale)
    assert str(catalog.default(one).ref) == "bench/big"
    assert "removed" in catalog.explain_missing(one) or "gone" in catalog.explain_missing(one)
    assert catalog.explain_missing(agent(model="bench/big")) == "" == catalog.explain_missing(agent())
    lonely = Catalog(settings(), {}).default(one)
    assert lonely.api == "" and lonely.name == stale


def chain(asked: str, strict: bool = False, **changes: Any) -> Any:
    made = Catalog(settings(BENCH, ProviderSettings("lab", base_url="http://x")), {})
    got = made.chain(asked, agent(**changes), strict=strict)
    return got if isinstance(got, ModelFailure) else [str(m.ref) for m in got]


def test_the_chain_each_model_once_the_configured_one_at_the_end() -> None:
    two = {"model": "bench/big", "fallbacks": ("lab/a", "bench/big", "nobody/x", "lab/a", "lab/b")}
    assert chain("", **two) == ["bench/big", "lab/a", "lab/b"]
    assert chain("lab/b", **two) == ["lab/b", "lab/a", "bench/big"]
    assert chain("lab/z", **two) == ["lab/z", "lab/a", "bench/big", "lab/b"]
    assert chain("lab/z", model="bench/big") == ["lab/z"]  # no fallbacks configured: none
    assert chain("", model="bench/removed", fallbacks=("lab/a",)) == ["bench/big", "lab/a"]


def test_a_model_somebody_chose_is_the_only_one() -> None:
    assert chain("lab/b", strict=True, model="bench/big", fallbacks=("lab/a",)) == ["lab/b"]
    wrong = chain("bench/bog", strict=True, model="bench/big")
    assert isinstance(wrong, ModelFailure) and "did you mean 'bench/big'" in wrong.message


def test_parameters_from_the_general_to_the_particular() -> None:
    own = ProviderSettings(
        "lab",
        base_url="http://x",
        params={"a": 1, "b": 1, "c": 1, "d": 1},
        models=(ModelSettings("m", params={"b": 2, "c": 2, "d": 2}),),
    )
    found = find("lab/m", own, params={"c": 3, "d": 3}, model_params={"LAB/m": {"d": 4}})
    assert found.params == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_whether_a_model_reasons_is_known_denied_or_not_said() -> None:
    lab = ProviderSettings(
        "lab", base_url="http://x", models=(ModelSettings("no", reasoning=False), ModelSettings("what"))
    )
    assert find("bench/big", BENCH).reasoning is True
    assert find("lab/no", lab).reasoning is False
    assert find("lab/what", lab).reasoning is None


def test_a_probe_is_wanted_only_when_it_could_matter() -> None:
    assert Catalog(settings(), {}).wants_probe(agent())
    assert not Catalog(settings(), {}).wants_probe(agent(model="bench/big"))
    assert not Catalog(settings(), {"OPENAI_API_KEY": "a"}).wants_probe(agent())
    assert not Catalog(settings(), {}, ollama=["q"]).wants_probe(agent())


def test_all_lists_what_can_be_used() -> None:
    refs = [str(m.ref) for m in Catalog(settings(BENCH), {"OPENAI_API_KEY": "a"}, ollama=["q"]).all()]
    assert refs[:2] == ["bench/big", "bench/org/small"]
    assert "ollama/q" in refs and "builtin/demo" in refs
    assert any(r.startswith("openai/") for r in refs) and not any(r.startswith("anthropic/") for r in refs)


@pytest.mark.parametrize("name", list(VENDORS))
def test_every_vendor_of_the_table_is_there_and_named_alike(name: str) -> None:
    assert load_row(VENDORS, name).id == name


def test_a_row_that_is_missing_is_none() -> None:
    assert load_row({"x": "palinurus.providers.nothing:X"}, "x") is None
    assert load_row({}, "x") is None


def test_an_ollamas_model_has_the_room_that_is_asked_for_or_that_it_said() -> None:
    catalog = Catalog(settings(), {}, ollama=["small", "other"])
    catalog.windows = {"small": 8192, "gone": 1}
    assert [catalog.find(f"ollama/{n}", agent()).context_window for n in ("small", "other", "gone")] == [  # type: ignore[union-attr]
        8192,
        MOST_CONTEXT,
        MOST_CONTEXT,
    ]
