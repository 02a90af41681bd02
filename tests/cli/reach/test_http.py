"""Where the gateway is: of this home, or elsewhere (gateway.mode remote); and what is sent to whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.cli.reach import http
from palinurus.cli.reach.gateway import reach_program
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig, load_config
from palinurus.errors import GatewayUnreachable
from palinurus.testing.model import ScriptedModel
from web.served import TOKEN, served


def settle(home: Path, **remote: Any) -> LoadedConfig:
    """The config of a machine whose gateway is elsewhere."""
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(
        msgspec.json.encode({"gateway": {"mode": "remote", "remote": remote}}).decode()
    )
    return load_config(str(home), {})


@pytest.mark.parametrize("tls", [True, False])
async def test_commands_talk_to_the_gateway_elsewhere(tmp_path: Path, tls: bool) -> None:
    async with served(tmp_path / "there", ScriptedModel([]), gateway={"tls": {"enabled": tls}}) as site:
        scheme, proof = ("wss", site.gateway.fingerprint) if tls else ("ws", "")
        url = f"{scheme}://127.0.0.1:{site.gateway.port}"
        loaded = settle(tmp_path / "here", url=url, token=TOKEN, tlsFingerprint=proof)
        assert await http.is_gateway_running(loaded.settings)
        async with reach_program(loaded, {}, SystemClock()) as program:
            found = await program.call("agents.list")
        assert found["defaultId"] == "main"
        assert not (tmp_path / "here" / "state.db").exists()  # nothing was opened here
        if tls:
            strange = settle(tmp_path / "here", url=url, token=TOKEN, tlsFingerprint="ab" * 32)
            with pytest.raises(GatewayUnreachable):
                await http.is_gateway_running(strange.settings)


async def test_nothing_is_done_here_when_it_does_not_answer(tmp_path: Path) -> None:
    loaded = settle(tmp_path / "here", url="ws://127.0.0.1:9", token=TOKEN)
    with pytest.raises(GatewayUnreachable, match="no gateway answers at http"):
        async with reach_program(loaded, {}, SystemClock()):
            pass
    assert not (tmp_path / "here" / "state.db").exists()


@pytest.mark.parametrize(
    ("told", "key", "words"),
    [
        ({"url": "ws://10.0.0.5:18789"}, "url", "would send the token where others can read it"),
        ({"url": "http://gateway.example"}, "url", "would send the token where others can read it"),
        ({"url": "gateway.example"}, "url", "is not the address of a gateway"),
        ({"url": "wss://gateway.example", "tlsFingerprint": "12"}, "tlsFingerprint", "is no SHA-256"),
    ],
)
def test_an_address_that_would_give_the_token_away_is_not_used(
    tmp_path: Path, told: dict[str, str], key: str, words: str
) -> None:
    loaded = settle(tmp_path, token=TOKEN, **told)
    (problem,) = loaded.problems
    assert problem.path == f"gateway.remote.{key}" and words in problem.message and problem.fatal
    address = http.find_gateway_address(loaded.settings)
    assert address.fingerprint == "0" * 64 if key == "tlsFingerprint" else not address.remote


def test_an_issuer_is_trusted_where_no_fingerprint_is_told(tmp_path: Path) -> None:
    address = http.find_gateway_address(settle(tmp_path, url="wss://[::2]:443", token=TOKEN).settings)
    assert (address.host, address.port, address.issued, address.url) == ("::2", 443, True, "https://[::2]:443")
