"""agents.defaults.sandbox and agents.list[].sandbox. Names are OpenClaw's, except those of the cell on the host."""

from typing import Literal

from palinurus.config.forms import Amount, ConfigSection, Count, Free, Size


class DockerSection(ConfigSection, frozen=True):
    image: str | None = None
    container_prefix: str | None = None
    workdir: str | None = None
    read_only_root: bool | None = None
    tmpfs: list[str] | None = None
    network: str | None = None
    user: str | None = None
    cap_drop: list[str] | None = None
    env: dict[str, str] | None = None
    setup_command: str | list[str] | None = None
    pids_limit: Size | None = None
    memory: str | int | None = None
    memory_swap: str | int | None = None
    cpus: Amount | None = None
    ulimits: Free | None = None
    seccomp_profile: str | None = None
    apparmor_profile: str | None = None
    dns: list[str] | None = None
    extra_hosts: list[str] | None = None
    binds: list[str] | None = None


class SandboxLimitsSection(ConfigSection, frozen=True):
    """What one process of a contained command may use; 0 = as the gateway has it."""

    files: Size | None = None
    file_mb: Size | None = None
    memory_mb: Size | None = None
    processes: Size | None = None
    cpu_seconds: Size | None = None


class SandboxSection(ConfigSection, frozen=True):
    mode: Literal["off", "non-main", "all"] | None = None
    backend: str | None = None
    scope: Literal["session", "agent", "shared"] | None = None
    per_session: bool | None = None
    workspace_access: Literal["none", "ro", "rw"] | None = None
    workspace_root: str | None = None
    session_tools_visibility: Literal["spawned", "all"] | None = None
    docker: DockerSection | None = None
    ssh: Free | None = None
    browser: Free | None = None
    prune: Free | None = None
    contain: Literal["auto", "landlock", "bubblewrap", "off"] | None = None
    read: list[str] | None = None
    write: list[str] | None = None
    connect: Literal["default", "any", "none"] | list[Count | str] | None = None
    unix_sockets: bool | None = None
    limits: SandboxLimitsSection | None = None
