"""The questions of a first run, answered by a script, against a fake provider."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palinurus.cli.setup import run_setup
from palinurus.cli.setup.questions import SetupPerson, SetupQuestions
from palinurus.config.load import load_config
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer, respond_status

KEY = "sk-test-0123456789abcdef"


class Script(list[str]):
    """Gives its answers one after the other, then nobody is there. `heard` is what a person would have read."""

    heard = ""

    def person(self) -> SetupPerson:
        return SetupPerson(self._next, self._next, self._say)

    def _next(self, text: str) -> str:
        self._say(text)
        if not self:
            raise EOFError
        return self.pop(0)

    def _say(self, text: str) -> None:
        self.heard += text + "\n"


@pytest.fixture
def fresh(home: Path, server: ModelServer) -> Path:
    run_setup(["--non-interactive"])
    base = server.url.removesuffix("/v1")
    (home / "palinurus.json").write_text(f'{{models: {{providers: {{anthropic: {{baseUrl: "{base}"}}}}}}}} // mine')
    return home


def first(home: Path, script: Script) -> SetupQuestions:
    return SetupQuestions(str(home), dict(os.environ), script.person())


def test_a_key_is_tried_and_kept(fresh: Path, server: ModelServer) -> None:
    server.add(say("Yes."))
    script = Script(["anthropic", KEY])
    made = first(fresh, script).model()
    (asked,) = server.requests
    assert asked.headers["x-api-key"] == KEY and asked.body["max_tokens"] <= 64
    settings = load_config(str(fresh), dict(os.environ)).settings
    assert settings.providers["anthropic"].api_key.reveal() == KEY
    assert settings.agents["main"].model.startswith("anthropic/claude")
    assert KEY not in script.heard and KEY not in str(made) and "it answers" in script.heard
    text = (fresh / "palinurus.json").read_text()
    assert "// mine" in text and (fresh / "palinurus.json").stat().st_mode & 0o077 == 0
    again = Script([])
    assert first(fresh, again).model() == [] and "Enter to keep anthropic/claude" in again.heard


def test_a_wrong_key_says_why_and_asks_again(fresh: Path, server: ModelServer) -> None:
    before = (fresh / "palinurus.json").read_text()
    server.add(respond_status(401, "invalid x-api-key"), say("Yes."))
    script = Script(["anthropic", "wrong-key-0123456789", "anthropic", KEY])
    made = first(fresh, script).model()
    assert "no answer: " in script.heard and before != (fresh / "palinurus.json").read_text()
    assert len(server.requests) == 2 and "wrong-key" not in (fresh / "palinurus.json").read_text()
    assert made[-1].startswith("agents.defaults.model = anthropic/")


def test_a_key_that_cannot_be_tried_can_be_kept(fresh: Path, server: ModelServer) -> None:
    server.add(respond_status(401, "no"))
    script = Script(["anthropic", KEY, ""])
    first(fresh, script).model()
    assert "(Enter: take anthropic/claude" in script.heard
    assert load_config(str(fresh), dict(os.environ)).settings.providers["anthropic"].api_key.reveal() == KEY


def test_a_model_server_by_its_address(fresh: Path, server: ModelServer) -> None:
    script = Script(["ftp://x", "http://127.0.0.1:9", server.url.removesuffix("/v1")])
    made = first(fresh, script).model()
    settings = load_config(str(fresh), dict(os.environ)).settings
    assert settings.agents["main"].model == "server/fake" and settings.providers["server"].base_url == server.url
    assert made == ["models.providers.server", "agents.defaults.model = server/fake"]
    assert "an address looks like" in script.heard and "no list of models at http://127.0.0.1:9/v1" in script.heard


def test_nothing_typed_is_the_demo_and_changes_nothing(fresh: Path, server: ModelServer) -> None:
    before = (fresh / "palinurus.json").read_text()
    for answers in ([], [""], ["nosuch", ""], ["anthropic", "", ""]):
        assert first(fresh, Script(answers)).model() == []
    assert (fresh / "palinurus.json").read_text() == before and server.requests == []


def test_the_other_two_questions(fresh: Path) -> None:
    script = Script(["~/work", "", "n"])
    asked = first(fresh, script)
    assert asked.workspace("/default") == "~/work" and "[/default]" in script.heard
    assert asked.begin() and not asked.begin() and asked.begin()
    assert "2. Where" in script.heard and "3. Begin?" in script.heard
    alone = Script(["n"])
    assert not first(fresh, alone).begin() and "2. Begin?" in alone.heard  # a workspace that is there is not asked for
