"""Owners, commanders, names, chats of several agents."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.people import PeopleSettings


def made(**raw: Any) -> tuple[PeopleSettings, list[ConfigFinding]]:
    listed = raw.pop("agents", {}).get("list", [])
    named = [{"id": name} for name in ("main", "work") if all(entry["id"] != name for entry in listed)]
    settings, findings = read_settings({**raw, "agents": {"list": [*listed, *named]}})
    return settings.people, findings


@pytest.mark.parametrize(
    ("channels", "written", "owners", "told"),
    [
        (("telegram",), ["telegram:1", "tg:2", 3], {"telegram": ("1", "2", "3")}, 0),
        (("telegram", "discord"), ["telegram:1", "discord:2"], {"telegram": ("1",), "discord": ("2",)}, 0),
        (("telegram", "discord"), ["1"], {}, 1),  # on which?
        (("telegram",), ["*", "telegram:*"], {}, 2),
        (("matrix",), ["@me:example.org"], {"matrix": ("@me:example.org",)}, 0),
        (("telegram",), [], {}, 0),
        ((), ["1"], {}, 0),
    ],
)
def test_owners(channels: tuple[str, ...], written: list[Any], owners: dict[str, Any], told: int) -> None:
    found, findings = made(channels={c: {} for c in channels}, commands={"ownerAllowFrom": written})
    assert found.owners == owners and len(findings) == told


def test_who_may_command() -> None:
    assert made()[0].commands is None
    assert made(commands={"allowFrom": {"*": ["1"], "slack": []}})[0].commands == {"*": ("1",), "slack": ()}


def test_what_an_agent_is_called() -> None:
    agents = {
        "list": [{"id": "main", "identity": {"name": "Pal"}}, {"id": "work", "groupChat": {"mentionPatterns": ["w"]}}]
    }
    found, _ = made(agents=agents)
    assert found.patterns["work"] == ("w",) and "Pal" in found.patterns["main"][0]
    found, findings = made(agents=agents, messages={"groupChat": {"mentionPatterns": ["ok", "(a+)+"]}})
    assert found.patterns == {"main": ("ok",), "work": ("w",)} and findings
    assert not any(finding.fatal for finding in findings)


def test_several_agents() -> None:
    found, findings = made(broadcast={"strategy": "parallel", "-1": ["main", "work", "main"], "-2": []})
    assert found.broadcast == {"-1": ("main", "work")} and findings == []
    _, findings = made(broadcast={"strategy": "sequential", "-1": ["mian"]})
    assert [(finding.path, finding.fatal) for finding in findings] == [
        (("broadcast", "strategy"), False),
        (("broadcast", "-1"), True),
    ]
