"""Which key is used when: sessions keep theirs, a failed one rests, tokens are renewed, the file survives damage."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.config.sections.credentials import AuthSettings
from palinurus.config.sections.models import ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.model import ModelFailure, ModelRequest, ModelSpec, Prompt
from palinurus.providers.backoff import HOUR, MINUTE, KeyHealth
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import KeyLease, KeyProfile
from palinurus.providers.rotation import FILE, KeyRotation, make_cooldown_rules
from palinurus.testing.clock import FakeClock
from providers.kit import settings

MODEL = ModelSpec(ModelRef("openai", "m"), "openai-responses", "https://api.example")
TWO = {"OPENAI_API_KEY_1": "key-one", "OPENAI_API_KEY_2": "key-two"}
LIMITED, REFUSED = ModelFailure("rate_limit", "slow down"), ModelFailure("auth", "no")


def asked(session: str = "s", model: str = "m", **changes: Any) -> ModelRequest:
    info = msgspec.structs.replace(MODEL, ref=ModelRef("openai", model))
    return ModelRequest(info, Prompt(""), (), session=session, **changes)


class Bench:
    def __init__(
        self, environ: dict[str, str] | None = None, home: str = "", auth: Any = None, **rotation: Any
    ) -> None:
        whole = msgspec.structs.replace(settings(), auth=auth or AuthSettings())
        self.catalog = Catalog(whole, TWO if environ is None else environ)
        self.clock = FakeClock()
        self.keys = KeyRotation(self.clock, home, **rotation)

    async def pick(self, *args: Any, **kwargs: Any) -> KeyLease:
        key = await self.keys.pick(asked(*args, **kwargs), self.catalog)
        assert isinstance(key, KeyLease), key
        return key

    async def name(self, *args: Any, **kwargs: Any) -> str:
        return (await self.pick(*args, **kwargs)).secret.reveal()


async def test_a_session_keeps_its_key_and_sessions_share_the_keys_out() -> None:
    bench = Bench()
    first = await bench.pick("a")
    assert not bench.keys.report(first, None)
    await bench.clock.advance(1)
    assert await bench.name("b") == "key-two"  # used longest ago
    assert [await bench.name(s) for s in "aabba"] == ["key-one", "key-one", "key-two", "key-two", "key-one"]


async def test_an_explicit_order_is_kept() -> None:
    order = {"openai": ("openai:OPENAI_API_KEY_2", "openai:OPENAI_API_KEY_1")}
    bench = Bench(auth=AuthSettings(order=order))
    for session in "abc":
        key = await bench.pick(session)
        bench.keys.report(key, None)
        await bench.clock.advance(1)
        assert key.secret.reveal() == "key-two"


@pytest.mark.parametrize(
    "failure", [LIMITED, REFUSED, ModelFailure("billing", "broke"), ModelFailure("overloaded", "")]
)
async def test_a_failed_key_rests_and_the_next_takes_over(failure: ModelFailure) -> None:
    bench = Bench()
    key = await bench.pick()
    assert bench.keys.has_spare(key, failure)
    assert bench.keys.report(key, failure)
    other = await bench.pick()
    assert (key.secret.reveal(), other.secret.reveal()) == ("key-one", "key-two")
    assert not bench.keys.report(other, failure)  # nobody is left


@pytest.mark.parametrize(
    "kind", ["format", "overflow", "network", "cut", "malformed", "aborted", "config", "not_found"]
)
async def test_our_own_faults_leave_keys_alone(kind: Any) -> None:
    bench = Bench()
    key = await bench.pick()
    assert not bench.keys.report(key, ModelFailure(kind, "x", 400))
    assert await bench.name() == "key-one"
    assert await bench.name("another session") == "key-one"


async def test_a_session_that_moved_stays_where_it_is() -> None:
    bench = Bench()
    bench.keys.report(await bench.pick(), LIMITED)
    assert await bench.name() == "key-two"
    await bench.clock.advance(3600)
    assert await bench.name() == "key-two"
    bench.keys.forget("s")
    assert await bench.name() == "key-one"


async def test_a_chosen_key_is_first_except_while_it_rests() -> None:
    bench = Bench()
    wish = {"profile": "openai:OPENAI_API_KEY_2"}
    key = await bench.pick(**wish)
    assert key.secret.reveal() == "key-two"
    bench.keys.report(key, REFUSED)
    assert await bench.name(**wish) == "key-one"
    await bench.clock.advance(61)
    assert await bench.name(**wish) == "key-two"


async def test_when_all_rest_another_model_is_asked_but_the_last_one_gets_its_call() -> None:
    bench = Bench()
    bench.keys.report(await bench.pick(), LIMITED)
    bench.keys.report(await bench.pick(), LIMITED)
    refused = await bench.keys.pick(asked(fallback=True), bench.catalog)
    assert isinstance(refused, ModelFailure) and refused.kind == "rate_limit" and refused.retry_after == 60
    assert refused.message == "openai: all 2 keys rest after a rate limit, for 1 min more"
    assert await bench.name(fallback=False) == "key-two"
    assert await bench.name(model="sibling", fallback=True) == "key-two"  # limits are of a model


async def test_near_the_end_of_a_rest_one_probe_in_thirty_seconds() -> None:
    bench = Bench({"OPENAI_API_KEY": "only"})
    bench.keys.report(await bench.pick(), LIMITED)
    await bench.clock.advance(29)
    assert isinstance(await bench.keys.pick(asked(fallback=True), bench.catalog), ModelFailure)
    await bench.clock.advance(2)
    assert await bench.name(fallback=True) == "only"
    assert isinstance(await bench.keys.pick(asked(fallback=True), bench.catalog), ModelFailure)


async def test_calls_under_way_when_a_key_fails_count_once() -> None:
    bench = Bench({"OPENAI_API_KEY": "only"})
    together = [await bench.pick(str(n)) for n in range(10)]
    await bench.clock.advance(1)
    for key in together:
        bench.keys.report(key, LIMITED)
    late = bench.keys._state()["openai:OPENAI_API_KEY"]
    assert late.error_count == 1
    bench.keys.report(together[0], None)  # it began before the limit was hit: says nothing about now
    assert bench.keys._state()["openai:OPENAI_API_KEY"].cooldown_until == late.cooldown_until
    await bench.clock.advance(61)
    bench.keys.report(await bench.pick(), None)
    assert bench.keys._state()["openai:OPENAI_API_KEY"].error_count == 0


async def test_who_needs_no_key_gets_none_and_a_missing_one_is_named() -> None:
    bench = Bench({})
    missing = await bench.keys.pick(asked(), bench.catalog)
    assert isinstance(missing, ModelFailure) and "OPENAI_API_KEY" in missing.message
    local = msgspec.structs.replace(asked(), model=ModelSpec(ModelRef("ollama", "q"), "ollama", "http://127.0.0.1:1"))
    key = await bench.keys.pick(local, bench.catalog)
    assert key == KeyLease() and not bench.keys.report(key, REFUSED)


# --- the file -------------------------------------------------------------------------------------------------


async def test_rests_survive_a_restart_privately_and_hold_no_key(tmp_path: Path) -> None:
    bench = Bench(home=str(tmp_path))
    key = await bench.pick()
    bench.keys.report(key, REFUSED)
    file = tmp_path / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "key-one" not in file.read_text()
    assert os.listdir(tmp_path) == [FILE]
    again = Bench(home=str(tmp_path))
    assert await again.name() == "key-two"
    replaced = Bench({**TWO, "OPENAI_API_KEY_1": "new-one"}, home=str(tmp_path))
    assert await replaced.name() == "new-one"  # another key under the same name has done nothing wrong


@pytest.mark.parametrize("text", ["", "{", "[]", '{"usageStats": {"x": 1}}', '{"version": "x"}'])
async def test_a_broken_file_is_forgotten(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    bench = Bench(home=str(tmp_path))
    bench.keys.report(await bench.pick(), LIMITED)
    assert json.loads((tmp_path / FILE).read_text())["usageStats"]


async def test_a_disk_that_refuses_stops_nothing(tmp_path: Path) -> None:
    bench = Bench(home=str(tmp_path / "nowhere"))
    assert bench.keys.report(await bench.pick(), LIMITED)
    assert await bench.name() == "key-two"


# --- tokens ---------------------------------------------------------------------------------------------------


class Mint:
    """Makes tokens; counts."""

    def __init__(self, clock: FakeClock, *answers: Any) -> None:
        self.clock, self.answers, self.calls = clock, list(answers), 0

    async def __call__(self, profile: KeyProfile) -> KeyProfile | ModelFailure:
        self.calls += 1
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else f"token-{self.calls}"
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ModelFailure):
            return answer
        return msgspec.structs.replace(profile, secret=Secret(answer), expires=self.clock.now() + HOUR)


def tokens(tmp_path: Path, *answers: Any, expires: int = 1, extra: dict[str, Any] | None = None) -> tuple[Bench, Mint]:
    folder = tmp_path / "agents" / "main" / "agent"
    folder.mkdir(parents=True)
    profile = {"type": "oauth", "provider": "openai", "access": "old", "refresh": "r", "expires": expires}
    (folder / "auth-profiles.json").write_text(json.dumps({"profiles": {"openai:me": profile, **(extra or {})}}))
    bench = Bench({})
    bench.catalog = Catalog(msgspec.structs.replace(bench.catalog.settings, home=str(tmp_path)), {})
    mint = Mint(bench.clock, *answers)
    bench.keys = KeyRotation(bench.clock, refresh=mint)
    return bench, mint


async def test_an_expired_token_is_renewed_once_for_all_who_wait(tmp_path: Path) -> None:
    bench, mint = tokens(tmp_path)
    assert await asyncio.gather(*(bench.name(str(n)) for n in range(5))) == ["token-1"] * 5
    assert mint.calls == 1
    await bench.clock.advance(3600)
    assert await bench.name() == "token-2"


async def test_a_token_refused_early_is_renewed_before_the_profile_rests(tmp_path: Path) -> None:
    bench, mint = tokens(tmp_path, expires=0)
    key = await bench.pick()
    assert key.secret.reveal() == "old" and bench.keys.report(key, REFUSED)
    fresh = await bench.pick(fallback=True)
    assert fresh.secret.reveal() == "token-1"
    assert not bench.keys.report(fresh, REFUSED)  # a new one was refused too: no storm
    assert isinstance(await bench.keys.pick(asked(fallback=True), bench.catalog), ModelFailure) and mint.calls == 1


@pytest.mark.parametrize("answer", [ModelFailure("auth", "revoked"), OSError("down"), ValueError("x")])
async def test_a_token_that_cannot_be_renewed_gives_way_to_a_key(tmp_path: Path, answer: Any) -> None:
    spare = {"openai:spare": {"type": "api_key", "provider": "openai", "key": "spare"}}
    bench, _ = tokens(tmp_path, answer, extra=spare)
    assert await bench.name() == "spare"
    lonely, _ = tokens(tmp_path / "lonely", answer)
    assert isinstance(await lonely.keys.pick(asked(), lonely.catalog), ModelFailure)


async def test_oauth_goes_before_token_before_api_key(tmp_path: Path) -> None:
    extra = {
        "openai:key": {"type": "api_key", "provider": "openai", "key": "k"},
        "openai:static": {"type": "token", "provider": "openai", "token": "t"},
    }
    bench, _ = tokens(tmp_path, expires=0, extra=extra)
    got = []
    for _ in range(3):
        key = await bench.pick(f"s{len(got)}")
        got.append(key.secret.reveal())
        bench.keys.report(key, ModelFailure("billing", "broke"))
    assert got == ["old", "t", "k"]


def test_rules_from_the_config() -> None:
    auth = AuthSettings(billing_hours=2, billing_by_provider={"x": 1}, billing_most_hours=4, window_hours=1)
    assert make_cooldown_rules(auth, "openai").billing == 2 * HOUR and make_cooldown_rules(auth, "x").billing == HOUR
    assert (
        make_cooldown_rules(auth, "x").billing_most == 4 * HOUR and make_cooldown_rules(auth, "x").window == 60 * MINUTE
    )
    assert ProviderSettings("x").api_key == Secret()


async def test_a_key_that_rests_on_one_node_rests_on_the_other() -> None:
    one, other = Bench(), Bench()
    one.keys.tell, other.keys.tell = other.keys.hear, lambda ident, health: None
    first = await one.pick("a")
    await other.pick("a")
    for bench in (one, other):
        await bench.clock.advance(1)
    one.keys.report(first, LIMITED)
    assert await other.name("b") == await one.name("b") == "key-two" != first.secret.reveal()
    one.keys.hear(first.profile, KeyHealth(failed_at=1))  # older word changes nothing
    assert await one.name("c") == "key-two"
    one.keys.hear(first.profile, KeyHealth(failed_at=2**60, mark="another key of that name"))
    assert await one.name("d") == "key-two"
    await one.clock.advance(3600)
    one.keys.report(await one.pick("e"), None)
    assert await other.name("f") == await one.name("f")
