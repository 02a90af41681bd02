from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palinurus.config.load import load_config
from palinurus.config.sections.agents import PromptSettings


def prompt(home: Path, config: dict[str, Any], agent: str = "main") -> PromptSettings:
    (home / "palinurus.json").write_text(json.dumps(config))
    return load_config(str(home), {}).settings.agents[agent].prompt


def test_nothing_written_gives_the_defaults(tmp_path: Path) -> None:
    assert prompt(tmp_path, {}) == PromptSettings()


def test_everything_written(tmp_path: Path) -> None:
    found = prompt(
        tmp_path,
        {
            "commands": {"ownerAllowFrom": ["+1", 42, None], "ownerDisplay": "hash", "ownerDisplaySecret": "s"},
            "memory": {"citations": "off"},
            "messages": {"groupChat": {"visibleReplies": "message_tool"}},
            "plugins": {"entries": {"openai": {"config": {"personality": "off"}}}},
            "agents": {
                "defaults": {
                    "subagents": {"delegationMode": "prefer"},
                    "heartbeat": {"every": "10m", "prompt": "Look."},
                    "silentReply": {"group": "disallow"},
                    "bootstrapPromptTruncationWarning": "once",
                    "repoRoot": "/r",
                }
            },
        },
    )
    assert (found.owners, found.owner_display, found.owner_secret.reveal()) == (("+1", "42"), "hash", "s")
    assert (found.citations, found.delegation, found.friendly) == ("off", "prefer", False)
    assert (found.heartbeat, found.heartbeat_every, found.heartbeat_section) == ("Look.", 600, True)
    assert (found.silent_group, found.truncation_warning, found.repo_root) == ("disallow", "once", "/r")
    assert found.tool_only == ("group", "channel")
    assert "s'" not in repr(found)


def test_an_agents_own_word_goes_first(tmp_path: Path) -> None:
    config = {
        "agents": {
            "defaults": {"subagents": {"delegationMode": "prefer"}, "heartbeat": {"every": "10m", "prompt": "a"}},
            "list": [
                {"id": "Work", "subagents": {"delegationMode": "suggest"}, "heartbeat": {"every": "0m"}},
                {"id": "home", "heartbeat": {"includeSystemPromptSection": False}},
            ],
        }
    }
    work = prompt(tmp_path, config, "work")
    assert (work.delegation, work.heartbeat_every, work.heartbeat) == ("suggest", 0, "a")
    home = prompt(tmp_path, config, "home")
    assert (home.delegation, home.heartbeat_every, home.heartbeat_section) == ("prefer", 600, False)


def test_nonsense_in_free_sections_counts_as_not_written(tmp_path: Path) -> None:
    odd = {
        "commands": {"ownerAllowFrom": {}, "ownerDisplay": 3},
        "memory": {"citations": []},
        "messages": {"tts": {"auto": {}, "maxLength": True}},
        "plugins": {"entries": {"openai": {"config": "x"}}},
    }
    assert prompt(tmp_path, odd) == PromptSettings()
