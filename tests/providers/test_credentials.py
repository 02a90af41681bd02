"""Where keys come from: config, auth-profiles.json, variables; in which order; and that none shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.sections.credentials import AuthProfileSettings, AuthSettings
from palinurus.config.sections.models import ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.vendor import Vendor
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import KeyProfile, gather_profiles, load_stored, read_variables
from providers.kit import settings

VENDOR = Vendor("v", "Vee", "openai-completions", "https://v.example", keys=("V_KEY", "V_OTHER"))


def found(environ: dict[str, str], *providers: ProviderSettings, kept: Any = (), **auth: Any) -> list[str]:
    whole = msgspec.structs.replace(settings(*providers), auth=AuthSettings(**auth))
    return [f"{p.id}={p.secret.reveal()}" for p in gather_profiles("v", whole, VENDOR, environ, kept)]


def profile(ident: str, key: str = "", mode: str = "api_key", provider: str = "v") -> AuthProfileSettings:
    return AuthProfileSettings(ident, provider, mode, Secret(key))


def test_variables_alone_in_lists_and_numbered() -> None:
    assert found({"V_KEY": "a"}) == ["v:V_KEY=a"]
    assert found({"V_KEY": "a, b;c"}) == ["v:V_KEY=a", "v:V_KEY#2=b", "v:V_KEY#3=c"]
    several = {"V_KEY_2": "d", "V_KEY_10": "e", "V_KEY_1": "c", "V_KEYS": "a b", "V_KEY": "b", "V_KEY_X": "no"}
    assert found(several) == ["v:V_KEYS=a", "v:V_KEYS#2=b", "v:V_KEY_1=c", "v:V_KEY_2=d", "v:V_KEY_10=e"]
    assert found({"V_OTHER": "x", "V_KEY": " "}) == ["v:V_OTHER=x"]
    assert found({"V_OTHER": "x", "V_KEY_1": "y"}) == ["v:V_KEY_1=y"]  # the first variable that has any
    assert found({}) == []


def test_config_goes_before_variables() -> None:
    own = ProviderSettings("v", api_key=Secret("mine"))
    assert found({"V_KEY": "a"}, own) == ["v:config=mine"]
    profiles = {"v:work": profile("v:work", "w"), "x:other": profile("x:other", "o", provider="x")}
    assert found({"V_KEY": "a"}, own, profiles=profiles) == ["v:work=w", "v:config=mine"]


def test_a_profile_without_key_stands_for_a_stored_one() -> None:
    kept = (
        KeyProfile("v:me", "v", Secret("s"), "oauth"),
        KeyProfile("v:too", "v", Secret("t")),
        KeyProfile("x:1", "x", Secret("u")),
    )
    assert found({}, kept=kept, profiles={"v:me": profile("v:me"), "v:lost": profile("v:lost")}) == [
        "v:me=s",
        "v:too=t",
    ]


def test_an_explicit_order_is_the_whole_truth_if_it_names_anything_that_is_there() -> None:
    profiles = {i: profile(i, i[-1]) for i in ("v:a", "v:b", "v:c")}
    assert found({}, profiles=profiles, order={"v": ("v:c", "v:gone", "v:a")}) == ["v:c=c", "v:a=a"]
    assert found({}, profiles=profiles, order={"v": ("v:gone",)}) == ["v:a=a", "v:b=b", "v:c=c"]
    assert found({"V_KEY": "e"}, profiles=profiles, order={"v": ("v:V_KEY", "v:b")}) == ["v:V_KEY=e", "v:b=b"]


def test_one_key_under_two_names_is_one_key() -> None:
    assert found({"V_KEY": "a,a", "V_KEY_1": "a"}) == ["v:V_KEY=a"]


@given(st.dictionaries(st.sampled_from(["V_KEY", "V_KEYS", "V_KEY_1", "V_KEY_٢", "V_OTHER"]), st.text(max_size=30)))
def test_hostile_variables_give_distinct_ids_and_no_empty_key(environ: dict[str, str]) -> None:
    got = read_variables("v", VENDOR, environ)
    assert len({p.id for p in got}) == len(got) and all(p.secret and not p.secret.reveal().isspace() for p in got)


# --- auth-profiles.json ---------------------------------------------------------------------------------------


def write(home: Path, value: Any) -> None:
    folder = home / "agents" / "main" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "auth-profiles.json").write_text(value if isinstance(value, str) else json.dumps(value))


def test_openclaw_s_file_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "version": 1,
            "profiles": {
                "anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "sk-1"},
                "openai:me@x.org": {
                    "type": "oauth",
                    "provider": "OpenAI",
                    "access": "at",
                    "refresh": "rt",
                    "expires": 5,
                },
                "z:t": {"type": "token", "provider": "z", "token": "tok"},
                "bad:1": {"type": "api_key", "provider": "bad"},
                "bad:2": {"type": "spell", "provider": "bad", "key": "k"},
                "bad:3": ["what"],
                "bad:4": {"type": "api_key", "provider": 7, "key": "k"},
            },
        },
    )
    got = {
        p.id: (p.provider, p.mode, p.secret.reveal(), p.renewal.reveal(), p.expires)
        for p in load_stored(str(tmp_path), "main")
    }
    assert got == {
        "anthropic:default": ("anthropic", "api_key", "sk-1", "", 0),
        "openai:me@x.org": ("openai", "oauth", "at", "rt", 5),
        "z:t": ("z", "token", "tok", "", 0),
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"profiles": 3}', '{"profiles": {"a": null}}', "[" * 100_000])
def test_a_broken_file_is_no_file(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    assert load_stored(str(tmp_path), "main") == ()


def test_the_catalog_knows_them(tmp_path: Path) -> None:
    write(tmp_path, {"profiles": {"openai:x": {"type": "api_key", "provider": "openai", "key": "sk-secret-1"}}})
    catalog = Catalog(msgspec.structs.replace(settings(), home=str(tmp_path)), {})
    assert catalog.key_source("openai") == "auth-profiles.json" and catalog.key_source("anthropic") == ""
    assert catalog.default(catalog.settings.agents["main"]).ref.provider == "openai"
    assert "sk-secret" not in repr(catalog.profiles("openai"))
