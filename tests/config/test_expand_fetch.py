"""Where a secret of the config comes from."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.forms import SecretRef, resolve_loose_secret, resolve_secret


@pytest.mark.parametrize(
    ("value", "found", "said"),
    [
        ("written", "written", ""),
        (None, "", ""),
        (7, "", ""),
        ({"source": "env", "id": "NAME"}, "s3cret", ""),
        ({"source": "env", "id": "NAMES"}, "", "the environment variable NAMES is not set"),
        ({"source": "file", "id": "NAME"}, "", "nobody fetches secrets here"),
        ({"source": "moon", "id": "NAME"}, "", "is neither a text nor a reference to a secret"),
        ({"id": "NAME"}, "", "is neither a text nor a reference to a secret"),
    ],
)
def test_values_the_schema_did_not_check(value: Any, found: str, said: str) -> None:
    findings: list[ConfigFinding] = []
    assert resolve_loose_secret(value, ConfigPlace("", {"NAME": "s3cret"}, findings, ("x",))).reveal() == found
    assert [(f.message, f.fatal) for f in findings] == ([(said, False)] if said else [])


def test_a_missing_variable_is_fatal_where_nobody_says_otherwise() -> None:
    findings: list[ConfigFinding] = []
    assert not resolve_secret(SecretRef("env", "GONE"), ConfigPlace("", {"GONG": "1"}, findings, ("x",)))
    assert [(f.fatal, f.hint) for f in findings] == [(True, findings[0].hint)] and "GONG" in findings[0].hint
