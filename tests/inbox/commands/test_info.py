"""/tools and /tools why."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from palinurus.config.load import load_config
from palinurus.core.policy.layers import ToolLists, ToolRules, ToolScope
from palinurus.core.types.inbound import Sender
from palinurus.inbox.control import CommandController


def ruled(office: Any, allow: tuple[str, ...] | None, deny: tuple[str, ...]) -> None:
    rules = ToolRules(ToolScope(ToolLists("tools", allow, (), deny)))
    program = msgspec.structs.replace(
        office.program, settings=msgspec.structs.replace(office.program.settings, policy=rules)
    )
    office.controller = CommandController(program, office.replied.extend)


@pytest.mark.parametrize(
    ("allow", "deny", "why"),
    [
        (None, (), "exec is offered."),
        (("exec",), (), "exec is offered."),
        (None, ("exec",), "exec is not offered: tools.deny names it."),
        (("read",), (), "exec is not offered: tools.allow does not name it."),
    ],
)
async def test_tools(office: Any, allow: Any, deny: Any, why: str) -> None:
    ruled(office, allow, deny)
    assert (await office.say("/tools why exec")).splitlines()[0] == why
    said = (await office.say("/tools")).splitlines()
    assert ("  exec: exec" in said) is ("is offered" in why)
    assert any(line.startswith("  - exec: tools.") for line in said) is ("not offered" in why)
    assert await office.say("/tools why zzz") == "There is no tool zzz."
    assert await office.say("/tools what") == "Use /tools, or /tools why NAME."
    assert await office.say("/tools why") == "Say which: /tools why NAME."


async def test_none(office: Any) -> None:
    ruled(office, (), ())
    assert (await office.say("/tools")).startswith("No tools are offered (")


async def test_files_of_this_machine_are_named_to_the_owner_only(office: Any) -> None:
    file = office.home / "palinurus.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tools": {"deny": ["exec"]}}, indent=1))
    program = msgspec.structs.replace(office.program, settings=load_config(str(office.home), {}).settings)
    office.controller = CommandController(program, office.replied.extend)
    assert f"tools.deny names it ({file}:" in await office.say("/tools why exec")
    told = await office.say("/tools why exec", sender=Sender("2", allowed=True))
    assert "tools.deny names it." in told and str(office.home) not in told
