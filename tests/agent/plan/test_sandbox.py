"""Which cell and which workspace a session gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.agent.plan.sandbox import ToolSandbox, ToolSandboxes, apply_sandbox, is_sandboxed, make_session_slug
from palinurus.config.load import load_config
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.core.types.tool import ToolSettings
from palinurus.tools.sandbox.probe import SandboxSupport

MAIN, GROUP = SessionKey("main", "main"), SessionKey("main", "telegram:group:1")
FULL = SandboxSupport(landlock=7, seccomp=True, openat2=True)


class House:
    def __init__(self, root: Path, sandbox: dict[str, Any], have: SandboxSupport = FULL, **config: Any) -> None:
        self.user, self.home = root / "user", root / "state"
        self.user.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        defaults = {"sandbox": sandbox, **config.pop("defaults", {})}
        (self.home / "palinurus.json").write_text(json.dumps({"agents": {"defaults": defaults}, **config}))
        self.settings = load_config(str(self.home), {"HOME": str(self.user)}).settings
        self.cells = ToolSandboxes(self.settings, {"HOME": str(self.user)}, lambda: have)

    def of(self, key: SessionKey = MAIN) -> ToolSandbox:
        return self.cells.of(self.settings.agents["main"], key)


def test_the_default_is_the_best_the_machine_has(tmp_path: Path) -> None:
    where = House(tmp_path, {}).of()
    assert where.cell.kind == "landlock" and where.box is None
    assert where.workspace in where.cell.write and where.cell.temporary in where.cell.write
    assert House(tmp_path, {}, SandboxSupport()).of().cell.kind == "none"
    assert House(tmp_path, {}, SandboxSupport(landlock=7, bubblewrap=True)).of().cell.kind == "bubblewrap"


def test_switched_off_is_accepted(tmp_path: Path) -> None:
    assert House(tmp_path, {"contain": "off"}).of().cell == SandboxSpec(accepted=True)


def test_the_state_directory_is_in_no_cell(tmp_path: Path) -> None:
    house = House(tmp_path, {})
    cell = house.of().cell
    state = str(house.home)
    for path in (*cell.read, *cell.write):
        assert not f"{state}/".startswith(path.rstrip("/") + "/"), path
    ours = [path for path in (*cell.read, *cell.write) if path.startswith(state)]
    assert {path[len(state) :] for path in ours} == {"/skills", "/workspace", "/cells/main/home", "/cells/main/tmp"}


def test_keys_of_the_user_are_cut_out_of_a_workspace_that_holds_them(tmp_path: Path) -> None:
    (tmp_path / "user" / ".ssh").mkdir(parents=True)
    (tmp_path / "user" / "project").mkdir()
    cell = House(tmp_path, {}, defaults={"workspace": str(tmp_path / "user")}).of().cell
    assert str(tmp_path / "user" / "project") in cell.write
    assert not any(path in (str(tmp_path / "user"), str(tmp_path / "user" / ".ssh")) for path in cell.write)


@pytest.mark.parametrize(
    ("port", "connect", "open_", "closed"),
    [
        (18789, "any", 18788, 18789),
        (8080, "default", 8081, 8080),
        (40_000, "default", 40_001, 40_000),
        (443, [443, 22], 22, 443),
        (0, "default", 443, 40_000),  # it may be any of those: all are closed
    ],
)
def test_the_gateways_port_is_never_open(tmp_path: Path, port: int, connect: Any, open_: int, closed: int) -> None:
    house = House(tmp_path, {"connect": connect}, gateway={"port": port or 18789})
    gateway = msgspec.structs.replace(house.settings.gateway, port=port)
    settings = msgspec.structs.replace(house.settings, gateway=gateway)
    ports = ToolSandboxes(settings, {}, lambda: FULL).of(settings.agents["main"], MAIN).cell.connect
    assert ports is not None

    def covered(one: int) -> bool:
        return any(first <= one <= last for first, last in ports)

    assert covered(open_) and not covered(closed)


def test_declared_folders_are_open_and_known_by_their_names_at_home(tmp_path: Path) -> None:
    project = tmp_path / "user" / "work" / "project"
    project.mkdir(parents=True)
    where = House(tmp_path, {"write": ["~/work/project"], "read": ["~/missing"]}).of()
    assert str(project) in where.cell.write
    assert (Path(where.env["HOME"]) / "work" / "project").resolve() == project


def test_settings_of_tools(tmp_path: Path) -> None:
    where = House(tmp_path, {}).of()
    made = apply_sandbox(ToolSettings(exec_env={"HOME": "/real", "A": "1"}), where, {"A": "2", "TMPDIR": "/mine"})
    assert made.exec_env["HOME"] == where.env["HOME"] and made.exec_env["A"] == "2"
    assert made.exec_env["TMPDIR"] == "/mine" and made.cell is where.cell and not made.workspace_only


# sandboxed sessions


@pytest.mark.parametrize(
    ("mode", "main", "group"), [("off", False, False), ("non-main", False, True), ("all", True, True)]
)
def test_which_sessions_are_sandboxed(tmp_path: Path, mode: str, main: bool, group: bool) -> None:
    agent = House(tmp_path, {"mode": mode}).settings.agents["main"]
    assert (is_sandboxed(agent, MAIN), is_sandboxed(agent, GROUP)) == (main, group)
    assert is_sandboxed(agent, SessionKey("main", "subagent:1")) == group


@pytest.mark.seed(262)
def test_sandboxed_sessions_have_workspaces_of_their_own(tmp_path: Path) -> None:
    root = tmp_path / "boxes"
    house = House(tmp_path, {"mode": "non-main", "workspaceRoot": str(root)})
    one, two = house.of(GROUP), house.of(SessionKey("main", "telegram:group:2"))
    assert Path(one.workspace).parent == Path(two.workspace).parent == root
    assert one.workspace != two.workspace and Path(one.workspace).is_dir()
    assert house.of(MAIN).workspace == house.settings.agents["main"].workspace
    assert house.of(GROUP).workspace == one.workspace  # the same one next time


@pytest.mark.parametrize(("scope", "same"), [("session", False), ("agent", True), ("shared", True)])
def test_scopes(tmp_path: Path, scope: str, same: bool) -> None:
    house = House(tmp_path, {"mode": "all", "scope": scope})
    one, two = house.of(GROUP), house.of(MAIN)
    assert (one.workspace == two.workspace) == same
    assert one.cell.box and two.cell.box and (one.cell.box.name == two.cell.box.name) == same


@pytest.mark.parametrize(
    ("access", "targets", "mount"),
    [
        ("none", [("/workspace", True)], ""),
        ("ro", [("/workspace", True), ("/agent", False)], "/agent"),
        ("rw", [("/workspace", True)], "/workspace"),
    ],
)
def test_access_to_the_agents_workspace(tmp_path: Path, access: str, targets: list[Any], mount: str) -> None:
    house = House(tmp_path, {"mode": "all", "workspaceAccess": access})
    where = house.of()
    own = house.settings.agents["main"].workspace
    assert where.cell.box and where.box
    assert [(m.target, m.write) for m in where.cell.box.mounts] == targets
    assert (where.workspace == own) == (access == "rw") and (where.box.mount, where.box.access) == (mount, access)
    assert (own in where.cell.write) == (access == "rw") and (own in where.cell.read) == (access == "ro")
    assert apply_sandbox(ToolSettings(), where, {}).workspace_only


def test_a_sandbox_made_by_the_kernel(tmp_path: Path) -> None:
    where = House(tmp_path, {"mode": "all", "backend": "landlock"}).of(GROUP)
    assert where.cell.kind == "landlock" and where.cell.connect == () and where.box is not None
    assert not any(path.endswith("/state/workspace") for path in where.cell.write)


def test_names_of_sessions() -> None:
    keys = [f"agent:main:telegram:group:{n}" for n in range(200)] + ["agent:main:TELEGRAM:group:1", "../../x", "a/b"]
    names = [make_session_slug(key) for key in keys]
    assert len(set(names)) == len(keys) and all("/" not in name and ".." not in name for name in names)


def test_the_owners_tools_are_readable_and_git_knows_the_owner(tmp_path: Path) -> None:
    tools = tmp_path / "user" / ".local" / "bin"
    tools.mkdir(parents=True)
    (tmp_path / "user" / ".gitconfig").write_text("[user]\nname = Ada\n")
    house = House(tmp_path, {"mode": "non-main", "backend": "landlock"})
    env = {"HOME": str(house.user), "PATH": f"/usr/bin:{tools}"}
    cells = ToolSandboxes(house.settings, env, lambda: FULL)
    where = cells.of(house.settings.agents["main"], MAIN)
    assert str(tools) in where.cell.read and str(tools) not in where.cell.write
    file = Path(where.env["HOME"]) / ".gitconfig"
    assert 'name = "Ada"' in file.read_text()
    boxed = cells.of(house.settings.agents["main"], GROUP)
    assert str(tools) not in boxed.cell.read and not (Path(boxed.env["HOME"]) / ".gitconfig").exists()
    other = cells.of(house.settings.agents["main"], MAIN, outsider=True)
    assert str(tools) not in other.cell.read and not (Path(other.env["HOME"]) / ".gitconfig").exists()
    file.write_text("[user]\nname = The agent's own\n")
    ToolSandboxes(house.settings, env, lambda: FULL).of(house.settings.agents["main"], MAIN)
    assert "The agent's own" in file.read_text()
