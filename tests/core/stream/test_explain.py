"""Commands in a few words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.stream.explain import COMMANDS, explain_command, mask_secrets


@pytest.mark.seed(104)
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("node --check /tmp/app.js", "check JS syntax for /tmp/app.js"),
        ("/usr/bin/node --check /tmp/app.js", "check JS syntax for /tmp/app.js"),
        ("python3 -m py_compile a.py", "check Python syntax for a.py"),
        ("python3.11 -m pytest -q tests/core", "run tests in tests/core"),
        ("ls", "list files"),
        ("ls -la /tmp 2>/dev/null", "list files in /tmp"),
        ("cd /srv && A=1 sudo npm test", "run tests"),
        ("grep -rn 'a b' src", 'search for "a b"'),
        ("curl -s https://a.org/x | jq .", "fetch https://a.org/x, then query JSON"),
        ("git commit -m 'a; b && c'", "commit changes"),
        ("echo hi && rm -rf /tmp/x", "print text, then delete /tmp/x"),
        ("make a; make b; make c; make d; make e", "make a, then make b, then make c, 2 more"),
        ("./build.sh --all", "./build.sh --all"),
        ("cat 'never closed", "cat 'never closed"),
        ("first\nsecond", "first second"),
        ("", ""),
    ],
)
def test_told(command: str, told: str) -> None:
    assert explain_command(command) == told


def test_secrets_are_not_shown() -> None:
    for text in (
        "curl -H 'Authorization: Bearer abcdef123456' x",
        "OPENAI_API_KEY=abcdef123456 ./run",
        "./run --token abcdef123456",
        "echo sk-abcdef123456789012",
        "psql postgres://me:abcdef123456@db/x",
    ):
        assert "abcdef123456" not in mask_secrets(text)
        assert "abcdef123456" not in explain_command(f"./unknown {text}")
    assert mask_secrets("the token was reset; the password too") == "the token was reset; the password too"


@given(st.text(max_size=300) | st.sampled_from(sorted(COMMANDS)))
def test_any_command_gives_one_short_line(command: str) -> None:
    told = explain_command(command)
    assert len(told) <= 120 and "\n" not in told and "{" not in told.replace("{", "", command.count("{"))


@pytest.mark.parametrize("text", ["x" * 50_000, "-" * 20_000, "a-" * 10_000, "token" * 10_000, "://a" * 10_000])
def test_output_of_any_shape_is_masked_in_no_time(text: str) -> None:
    """Each took seconds to minutes when the pattern was not bounded."""
    assert mask_secrets(f"{text} api_key=abcdef123456").endswith(" api_key=***")
