"""logging.* through the product: how much is shown and written, and what is blanked in it."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from nursery import Program
from palinurus.cli.gateway.logs import ScrubbingFormatter
from palinurus.config.load import load_config
from palinurus.config.sections.session import LoggingSettings


def life(home: Path, **logging: Any) -> tuple[str, list[dict[str, Any]]]:
    """What one life of a gateway showed on stderr, and wrote into its log."""
    agents = {"defaults": {"model": "builtin/demo"}}
    config = {"agents": agents, "zebra-4711": 1, "logging": logging}
    (home / "palinurus.json").write_text(json.dumps(config))
    running = Program("gateway", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    for line in running.stdout:
        if "stop " in line:
            break
    port = json.loads((home / "gateway.json").read_text())["port"]
    urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read()
    running.terminate()
    shown = running.communicate(timeout=60)[1]
    written = logging.get("file") or home / "logs" / "palinurus.log"
    return shown, [json.loads(line) for line in Path(written).read_text().splitlines()] if Path(
        written
    ).exists() else []


def test_the_levels_of_the_screen_and_of_the_file(demo: Path, tmp_path: Path) -> None:
    shown, written = life(demo, level="debug", consoleLevel="silent", file=str(tmp_path / "a.log"))
    assert shown == "" and {"debug", "info", "warning"} <= {row["level"] for row in written}
    assert any("http GET health" in row["message"] for row in written)
    shown, written = life(demo, level="warn", file=str(tmp_path / "b.log"))
    assert "WARNING" in shown and "INFO" not in shown
    assert {row["level"] for row in written} == {"warning"}


def test_what_patterns_find_is_blanked(demo: Path, tmp_path: Path) -> None:
    shown, written = life(demo, file=str(tmp_path / "a.log"), redactPatterns=[r"zebra-(\d+)", "/STOPPED/i", "(broken"])
    assert "zebra-***" in shown and "4711" not in shown and "4711" not in json.dumps(written)
    assert "stopped" not in shown and "redactPatterns" in shown, "one that cannot be used is told"
    shown, _ = life(demo, file=str(tmp_path / "b.log"), redactPatterns=["zebra"], redactSensitive="off")
    assert "zebra-4711" in shown


def test_a_pattern_that_is_none_costs_only_itself(demo: Path) -> None:
    (demo / "palinurus.json").write_text('{logging: {redactPatterns: ["(", "a+b"]}}')
    loaded = load_config(str(demo), {})
    assert [problem.path for problem in loaded.problems] == ["logging.redactPatterns[0]"]
    assert loaded.settings.logging.patterns == ("a+b",)


@pytest.mark.parametrize("told", ["off", "tools"])
def test_secrets_of_the_config_are_blanked_in_any_case(told: str) -> None:

    made = ScrubbingFormatter(["hunter22"], LoggingSettings(redact=told))  # type: ignore[arg-type]
    assert made.scrub("a hunter22 b") == "a *** b"
    assert (made.scrub("Bearer abcdefgh123") == "Bearer ***") is (told == "tools")
