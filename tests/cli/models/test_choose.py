"""`pal models use|add|fallbacks`: tried first, written once, keys never shown."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.models.catalog import run_models
from palinurus.config.load import load_config
from palinurus.config.settings import AgentSettings
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer, respond_status

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    lab = {
        "baseUrl": server.url,
        "api": "openai-completions",
        "apiKey": "k",
        "models": [{"id": "big"}, {"id": "bigger"}],
    }
    model = {"primary": "lab/big", "fallbacks": ["lab/bigger"]}
    write(tmp_path, {"models": {"providers": {"lab": lab}}, "agents": {"defaults": {"model": model}}})
    return tmp_path


def write(home: Path, config: dict[str, Any]) -> None:
    (home / "palinurus.json").write_text(f"// mine\n{json.dumps(config)}")


def agent(home: Path) -> AgentSettings:
    return load_config(str(home), dict(os.environ)).settings.agents["main"]


def test_the_default_changes_after_it_answered_and_fallbacks_stay(
    home: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add(say("Yes."))
    assert run_models(["use", "lab/bigger"]) == 0
    assert (agent(home).model, agent(home).fallbacks) == ("lab/bigger", ("lab/bigger",))
    assert "agents.defaults.model = lab/bigger" in capsys.readouterr().out
    assert "// mine" in (home / "palinurus.json").read_text() and server.requests[0].body["model"] == "bigger"


def test_what_does_not_answer_or_is_not_known_changes_nothing(home: Path, server: ModelServer) -> None:
    before = (home / "palinurus.json").read_text()
    server.add(respond_status(401, "no such key"))
    with pytest.raises(PalinurusError, match="nothing was changed"):
        run_models(["use", "lab/bigger"])
    with pytest.raises(NotFound, match="did you mean"):
        run_models(["use", "lab/bog"])
    assert (home / "palinurus.json").read_text() == before
    assert run_models(["set", "lab/bigger", "--no-try"]) == 0 and agent(home).model == "lab/bigger"


def test_a_server_is_added_under_a_name_with_what_it_says_of_itself(
    home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add(say("Yes."))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{KEY}\n"))
    assert run_models(["add", server.url.removesuffix("/v1"), "--name", "den", "--key-stdin"]) == 0
    said = capsys.readouterr()
    made = load_config(str(home), dict(os.environ)).settings.providers["den"]
    assert made.base_url == server.url and made.api_key.reveal() == KEY and [m.id for m in made.models] == ["fake"]
    assert agent(home).model == "lab/big" and "`pal models use den/fake`" in said.out
    assert KEY not in said.out + said.err and server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (home / "palinurus.json").stat().st_mode & 0o077 == 0


def test_a_provider_needs_its_key_and_use_makes_it_the_default(
    home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    write(home, {"models": {"providers": {"anthropic": {"baseUrl": server.url.removesuffix("/v1")}}}})
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(BadRequest, match="needs a key"):
        run_models(["add", "anthropic"])
    server.add(say("Yes."))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{KEY}\n"))
    assert run_models(["add", "anthropic", "--key-stdin", "--use"]) == 0
    assert server.requests[0].headers["x-api-key"] == KEY and agent(home).model.startswith("anthropic/")


@pytest.mark.parametrize("line", [["nobody"], ["http://127.0.0.1:9"], ["http://127.0.0.1:9", "--name", "a.b"]])
def test_what_cannot_be_added_is_said(home: Path, line: list[str]) -> None:
    with pytest.raises(BadRequest):
        run_models(["add", *line])


def test_fallbacks_are_listed_added_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_models(["fallbacks"]) == 0 and capsys.readouterr().out == "lab/bigger\n"
    assert run_models(["fallbacks", "add", "lab/big"]) == 0
    assert agent(home).fallbacks == ("lab/bigger", "lab/big") and agent(home).model == "lab/big"
    assert run_models(["fallbacks", "remove", "lab/bigger"]) == 0 and agent(home).fallbacks == ("lab/big",)
    with pytest.raises(NotFound, match="not among them"):
        run_models(["fallbacks", "remove", "lab/x"])
    assert run_models(["fallbacks", "clear"]) == 0 and agent(home).fallbacks == ()


def test_a_provider_that_is_nearly_one_is_named(home: Path) -> None:
    with pytest.raises(BadRequest, match="there is no provider 'opnai'; did you mean 'openai'"):
        run_models(["add", "opnai"])
