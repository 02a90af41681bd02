import pytest

from palinurus.config.secrets import MASK, is_secret, list_known_secrets, mask_secrets, wrap_secrets
from palinurus.config.settings import Secret

CANARY = "canary-3141592"


@pytest.mark.parametrize(
    "path",
    [
        ("gateway", "auth", "token"),
        ("gateway", "auth", "password"),
        ("models", "providers", "x", "apiKey"),
        ("models", "providers", "x", "headers", "X-Anything"),
        ("channels", "telegram", "botToken"),
        ("channels", "slack", "accounts", "a", "signingSecret"),
        ("channels", "nostr", "privateKey"),
        ("channels", "feishu", "encryptKey"),
        ("channels", "wecom", "encodingAESKey"),
        ("channels", "googlechat", "serviceAccount", "client_id"),
        ("channels", "x", "api_key"),
        ("env", "vars", "FOO"),
        ("env", "FOO"),
        ("tools", "exec", "env", "FOO"),
        ("commands", "ownerDisplaySecret"),
        ("cron", "webhookToken"),
        ("skills", "entries", "x", "apiKey"),
    ],
)
def test_secret_keys(path: tuple[str, ...]) -> None:
    assert is_secret(path)
    assert mask_secrets(CANARY, path) == MASK
    assert mask_secrets(12345678, path) == MASK


@pytest.mark.parametrize(
    "path",
    [
        ("agents", "defaults", "contextTokens"),
        ("models", "providers", "x", "models", 0, "maxTokens"),
        ("channels", "telegram", "tokenFile"),
        ("session", "mainKey"),
        ("hooks", "defaultSessionKey"),
        ("gateway", "auth", "mode"),
        ("secrets", "providers", "default", "source"),
    ],
)
def test_keys_that_are_no_secrets(path: tuple[str | int, ...]) -> None:
    assert not is_secret(path)
    assert mask_secrets("shown", path) == "shown"


def test_mask_goes_all_the_way_down() -> None:
    raw = {
        "gateway": {"auth": {"token": CANARY, "mode": "token"}, "port": 1},
        "list": [{"password": CANARY}],
        "models": {"proxy": f"http://user:{CANARY}@proxy:8080/x"},
        "env": {"shellEnv": {"enabled": True}, "K": CANARY},
    }
    shown = mask_secrets(raw)
    assert CANARY not in repr(shown)
    assert shown["gateway"] == {"auth": {"token": MASK, "mode": "token"}, "port": 1}
    assert shown["models"]["proxy"] == "http://***@proxy:8080/x"
    assert shown["env"]["shellEnv"] == {"enabled": True}
    assert raw["gateway"]["auth"]["token"] == CANARY  # type: ignore[index]


def test_references_stay_readable_and_their_fallbacks_do_not() -> None:
    path = ("gateway", "auth", "token")
    assert mask_secrets("${MY_TOKEN}", path) == "${MY_TOKEN}"
    assert mask_secrets("${MY_TOKEN:-" + CANARY + "}", path) == MASK
    assert mask_secrets({"source": "env", "id": "MY_TOKEN"}, path) == {"source": "env", "id": "MY_TOKEN"}


def test_wrap_hides_channel_secrets_and_keeps_them() -> None:
    found = wrap_secrets({"botToken": CANARY, "accounts": [{"token": CANARY, "name": "a"}]}, ("channels", "x"))
    assert CANARY not in repr(found)
    assert found["botToken"] == Secret(CANARY)
    assert found["accounts"][0]["token"].reveal() == CANARY
    assert found["accounts"][0]["name"] == "a"


def test_a_shell_s_own_variables_are_no_secrets() -> None:
    """Every shell tells its commands the folder: blanked, the agent could name no file there."""
    environ = {"PWD": "/home/ada", "OLDPWD": "/home/ada/work", "PASS": "a-long-password", "API_KEY": "sk-1234567"}
    assert list_known_secrets(None, environ) == ("a-long-password", "sk-1234567")
