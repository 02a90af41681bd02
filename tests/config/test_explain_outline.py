"""The schema as JSON Schema."""

from __future__ import annotations

import json

from palinurus.config.check import list_keys_below
from palinurus.config.explain import build_hints, build_json_schema, lookup_key


def test_it_holds_every_key_and_no_references() -> None:
    made = build_json_schema()
    assert set(made["properties"]) == set(list_keys_below(())) and "$ref" not in json.dumps(made)
    assert set(made["properties"]["gateway"]["properties"]) == set(list_keys_below(("gateway",)))
    assert '"null"' not in json.dumps(made["properties"]["gateway"])


def test_one_key_is_found_with_what_is_below_it() -> None:
    found = lookup_key("agents.list[0]")
    assert found is not None and {"id", "workspace", "model"} <= {child["key"] for child in found["children"]}
    ident = next(child for child in found["children"] if child["key"] == "id")
    assert ident["type"] == "string" and ident["hasChildren"] is False and ident["hintPath"] == "agents.list.*.id"
    port = lookup_key("gateway.port")
    assert port is not None and (port["reloadKind"], port["children"]) == ("restart", [])
    assert lookup_key("models.providers.anything.apiKey") is not None
    assert lookup_key("gateway.nope") is None and lookup_key("[") is None


def test_hints_say_what_is_secret() -> None:
    assert build_hints()["gateway.auth.token"]["sensitive"] is True and "sensitive" not in build_hints()["gateway.port"]


def test_defaults_are_written_as_the_file_would_write_them() -> None:
    gateway = build_json_schema()["properties"]["gateway"]["properties"]
    assert gateway["channelStaleEventThresholdMinutes"]["default"] == 30  # 1800 seconds inside
    assert gateway["handshakeTimeoutMs"]["default"] == 15_000
    assert gateway["mode"]["default"] == "local" and "default" not in gateway["customBindHost"]
