"""`pal gateway` where the disk takes nothing, a terminal goes away, or the config loses its token."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.gateway.test_serve import Process
from cli.place import SRC
from nursery import run_program
from palinurus.cli.gateway.logs import start_logging

START = """
mount -t tmpfs -o size=24m tmpfs "$1" && mkdir -m 700 "$1/home" "$1/user" || exit 99
export HOME="$1/user" PALINURUS_HOME="$1/home"
if [ "$3" != new ]; then cp -a "$5/." "$1/home" || exit 99; fi
if [ "$3" = served ]; then (umask 077; echo 0123456789abcdef0123456789abcdef > "$1/home/gateway.token"); fi
if [ "$2" = full ]; then cat /dev/zero > "$1/fill" 2>/dev/null; fi
if [ "$2" = ro ]; then mount -o remount,ro,size=24m none "$1" || exit 99; fi
exec "$4" -m palinurus gateway --port 0
"""


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One where somebody has said something."""
    home = tmp_path_factory.mktemp("used") / "home"
    environ = {**os.environ, "HOME": str(home.parent), "PALINURUS_HOME": str(home)}
    assert run_program("agent", "--local", "-m", "hi", env=environ).returncode == 0
    return str(home)


@pytest.mark.parametrize("used", ["new", "used", "served"])  # the last has a token: the database is what refuses
@pytest.mark.parametrize("disk", ["full", "ro"])
def test_a_start_on_a_disk_that_takes_nothing_is_one_clear_line(
    tmp_path: Path, disk: str, used: str, used_home: str
) -> None:
    probe = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /tmp"]
    try:
        able = subprocess.run(probe, capture_output=True).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        pytest.skip("no user namespaces with mounts here")
    args = ["unshare", "-rm", "sh", "-c", START, "sh", str(tmp_path), disk, used, sys.executable, used_home]
    done = subprocess.run(args, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": SRC})
    assert done.returncode in (73, 74, 75), done.stderr
    assert "Traceback" not in done.stderr and "fix:" in done.stderr
    words = {"full": ("full", "No space"), "ro": ("Read-only", "readonly")}[disk]
    assert any(word in done.stderr for word in words), done.stderr


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def answers(port: int, token: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        return exc.code
    except OSError:
        return 0  # between two lives


def test_sighup_begins_again_and_a_config_without_token_that_cannot_start_changes_nothing(demo: Path) -> None:
    token = "a-token-of-the-config"
    (demo / "palinurus.json").write_text(f'{{gateway: {{auth: {{mode: "token", token: "{token}"}}}}}}')
    running = Process()
    log = demo / "logs" / "gateway.log"
    try:
        assert answers(running.port, token) == 200
        running.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP received" in log.read_text() and answers(running.port, token) == 200)
        (demo / "gateway.token").write_text("x" * 40)
        (demo / "gateway.token").chmod(0o644)  # others could read it: no token to start with
        (demo / "palinurus.json").write_text("{gateway: {auth: {mode: 'token'}}}")
        until(lambda: "going back" in log.read_text() and answers(running.port, token) == 200)
    finally:
        code, said = running.stop()
    assert code == 0 and "Traceback" not in said


def test_a_token_that_is_taken_out_of_the_config_leaves_the_one_of_the_home(demo: Path) -> None:
    token, config = "a-token-of-the-config", demo / "palinurus.json"
    config.write_text(f'{{gateway: {{auth: {{mode: "token", token: "{token}"}}}}}}')
    running = Process()
    try:
        assert answers(running.port, token) == 200
        config.write_text("{gateway: {auth: {mode: 'token'}}}")
        until(lambda: answers(running.port, token) == 401)
        until(lambda: answers(running.port, (demo / "gateway.token").read_text().strip()) == 200)
    finally:
        code, said = running.stop()
    assert code == 0 and "Traceback" not in said


def test_a_log_that_cannot_be_written_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback for each line; what is said when there is room again is kept."""
    root, file = logging.getLogger(), tmp_path / "logs" / "gateway.log"
    handlers, level = root.handlers[:], root.level
    try:
        start_logging(logging.INFO, (), file=str(file))
        file.symlink_to("/dev/full")
        for n in range(3):
            logging.getLogger("palinurus.test").info("line %d", n)
        file.unlink()
        logging.getLogger("palinurus.test").info("there is room")
    finally:
        for made in root.handlers:
            made.close()
        root.handlers[:] = handlers
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "Traceback" not in said and said.count("cannot be written") == 1
    assert "there is room" in file.read_text()
