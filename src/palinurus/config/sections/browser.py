"""`browser`, `canvasHost` and `ui.terminal`: what the agent looks at, what it shows, and how the screen of `pal` looks
(docs/browser.md, docs/canvas.md, docs/chat.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec

from palinurus.config.declare import Section, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Free, Lower, LowerNames, Text, between
from palinurus.config.kinds import Written
from palinurus.core.policy.address import OpenHosts, normalize_allowed_host

DEFAULT_PROFILE = "openclaw"
IDLE = 600.0  # seconds
_Minutes = Annotated[float, Written(Annotated[float, msgspec.Meta(ge=0.1, le=1440)], lambda n: n * 60)]


class BrowserProfile(Section, frozen=True):
    """browser.profiles.<name>: a browser of its own, or, with `cdpUrl`, one that a person has started."""

    url: Text = option("", "Where a person's own browser listens; using it is asked about each time.", at="cdpUrl")
    executable: Text = option("", "The Chromium of this profile.", at="executablePath")
    folder: Text = option("", "Where its cookies and logins are; only this profile may use it.", at="userDataDir")

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        made = {name: here.folder(word) for name in ("executable", "folder") if (word := getattr(self, name))}
        return msgspec.structs.replace(self, **made)


class BrowserSettings(Section, frozen=True):
    """browser"""

    enabled: bool = option(True, "Whether agents have the browser tool, where a Chromium is installed.", closed=False)
    evaluate: bool = option(True, "Whether they may run JavaScript in pages.", at="evaluateEnabled", closed=False)
    headless: bool = option(True, "Without a window; false needs a screen.")
    executable: Text = option("", "The Chromium to use; else the first that is found.", at="executablePath")
    no_sandbox: bool = option(False, "Leave out Chromium's own sandbox; ours stays.", at="noSandbox", closed=False)
    profile: Text = option(DEFAULT_PROFILE, "The profile that is used when a call names none.", at="defaultProfile")
    profiles: dict[str, BrowserProfile] = option({}, "Profiles by name: cookies and logins of their own.")
    cleanup: bool = option(True, "false: a browser runs until it is stopped.", at="tabCleanup.enabled")
    idle: _Minutes = option(IDLE, "Minutes after which a browser nobody uses is ended.", at="tabCleanup.idleMinutes")
    tabs: Annotated[int, msgspec.Meta(ge=1, le=100)] = option(
        8, "Tabs of one session; the oldest is closed for the next.", at="tabCleanup.maxTabsPerSession"
    )
    policy: Free = option({}, "Hosts it may reach besides those of tools.web.fetch.", at="ssrfPolicy", closed={})
    rules: OpenHosts = option(OpenHosts(), at=None)

    GROUPS: ClassVar = {"tabCleanup": "What is ended when nobody uses it."}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        hosts = set[str]()
        given = self.policy.get("allowedHostnames")
        for entry in given if isinstance(given, list) else ():
            made = normalize_allowed_host(entry) if isinstance(entry, str) else None
            if made is None:  # fail closed: what cannot be read opens nothing
                place = "ssrfPolicy.allowedHostnames"
                here.odd(place, "holds something that is no host", "write 127.0.0.1:8123 or nas.example.net")
            else:
                hosts.add(made)
        private = self.policy.get("dangerouslyAllowPrivateNetwork") is True
        return msgspec.structs.replace(self, rules=OpenHosts(frozenset(hosts), private), policy={})


class CanvasSettings(Section, frozen=True):
    """canvasHost"""

    enabled: bool = option(True, "Whether agents have the canvas tool, where the web page is built.", closed=False)
    root: Text = option(
        "", "The folder whose files pages on a canvas may use; relative: of the agent's workspace. Usually canvas."
    )


class TerminalLook(Section, frozen=True):
    """ui.terminal: how the full screen of `pal` looks and what its keys do (docs/chat.md)."""

    theme: Lower = option("auto", "auto (the terminal's own colours), dark, light, 16, or a theme that /theme lists.")
    keys: Literal["emacs", "vi"] = option("emacs", "How the box is edited: emacs or vi.")
    status: LowerNames = option((), "The parts of the line at the bottom, in this order; none: all of them.")
    command: Text = option(
        "",
        "A command whose first line of output is shown at the bottom; run contained, without network.",
        "statusCommand",
    )
    every: Annotated[float, between(1, 3600)] = option(10.0, "Seconds between two runs of it.", "statusSeconds")
    bell: bool = option(True, "Ring when a run of more than ten seconds ends, or a question waits.")
