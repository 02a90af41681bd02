"""tools.exec and tools.elevated as the judge of commands needs them, and the host's own file, exec-approvals.json.

The file is OpenClaw's format: version, defaults, agents.<id>.allowlist. It is read whenever it has changed, so that
rules can be edited beside a running gateway; fields we do not know are kept. It can only make things stricter.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec

from palinurus.config import files
from palinurus.config.sections.tools import AgentToolsSection, ElevatedSection, ExecWords
from palinurus.core.policy.exec import EXEC_MODES
from palinurus.core.types.approval import CommandRule, Elevated, ExecRules
from palinurus.errors import StateError

APPROVALS_FILE = "exec-approvals.json"
VERSION = 1


class AgentExecRules(msgspec.Struct, frozen=True):
    """How one agent's commands are judged, and who may lift its containment."""

    exec: ExecRules = ExecRules()
    elevated: bool = True
    allow_from: tuple[dict[str, tuple[str, ...]], ...] = ()  # the config's, then the agent's: each must admit


def resolve_approvals(
    shared: AgentToolsSection, tools: Mapping[str, AgentToolsSection], elevated: Elevated | None, home: str
) -> dict[str, AgentExecRules]:
    """The rules of every agent in `tools`, which has what each says itself."""
    base = _exec(shared.exec.words, ExecRules(file=os.path.join(home, APPROVALS_FILE), elevated=elevated))
    found: dict[str, AgentExecRules] = {}
    for ident, own in tools.items():
        gates = [section for section in (shared.elevated, own.elevated) if section is not None]
        found[ident] = AgentExecRules(
            _exec(own.exec.words, base),
            all(section.enabled for section in gates),
            tuple(_from(section) for section in gates if section.allow_from is not None),
        )
    return found


def _exec(words: ExecWords, base: ExecRules) -> ExecRules:
    """The section over what holds without it. `mode` says both at once; the single words go before it."""
    security, ask = EXEC_MODES[words.mode] if words.mode else (None, None)
    return msgspec.structs.replace(
        base,
        security=words.security or security or base.security,
        ask=words.ask or ask or base.ask,
        host=words.host or base.host,
        node=words.node or base.node,
        safe_bins=base.safe_bins if words.safe_bins is None else words.safe_bins,
        safe_dirs=(*base.safe_dirs, *words.safe_dirs),
    )


def _from(section: ElevatedSection) -> dict[str, tuple[str, ...]]:
    return {channel: tuple(str(ident) for ident in ids) for channel, ids in (section.allow_from or {}).items()}


# the host's file


class AllowlistEntry(msgspec.Struct, frozen=True):
    """One line of an allowlist. `problem`: why it is never used."""

    id: str
    rule: CommandRule
    used: int = 0
    command: str = ""
    problem: str = ""


class HostApprovals(msgspec.Struct, frozen=True):
    """The file as it stands. One that cannot be read denies everything: it was written to restrict."""

    raw: dict[str, Any] = {}
    problem: str = ""

    def words(self, agent: str) -> dict[str, str]:
        """security, ask and askFallback that the file sets for an agent."""
        if self.problem:
            return {"security": "deny"}
        merged = {**_section(self.raw, "defaults"), **_agent(self.raw, "*"), **_agent(self.raw, agent)}
        return {name: str(merged[name]) for name in ("security", "ask", "askFallback") if merged.get(name)}

    def entries(self, agent: str) -> tuple[AllowlistEntry, ...]:
        """The allowlist of an agent, that of all agents (`*`) first."""
        lists = (_agent(self.raw, name).get("allowlist") for name in dict.fromkeys(("*", agent)))
        return tuple(
            _entry(one) for found in lists if isinstance(found, list) for one in found if isinstance(one, dict)
        )

    def rules(self, agent: str) -> tuple[CommandRule, ...]:
        """Those that count."""
        return () if self.problem else tuple(entry.rule for entry in self.entries(agent) if not entry.problem)


def _section(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, dict) else {}


def _agent(raw: Mapping[str, Any], ident: str) -> dict[str, Any]:
    return _section(_section(raw, "agents"), ident)


def _entry(one: Mapping[str, Any]) -> AllowlistEntry:
    pattern, argv = str(one.get("pattern") or ""), one.get("argv")
    problem = ""
    if not pattern or ".." in pattern.split("/") or "**" in pattern or ("/" in pattern and not pattern.startswith("/")):
        problem = "the pattern is neither a path nor a name (* and ? stay within one part of a path)"
    elif one.get("argPattern"):
        problem = "argPattern is not understood; give the exact arguments in argv"
    elif argv is not None and not (isinstance(argv, list) and all(isinstance(word, str) for word in argv)):
        problem = "argv is no list of words"
    used = one.get("lastUsedAt")
    return AllowlistEntry(
        str(one.get("id") or ""),
        CommandRule(pattern, None if argv is None or problem else tuple(argv)),
        used if isinstance(used, int) else 0,
        str(one.get("lastUsedCommand") or ""),
        problem=problem,
    )


def read_approvals(path: str) -> HostApprovals:
    """The file, or an empty one if there is none. Never raises."""
    if not path:
        return HostApprovals()
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return HostApprovals()
    except OSError as exc:
        return HostApprovals(problem=f"{path} cannot be read: {exc.strerror}")
    return _load(path, (stat.st_ino, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=8)
def _load(path: str, state: tuple[int, int, int]) -> HostApprovals:
    """`state` is what tells one version of the file from the next."""
    try:
        with open(path, "rb") as file:
            raw = msgspec.json.decode(file.read())
    except (OSError, ValueError, RecursionError) as exc:
        return HostApprovals(problem=f"{path} cannot be read: {exc}")
    if not isinstance(raw, dict) or raw.get("version", VERSION) != VERSION:
        return HostApprovals(problem=f"{path} is not an exec-approvals file of version {VERSION}")
    return HostApprovals(raw)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Changes of several processes one after the other."""
    guard = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def change_approvals(path: str, edit: Callable[[dict[str, Any]], bool]) -> bool:
    """Have `edit` change the file's content; False from it, or a file that cannot be read, leaves it as it is.

    Raises StateError if the file is broken or cannot be written.
    """
    try:
        return _change(path, edit)
    except OSError as exc:
        raise StateError(f"{path} cannot be written: {exc.strerror}", fix="check its owner and mode") from None


def _change(path: str, edit: Callable[[dict[str, Any]], bool]) -> bool:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with _locked(path):
        host = read_approvals(path)
        if host.problem:
            raise StateError(host.problem, fix="repair or remove the file")
        raw: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(host.raw))
        if not edit(raw):
            return False
        raw.setdefault("version", VERSION)
        files.replace_file(path, msgspec.json.format(msgspec.json.encode(raw), indent=2) + b"\n")
        return True


def _list(raw: dict[str, Any], agent: str) -> list[Any]:
    owner = raw.setdefault("agents", {}).setdefault(agent, {})
    found = owner.setdefault("allowlist", [])
    if not isinstance(found, list):
        raise StateError("the allowlist in exec-approvals.json is no list", fix="repair the file")
    return found


def add_rules(path: str, agent: str, rules: tuple[CommandRule, ...], source: str, now: int, command: str = "") -> int:
    """Put rules on an agent's allowlist. Returns how many are new. Raises StateError."""
    fresh: list[CommandRule] = []

    def edit(raw: dict[str, Any]) -> bool:
        found = _list(raw, agent)
        known = {_entry(one).rule for one in found if isinstance(one, dict)}
        fresh.extend(rule for rule in rules if rule not in known)
        for rule in fresh:
            made: dict[str, Any] = {"id": str(uuid.uuid4()), "pattern": rule.pattern}
            if rule.argv is not None:
                made["argv"] = list(rule.argv)
            used = {"lastUsedAt": now, "lastUsedCommand": command[:200]} if command else {}
            found.append({**made, "source": source, "addedAt": now, **used})
        return bool(fresh)

    change_approvals(path, edit)
    return len(fresh)


def remove_rules(path: str, agent: str, ident: str) -> int:
    """Take the entries whose id begins with `ident`, or whose pattern is `ident`, off the list. Returns how many."""
    gone: list[Any] = []

    def edit(raw: dict[str, Any]) -> bool:
        found = _list(raw, agent)
        gone.extend(e for e in found if isinstance(e, dict) and _named(e, ident))
        found[:] = [e for e in found if e not in gone]
        return bool(gone)

    change_approvals(path, edit)
    return len(gone)


def _named(entry: Mapping[str, Any], ident: str) -> bool:
    return bool(ident) and (str(entry.get("id") or "").startswith(ident) or entry.get("pattern") == ident)


def touch_rule(path: str, agent: str, rule: CommandRule, command: str, now: int) -> None:
    """Note that a rule was used. Raises StateError."""

    def edit(raw: dict[str, Any]) -> bool:
        for name in ("*", agent):
            for one in _agent(raw, name).get("allowlist") or ():
                if isinstance(one, dict) and _entry(one).rule == rule:
                    one.update(lastUsedAt=now, lastUsedCommand=command[:200], lastResolvedPath=rule.pattern)
                    return True
        return False

    change_approvals(path, edit)
