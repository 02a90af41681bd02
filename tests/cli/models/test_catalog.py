"""`pal models`: what there is and where keys come from, without showing one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palinurus.cli.models.catalog import run_models

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    return tmp_path


def configured(home: Path, model: str = "lab/big") -> None:
    lab = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": KEY, "models": [{"id": "big"}]}
    config = {"models": {"providers": {"lab": lab}}, "agents": {"defaults": {"model": {"primary": model}}}}
    (home / "palinurus.json").write_text(json.dumps(config))


def test_list(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured(home)
    assert run_models([]) == 0
    out = capsys.readouterr().out
    assert "* lab/big" in out and "builtin/demo" in out and KEY not in out
    assert run_models(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["models"]
    assert [r["key"] for r in rows if r["default"]] == ["lab/big"]


def test_status(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    configured(home)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert run_models(["status"]) == 0
    out = capsys.readouterr().out
    assert "lab/big" in out and "from config" in out and "from OPENAI_API_KEY" in out and KEY not in out
    assert run_models(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["default"] == "lab/big" and {p["id"] for p in told["providers"]} >= {"lab", "openai"}


def test_status_names_a_wrong_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured(home, "lab/bog")
    assert run_models(["status"]) == 0
    assert "did you mean 'lab/big'" in capsys.readouterr().out


def test_status_knows_credentials_that_sign(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE00000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert run_models(["status"]) == 0
    out = capsys.readouterr().out
    assert "bedrock-runtime.eu-west-1.amazonaws.com  key: from AWS_ACCESS_KEY_ID" in out and KEY not in out
