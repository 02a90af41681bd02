"""`pal gateway install|uninstall|start|stop|restart|status|logs`: the gateway as a service of the user; a node has
`pal node install|uninstall` of the same make.

Three ways to keep it running, tried in this order: a systemd user unit, a launchd agent, a plain process in the
background. Writes the service file and says what it does; asks the service manager, knows nothing of the gateway.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from xml.sax.saxutils import escape

import msgspec

from palinurus.cli.args import CommandParser, to_json
from palinurus.cli.gateway.running import (
    BackgroundProcess,
    find_running_gateway,
    format_address,
    is_process_alive,
    is_thrown_away,
    start_in_background,
)
from palinurus.cli.main import COMMANDS, load_part
from palinurus.clock import Clock, SystemClock
from palinurus.config import paths
from palinurus.errors import GatewayUnreachable, PalinurusError
from palinurus.files import read_plain_file, write_whole_file

STOP_SECONDS = 75  # running turns get 30 s; the rest is for closing files on a slow disk
START_SECONDS = 20.0
BOTH_SECONDS = 5.0  # between a line in the log and the same on stderr

T = TypeVar("T")
Call = Callable[[Sequence[str]], tuple[int, str]]


class ServiceKind(msgspec.Struct, frozen=True):
    """A command that runs as a service, by what it is called."""

    name: str
    unit: str
    words: tuple[str, ...]
    never: str  # exit codes after which trying again would not help: mistakes of the line and the config, a refusal


GATEWAY = ServiceKind("gateway", "palinurus.service", ("gateway",), "64 78")
NODE = ServiceKind("node", "palinurus-node.service", ("node", "run"), "64 77 78")


class ServiceSite(msgspec.Struct, frozen=True):
    """The machine and the home a verb works on; tests bring their own."""

    environ: Mapping[str, str]
    platform: str  # sys.platform
    call: Call
    clock: Clock
    kind: ServiceKind = GATEWAY
    prefix: str = sys.prefix

    @property
    def home(self) -> str:
        return paths.find_home(self.environ)

    @property
    def log(self) -> str:
        return os.path.join(self.home, "logs", f"{self.kind.name}.out")

    @property
    def newest_log(self) -> str:
        """Where the last lines are: one in the foreground writes the log alone, one in the background both."""
        own = paths.locate_log_file(self.home)
        printed, logged = (os.path.getmtime(file) if os.path.exists(file) else 0.0 for file in (self.log, own))
        return self.log if printed and printed + BOTH_SECONDS >= logged else own

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "palinurus", "--home", self.home, *self.kind.words]

    @property
    def unit_name(self) -> str:
        """A profile has a service of its own."""
        name = paths.find_profile(self.home)
        return self.kind.unit.replace(".service", f"-profile-{name}.service") if name else self.kind.unit

    @property
    def others(self) -> bool:
        """Is the service of this name that of another home?"""
        path = next(filter(os.path.isfile, (self.unit, self.plist)), "")
        text = read_plain_file(path, 65536).decode("utf-8", "replace") if path else self.home
        return not any(form(self.home) in text for form in (str, _percent, escape))

    @property
    def unit(self) -> str:
        base = self.environ.get("XDG_CONFIG_HOME") or os.path.join(paths.find_user_home(self.environ), ".config")
        return os.path.join(base, "systemd", "user", self.unit_name)

    @property
    def plist(self) -> str:
        return os.path.join(paths.find_user_home(self.environ), "Library", "LaunchAgents", f"{self.label}.plist")

    @property
    def label(self) -> str:
        name = paths.find_profile(self.home)
        return f"dev.palinurus.{self.kind.name}" + (f".{name}" if name else "")


def run_service(argv: list[str]) -> int:
    """One verb. 0 when it did what it says."""
    parser = CommandParser("gateway", "The gateway as a service.")
    about = "install: with the system, and again after a crash; start, stop, restart: now; status: what runs; logs"
    parser.add_argument("verb", choices=(*VERBS, "logs"), help=about)
    parser.add_argument("--lines", "-n", type=int, default=100, help="logs: how many lines")
    parser.add_argument("--follow", "-f", action="store_true", help="logs: go on")
    parser.add_argument("--json", action="store_true", help="status: print JSON")
    args = parser.parse_args(argv)
    site = ServiceSite(dict(os.environ), sys.platform, call_manager, SystemClock())
    if args.verb == "logs":
        return _logs(site, args.lines, args.follow)
    if args.json and args.verb == "status":
        told = describe_service(site)
        print(to_json(told))
        return 0 if told["running"] else 3
    return VERBS[args.verb](site)


def run_node_service(verb: str) -> int:
    """`install` or `uninstall`, for a node."""
    return VERBS[verb](ServiceSite(dict(os.environ), sys.platform, call_manager, SystemClock(), kind=NODE))


def detect_manager(site: ServiceSite) -> tuple[str, str]:
    """(systemd, launchd or background; why not a better one)."""
    if site.others:
        return "background", f"the service {site.unit_name} is that of another home"
    if site.platform == "darwin":
        return "launchd", ""
    if site.call(("systemctl", "--version"))[0] != 0:
        return "background", "systemd is not on this machine; fix: none needed, a background process is used"
    code, said = site.call(("systemctl", "--user", "show-environment"))
    if code == 0:
        return "systemd", ""
    why = said.strip().splitlines()[-1] if said.strip() else f"exit {code}"
    return "background", (
        f"systemd does not run for this user ({why}); fix: log in directly (not through su or sudo), or "
        "`loginctl enable-linger $USER` and log in again. Until then a background process is used"
    )


# --- verbs ----------------------------------------------------------------------------------------------------


def install_service(site: ServiceSite) -> int:
    """Write the service file, switch it on, start it."""
    _refuse_others(site)
    if is_thrown_away(site.prefix):
        fix = "`uv tool install` or `pipx install` (docs/install.md), then `pal gateway install` of that one"
        raise PalinurusError(f"a service would end with the cache that {site.prefix} is in", fix=fix)
    kind, why = detect_manager(site)
    if kind == "launchd":
        _write(site.plist, render_launchd_plist(site))
        site.call(("launchctl", "bootout", f"gui/{os.getuid()}/{site.label}"))
        _must(site.call(("launchctl", "bootstrap", f"gui/{os.getuid()}", site.plist)), "launchctl bootstrap")
        print(f"wrote {site.plist}\nthe {site.kind.name} starts at login, and again when it ends unexpectedly")
        return 0
    _write(site.unit, render_systemd_unit(site))
    print(f"wrote {site.unit}\n  it runs {shlex.join(site.command)}\n  again after a crash, never after a config error")
    if kind == "background":
        how = "pal gateway start` starts it in the background" if site.kind is GATEWAY else "pal node run` runs it"
        print(f"not switched on: {why}\n  `{how}")
        return 0
    _must(site.call(("systemctl", "--user", "daemon-reload")), "systemctl daemon-reload")
    _must(site.call(("systemctl", "--user", "enable", "--now", site.unit_name)), "systemctl enable")
    print("switched on and started; `loginctl enable-linger` keeps it running when you are logged out")
    return 0


def uninstall_service(site: ServiceSite) -> int:
    """Stop it and take the service file away. State and config stay."""
    _refuse_others(site)
    kind, _ = detect_manager(site)
    if kind == "launchd":
        site.call(("launchctl", "bootout", f"gui/{os.getuid()}/{site.label}"))
    elif kind == "systemd":
        site.call(("systemctl", "--user", "disable", "--now", site.unit_name))
    files = [path for path in (site.unit, site.plist) if os.path.exists(path)]
    for path in files:
        os.unlink(path)
        print(f"removed {path}")
    if not files:
        print("no service is installed; nothing was changed")
    if kind == "systemd":
        site.call(("systemctl", "--user", "daemon-reload"))
    return 0


def start_service(site: ServiceSite) -> int:
    """Start it and wait until it listens."""
    if (place := find_running_gateway(site.home)) is not None:
        print(f"already running: {format_address(place)} (process {place.pid})")
        return 0
    kind, why = detect_manager(site)
    process: BackgroundProcess | None = None
    if kind == "systemd" and os.path.exists(site.unit):
        _must(site.call(("systemctl", "--user", "start", site.unit_name)), "systemctl start")
    elif kind == "launchd" and os.path.exists(site.plist):
        _must(site.call(("launchctl", "kickstart", f"gui/{os.getuid()}/{site.label}")), "launchctl kickstart")
    else:
        process = start_in_background(site.command, site.log, site.environ)
        why = why or "no service is installed (`pal gateway install`), so it runs in the background"
    _wait(site, lambda: find_running_gateway(site.home) or (process and process.find_end()), START_SECONDS)
    if process is not None and (ended := process.find_end()):
        raise ended
    place = find_running_gateway(site.home)
    if place is None:
        raise GatewayUnreachable("the gateway did not come up", fix="`pal gateway logs`, or `pal gateway` to see why")
    print(f"running: {format_address(place)} (process {place.pid})" + (f"\n  {why}" if why else ""))
    return 0


def stop_service(site: ServiceSite) -> int:
    """Let running turns end, then stop."""
    kind, _ = detect_manager(site)
    place = find_running_gateway(site.home)
    if kind == "systemd" and site.call(("systemctl", "--user", "is-active", "--quiet", site.unit_name))[0] == 0:
        _must(site.call(("systemctl", "--user", "stop", site.unit_name)), "systemctl stop")
    elif kind == "launchd" and site.call(("launchctl", "print", f"gui/{os.getuid()}/{site.label}"))[0] == 0:
        site.call(("launchctl", "kill", "SIGTERM", f"gui/{os.getuid()}/{site.label}"))
    elif place is None:
        print("not running")
        return 0
    else:
        os.kill(place.pid, signal.SIGTERM)
    pid = place.pid if place is not None else 0
    if pid and _wait(site, lambda: True if not is_process_alive(pid) else None, STOP_SECONDS) is None:
        raise PalinurusError(
            f"process {pid} does not end", fix=f"`kill {pid}` once more hands running turns back at once"
        )
    print("stopped")
    return 0


def restart_service(site: ServiceSite) -> int:
    """Stop, drained, and start."""
    return stop_service(site) or start_service(site)


def describe_service(site: ServiceSite) -> dict[str, Any]:
    """What runs, and who keeps it running."""
    kind, why = detect_manager(site)
    file = site.plist if kind == "launchd" else site.unit
    installed = not site.others and os.path.exists(file)
    place = find_running_gateway(site.home)
    return {
        "running": place is not None,
        "address": format_address(place) if place is not None else "",
        "pid": place.pid if place is not None else None,
        "service": kind,
        "file": file if installed else "",
        "note": why,
        "home": site.home,
        "logs": f"journalctl --user -u {site.unit_name}" if kind == "systemd" and installed else site.newest_log,
    }


def show_service_status(site: ServiceSite) -> int:
    """The same for people. 0 if it runs, 3 if not."""
    told = describe_service(site)
    runs = f"{told['address']} (process {told['pid']})"
    print(f"gateway   {runs if told['running'] else 'not running'}")
    if not told["running"]:
        print("          fix: `pal gateway start`")
    state = ", not switched on" if told["file"] and told["service"] == "background" else ""
    print(f"service   {told['service']}: {told['file'] or 'not installed (`pal gateway install`)'}{state}")
    if told["note"]:
        print(f"          {told['note']}")
    print(f"home      {told['home']}\nlogs      {told['logs']}")
    return 0 if told["running"] else 3


def _logs(site: ServiceSite, count: int, follow: bool) -> int:
    if detect_manager(site)[0] == "systemd" and os.path.exists(site.unit):
        more = ("--follow",) if follow else ("--no-pager",)
        return subprocess.call(("journalctl", "--user", "-u", site.unit_name, "-n", str(count), *more))
    if site.newest_log == site.log:
        return subprocess.call(("tail", "-n", str(count), *(("-F",) if follow else ()), site.log))
    return int(load_part(COMMANDS["logs"][0])(["-n", str(count), *(["-f"] if follow else [])]))  # type: ignore[operator]


VERBS: dict[str, Callable[[ServiceSite], int]] = {
    "install": install_service,
    "uninstall": uninstall_service,
    "start": start_service,
    "stop": stop_service,
    "restart": restart_service,
    "status": show_service_status,
}


# --- service files --------------------------------------------------------------------------------------------


def render_systemd_unit(site: ServiceSite) -> str:
    """The systemd unit."""
    words = " ".join(f'"{part}"' for part in (_percent(word) for word in site.command))
    return f"""[Unit]
Description=Palinurus {site.kind.name}
After=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
ExecStart={words}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={site.kind.never}
KillMode=mixed
TimeoutStopSec={STOP_SECONDS}
UMask=0077
NoNewPrivileges=true

[Install]
WantedBy=default.target
"""


def render_launchd_plist(site: ServiceSite) -> str:
    """The launchd agent."""
    words = "".join(f"    <string>{escape(word)}</string>\n" for word in site.command)
    log = escape(site.log)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
  <key>Label</key><string>{site.label}</string>
  <key>ProgramArguments</key><array>
{words}  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>5</integer>
  <key>ExitTimeOut</key><integer>{STOP_SECONDS}</integer>
  <key>Umask</key><integer>63</integer>
  <key>StandardOutPath</key><string>{log}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict></plist>
"""


# --- inside ---------------------------------------------------------------------------------------------------


def _wait(site: ServiceSite, look: Callable[[], T | None], seconds: float) -> T | None:
    return asyncio.run(_until(site, look, seconds))


async def _until(site: ServiceSite, look: Callable[[], T | None], seconds: float) -> T | None:
    end = site.clock.monotonic() + seconds
    while (found := look()) is None and site.clock.monotonic() < end:
        await site.clock.sleep(0.1)
    return found


def call_manager(command: Sequence[str]) -> tuple[int, str]:
    """(exit code, what was said); 127 for a program that is not there."""
    if shutil.which(command[0]) is None:
        return 127, f"{command[0]}: not found"
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STOP_SECONDS + 15)
    return done.returncode, done.stdout + done.stderr


def _must(done: tuple[int, str], what: str) -> None:
    if done[0] != 0:
        raise PalinurusError(f"{what} failed: {done[1].strip()[-400:]}", fix="`pal gateway status` says what there is")


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole_file(path, text.encode(), mode=0o666)  # less what the umask takes


def _refuse_others(site: ServiceSite) -> None:
    if site.others:
        fix = "`pal gateway uninstall` there, or `pal --profile NAME`, which has a service of its own"
        raise PalinurusError(f"the service {site.unit_name} runs another home", fix=fix)


def _percent(word: str) -> str:
    """A word as systemd reads it."""
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
