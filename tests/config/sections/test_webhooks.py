"""hooks: what is open, what is closed, what is said about a config that cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.webhooks import PRESETS, WebhookSettings

TOKEN = "a-long-random-token"


def made(environ: dict[str, str] | None = None, **hooks: Any) -> tuple[WebhookSettings, list[ConfigFinding]]:
    settings, findings = read_settings({"hooks": {"enabled": True, **hooks}}, environ)
    return settings.webhooks, findings


def test_off_unless_enabled() -> None:
    assert read_settings({})[0].webhooks == WebhookSettings()
    assert not made(enabled=False, token=TOKEN)[0].enabled


def test_defaults_and_all_keys() -> None:
    settings, findings = made(token=TOKEN)
    assert not findings and settings.path == "/hooks" and settings.size == 256 * 1024 and not settings.choose
    mapping = {
        "match": {"path": "/build/", "source": "ci"}, "action": "wake", "wakeMode": "next-heartbeat", "name": "Build",
        "textTemplate": "{{x}}", "agentId": "Work", "deliver": False, "channel": "fake", "to": "me", "model": "a/b",
        "thinking": "low", "timeoutSeconds": 9, "ratePerMinute": 7, "deliveryId": "{{id}}",
    }  # fmt: skip
    settings, findings = made(token=TOKEN, path="/in", mappings=[mapping], allowedAgentIds=["work"])
    (hook,) = settings.hooks
    assert not findings and settings.path == "/in" and settings.agents == ("work",)
    assert (hook.id, hook.path, hook.source, hook.action, hook.now, hook.agent) == (
        "build", "build", "ci", "wake", False, "work",
    )  # fmt: skip
    assert (hook.deliver, hook.channel, hook.to, hook.rate, hook.own) == (False, "fake", "me", 7, False)
    assert hook.options == {"model": "a/b", "thinking": "low", "timeoutSeconds": 9}


@pytest.mark.parametrize(
    "body",
    [
        {"token": ""}, {"token": "  "}, {"secret": ""}, {"signature": "github"},
        {"signature": "github", "secret": {"source": "env", "id": "NOT_SET"}},
    ],
)  # fmt: skip
def test_a_blank_credential_closes_a_hook(body: dict[str, Any]) -> None:
    (hook,) = made(token=TOKEN, mappings=[{"match": {"path": "x"}, **body}])[0].hooks
    assert hook.closed and hook.own


def test_what_cannot_work_is_said() -> None:
    def keys(**hooks: Any) -> list[tuple[str, bool]]:
        return [(".".join(map(str, f.path)), f.fatal) for f in made(**hooks)[1]]

    assert keys() == [("hooks.token", True)]
    assert keys(token=TOKEN, path="/") == [("hooks.path", True)]
    assert keys(token=TOKEN, presets=["gmial"]) == [("hooks.presets.0", True)]
    at = "hooks.mappings.0"
    assert keys(token=TOKEN, mappings=[{"signature": "gitlab", "secret": "x"}]) == [(f"{at}.signature", True)]
    assert keys(token=TOKEN, mappings=[{"to": "{{from}}"}]) == [(f"{at}.to", True)]
    config = {"gateway": {"auth": {"token": TOKEN}}, "hooks": {"enabled": True, "token": TOKEN}}
    _, findings = read_settings(config)
    assert [f.message for f in findings] == ["is the gateway's own token"]


def test_presets_are_mappings_and_own_ones_go_before_them() -> None:
    settings, _ = made({"GITHUB_WEBHOOK_SECRET": "s"}, token=TOKEN, presets=list(PRESETS))
    assert {hook.id: hook.scheme for hook in settings.hooks} == {"gmail": "", "github": "github"}
    settings, _ = made(token=TOKEN, presets=["gmail"], mappings=[{"id": "gmail", "match": {"path": "mail"}}])
    assert [hook.path for hook in settings.hooks] == ["mail"]
    assert TOKEN not in repr(settings)


@pytest.mark.parametrize("reference", [{"source": "file", "id": "NAME"}, {"source": "env"}, {"id": "NAME"}])
def test_a_reference_to_no_variable_opens_nothing_and_is_said(reference: dict[str, Any]) -> None:
    mapping = {"match": {"path": "x"}, "token": reference}
    settings, findings = made({"NAME": "not a secret"}, token=TOKEN, mappings=[mapping])
    assert settings.hooks[0].closed and not settings.hooks[0].token
    assert [(f.path, f.fatal) for f in findings] == [(("hooks", "mappings", 0, "token"), False)]


def test_a_variable_is_read_without_the_blanks_around_it() -> None:
    mapping = {"match": {"path": "x"}, "token": {"source": "env", "id": "NAME"}}
    settings, findings = made({"NAME": " s3cret\n"}, token=TOKEN, mappings=[mapping])
    assert settings.hooks[0].token.reveal() == "s3cret" and not findings
