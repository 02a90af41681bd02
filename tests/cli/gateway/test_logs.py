from __future__ import annotations

import io
import json
import logging

import pytest

from palinurus.cli.gateway.logs import ScrubbingFormatter, start_logging
from palinurus.config.secrets import collect_secrets
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.sections.models import ProviderSettings
from palinurus.config.settings import AgentSettings, Secret, Settings


def line(text: str, *known: str) -> str:
    return ScrubbingFormatter(known).format(logging.LogRecord("x", logging.INFO, "f", 1, text, (), None))


def test_known_secrets_and_their_shapes_are_replaced() -> None:
    assert "hunter22" not in line("https://api/bot-hunter22/send failed", "hunter22")
    assert "abcdefgh123" not in line("Authorization: Bearer abcdefgh123")
    assert "abcabc" not in line("key sk-" + "abc" * 9 + " refused")
    assert "ordinary words" in line("ordinary words", "or", "")


@pytest.mark.parametrize("text", ['a\n{"level":"x"}', "a\x1b[2Jb", "a\r\nb", "a\u2028b", "a\u202eb"])
def test_one_line_without_control_characters(text: str) -> None:
    shown = line(text)
    assert len(shown.splitlines()) == 1 and shown.isprintable()


def test_a_traceback_is_scrubbed_too() -> None:
    try:
        raise ValueError("token hunter22")
    except ValueError as exc:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), (type(exc), exc, exc.__traceback__))
    assert "hunter22" not in ScrubbingFormatter(["hunter22"]).format(record)


def test_every_secret_of_the_settings_is_found() -> None:
    settings = Settings(
        "/h",
        {"main": AgentSettings("main", "main", "/w")},
        "main",
        {"p": ProviderSettings("p", api_key=Secret("one"))},
        gateway=GatewaySettings(token=Secret("two"), password=Secret("three")),
        channels={"x": {"botToken": Secret("four")}},
    )
    assert sorted(collect_secrets(settings)) == ["four", "one", "three", "two"]


def test_lines_for_programs_are_json_without_secrets() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        start_logging(logging.INFO, ["very-secret-value"], stream, structured=True)
        try:
            raise ValueError("very-secret-value")
        except ValueError:
            logging.getLogger("palinurus.gateway.x").exception("a\nb %s \ud800", "very-secret-value")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert (told["level"], told["subsystem"], told["message"][:8]) == ("error", "gateway.x", "a\\nb ***")
    assert "ValueError" in told["trace"] and "very-secret" not in line


@pytest.mark.parametrize(
    ("flags", "said"), [((), []), (("channels.telegram.*",), ["telegram"]), (("*",), ["telegram", "inbox"])]
)
def test_parts_with_a_flag_log_everything(flags: tuple[str, ...], said: list[str]) -> None:
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        start_logging(logging.WARNING, [], stream, flags=flags)
        logging.getLogger("palinurus.channels.telegram.channel").debug("telegram")
        logging.getLogger("palinurus.inbox").debug("inbox")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert [word for word in ("telegram", "inbox") if word in stream.getvalue()] == said
