"""The committed prompts are the rendered ones. `python tests/prompt/regenerate.py` writes them anew."""

from __future__ import annotations

import pytest

from prompt.regenerate import BOUNDARY, HERE, SCENES, rendered


@pytest.mark.seed(237)
@pytest.mark.parametrize("name", SCENES)
def test_no_drift(name: str) -> None:
    committed = (HERE / f"{name}.txt").read_text(encoding="utf-8")
    assert rendered(name) == committed, "run `python tests/prompt/regenerate.py` and look at the difference"


def test_every_file_has_its_scene() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(SCENES)


@pytest.mark.seed(216, 236)
def test_scenes_share_what_can_be_shared() -> None:
    stable = {name: rendered(name).split(BOUNDARY)[0] for name in SCENES}
    assert stable["telegram-direct"] == stable["heartbeat"]
    assert "NO_REPLY" not in rendered("telegram-direct") and "NO_REPLY" in rendered("discord-group")


@pytest.mark.seed(165)
def test_subagents_and_cron_get_the_small_one() -> None:
    for name in ("subagent", "cron"):
        assert "## Messaging" not in rendered(name) and len(rendered(name)) < len(rendered("heartbeat")) * 0.6
