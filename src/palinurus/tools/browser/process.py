"""One Chromium: its command line, its sandbox, its start and its end. Knows nothing of pages.

It runs in namespaces of its own (files, processes, network) with its profile folder and no other file of the owner;
Chromium's own sandbox around each page stays on inside. There is no debugging port: it is driven through a pipe. Its
keeper ends it with all its children when the gateway is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import socket
import subprocess

import msgspec

from palinurus.config.sections.browser import BrowserSettings
from palinurus.core.types.sandbox import ProcessLimits, SandboxSpec
from palinurus.tools.browser.link import BrowserFault, DevtoolsLink, PipeReader, PipeSender
from palinurus.tools.sandbox import children, launch, system
from palinurus.tools.sandbox.probe import detect_support

PROXY_PORT = 3128  # of a network in which there is nothing else
NOBODY = 65534
START = 60.0  # seconds, on a busy machine
_TAIL = 4000  # bytes of what it complains about
WIDTH, HEIGHT = 1280, 800
# Nothing of this can reach anything but our proxy; these keep it from trying, and from waiting for what cannot come.
_FLAGS = (
    "--remote-debugging-pipe",
    f"--proxy-server=http://127.0.0.1:{PROXY_PORT}",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-notifications",
    "--disable-popup-blocking",
    "--disable-print-preview",
    "--disable-sync",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--deny-permission-prompts",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--disable-features=Translate,MediaRouter,DialMediaRouteProvider,OptimizationHints,AutofillServerCommunication,"
    "InterestFeedContentSuggestions,CertificateTransparencyComponentUpdater,GlobalMediaControls,HttpsUpgrades,"
    "HttpsFirstBalancedModeAutoEnable,PrivateNetworkAccessPermissionPrompt,NetworkTimeServiceQuerying,"
    "LocalNetworkAccessChecks,"
    # the popup of an address bar that nobody sees: a process of its own, and 0.8 s of processor time at every start
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
    f"--window-size={WIDTH},{HEIGHT}",
)


class BrowserFolders(msgspec.Struct, frozen=True):
    """What one browser has of the disk. Its sandbox writes `profile` and `downloads` and reads `uploads`; nothing else
    of the home is there."""

    root: str
    own: str = ""  # a folder of the owner's for cookies and logins

    @property
    def profile(self) -> str:
        return self.own or os.path.join(self.root, "profile")

    @property
    def uploads(self) -> str:
        return os.path.join(self.root, "uploads")

    @property
    def downloads(self) -> str:
        return os.path.join(self.root, "downloads")

    def make(self) -> None:
        """Make them; what was left of earlier files goes. Raises OSError."""
        for path in (self.uploads, self.downloads):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.root, self.profile, self.uploads, self.downloads):
            os.makedirs(path, mode=0o700, exist_ok=True)
        for path in (self.profile, self.uploads, self.downloads):
            self.give(path)
        for name in ("SingletonLock", "SingletonCookie", "SingletonSocket"):  # of one that was killed
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.profile, name))

    def give(self, path: str) -> None:
        """To the user that Chromium is inside, where that is not us."""
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def build_command(program: str, folders: BrowserFolders, settings: BrowserSettings) -> tuple[str, ...]:
    """The command line inside the sandbox."""
    own = [f"--user-data-dir={folders.profile}", *(("--headless",) if settings.headless else ())]
    own += ["--no-sandbox"] if settings.no_sandbox else []
    line = (program, *_FLAGS, *own, "about:blank")
    return system.make_own_command("palinurus.tools.browser.inside", str(PROXY_PORT), str(NOBODY), *line)


def make_browser_sandbox(folders: BrowserFolders, program: str, *, headless: bool) -> SandboxSpec:
    """Programs can be read, its own folder written; its network holds nobody but itself."""
    screen = ("/tmp/.X11-unix",) if not headless and os.path.isdir("/tmp/.X11-unix") else ()
    return SandboxSpec(
        kind="namespaces",
        read=(*system.list_readable(), os.path.dirname(os.path.realpath(program)), folders.uploads, *screen),
        # of /proc only what belongs to it: who is who in the user namespaces of its pages
        write=(*system.list_devices(), "/proc", folders.profile, folders.downloads),
        limits=ProcessLimits(memory_bytes=0, file_bytes=4 << 30, processes=4096),
        unix=True,  # of its own network and its own folders: nobody else listens there
        alone=True,
        nested=True,
    )


class BrowserProcess:
    """A running Chromium. `link` speaks to it, `door` is where its requests come out."""

    def __init__(self, child: children.KeptChild, link: DevtoolsLink, door: socket.socket, said: io.FileIO) -> None:
        self.link = link
        self.door = door
        self._child = child
        self._said = said

    @property
    def pid(self) -> int:
        """Its keeper's: it is there as long as anything of the browser is."""
        return self._child.pid

    async def end(self) -> None:
        """End it with all its children. It gets a moment to write its cookies."""
        with contextlib.suppress(BrowserFault):
            await self.link.send("Browser.close", seconds=5)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.link.ended.wait()
        self.link.end()
        self._child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._child.wait, 10)
        self._child.close()
        self._said.close()


async def start_browser(program: str, folders: BrowserFolders, settings: BrowserSettings) -> BrowserProcess:
    """Raises BrowserFault. Who gives up waiting leaves no process behind."""
    if not (await asyncio.to_thread(detect_support)).namespaces:
        raise BrowserFault(
            "the browser cannot be contained here: this user may make no namespaces (docs/browser.md says how)"
        )
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as undo:
        ours, theirs = (undo.enter_context(one) for one in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        told_read, told_write = os.pipe()
        heard_read, heard_write = os.pipe()
        inner = undo.enter_context(contextlib.ExitStack())
        for handle in (told_read, heard_write):
            inner.callback(os.close, handle)
        said = io.FileIO(os.memfd_create("chromium", os.MFD_CLOEXEC), "r+")
        link = DevtoolsLink()
        writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, io.FileIO(told_write, "w"))
        reading, _ = await loop.connect_read_pipe(lambda: PipeReader(link), io.FileIO(heard_read))
        link.attach(PipeSender(writing))
        failing = undo.enter_context(contextlib.ExitStack())
        failing.callback(reading.close)
        failing.callback(link.end)
        handles = children.ChildHandles(told_read, heard_write, said.fileno(), (theirs.fileno(),))
        child = await _start(program, folders, settings, handles)
        failing.callback(child.close)
        theirs.close()
        inner.close()  # one that ends at once is heard to
        door = await _receive_door(ours)
        try:
            await link.send("Browser.getVersion", seconds=START)
        except BrowserFault:
            said.seek(0)
            last = _explain(said.read()[-_TAIL:].decode("utf-8", "replace"))
            raise BrowserFault(f"the browser did not start: {last}") from None
        failing.pop_all()
    return BrowserProcess(child, link, door, said)


async def _start(
    program: str, folders: BrowserFolders, settings: BrowserSettings, handles: children.ChildHandles
) -> children.KeptChild:
    def begin() -> children.KeptChild:
        folders.make()
        cell = make_browser_sandbox(folders, program, headless=settings.headless)
        env = {"PATH": "/usr/bin:/bin", "HOME": folders.profile, "LANG": "C.UTF-8", "TZ": os.environ.get("TZ", "")}
        if not settings.headless and "DISPLAY" in os.environ:
            env["DISPLAY"] = os.environ["DISPLAY"]
        argv = build_command(program, folders, settings)
        made = launch.start_kept(launch.prepare_launch(argv, "/", env, cell), handles)
        try:
            made.wait_started()
        except OSError:
            made.close()
            raise
        return made

    starting = asyncio.ensure_future(asyncio.to_thread(begin))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_let_go)
        raise
    except OSError as exc:
        raise BrowserFault(f"the browser could not be started: {exc.strerror or exc}") from None


def _let_go(starting: asyncio.Future[children.KeptChild]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _receive_door(ours: socket.socket) -> socket.socket:
    """The listening socket that was made inside. Raises BrowserFault."""
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(ours, _wake, ready)
    try:
        async with asyncio.timeout(START):
            await ready
    except TimeoutError:
        raise BrowserFault("the browser's sandbox was not ready in time") from None
    finally:
        loop.remove_reader(ours)
    _, handles, _, _ = socket.recv_fds(ours, 16, 1)
    if not handles:
        raise BrowserFault("the browser's sandbox could not be made")
    return socket.socket(fileno=handles[0])


def _explain(said: str) -> str:
    """The last line that tells something."""
    if "No usable sandbox" in said or "sandbox_linux" in said:
        return "Chromium's own sandbox does not work here; browser.noSandbox: true leaves it to ours alone"
    lines = [line.strip() for line in said.splitlines() if "dbus" not in line and line.strip()]
    return lines[-1][-300:] if lines else "it ended at once"
