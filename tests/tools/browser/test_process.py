"""A browser's life and its cell: what it sees of the machine, when it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nosync import count_filters
from palinurus.config.sections.browser import BrowserProfile, BrowserSettings
from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.process import BrowserFolders, build_command, make_browser_sandbox, start_browser
from palinurus.tools.sandbox.launch import prepare_launch, start_child
from palinurus.tools.sandbox.probe import detect_support
from support import find_programs
from tools.browser.kit import BrowserKit, read, until_gone
from tools.browser.player import CHROMIUM, needs_chromium
from tools.browser.site import TaskSite
from tools.web.kit import Canary

TESTS = Path(__file__).parents[2]


def run_inside(folders: BrowserFolders, script: str) -> str:
    """What a shell prints in the sandbox of a browser."""
    cell = make_browser_sandbox(folders, "/bin/sh", headless=True)
    launch = prepare_launch(("/bin/sh", "-c", script), "/", {"PATH": "/usr/bin:/bin"}, cell)
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    child = start_child(launch, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT)
    out, _ = child.communicate(60)
    return out.decode()


@pytest.mark.skipif(not detect_support().namespaces, reason="this user may make no namespaces")
async def test_its_sandbox_holds_no_file_of_the_owner_and_no_network(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    folders = BrowserFolders(str(tmp_path / "browser"))
    folders.make()
    canary = Canary()
    await canary.start()
    script = f"""cat {tmp_path}/diary.txt; ls {tmp_path}; cat /etc/shadow; ls /root /home
      echo made > {folders.profile}/x && cat {folders.profile}/x
      echo no > {folders.uploads}/x; echo no > {folders.root}/x
      cat /proc/net/dev; {sys.executable} -c 'import socket; socket.create_connection(("127.0.0.1", {canary.port}), 5)'
    """
    said = await asyncio.to_thread(run_inside, folders, script)
    assert "dear diary" not in said and "diary.txt\n" not in said.replace(f"{tmp_path}/diary.txt", "")
    assert "made" in said and "root:" not in said
    assert not os.path.exists(f"{folders.uploads}/x") and not os.path.exists(f"{folders.root}/x")
    devices = [
        line.split(":")[0].strip() for line in said.splitlines() if ":" in line and line.split(":")[1][:1] == " "
    ]
    assert "lo" in devices and not any(name.startswith(("eth", "en", "wl")) for name in devices)
    assert "ConnectionRefused" in said and canary.hits == 0
    await canary.stop()


def test_the_command_line_has_a_pipe_no_port_and_one_way_out(tmp_path: Path) -> None:
    line = build_command("/x/chromium", BrowserFolders(str(tmp_path)), BrowserSettings())
    assert "--remote-debugging-pipe" in line and not any("debugging-port" in word for word in line)
    assert "--proxy-bypass-list=<-loopback>" in line and "--disable-quic" in line and "--headless" in line
    assert "--no-sandbox" not in line
    bare = build_command("/x/chromium", BrowserFolders(str(tmp_path)), BrowserSettings(no_sandbox=True, headless=False))
    assert "--no-sandbox" in bare and "--headless" not in bare


@needs_chromium
async def test_its_pages_are_held_by_its_own_sandbox_too(kit: BrowserKit, site: TaskSite) -> None:
    await kit.do("open", targetUrl=site.url("/table"))
    filters = []
    for name in os.listdir("/proc"):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
            if b"--type=renderer" in line and str(kit.home).encode() in line:
                status = Path(f"/proc/{name}/status").read_text()
                filters.append(int(status.split("Seccomp_filters:")[1].split()[0]))
                assert "CapEff:\t0000000000000000" in status
        except (OSError, IndexError):
            continue
    assert filters and all(count >= count_filters() + 2 for count in filters)  # ours and Chromium's


@needs_chromium
async def test_an_idle_browser_goes_and_comes_back_with_its_cookies(tmp_path: Path, ctx: Any, site: TaskSite) -> None:
    kit = BrowserKit(tmp_path / "home", ctx, site.entries, idle=3.0)
    try:
        await kit.do("open", targetUrl=site.url("/login"))
        await kit.act("evaluate", fn="() => { document.cookie = 'kept=secret-value; max-age=1000' }")
        await until_gone(str(kit.home))
        assert read(await kit.do("status"))["running"] is False
        told = await kit.do("cookies", domain="127.0.0.1")
        assert [one["name"] for one in read(told)["cookies"]] == ["kept"]
        assert "secret-value" not in told.text
    finally:
        await kit.offer.close()
    assert not find_programs(str(kit.home))


@needs_chromium
async def test_stop_ends_it_and_the_next_call_starts_it_again(kit: BrowserKit, site: TaskSite) -> None:
    assert read(await kit.do("start"))["running"] and len(find_programs(str(kit.home))) > 1
    assert read(await kit.do("stop"))["stopped"]
    await until_gone(str(kit.home))
    assert not read(await kit.do("stop"))["stopped"]
    assert not (await kit.do("open", targetUrl=site.url("/table"))).isError


@needs_chromium
async def test_a_browser_that_was_killed_is_told_and_started_again(kit: BrowserKit, site: TaskSite) -> None:
    await kit.do("open", targetUrl=site.url("/table"))
    for pid in find_programs(str(kit.home)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await until_gone(str(kit.home))
    gone = await kit.do("snapshot")
    assert gone.isError and ("no tab is open" in gone.text or "browser ended" in gone.text)
    assert not (await kit.do("open", targetUrl=site.url("/table"))).isError


@needs_chromium
async def test_nothing_is_left_of_it_when_the_gateway_is_killed(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(TESTS)!r})
from palinurus.config.sections.browser import BrowserProfile, BrowserSettings
from palinurus.tools.browser.process import BrowserFolders, start_browser
async def main():
    kept = await start_browser({CHROMIUM!r}, BrowserFolders({str(tmp_path / "b")!r}), BrowserSettings())
    print("up", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    gateway = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, umask=0o077
    )  # as a gateway has it
    assert gateway.stdout is not None
    assert await asyncio.to_thread(gateway.stdout.readline) == b"up\n"
    assert len(find_programs(f"{tmp_path}/b/profile")) > 3
    gateway.kill()
    gateway.wait()
    gateway.stdout.close()
    await until_gone(f"{tmp_path}/b/profile")


async def test_a_program_that_is_no_browser_is_told(tmp_path: Path) -> None:
    with pytest.raises(BrowserFault, match="did not start"):
        await start_browser("/bin/false", BrowserFolders(str(tmp_path / "b")), BrowserSettings())


@needs_chromium
async def test_a_profile_has_a_program_and_a_folder_of_its_own_and_stays_where_the_config_says(
    tmp_path: Path, ctx: Any, site: TaskSite
) -> None:
    own = BrowserProfile(folder=str(tmp_path / "own"))
    broken = BrowserProfile(executable=str(tmp_path / "missing"))
    kit = BrowserKit(
        tmp_path / "home", ctx, site.entries, idle=0.2, cleanup=False, profiles={"own": own, "broken": broken}
    )
    try:
        assert not (await kit.do("open", targetUrl=site.url("/table"), profile="own")).isError
        assert (tmp_path / "own" / "Default").exists() and not list((tmp_path / "home").rglob("own/profile"))
        await asyncio.sleep(1.0)  # long after `idle`
        assert read(await kit.do("status", profile="own"))["running"] is True
        assert (await kit.do("open", targetUrl=site.url("/table"), profile="broken")).isError  # it has another program
    finally:
        await kit.offer.close()


async def test_without_a_screen_a_window_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(BrowserFault, match="DISPLAY is not set"):
        await start_browser("/bin/true", BrowserFolders(str(tmp_path / "b")), BrowserSettings(headless=False))


@needs_chromium
@pytest.mark.skipif(not shutil.which("Xvfb") or not shutil.which("xauth"), reason="no Xvfb and xauth")
async def test_a_window_on_a_screen_that_asks_for_its_cookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = tmp_path / "cookie"
    screen = f":{os.getpid() % 30000 + 100}"
    add = ["xauth", "-f", str(cookie), "add", screen, "MIT-MAGIC-COOKIE-1", "0123456789abcdef0123456789abcdef"]
    subprocess.run(add, check=True, capture_output=True)
    server = subprocess.Popen(["Xvfb", screen, "-auth", str(cookie)], stderr=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            while not os.path.exists(f"/tmp/.X11-unix/X{screen[1:]}"):
                await asyncio.sleep(0.02)
        monkeypatch.setenv("DISPLAY", screen)
        monkeypatch.setenv("XAUTHORITY", str(tmp_path / "none"))
        with pytest.raises(BrowserFault):
            await start_browser(CHROMIUM, BrowserFolders(str(tmp_path / "b")), BrowserSettings(headless=False))
        monkeypatch.setenv("XAUTHORITY", str(cookie))
        made = await start_browser(CHROMIUM, BrowserFolders(str(tmp_path / "b")), BrowserSettings(headless=False))
        assert len(find_programs(f"{tmp_path}/b/profile")) > 1
        await made.end()
        await until_gone(f"{tmp_path}/b/profile")
    finally:
        server.kill()
        server.wait()
