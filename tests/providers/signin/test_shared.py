"""A fleet's sign-ins: with a token that holds once, one node renews it and the others have what it got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from palinurus.clock import SystemClock
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.signin import OAuthAnswer, OAuthAsk, SignInRow
from palinurus.providers.credentials import KeyProfile
from palinurus.providers.signin.renew import TokenKeeper
from palinurus.providers.signin.shared import SharedSignIns
from palinurus.providers.signin.vault import KeptSignIn, SignInVault, make_profile
from palinurus.store.factory import open_store
from palinurus.store.port import Store
from palinurus.testing.slowstore import share_store

IDENT = "lab:signed-in"
FIRST = KeptSignIn("lab", "access-1", "refresh-1", expires=1)


class Server:
    """Each token for renewing holds once."""

    def __init__(self) -> None:
        self.number, self.asked, self.lasts = 1, 0, 3600

    async def fetch(self, ask: OAuthAsk) -> OAuthAnswer:
        self.asked += 1
        await asyncio.sleep(0.01)
        if f"refresh-{self.number}".encode() not in (ask.body or b""):
            return OAuthAnswer(400, b'{"error": "invalid_grant"}')
        self.number += 1
        made = {f"{kind}_token": f"{kind}-{self.number}" for kind in ("access", "refresh")}
        return OAuthAnswer(200, json.dumps({**made, "expires_in": self.lasts}).encode())


class Node:
    def __init__(self, store: Store, folder: Path, server: Server) -> None:
        folder.mkdir()
        self.vault = SignInVault(str(folder), {}, keyring=False, several=True)
        self.shared = SharedSignIns(store, SystemClock(), self.vault)
        self.server = server

    async def renew(self) -> KeyProfile | ModelFailure:
        row = SignInRow(token_url="https://lab.example/token", client_id="x")
        keeper = TokenKeeper(self.vault, lambda name, kept: row, self.server.fetch, SystemClock())
        had = make_profile(IDENT, self.vault.list_all()[IDENT])
        assert isinstance(had, KeyProfile)
        return await keeper.renew(had)

    @property
    def access(self) -> str:
        return self.vault.list_all()[IDENT].access


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    store, server = await open_store(str(tmp_path / "h"), SystemClock()), Server()
    made = [Node(one, tmp_path / name, server) for one, name in ((store, "a"), (share_store(store), "b"))]
    made[0].vault.put(IDENT, FIRST)
    for node in made:
        await node.shared.start()
    yield made
    for node in made:
        await node.shared.close()
    await store.close()


async def test_a_node_that_joins_has_the_sign_ins_of_the_others(nodes: list[Node]) -> None:
    assert nodes[1].access == "access-1"


async def test_of_two_that_renew_one_asks_and_both_have_the_token(nodes: list[Node]) -> None:
    a, b = nodes
    got = await asyncio.gather(a.renew(), b.renew())
    assert [one.secret.reveal() for one in got if isinstance(one, KeyProfile)] == ["access-2", "access-2"]
    assert a.server.asked == 1 and (a.access, b.access) == ("access-2", "access-2")


async def test_the_next_one_renews_with_what_the_last_one_got(nodes: list[Node]) -> None:
    a, b = nodes
    a.server.lasts = 1  # good for nobody: each one has to renew
    for number, node in enumerate((a, b, b, a), 2):
        await node.renew()
        assert node.access == f"access-{number}" and node.server.asked == number - 1


async def test_what_a_kill_kept_from_the_others_is_told_after_the_start(nodes: list[Node]) -> None:
    a, b = nodes
    a.vault.put(IDENT, msgspec.structs.replace(FIRST, access="access-9", refresh="refresh-9", number=0))
    await a.shared.reread(IDENT)
    await b.shared.reread(IDENT)
    assert b.access == "access-9"
    assert a.vault.list_all()[IDENT].number == b.vault.list_all()[IDENT].number == 2


async def test_who_signs_out_on_one_node_is_out_on_all(nodes: list[Node]) -> None:
    a, b = nodes
    a.vault.remove(IDENT)
    await a.shared.reread(IDENT)
    await b.shared.reread(IDENT)
    for node in nodes:
        kept = node.vault.list_all()[IDENT]
        assert kept.out == "signed out" and not kept.secrets
