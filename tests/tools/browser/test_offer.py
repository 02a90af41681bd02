"""The tool before anybody uses it: where Chromium is found, what is said where it is not, and what is not loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.config.sections.browser import BrowserSettings
from palinurus.tools.browser.offer import BrowserOffer, explain_absence, find_chromium, summarize_call
from palinurus.tools.web.egress import EgressGuard


def make_program(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def offer(settings: BrowserSettings = BrowserSettings(), path: str = "") -> BrowserOffer:
    return BrowserOffer(settings, "/nowhere", {"PATH": path}, EgressGuard(), clock=SystemClock())


def test_chromium_is_what_the_config_names_else_the_first_on_the_path(tmp_path: Path) -> None:
    one, two = make_program(tmp_path / "a", "brave-browser"), make_program(tmp_path / "b", "google-chrome")
    path = f"{tmp_path / 'a'}:{tmp_path / 'b'}"
    assert find_chromium(BrowserSettings(), {"PATH": path}) == two  # by name first, then by folder
    assert find_chromium(BrowserSettings(executable=one), {"PATH": path}) == one
    assert find_chromium(BrowserSettings(executable="/no/such"), {"PATH": path}) == ""
    assert find_chromium(BrowserSettings(), {"PATH": "relative:"}) == "" == find_chromium(BrowserSettings(), {})


def test_its_absence_has_a_reason_that_helps() -> None:
    assert explain_absence(BrowserSettings(enabled=False), "/x") == "browser.enabled is false"
    assert "install" in explain_absence(BrowserSettings(), "") and "chromium" in explain_absence(BrowserSettings(), "")
    assert "/no/such" in explain_absence(BrowserSettings(executable="/no/such"), "")
    assert explain_absence(BrowserSettings(), "/x") == ""


@pytest.mark.parametrize("evaluate", [True, False])
def test_scripts_are_offered_only_where_they_are_allowed(tmp_path: Path, evaluate: bool) -> None:
    program = make_program(tmp_path, "chromium")
    tool = offer(BrowserSettings(executable=program, evaluate=evaluate)).tools()["browser"]
    assert tool.missing == "" and tool.owner
    props = tool.parameters["properties"]
    assert ("fn" in props) == evaluate == ("evaluate" in props["kind"]["enum"])
    assert {"snapshot", "act", "upload", "dialog", "cookies", "waitfordownload"} <= set(props["action"]["enum"])


def test_a_progress_line_says_what_is_done() -> None:
    assert summarize_call({"action": "open", "targetUrl": "https://a.example"}) == "open https://a.example"
    assert summarize_call({"action": "act", "request": {"kind": "click", "ref": "e1"}}) == "act click e1"


def test_nothing_that_drives_a_browser_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, palinurus.app.wiring; print([m for m in sys.modules if m.startswith('palinurus.tools.browser')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


async def test_closing_an_offer_that_nobody_used_loads_nothing() -> None:
    await offer().close()
