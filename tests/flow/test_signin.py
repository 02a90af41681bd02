"""Runs with the tokens of somebody who signed in: renewed before they end, once for all, next profile when revoked, and
in nothing that is said or kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import until
from palinurus.app import App
from palinurus.app.modelsignin import ModelSignIns
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Sender
from palinurus.core.types.signin import TokenSet
from palinurus.providers.catalog import Catalog
from palinurus.providers.signin.renew import TokenKeeper, make_kept
from palinurus.providers.signin.vault import FILE, SignInVault
from palinurus.testing.oauth import FakeOAuth
from palinurus.testing.server import ModelServer, ModelServerRequest, ServerStep, follow_markers, respond_status
from palinurus.tools.web.egress import EgressGuard
from support import inbound

HOUR = 3_600_000
OWNER = Sender("human", owner=True)


class Place:
    """A home whose provider wants tokens of the fake server."""

    def __init__(self, home: Path, oauth: FakeOAuth, models: ModelServer) -> None:
        self.home, self.oauth, self.models = home, oauth, models
        self.clock = SystemClock()
        self.vault = SignInVault(str(home), {})

    def config(self, **signin: Any) -> dict[str, Any]:
        lab = {"baseUrl": self.models.url, "api": "openai-completions", "models": [{"id": "m"}]}
        lab["signIn"] = self.oauth.make_config(**signin)
        spare = {"provider": "lab", "mode": "api_key", "key": "the-spare-key-of-lab"}
        whole: dict[str, Any] = {"models": {"providers": {"lab": lab}}, "auth": {"profiles": {"lab:spare": spare}}}
        return {**whole, "agents": {"defaults": {"model": {"primary": "lab/m"}}}, "record": {"enabled": True}}

    def load(self, *, spare: bool = False, **signin: Any) -> Any:
        self.home.mkdir(exist_ok=True, mode=0o700)
        config = self.config(**signin)
        if not spare:
            del config["auth"]
        (self.home / "palinurus.json").write_text(json.dumps(config))
        return load_config(str(self.home), {}).settings

    def keep(self, ident: str = "lab:signed-in", *, ended: bool = True) -> TokenSet:
        """Somebody has signed in, some time ago."""
        self.home.mkdir(exist_ok=True, mode=0o700)
        told = self.oauth.make_tokens()
        expires = self.clock.now() + (-HOUR if ended else HOUR)
        tokens = TokenSet(told["access_token"], told["refresh_token"], expires)
        self.vault.put(ident, make_kept("lab", tokens, 1))
        if ended:
            self.oauth.expire()
        return tokens

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[App]:
        app = App(self.load(**options), {}, self.clock)
        await app.start()
        try:
            yield app
        finally:
            await app.stop()

    async def ask(self, app: App, text: str = "hello", chat: str = "c") -> Any:
        return await app.wait(
            (
                await app.submit(
                    inbound(text, session=f"agent:main:{chat}", push=False, event=f"{text}{chat}", sender=OWNER)
                )
            ).id
        )

    def leaks(self) -> list[str]:
        """Files of the home that hold a token, besides the one that may."""
        files = [path for path in self.home.rglob("*") if path.is_file() and path.name != FILE]
        return [path.name for path in files if b"-canary-" in path.read_bytes()]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with FakeOAuth(now=SystemClock().now) as oauth:

        def guarded(asked: ModelServerRequest) -> ServerStep:
            header = asked.headers.get("authorization", "")
            if oauth.accepts(header) or header == "Bearer the-spare-key-of-lab":
                return follow_markers(asked)
            return respond_status(401)

        async with ModelServer(default=guarded) as models:
            yield Place(tmp_path / "h", oauth, models)


async def test_an_ended_token_is_renewed_and_the_run_answers(place: Place) -> None:
    old = place.keep()
    async with place.running() as app:
        row = await place.ask(app)
        assert row.outcome == "answered" and "hello" in row.note
    assert place.oauth.grants == ["refresh_token"] and place.oauth.forms[0]["refresh_token"] == old.refresh
    kept = place.vault.list_all()["lab:signed-in"]
    assert kept.refresh == "refresh-canary-0002" and kept.access in place.oauth.valid  # rotated, and written down
    assert (place.home / FILE).stat().st_mode & 0o777 == 0o600
    assert place.leaks() == []


async def test_twenty_at_once_renew_once(place: Place) -> None:
    place.keep()
    place.oauth.gate.clear()
    async with place.running() as app:
        asked = [asyncio.ensure_future(place.ask(app, chat=f"c{n}")) for n in range(20)]
        await until(lambda: bool(place.oauth.grants))
        place.oauth.gate.set()
        rows = await asyncio.gather(*asked)
    assert {row.outcome for row in rows} == {"answered"} and place.oauth.grants == ["refresh_token"]
    assert {r.headers["authorization"] for r in place.models.requests} == {"Bearer access-canary-0002"}


async def test_two_programs_of_one_home_renew_once(place: Place) -> None:
    """Two processes are two catalogs, rotations and vaults; what they share is the home."""
    place.keep()
    settings = place.load()
    place.oauth.gate.clear()

    async def renewed() -> str:
        catalog = Catalog(settings, {})
        from_file = catalog.profiles("lab")[0]
        signins = ModelSignIns(catalog, EgressGuard(), place.clock)
        keeper = make_test_keeper(catalog, signins, place)
        got = await keeper.renew(from_file)
        return str(getattr(got, "secret", got))

    tasks = [asyncio.ensure_future(renewed()) for _ in range(2)]
    await until(lambda: bool(place.oauth.grants))
    place.oauth.gate.set()
    await asyncio.gather(*tasks)
    assert (
        place.oauth.grants == ["refresh_token"] and place.vault.list_all()["lab:signed-in"].access in place.oauth.valid
    )


def make_test_keeper(catalog: Catalog, signins: ModelSignIns, place: Place) -> Any:
    return TokenKeeper(catalog.vault, catalog.find_signin, signins.fetch, place.clock)


async def test_a_revoked_sign_in_gives_way_to_the_next_profile_and_says_why(place: Place) -> None:
    place.keep()
    place.oauth.revoke_all()
    async with place.running(spare=True) as app:
        assert (await place.ask(app)).outcome == "answered"
        assert place.models.requests[-1].headers["authorization"] == "Bearer the-spare-key-of-lab"
        assert (await place.ask(app, "again")).outcome == "answered"
    assert place.oauth.grants == ["refresh_token"]  # what is gone is not asked for again
    kept = place.vault.list_all()["lab:signed-in"]
    assert "not valid any more" in kept.out and not kept.secrets
    assert place.leaks() == []


async def test_a_token_that_is_refused_before_its_end_is_renewed(place: Place) -> None:
    place.keep(ended=False)
    place.oauth.expire()
    async with place.running() as app:
        assert (await place.ask(app)).outcome == "answered"
    assert place.oauth.grants == ["refresh_token"]


async def test_without_another_key_the_person_is_told_to_sign_in_again(place: Place) -> None:
    place.keep()
    place.oauth.revoke_all()
    async with place.running() as app:
        for text in ("one", "two"):
            row = await place.ask(app, text)
            assert row.outcome == "failed" and "pal models login lab" in row.note, row.note


async def test_an_answer_that_is_lost_costs_a_sign_in_and_nothing_else(place: Place) -> None:
    """As a kill between answer and write: the server has rotated, we know only the old token."""
    place.keep()
    place.oauth.cut = 1
    async with place.running(spare=True) as app:
        assert (await place.ask(app)).outcome == "answered"  # by the next profile
    assert not place.vault.list_all()["lab:signed-in"].out  # the network may have been at fault: nothing is thrown away
    async with place.running(spare=True) as app:
        pass
    keeper = make_test_keeper(
        Catalog(place.load(), {}), ModelSignIns(Catalog(place.load(), {}), EgressGuard(), place.clock), place
    )
    got = await keeper.renew(Catalog(place.load(), {}).profiles("lab")[0])
    assert "pal models login lab" in got.message and place.vault.list_all()["lab:signed-in"].out


async def test_a_server_that_is_down_does_not_end_a_token_that_is_still_good(place: Place) -> None:
    place.keep(ended=False)
    kept = place.vault.list_all()["lab:signed-in"]
    soon = make_kept("lab", TokenSet(kept.access, kept.refresh, place.clock.now() + 30_000), 2)
    place.vault.put("lab:signed-in", soon)
    place.oauth.down = True
    async with place.running() as app:
        assert (await place.ask(app)).outcome == "answered"
    assert place.oauth.grants == ["refresh_token"] and not place.vault.list_all()["lab:signed-in"].out


async def test_short_lived_tokens_are_fetched_with_the_lasting_one(place: Place) -> None:
    place.keep()
    lasting = place.vault.list_all()["lab:signed-in"].refresh
    async with place.running(exchange=True) as app:
        assert (await place.ask(app)).outcome == "answered"
    assert place.oauth.grants == ["exchange"] and place.vault.list_all()["lab:signed-in"].refresh == lasting


async def test_tokens_are_in_nothing_that_a_tool_says_or_a_child_has(place: Place) -> None:
    place.keep()
    spell = "env | grep -c canary; cat ../sign-ins.json; printf 'access-%s-0002 refresh-%s-0002' canary canary"
    async with place.running() as app:
        await place.ask(app, "warm up")
        await place.ask(app, f'TOOL exec {{"command": "{spell}"}}')
    (shown,) = [m["content"] for m in place.models.requests[-1].body["messages"] if m["role"] == "tool"]
    assert str(shown).strip().startswith("0") and "*** ***" in str(shown)
    assert "access-canary" not in json.dumps([request.body for request in place.models.requests])
    assert place.leaks() == []
