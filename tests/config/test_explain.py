from pathlib import Path

import pytest

from palinurus.config.check import list_keys_below
from palinurus.config.explain import KeyExplanation, explain_key, needs_restart
from palinurus.config.load import load_config
from palinurus.errors import BadRequest, NotFound

ENV = {"HOME": "/nowhere"}
CANARY = "canary-4342944"


def told(home: Path, text: str, key: str) -> KeyExplanation:
    (home / "palinurus.json").write_text(text)
    return explain_key(load_config(str(home), ENV), key)


def test_a_key_from_the_file(tmp_path: Path) -> None:
    found = told(tmp_path, "{\n gateway: {\n  port: 81}}", "gateway.port")
    assert (found.key, found.value, "needs" in found.when) == ("gateway.port", 81, True)
    assert found.source == f"{tmp_path}/palinurus.json:3"
    assert "port" in found.about


def test_a_default(tmp_path: Path) -> None:
    found = told(tmp_path, "{}", "agents.defaults.maxConcurrent")
    assert (found.value, found.source, "by itself" in found.when) == (4, "default", True)


def test_a_key_that_is_nowhere_set(tmp_path: Path) -> None:
    found = told(tmp_path, "{}", "gateway.customBindHost")
    assert (found.value, found.source) == (None, "not set")


def test_list_items_have_a_description(tmp_path: Path) -> None:
    found = told(tmp_path, "{agents: {list: [{id: 'a'}]}}", "agents.list.0.id")
    assert (found.key, found.value) == ("agents.list[0].id", "a")
    assert "short name" in found.about


@pytest.mark.parametrize("key", ["gateway.auth.token", "gateway.auth", "gateway", "channels.telegram", "env"])
def test_secrets_are_masked(tmp_path: Path, key: str) -> None:
    text = "{gateway: {auth: {token: 'X'}}, channels: {telegram: {botToken: 'X'}}, env: {A: 'X'}}".replace("X", CANARY)
    found = told(tmp_path, text, key)
    assert CANARY not in repr(found)
    assert "***" in repr(found.value)


def test_a_token_from_the_environment_is_masked(tmp_path: Path) -> None:
    loaded = load_config(str(tmp_path), {**ENV, "PALINURUS_GATEWAY_TOKEN": CANARY})
    assert explain_key(loaded, "gateway.auth.token").value == "***"
    assert "first start" in explain_key(load_config(str(tmp_path), ENV), "gateway.auth.token").value


def test_the_last_good_copy_is_named(tmp_path: Path) -> None:
    told(tmp_path, "{gateway: {port: 5}}", "gateway.port")
    found = told(tmp_path, "{gateway: {port: ", "gateway.port")
    assert found.value == 5
    assert found.source == f"{tmp_path}/palinurus.json.last-good:1"
    assert "cannot be used" in found.note


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("gateway.prot", "did you mean 'port'?"),
        ("gatway.port", "did you mean 'gateway'?"),
        ("gateway.http.qqqqqqq", "keys here: endpoints, securityHeaders"),
    ],
)
def test_an_unknown_key(tmp_path: Path, key: str, fix: str) -> None:
    with pytest.raises(NotFound) as caught:
        told(tmp_path, "{}", key)
    assert caught.value.fix == fix


def test_all_keys_are_named_where_none_is_near(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        told(tmp_path, "{}", "tools.exec.qqqqqqq")
    assert "…" not in caught.value.fix and caught.value.fix.removeprefix("keys here: ").split(", ") == list(
        list_keys_below(("tools", "exec"))
    )


def test_what_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        told(tmp_path, "{}", "a..b")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("gateway", "port"), True),
        (("gateway",), True),
        (("gateway", "tls"), False),  # it begins anew by itself
        (("channels", "telegram", "botToken"), False),
        (("agents", "defaults", "model"), False),
        (("gateway", "auth", "token"), False),
    ],
)
def test_what_needs_a_restart(path: tuple[str, ...], expected: bool) -> None:
    assert needs_restart(path) is expected


def test_a_change_of_what_nobody_acts_on_changes_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, "{discovery: {mdns: {mode: 'off'}}}", "discovery.mdns.mode").when == "changes nothing"
    assert "restart" in told(tmp_path, "{}", "gateway.port").when


@pytest.mark.parametrize(
    ("mode", "said"),
    [("hybrid", ("at once", "by itself")), ("hot", ("at once", "restart")), ("off", ("restart", "restart"))],
)
def test_what_a_change_does_follows_from_the_mode(tmp_path: Path, mode: str, said: tuple[str, str]) -> None:
    keys = ("gateway.tools.deny", "session.mainKey")
    found = [told(tmp_path, f"{{gateway: {{reload: {{mode: '{mode}'}}}}}}", key).when for key in keys]
    assert all(word in when for word, when in zip(said, found, strict=True))


def test_an_unknown_key_and_a_value_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    found = told(tmp_path, "{tools: {profil: 'coding'}}", "tools.profil")
    assert (found.when, found.note) == ("changes nothing", "unknown: nobody reads it")
    assert told(tmp_path, "{gateway: {bind: 'everywhere'}}", "gateway.bind").note.endswith('in force: "127.0.0.1"')
    assert told(tmp_path, "{gateway: {bind: 'lan'}}", "gateway.bind").note == ""


def test_what_is_written_in_one_line_has_no_keys_below(tmp_path: Path) -> None:
    key = "models.providers.openai.apiKey"  # could be a reference to a secret, which has keys
    assert told(tmp_path, "{models: {providers: {openai: {apiKey: 'x'}}}}", key).keys == ()
