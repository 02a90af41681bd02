from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.expand import collect_variables, expand_variables
from palinurus.config.findings import ConfigFinding

ENV = {"KEY": "v1", "EMPTY": "", "API_TOKEN": "canary-1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${KEY}", "v1"),
        ("a-${KEY}-${KEY}", "a-v1-v1"),
        ("$${KEY}", "${KEY}"),
        ("${NOPE:-x y}", "x y"),
        ("${EMPTY:-}", ""),
        ("${KEY:-x}", "v1"),
        ("hello ${name}", "hello ${name}"),
        ("$KEY $(KEY) ${", "$KEY $(KEY) ${"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    findings: list[ConfigFinding] = []
    assert expand_variables({"a": [text]}, ENV, findings) == {"a": [expected]}
    assert findings == []


def test_a_value_is_not_expanded_again() -> None:
    assert expand_variables("${A}", {"A": "${KEY}", "KEY": "x"}, []) == "${KEY}"


@pytest.mark.parametrize("name", ["NOPE_AT_ALL", "EMPTY"])
def test_a_missing_variable_is_named(name: str) -> None:
    findings: list[ConfigFinding] = []
    expand_variables({"gateway": {"auth": {"token": f"${{{name}}}"}}}, ENV, findings)
    assert len(findings) == 1
    assert findings[0].path == ("gateway", "auth", "token")
    assert findings[0].fatal
    assert name in findings[0].message


def test_a_misspelt_variable_gets_a_hint_and_no_value_is_shown() -> None:
    findings: list[ConfigFinding] = []
    expand_variables({"a": "${API_TOKN}"}, ENV, findings)
    assert findings[0].hint == "did you mean 'API_TOKEN'?"
    assert "canary" not in repr(findings)


def test_a_lower_case_variable_warns() -> None:
    findings: list[ConfigFinding] = []
    assert expand_variables({"a": "${my_key}"}, ENV, findings) == {"a": "${my_key}"}
    assert [(f.fatal, f.hint) for f in findings] == [(False, "write ${MY_KEY} for a variable")]


@pytest.mark.parametrize(("value", "expected"), [(1000.0, 1000), (1.5, 1.5), (True, True), (None, None)])
def test_numbers(value: Any, expected: Any) -> None:
    found = expand_variables(value, {}, [])
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2**63, -(2**70)])
def test_numbers_nobody_can_use(value: Any) -> None:
    findings: list[ConfigFinding] = []
    expand_variables({"a": value}, {}, findings)
    assert [f.path for f in findings] == [("a",)]


def test_the_config_declares_variables_and_the_environment_goes_first() -> None:
    raw = {"env": {"A": "section", "B": "section", "vars": {"C": "vars"}, "shellEnv": {"enabled": True}}}
    assert collect_variables(raw, {"A": "process", "B": ""}) == {"A": "process", "B": "section", "C": "vars"}
    assert collect_variables([], {"A": "x"}) == {"A": "x"}


@given(st.text())
def test_never_raises(text: str) -> None:
    expand_variables(text, ENV, [])
