"""May this command run, must somebody be asked, or is it refused? Pure.

Two tables decide: `DEFAULTS` (what holds in a place where nothing was said) and the branches of `decide`, which are
checked as a whole by tests. Rules are matched on argv and on the file that would run, never on text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

import msgspec

from palinurus.core.policy.command import classify_command, is_onlooker, is_safe_filter
from palinurus.core.types.approval import AskMode, CommandRule, Elevated, ExecRules, PermissionMode, Security
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import Inbound

ExecPlace: TypeAlias = Literal["contained", "host"]
Action: TypeAlias = Literal["run", "ask", "refuse"]
Match: TypeAlias = Literal["listed", "safe", "miss"]
_Word = TypeVar("_Word", bound=str)

# What holds where nothing was configured: the kernel answers for the first, a person for the second.
DEFAULTS: dict[ExecPlace, tuple[Security, AskMode]] = {"contained": ("full", "off"), "host": ("allowlist", "on-miss")}
SECURITY_LEVELS: tuple[Security, ...] = ("deny", "allowlist", "full")  # strictest first
ASK_LEVELS: tuple[AskMode, ...] = ("always", "on-miss", "off")

# tools.exec.mode, the single knob, in terms of the two.
EXEC_MODES: dict[str, tuple[Security, AskMode]] = {
    "deny": ("deny", "off"),
    "allowlist": ("allowlist", "off"),
    "ask": ("allowlist", "on-miss"),
    "auto": ("allowlist", "on-miss"),
    "full": ("full", "off"),
}

INTERNAL = frozenset(("terminal", "webchat", "gateway"))  # our own faces: allowFrom is about chat channels


class ExecProgram(msgspec.Struct, frozen=True):
    """One simple command and the file its first word leads to; "" = none was found."""

    argv: tuple[str, ...]
    binary: str
    path: str = ""  # as it was found, links not followed: what is started
    own: bool = False  # the file lies where the agent itself can write
    exposed: bool = False  # it would run outside the sandbox, on files that the agent can change


class ExecMode(msgspec.Struct, frozen=True):
    """What holds for one command."""

    security: Security
    ask: AskMode
    full: bool = False  # /elevated full: approvals are skipped
    permission: PermissionMode = "default"  # full counts only inside the sandbox


class ExecVerdict(msgspec.Struct, frozen=True):
    action: Action
    why: str


def resolve_exec_mode(
    rules: ExecRules,
    place: ExecPlace,
    *,
    host: Mapping[str, str] = {},
    security: str = "",
    ask: str = "",
    full: bool = False,
) -> ExecMode:
    """The config's and session's words, else the place's; the host's file and the call itself only make it stricter.
    A word that is none of ours counts as the strictest."""
    base = DEFAULTS[place]
    level, asks = rules.security or base[0], rules.ask or base[1]
    for one in (host.get("security", ""), security):
        level = min(level, _known(one, SECURITY_LEVELS), key=SECURITY_LEVELS.index) if one else level
    for two in (host.get("ask", ""), ask):
        asks = min(asks, _known(two, ASK_LEVELS), key=ASK_LEVELS.index) if two else asks
    # the mode goes over the config's and the session's words, not over the host's file or what the call itself wants
    bound = place == "host" or host.get("ask") or host.get("security") or ask
    return ExecMode(level, asks, full, "default" if rules.mode == "full" and bound else rules.mode)


def _known(word: str, known: Sequence[_Word]) -> _Word:
    return next((one for one in known if one == word), known[0])


def decide_exec(
    mode: ExecMode, place: ExecPlace, matched: bool, *, odd: str = "", tainted: bool = False
) -> ExecVerdict:
    """The decision table. `odd`: what in the command people cannot see; `tainted`: untrusted content was read."""
    if mode.security == "deny":
        return ExecVerdict("refuse", "commands are denied here (exec security is deny)")
    if mode.security == "allowlist" and not matched and mode.ask == "off" and not mode.full:
        return ExecVerdict("refuse", "it is not on the allowlist, and exec ask is off")
    if odd:
        return ExecVerdict("ask", f"it contains {odd}")
    if mode.permission == "full":
        return ExecVerdict("run", "permission mode is full, and it is contained")
    if mode.ask == "always" and not mode.full:
        return ExecVerdict("ask", "permission mode is ask" if mode.permission == "ask" else "exec ask is always")
    if place == "host" and tainted:
        return ExecVerdict("ask", "untrusted content was read in this session, and it would run outside the sandbox")
    if matched:
        return ExecVerdict("run", "every part of it is on the allowlist")
    if mode.full:
        return ExecVerdict("run", "elevated mode is full")
    if mode.security == "allowlist":
        return ExecVerdict("ask", "it is not on the allowlist")
    if place == "host" and mode.ask == "on-miss":
        return ExecVerdict("ask", "it would run outside the sandbox and is not on the allowlist")
    return ExecVerdict("run", "it is contained" if place == "contained" else "exec security is full and ask is off")


def decide_unanswered(fallback: Security, matched: bool, odd: str) -> ExecVerdict:
    """What becomes of a question nobody answered."""
    if odd or fallback == "deny" or (fallback == "allowlist" and not matched):
        return ExecVerdict("refuse", "nobody answered")
    return ExecVerdict("run", f"nobody answered, and askFallback is {fallback}")


def match_programs(
    programs: Iterable[ExecProgram], entries: Sequence[CommandRule], rules: ExecRules
) -> tuple[Match, ...]:
    """For each simple command: is there a rule for it?"""
    return tuple(_match(program, entries, rules) for program in programs)


def _match(program: ExecProgram, entries: Sequence[CommandRule], rules: ExecRules) -> Match:
    folder, _, name = program.binary.rpartition("/")
    filters = not program.own and name in rules.safe_bins and folder in rules.safe_dirs
    if filters and is_safe_filter((name, *program.argv[1:])):
        return "safe"
    kind = _nature(program)
    for entry in entries if kind else ():
        fits = kind == "plain" if entry.argv is None else entry.argv == program.argv[1:]
        if fits and covers_program(entry, program):
            return "listed"
    return "miss"


def _nature(program: ExecProgram) -> str:
    """What a rule may be about; "" for what no rule can allow."""
    if not program.binary or program.own or (program.exposed and not is_onlooker(program.binary)):
        return ""
    kind = classify_command(program.argv, program.binary)
    return "" if kind in ("runner", "executes") else kind


def covers_program(entry: CommandRule, program: ExecProgram) -> bool:
    """Is the program the one the pattern names? `*` and `?` stay within one path segment; letters count as they are."""
    pattern = entry.pattern
    if "/" not in pattern:  # a bare name stands for what the search path leads to, not for any file of that name
        return bool(pattern) and program.argv[0] == pattern
    if not pattern.startswith("/") or ".." in pattern.split("/") or "**" in pattern:
        return False
    text = "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(text, program.binary) is not None


def list_storable_rules(programs: Sequence[ExecProgram], rules: ExecRules) -> tuple[CommandRule, ...]:
    """What allow-always would store: exactly these commands. () if one of them may not be stored."""
    found: list[CommandRule] = []
    for program in programs:
        if _match(program, (), rules) == "safe":
            continue
        if not _nature(program):
            return ()
        found.append(CommandRule(program.binary, program.argv[1:]))
    return tuple(dict.fromkeys(found))


def list_elevation_blocks(
    inbound: Inbound, *, enabled: bool, allow_from: Sequence[Mapping[str, Sequence[str]]] = ()
) -> tuple[str, ...]:
    """Why the turn of this message may not be elevated; () if it may. Only ever the owner, never in a group;
    `allow_from` (the config's, then the agent's) can only take away."""
    failing: list[str] = []
    channel, sender = inbound.target.channel, inbound.sender
    if not enabled:
        failing.append("tools.elevated.enabled is false")
    if not sender.may(ADMIN):
        failing.append("the sender is not the owner")
    if inbound.kind != "direct":
        failing.append("it is not a direct chat")
    if channel not in INTERNAL and any(sender.id not in allowed.get(channel, ()) for allowed in allow_from):
        failing.append(f"tools.elevated.allowFrom.{channel} does not name the sender")
    return tuple(failing)


def wants_node(host: str, node: str, usual: str) -> bool:
    """Is it meant for another machine? `usual` is where commands run that say nothing."""
    return host == "node" or (host in ("", "auto") and bool(node or usual == "node"))


def wants_host(level: Elevated | None, asked: bool | None) -> bool:
    """Is the command meant to run outside containment? The session's level decides where the call says nothing;
    nothing said anywhere means inside."""
    if asked is not None:
        return asked
    return level in ("on", "ask", "full")
