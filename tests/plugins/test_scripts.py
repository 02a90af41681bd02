"""Hook scripts: where they are found, when they run, what they are told."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from palinurus.plugins.hooks import Hooks
from palinurus.plugins.scripts import EVENTS, find_scripts, load_scripts
from plugins.kit import settings

CODE = "EVENTS = {0!r}\nSEEN = []\ndef handler(event):\n    SEEN.append(event)\n"


def script(folder: Path, name: str, code: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)


async def told(made: list[Any], point: str, payload: dict[str, Any]) -> Any:
    registry = Hooks()
    for hook in made:
        registry.on(hook.point, hook.call)
    if EVENTS.get(point, ("", {}))[0] == "agent:bootstrap":
        return await registry.modify(point, payload)
    registry.observe(point, payload)
    await registry.drain()
    return None


async def test_a_command_event_is_told_with_its_name_only(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = f"EVENTS = ['command:new']\ndef handler(event):\n    open({str(seen)!r}, 'a').write(event['action'])\n"
    script(tmp_path / "hooks", "notes", code)
    made, aside = load_scripts(settings(tmp_path))
    assert aside == [] and [h.owner for h in made] == ["hooks/notes"]
    await told(made, "command", {"name": "status", "sessionKey": "s"})
    assert not seen.exists()
    await told(made, "command", {"name": "new", "sessionKey": "s"})
    assert seen.read_text() == "new"


async def test_bootstrap_files_are_changed_in_place_on_a_copy(tmp_path: Path) -> None:
    code = "EVENTS = ['agent:bootstrap']\nasync def handler(event):\n    event['context']['bootstrapFiles'].pop()\n"
    script(tmp_path / "hooks", "less", code)
    made, _ = load_scripts(settings(tmp_path))
    files = [{"name": "a"}, {"name": "b"}]
    assert await told(made, "agent:bootstrap", {"bootstrapFiles": files}) == {"bootstrapFiles": [{"name": "a"}]}
    assert len(files) == 2


def test_what_lies_in_a_workspace_needs_the_owners_word(tmp_path: Path) -> None:
    script(tmp_path / "workspace" / "hooks", "sly", CODE.format(["command"]))
    (one,) = find_scripts(settings(tmp_path))
    assert "where the agent can write" in one.reason and load_scripts(settings(tmp_path))[0] == []
    named = settings(tmp_path, hooks={"internal": {"entries": {"sly": {"enabled": True}}}})
    assert load_scripts(named)[0] == []  # a name alone could be anybody's file by the next start
    code = (tmp_path / "workspace" / "hooks" / "sly.py").read_bytes()
    pinned = {"internal": {"entries": {"sly": {"sha256": hashlib.sha256(code).hexdigest()}}}}
    assert len(load_scripts(settings(tmp_path, hooks=pinned))[0]) == 1
    script(tmp_path / "workspace" / "hooks", "sly", CODE.format(["command"]) + "\nraise SystemExit\n")
    (one,) = load_scripts(settings(tmp_path, hooks=pinned))[1]
    assert "not what the config says" in one.reason
    (tmp_path / "workspace" / "hooks" / "sly.py").unlink()
    (tmp_path / "workspace" / "hooks" / "sly.py").symlink_to(tmp_path / "elsewhere.py")
    (tmp_path / "elsewhere.py").write_bytes(code)
    assert load_scripts(settings(tmp_path, hooks=pinned))[0] == []  # no link is followed, whatever it leads to
    assert load_scripts(settings(tmp_path, hooks={"internal": {"enabled": False, "entries": {"sly": {}}}})) == ([], [])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("EVENTS = ['command']", "no function `handler(event)`"),
        ("def handler(event): pass", "EVENTS names nothing"),
        (CODE.format(["no:such"]), "no:such"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_a_broken_script_is_set_aside(tmp_path: Path, code: str, why: str) -> None:
    script(tmp_path / "hooks", "bad", code)
    script(tmp_path / "hooks", "good", CODE.format(["command"]))
    made, aside = load_scripts(settings(tmp_path))
    assert [h.owner for h in made] == ["hooks/good"]
    assert [s.name for s in aside] == ["bad"] and why in aside[0].reason


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("---\nname: x\nmetadata: {openclaw: {events: [command:new]}}\n---\n", "no handler.py"),
        ("---\nname: x\n---\n", "names no event"),
        ("no header", "HOOK.md:1"),
    ],
)
def test_a_hook_md_that_is_wrong_says_so(tmp_path: Path, head: str, why: str) -> None:
    folder = tmp_path / "hooks" / "x"
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(head)
    (one,) = find_scripts(settings(tmp_path))
    assert why in one.reason


def test_one_can_be_switched_off(tmp_path: Path) -> None:
    script(tmp_path / "hooks", "one", CODE.format(["command"]))
    here = settings(tmp_path, hooks={"internal": {"entries": {"one": {"enabled": False}}}})
    assert load_scripts(here)[0] == [] and "enabled is false" in find_scripts(here)[0].reason
