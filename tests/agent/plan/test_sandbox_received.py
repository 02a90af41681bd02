from __future__ import annotations

from pathlib import Path

from palinurus.agent.plan.sandbox import ToolSandbox, locate_inbound_folder, open_inbound_files
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.core.types.tool import ToolSettings


def test_each_session_has_a_folder_of_its_own(tmp_path: Path) -> None:
    one, other = (locate_inbound_folder(str(tmp_path), SessionKey("main", key)) for key in ("a", "b"))
    assert one != other and Path(one).parent == tmp_path / "media" / "inbound"


def test_tools_and_contained_commands_may_read_there_once_there_is_something(tmp_path: Path) -> None:
    for kind, read in (("landlock", (str(tmp_path / "in"),)), ("none", ()), ("docker", ())):
        cell = SandboxSpec(kind=kind)  # type: ignore[arg-type]
        settings, where = ToolSettings(cell=cell), ToolSandbox("/w", cell, {})
        assert open_inbound_files(settings, where, str(tmp_path / "none")) == settings
        (tmp_path / "in").mkdir(exist_ok=True)
        made = open_inbound_files(settings, where, str(tmp_path / "in"))
        assert (made.received, made.cell.read, made.readable) == ((str(tmp_path / "in"),), read, ())
