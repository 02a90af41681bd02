"""config.* over a socket: secrets stay, versions count, what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.whole import place
from palinurus.config.secrets import MARKER
from palinurus.gateway import limits
from palinurus.gateway.rpc import READ

SECRET = "sk-this-is-not-for-you"
CONFIG = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": SECRET, "models": [{"id": "m"}]}}}
}


def written(home: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((home / "palinurus.json").read_text())
    return found


async def test_secrets_are_never_shown_and_never_lost(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with place(home, **CONFIG) as here, here.other(scopes=(READ,)) as reader:
        got = await reader.call("config.get", {})
        assert SECRET not in json.dumps(got) and got["valid"] and got["exists"] and got["raw"] is None
        config = got["config"]
        assert config["models"]["providers"]["fake"]["apiKey"] == MARKER
        config["session"] = {"mainKey": "home"}
        done = await here.call("config.set", raw=json.dumps(config), baseHash=got["hash"])
        assert SECRET not in json.dumps(done) and done["changedPaths"] == ["session"]
        after = written(home)
        assert after["models"] == CONFIG["models"] and after["session"] == {"mainKey": "home"}
        stale = await here.refused("config.set", raw="{}", baseHash=got["hash"])
        assert stale.message == "config changed since last load; re-run config.get and retry"
        assert (await here.refused("config.apply", raw="{}")).message.startswith("config base hash required")
        config["models"]["providers"]["other"] = {"apiKey": MARKER}
        lost = await here.refused("config.set", raw=json.dumps(config), baseHash=done["hash"])
        assert lost.message.startswith("models.providers.other.apiKey: ")
        assert written(home) == after


async def test_a_patch_changes_what_it_names_and_keeps_comments(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with place(home, **CONFIG) as here:
        file = home / "palinurus.json"
        file.write_text("// mine\n" + json.dumps({**CONFIG, "session": {"mainKey": "a", "scope": "global"}}, indent=2))
        got = await here.call("config.get")
        done = await here.call(
            "config.patch", raw='{"session": {"mainKey": null}, "gateway": {"port": 4242}}', baseHash=got["hash"]
        )
        assert file.read_text().startswith("// mine\n") and SECRET in file.read_text()
        assert done["config"]["session"] == {"scope": "global"} and done["restartRequired"] == ["gateway"]
        bad = await here.refused("config.patch", raw='{"gateway": {"port": "abc"}}', baseHash=done["hash"])
        assert bad.message.startswith("invalid config: gateway.port: ")
        assert bad.message.endswith("; write the number without quotes")
        assert bad.details["issues"][0]["path"] == "gateway.port"
        typo = await here.refused("config.patch", raw='{"gatway": {}}', baseHash=done["hash"])
        assert typo.details["issues"][0]["path"] == "gatway"
        for _ in range(limits.WRITES - 3):  # a person who goes through the settings is not stopped
            again = await here.refused("config.patch", raw='{"gatway": {}}', baseHash=done["hash"])
            assert not again.message.startswith("rate limit")
        limit = await here.refused("config.patch", raw='{"gatway": {}}', baseHash=done["hash"])
        assert limit.message.startswith("rate limit exceeded for config.patch")
        assert (await here.refused("config.set", raw="{", baseHash=done["hash"])).message.startswith("line 1: ")
        assert (await here.call("config.get"))["hash"] == done["hash"]


async def test_the_schema_can_be_walked(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        whole = await here.call("config.schema")
        auth = await here.call("config.schema.lookup", path="gateway.auth")
        port = await here.call("config.schema.lookup", path="gateway.port")
        missing = await here.refused("config.schema.lookup", path="no.such")
    assert "$ref" not in json.dumps(whole["schema"]) and whole["uiHints"]["gateway.auth.token"]["sensitive"] is True
    assert {"mode", "token", "password"} <= {child["key"] for child in auth["children"]}
    assert port["schema"]["type"] == "integer" and port["reloadKind"] == "restart"
    assert missing.message == "config schema path not found"


async def test_models_mode_replace_leaves_only_what_is_listed(tmp_path: Path) -> None:
    listed = {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}, {"id": "n"}]}}
    known = {"providers": {**listed, "openai": {"apiKey": "k", "models": [{"id": "gpt-5"}]}}}
    for mode, more in (("merge", True), ("replace", False)):
        async with place(tmp_path / mode, models={**known, "mode": mode}) as here:
            found = {f"{row['provider']}/{row['id']}" for row in (await here.call("models.list", view="all"))["models"]}
            assert {"fake/m", "fake/n", "openai/gpt-5"} <= found and (len(found) > 3) is more, found
            if more:
                assert (await here.call("sessions.patch", key="main", model="openai/gpt-5-mini"))["ok"]
            else:
                error = await here.refused("sessions.patch", key="main", model="openai/gpt-5-mini")
                assert "has no model 'gpt-5-mini'" in error.message
                error = await here.refused("sessions.patch", key="main", model="groq/x")
                assert "Unknown provider 'groq'" in error.message
            assert (await here.call("sessions.patch", key="main", model="fake/n"))["ok"]
