"""Containers of sandboxed sessions: the `docker` command lines that make, start, enter and remove them.

Builds command lines only; `container` runs them, in a process of its own. Two sessions share a container only
if their boxes have one name; a box that changed gets a new container.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence

import msgspec

from palinurus.core.folders import is_inside
from palinurus.core.types.sandbox import ContainerSpec
from palinurus.tools.sandbox.system import make_own_command

LABEL = "palinurus.box"
_PLACES = "/usr/bin:/usr/local/bin:/bin:/snap/bin:/opt/homebrew/bin"
_KEPT = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR")
# only what means the same inside: paths of the host do not
_PASSED = ("LANG", "LANGUAGE", "TERM", "TZ", "OPENCLAW_SHELL")


def find_docker() -> str:
    """Where the docker command is; "" if it is not installed."""
    return shutil.which("docker", path=_PLACES) or ""


def fingerprint_box(box: ContainerSpec) -> str:
    """Changes with everything that decides what the container is."""
    return hashlib.sha256(msgspec.json.encode(box)).hexdigest()[:16]


def build_create_command(docker: str, box: ContainerSpec) -> tuple[str, ...]:
    """Make the container, not yet running."""
    line = [docker, "create", "--name", box.name, "--label", f"{LABEL}={fingerprint_box(box)}", "--init"]
    line += ["--security-opt", "no-new-privileges", "--network", box.network, "--workdir", box.workdir]
    line += ["--read-only"] if box.read_only else []
    line += ["--pids-limit", str(box.pids)] if box.pids else []
    line += ["--cpus", f"{box.cpus:g}"] if box.cpus else []
    single = (
        ("--user", box.user),
        ("--memory", box.memory),
        ("--memory-swap", box.memory_swap),
        ("--security-opt", f"seccomp={box.seccomp}" if box.seccomp else ""),
        ("--security-opt", f"apparmor={box.apparmor}" if box.apparmor else ""),
    )
    for option, value in single:
        line += [option, value] if value else []
    many = (
        ("--tmpfs", box.tmpfs),
        ("--cap-drop", box.cap_drop),
        ("--dns", box.dns),
        ("--add-host", box.hosts),
        ("--ulimit", box.ulimits),
        ("--env", tuple(f"{name}={value}" for name, value in box.env)),
        ("--mount", tuple(_mount(one.source, one.target, one.write) for one in box.mounts)),
    )
    for option, values in many:
        for value in values:
            line += [option, value]
    return (*line, box.image, "sleep", "infinity")


def _mount(source: str, target: str, write: bool) -> str:
    """CSV as docker reads it: a comma or a quote in a path must not become another option."""
    fields = ["type=bind", f"source={source}", f"target={target}", *(() if write else ("readonly",))]
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field for field in fields)


def build_exec_command(
    docker: str, box: ContainerSpec, command: Sequence[str], cwd: str, env: Mapping[str, str]
) -> tuple[str, ...]:
    """Run `command` in the running container. Values of the environment are not on the command line."""
    line = [docker, "exec", "--interactive", "--workdir", map_host_path(box, cwd)]
    for name in _handed(env):
        line += ["--env", name]
    return (*line, box.name, *command)


def map_host_path(box: ContainerSpec, path: str) -> str:
    """The folder of the host as the container sees it; its working directory if it does not."""
    real = os.path.realpath(path)
    for one in sorted(box.mounts, key=lambda mount: -len(mount.source)):
        if is_inside(real, one.source):
            return one.target + real[len(one.source) :]
    return box.workdir


def wrap_docker(command: Sequence[str], cwd: str, env: Mapping[str, str], box: ContainerSpec) -> tuple[str, ...]:
    """The command line that brings the container up if need be and runs `command` in it. Raises OSError."""
    docker = find_docker()
    if not docker:
        raise FileNotFoundError(2, "docker is not installed, and this session's sandbox needs it")
    job = {
        "docker": docker,
        "name": box.name,
        "mark": fingerprint_box(box),
        "create": build_create_command(docker, box),
        "setup": [docker, "exec", "--interactive", box.name, "sh", "-lc", box.setup] if box.setup else [],
        "enter": build_exec_command(docker, box, command, cwd, env=env),
    }
    return make_own_command("palinurus.tools.sandbox.container", json.dumps(job))


def build_docker_env(environ: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Of the docker command itself: what it needs to find its engine, and what it hands on."""
    return {**{name: environ[name] for name in _KEPT if name in environ}, **_handed(env)}


def _handed(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name in _PASSED or name.startswith("LC_")}
