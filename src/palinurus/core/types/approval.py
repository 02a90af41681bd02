"""Asking a person before something happens: what is asked, and what they said; what the configuration says about
commands and untrusted content. Values and the port only; the rules are in `core/policy`.

What was shown is what runs: whoever asks puts all that decides the effect into the `ApprovalRequest`, and checks it
again before acting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

from palinurus.patterns import compile_late

# Places whose owners cannot be the author of a page, and whose visitors the author cannot see.
SAFE_HOSTS = (
    "datatracker.ietf.org", "developer.mozilla.org", "doc.rust-lang.org", "docs.djangoproject.com", "docs.docker.com",
    "docs.github.com", "docs.python.org", "docs.rs", "go.dev", "kubernetes.io", "learn.microsoft.com", "man7.org",
    "nodejs.org", "www.gnu.org", "www.postgresql.org", "www.rfc-editor.org", "www.sqlite.org", "wikipedia.org",
)  # fmt: skip


TaintMode: TypeAlias = Literal["strict", "judged", "off"]
IntentJudge: TypeAlias = Literal["rules", "model"]
TAINT_MODES: tuple[TaintMode, ...] = ("strict", "judged", "off")  # strictest first


class TaintRules(msgspec.Struct, frozen=True):
    """tools.taint"""

    enabled: bool = True
    allow: tuple[str, ...] = ()  # tools that need no question; "exec:network" leaves commands their network
    hosts: tuple[str, ...] = SAFE_HOSTS  # pages here, and below these names, are fetched unasked
    mode: TaintMode = "judged"  # strict: every effect asks; judged: those whose deciding values the owner did not give
    agents: dict[str, TaintMode] = {}
    channels: dict[str, TaintMode] = {}
    intent: IntentJudge = "rules"  # model: it is asked where a yes saves a question

    def narrow(self, agent: str, channel: str) -> TaintRules:
        """The rules of a run: the strictest of what is said about its agent and its channel, else the general word."""
        said = [modes[name] for modes, name in ((self.agents, agent), (self.channels, channel)) if name in modes]
        mode = min(said, key=TAINT_MODES.index) if said else self.mode
        if mode == self.mode and self.enabled == (mode != "off"):
            return self
        return msgspec.structs.replace(self, mode=mode, enabled=mode != "off" and (self.enabled or bool(said)))


class DecidingValue(msgspec.Struct, frozen=True):
    """One value that decides about a call. `origin`: "" if the owner gave it, else where it was first seen."""

    name: str
    value: str
    origin: str = ""

    @property
    def fact(self) -> tuple[str, str]:
        """A line of the card."""
        return (
            self.name,
            f"{self.value}  ({'you wrote it' if not self.origin else f'from {self.origin}, not from you'})",
        )


_ADDRESS = compile_late(r"@|://|\bwww\.")


class CallJudgement(msgspec.Struct, frozen=True):
    """`values` decide, in the order of the arguments; `asked`: the owner's words ask for this kind of effect; `undo`:
    it stays with the owner and can be undone."""

    values: tuple[DecidingValue, ...] = ()
    asked: bool = False
    undo: bool = False

    @property
    def passes(self) -> bool:
        """Did the owner ask for such a thing, and give all that decides? What can be undone needs the owner's word for
        addresses only."""
        foreign = (value.value for value in self.values if value.origin)
        return self.asked and not any(not self.undo or _ADDRESS.search(one) for one in foreign)

    @property
    def doubt(self) -> str:
        """Why it does not pass, for people."""
        foreign = ", ".join(dict.fromkeys(value.name for value in self.values if value.origin))
        wish = "" if self.asked else "nothing you wrote is understood as a wish for this"
        return "; ".join(filter(None, (f"not from you: {foreign}" if foreign else "", wish)))

    @property
    def lacks_only_wish(self) -> bool:
        """Did the owner give all that decides, something at least, but in words that are not understood as a wish?"""
        return not self.asked and bool(self.values) and not any(value.origin for value in self.values)


ApprovalDecision: TypeAlias = Literal["allow-once", "allow-always", "deny"]
Security: TypeAlias = Literal["deny", "allowlist", "full"]
PermissionMode: TypeAlias = Literal["plan", "ask", "default", "acceptEdits", "full"]  # core/policy/modes.py
AskMode: TypeAlias = Literal["off", "on-miss", "always"]
Elevated: TypeAlias = Literal["off", "on", "ask", "full"]
ShowCard: TypeAlias = Callable[[str, str], None]  # (approval id, card): shown where the turn was asked for

SAFE_BINS = ("cut", "uniq", "head", "tail", "tr", "wc")
SAFE_DIRS = ("/bin", "/usr/bin")


class CommandRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What may run unasked: a program by path (or bare name), with exactly these arguments; None = with any."""

    pattern: str
    argv: tuple[str, ...] | None = None


class ExecRules(msgspec.Struct, frozen=True):
    """How the commands of one run are judged. None and "": nothing was said, the place decides
    (see `core/policy/exec.py`)."""

    security: Security | None = None
    ask: AskMode | None = None
    host: str = "auto"
    node: str = ""  # that host=node means where a call names none
    elevated: Elevated | None = None  # the session's level, or the agent's default
    gates: tuple[str, ...] = ()  # why this turn may not be elevated; () = it may
    safe_bins: tuple[str, ...] = SAFE_BINS
    safe_dirs: tuple[str, ...] = SAFE_DIRS
    file: str = ""  # the host's exec-approvals.json
    env: dict[str, str] = {}  # variables as they are outside containment (HOME)
    timeout: float = 1800.0
    mode: PermissionMode = "default"  # of all tools: how much is asked about, or not done at all


class ApprovalRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question. `binding` is what the effect depends on besides the text (inode, mtime, cwd handle, …)."""

    kind: Literal["exec", "tool"]
    agent: str
    session: str
    run: str
    call: str
    tool: str
    title: str  # one line for people
    command: str = ""  # the exact text that would run
    argv: tuple[str, ...] = ()
    cwd: str = ""
    host: str = "gateway"
    security: str = ""
    ask: str = ""
    binary: str = ""  # resolved path
    env: tuple[str, ...] = ()  # names only
    binding: dict[str, str] = {}
    taint: tuple[str, ...] = ()  # where untrusted content of this turn came from
    why: str = ""  # which rule wants the question
    warning: str = ""
    allowed: tuple[ApprovalDecision, ...] = ("allow-once", "allow-always", "deny")
    timeout: float = 1800.0
    rules: tuple[CommandRule, ...] = ()  # what allow-always would store
    asker: str = ""  # whose turn it is
    facts: tuple[tuple[str, str], ...] = ()  # what else the card tells, line by line: (what, value)
    values: tuple[str, ...] = ()  # what decides, as `name=value`: compared with what was allowed the last time
    before: str = ""  # what was other then; filled in by who keeps the answers


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """The answer. `decision` None: nobody answered in time, or nobody can be asked; `by` says who or why."""

    decision: ApprovalDecision | None
    by: str = ""
    id: str = ""

    @property
    def allowed(self) -> bool:
        return self.decision in ("allow-once", "allow-always")


class Approver(Protocol):
    """Who puts questions to people."""

    def ask(self, ask: ApprovalRequest, show: ShowCard | None = None) -> Awaitable[ApprovalAnswer]:
        """`show` puts the card before the person the turn belongs to; None: there is nobody to see it.

        Durable while it waits; answered once, also after a restart (then the asking run is gone and the answer
        serves the next try of the same thing). Raises nothing but CancelledError."""
        ...
