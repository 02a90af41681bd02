"""The `browser` section: what is written, what applies, and what opens nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.sections.browser import BrowserProfile, BrowserSettings


def load(home: Path, section: Any) -> tuple[BrowserSettings, list[str]]:
    (home / "palinurus.json").write_text(json.dumps({"browser": section}))
    loaded = load_config(str(home), {})
    return loaded.settings.browser, [problem.path for problem in loaded.problems]


def test_every_key_is_read(tmp_path: Path) -> None:
    found, problems = load(
        tmp_path,
        {
            "enabled": True, "evaluateEnabled": False, "headless": False, "executablePath": " /x/chrome ",
            "noSandbox": True, "defaultProfile": "work", "profiles": {"work": {}, "me": {"cdpUrl": "http://127.0.0.1:1"}},
            "tabCleanup": {"idleMinutes": 0.5, "maxTabsPerSession": 3},
            "ssrfPolicy": {"allowedHostnames": ["nas.example.net", "127.0.0.1:8123"]},
        },
    )  # fmt: skip
    assert problems == []
    assert (found.evaluate, found.headless, found.executable, found.no_sandbox) == (False, False, "/x/chrome", True)
    assert found.profile == "work" and found.profiles["me"] == BrowserProfile("http://127.0.0.1:1")
    assert (found.idle, found.tabs) == (30.0, 3)
    assert found.rules.hosts == {"nas.example.net", "127.0.0.1:8123"} and not found.rules.private


def test_nothing_written_is_a_browser_that_reaches_nothing_inside(tmp_path: Path) -> None:
    found, problems = load(tmp_path, {})
    assert found == BrowserSettings() and problems == []
    assert found.headless and found.evaluate and not found.no_sandbox and found.rules.hosts == frozenset()


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"ssrfPolicy": {"allowedHostnames": ["ht tp"]}}, "browser.ssrfPolicy.allowedHostnames"),
        ({"tabCleanup": {"idleMinutes": 0}}, "browser.tabCleanup.idleMinutes"),
        ({"evaluateEnabled": "perhaps"}, "browser.evaluateEnabled"),
        ({"color": "#00AA00"}, "browser.color"),
    ],
)
def test_what_is_odd_is_told_and_opens_nothing(tmp_path: Path, section: Any, path: str) -> None:
    found, problems = load(tmp_path, section)
    assert problems == [path]
    assert found.rules.hosts == frozenset() and found.idle == 600.0
    assert found.evaluate == (path != "browser.evaluateEnabled")
