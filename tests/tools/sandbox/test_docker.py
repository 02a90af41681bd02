"""The docker command lines. No engine was at hand: what is tested is what we ask for, not what it does."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from palinurus.core.types.sandbox import ContainerMount, ContainerSpec
from palinurus.tools.sandbox import docker

BOX = ContainerSpec("palinurus-x", "debian:bookworm-slim", mounts=(ContainerMount("/host/work", "/workspace", True),))


def test_a_container_starts_with_nothing() -> None:
    line = " ".join(docker.build_create_command("docker", BOX))
    for option in (
        "--name palinurus-x", "--security-opt no-new-privileges", "--network none", "--read-only", "--cap-drop ALL",
        "--pids-limit 256", "--tmpfs /tmp", "--mount type=bind,source=/host/work,target=/workspace", "--init",
    ):  # fmt: skip
        assert option in line, option
    assert line.endswith("debian:bookworm-slim sleep infinity")
    assert "--privileged" not in line and "docker.sock" not in line


def test_what_is_configured_is_asked_for() -> None:
    box = ContainerSpec(
        "n", "i", user="1000:1000", read_only=False, tmpfs=(), cap_drop=(), env=(("A", "b c"),), memory="1g",
        memory_swap="2g", cpus=1.5, pids=0, dns=("1.1.1.1",), hosts=("a:1.2.3.4",), ulimits=("nofile=1:2",),
        seccomp="/p.json", apparmor="prof", network="bridge",
    )  # fmt: skip
    line = docker.build_create_command("docker", box)
    text = " ".join(line)
    for option in (
        "--user 1000:1000", "--env A=b c", "--memory 1g", "--memory-swap 2g", "--cpus 1.5", "--dns 1.1.1.1",
        "--add-host a:1.2.3.4", "--ulimit nofile=1:2", "seccomp=/p.json", "apparmor=prof", "--network bridge",
    ):  # fmt: skip
        assert option in text, option
    assert "--read-only" not in line and "--pids-limit" not in line and "--tmpfs" not in line


@pytest.mark.parametrize("path", ["/a,readonly=false", '/a"b', "/a,source=/etc", "/plain"])
def test_a_path_is_never_another_option(path: str) -> None:
    line = docker.build_create_command("docker", ContainerSpec("n", "i", mounts=(ContainerMount(path, "/t"),)))
    (fields,) = csv.reader([line[line.index("--mount") + 1]])
    assert fields == ["type=bind", f"source={path}", "target=/t", "readonly"]


def test_values_of_the_environment_are_not_on_the_command_line() -> None:
    env = {"LANG": "C.UTF-8", "TOKEN": "canary", "PATH": "/host/bin", "LC_ALL": "C", "HOME": "/host"}
    line = docker.build_exec_command("docker", BOX, ("sh", "-c", "x"), "/host/work/sub", env)
    text = " ".join(line)
    assert "--env LANG" in text and "--env LC_ALL" in text and "canary" not in text and "C.UTF-8" not in text
    assert "--workdir /workspace/sub" in text and text.endswith("palinurus-x sh -c x")
    handed = docker.build_docker_env({"HOME": "/me", "DOCKER_HOST": "unix:///s", "SECRET": "canary"}, env)
    assert handed == {"HOME": "/me", "DOCKER_HOST": "unix:///s", "LANG": "C.UTF-8", "LC_ALL": "C"}


def test_folders_as_the_container_sees_them(tmp_path: Path) -> None:
    box = ContainerSpec("n", "i", mounts=(ContainerMount("/host", "/a", True), ContainerMount("/host/inner", "/b")))
    assert docker.map_host_path(box, "/host/x") == "/a/x"
    assert docker.map_host_path(box, "/host/inner/y") == "/b/y"
    assert docker.map_host_path(box, "/elsewhere") == "/workspace"
    assert docker.map_host_path(box, "/hostile") == "/workspace"


def test_the_fingerprint_follows_everything() -> None:
    assert docker.fingerprint_box(BOX) == docker.fingerprint_box(ContainerSpec(BOX.name, BOX.image, mounts=BOX.mounts))
    assert docker.fingerprint_box(BOX) != docker.fingerprint_box(ContainerSpec(BOX.name, "other", mounts=BOX.mounts))
