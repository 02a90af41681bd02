"""agents.defaults.sandbox: defaults, overlays, ports, and the paths that must not be opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.sandbox import find_guarded, join_ports, remove_port
from palinurus.core.types.sandbox import ANY_PORT, DEFAULT_PORTS, ContainerMount, SandboxSettings


def made(shared: dict[str, Any], own: dict[str, Any] | None = None, home: str = "/s") -> SandboxSettings:
    settings, findings = tried(shared, own, home)
    assert findings == []
    return settings


def tried(
    shared: dict[str, Any], own: dict[str, Any] | None = None, home: str = "/s"
) -> tuple[SandboxSettings, list[ConfigFinding]]:
    config = {"agents": {"defaults": {"sandbox": shared}, "list": [{"id": "a", "sandbox": own or {}}]}}
    settings, findings = read_settings(config, {"HOME": "/home/me"}, home)
    return settings.agents["a"].sandbox, findings


def test_defaults() -> None:
    settings = made({})
    assert (settings.mode, settings.contain, settings.scope, settings.access) == ("off", "auto", "session", "none")
    assert settings.connect == DEFAULT_PORTS and settings.root == "/s/sandboxes" and not settings.unix
    assert settings.box.network == "none" and settings.box.cap_drop == ("ALL",) and settings.box.read_only


def test_the_agents_own_words_go_first_field_by_field() -> None:
    shared = {"mode": "all", "scope": "agent", "docker": {"image": "one", "memory": "1g"}}
    settings = made(shared, {"scope": "session", "docker": {"image": "two"}})
    assert (settings.mode, settings.scope) == ("all", "session")
    assert (settings.box.image, settings.box.memory) == ("two", "1g")


def test_the_old_word_for_the_scope() -> None:
    assert made({"perSession": True}).scope == "session" and made({"perSession": False}).scope == "shared"
    assert made({"scope": "shared", "perSession": True}).scope == "shared"
    assert (
        made({"scope": "shared"}, {"perSession": True}).scope == "session"
    )  # the agent's own word, however it is said


def test_one_limit_of_an_agent_takes_no_other_away() -> None:
    shared = {"limits": {"processes": 10, "memoryMb": 100}, "docker": {"env": {"A": "1"}, "ulimits": {"nofile": 5}}}
    found = made(shared, {"limits": {"memoryMb": 50}, "docker": {"env": {"B": "2"}, "ulimits": {"nproc": 7}}})
    assert (found.limits.processes, found.limits.memory_bytes) == (10, 50 << 20)
    assert (dict(found.box.env), set(found.box.ulimits)) == ({"A": "1", "B": "2"}, {"nofile=5", "nproc=7"})


@pytest.mark.parametrize(
    ("connect", "ports"),
    [
        ("any", ANY_PORT),
        ("none", ()),
        ("default", DEFAULT_PORTS),
        ([80], ((80, 80),)),
        ([443, 80, "8000-8010", "8005-8020"], ((80, 80), (443, 443), (8000, 8020))),
        ([], ()),
        (["any"], ANY_PORT),
    ],
)
def test_ports(connect: Any, ports: Any) -> None:
    assert made({"connect": connect}).connect == ports


def test_more_than_the_default_ports() -> None:
    assert (5432, 5432) in made({"connect": ["default", 5432]}).connect


@pytest.mark.parametrize("bad", ["http", "0", "70000", "20-10", "-5"])
def test_what_is_no_port(bad: str) -> None:
    _, findings = tried({"connect": [bad]})
    assert "no port" in findings[0].message and findings[0].fatal


def test_arithmetic_of_ranges() -> None:
    assert remove_port(((1, 10),), 5) == ((1, 4), (6, 10))
    assert remove_port(((5, 5), (9, 9)), 5) == ((9, 9),)
    assert remove_port(((1, 3),), 7) == ((1, 3),)
    assert join_ports([(5, 6), (1, 2), (3, 4), (9, 9)]) == ((1, 6), (9, 9))


# S11 of the catalogue: equal to, inside, or above what is protected
CLOSED = [
    "/", "~", "~/", "/home", "/home/me", "~/.ssh", "~/.ssh/..", "~/.ssh/id_rsa", "~/.aws", "~/.config/gcloud/x",
    "/run", "/var/run", "/var/run/docker.sock", "/run/user/1000/bus", "/proc", "/proc/1", "/sys", "/dev", "/dev/mem",
    "/s", "/s/gateway.token", "/s/agents", "/etc/shadow", "/etc", "//", "/./", "/s/../s", "~/.openclaw", "/boot",
    "~/.config", "~/.git-credentials",
]  # fmt: skip


@pytest.mark.parametrize("key", ["read", "write"])
@pytest.mark.parametrize("path", CLOSED)
def test_paths_that_would_open_too_much(key: str, path: str) -> None:
    settings, findings = tried({key: [path]})
    assert settings.read == settings.write == ()
    assert "would open" in findings[0].message and findings[0].fatal


@pytest.mark.parametrize("path", CLOSED)
def test_binds_that_would_open_too_much(path: str) -> None:
    settings, findings = tried({"docker": {"binds": [f"{path}:/x:ro"]}})
    assert settings.box.mounts == () and len(findings) == 1


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "innocent").symlink_to(state)
    where = (str(state), {"HOME": "/home/me"})
    assert find_guarded(str(tmp_path / "innocent"), *where)
    assert find_guarded(str(tmp_path / "innocent" / "missing"), *where)
    assert find_guarded(str(tmp_path), *where)  # above it
    assert not find_guarded(str(tmp_path / "other"), *where)


def test_ordinary_paths_are_fine() -> None:
    settings = made({"read": ["~/src", "/srv/data"], "write": ["~/project"], "docker": {"binds": ["/srv/x:/x:rw"]}})
    assert settings.read == ("/home/me/src", "/srv/data") and settings.write == ("/home/me/project",)
    assert settings.box.mounts == (ContainerMount("/srv/x", "/x", True),)


@pytest.mark.parametrize("bind", ["x:/y", "/x", "/x:y", "/x:/y:z", ":/y", "/x:/y:ro,rw"])
def test_what_is_no_bind(bind: str) -> None:
    _, findings = tried({"docker": {"binds": [bind]}})
    assert "no bind" in findings[0].message


@pytest.mark.parametrize(
    "docker",
    [
        {"network": "host"},
        {"network": "container:other"},
        {"seccompProfile": "unconfined"},
        {"apparmorProfile": "unconfined"},
    ],
)
def test_a_sandbox_that_is_none(docker: dict[str, str]) -> None:
    _, findings = tried({"docker": docker})
    assert len(findings) == 1 and findings[0].fatal


def test_limits_and_ulimits() -> None:
    settings = made(
        {
            "limits": {"files": 10, "memoryMb": 2, "fileMb": 1, "processes": 5, "cpuSeconds": 9},
            "docker": {"ulimits": {"nofile": {"soft": 1, "hard": 2}, "nproc": 5}, "setupCommand": ["a", "b"]},
        }
    )
    assert (settings.limits.files, settings.limits.memory_bytes, settings.limits.file_bytes) == (10, 2 << 20, 1 << 20)
    assert settings.box.ulimits == ("nofile=1:2", "nproc=5") and settings.box.setup == "a\nb"


def test_an_unknown_backend() -> None:
    _, findings = tried({"backend": "ssh"})
    assert "ssh" in findings[0].message
