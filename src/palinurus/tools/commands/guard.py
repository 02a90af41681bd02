"""Before a command is started: what is it exactly, may it run, and is it still the same when it runs?

`authorize_command` judges (rules in `core/policy`), asks a person where that is needed, and returns what to start. Call
`ExecPermit.check` immediately before starting it: what was judged and shown is what runs, or nothing does.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from functools import cache

import msgspec

from palinurus.config.sections import approvals
from palinurus.core.folders import is_inside
from palinurus.core.policy import card, exec, shell
from palinurus.core.policy.command import classify_command
from palinurus.core.policy.taint import is_from_outside, is_reason_to_ask
from palinurus.core.types.approval import ApprovalAnswer, ApprovalDecision, ApprovalRequest, CommandRule
from palinurus.core.types.sandbox import needs_approval
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.errors import StateError
from palinurus.files import find_real_path
from palinurus.patterns import compile_late
from palinurus.tools.commands import exposure
from palinurus.tools.taint import make_approval_request

MAX_FILES = 64  # operands that are bound to their present content
TOUCH_MS = 60_000  # how often the use of a rule is noted
_PIECE = compile_late(r"[^\s'\"`;|&<>()$=]+")
_SHELL = "/bin/sh"
_CHANGES = {
    "cwd": "the folder it would run in",
    "bin": "the program",
    "file": "a file it names",
    "tree": "something in the folder it reads code from",
}


class ExecPreferences(msgspec.Struct, frozen=True):
    """How the call itself would like to run; the rules may only be made stricter by it."""

    elevated: bool | None = None
    security: str = ""
    ask: str = ""
    host: str = ""


class ExecPermit(msgspec.Struct, frozen=True):
    """Leave to start `argv` in `cwd`, inside the cell or (`contained` False) outside of it."""

    argv: tuple[str, ...]
    cwd: str
    contained: bool
    why: str = ""
    approval: str = ""  # the id of the answer, if a person gave one
    binding: Mapping[str, str] = {}
    env: Mapping[str, str] = {}  # goes over the environment of the child

    def check(self) -> None:
        """Raises ToolFailure if a bound file or folder is no longer what it was when the command was judged."""
        for name, was in self.binding.items():
            kind, _, path = name.partition(":")
            if kind in _CHANGES and _identity(path, kind) != was:
                what = _CHANGES[kind]
                raise ToolFailure(
                    f"not run: {what} ({path[:200]}) has changed since the command was judged. Try again; "
                    "it will be judged anew."
                )


class _Case(msgspec.Struct, frozen=True):
    """One command on its way to a verdict."""

    command: str
    parsed: shell.ParsedCommand
    programs: tuple[exec.ExecProgram, ...]
    place: exec.ExecPlace
    mode: exec.ExecMode
    odd: str
    matched: bool
    rule: CommandRule | None  # one that was used, to note it
    exact: bool = False  # what matched names every argument


async def authorize_command(
    ctx: ToolContext,
    command: str,
    cwd: str,
    env: Mapping[str, str],
    want: ExecPreferences | None = None,
    hold: Callable[[tuple[str, ...]], object] = lambda roots: None,
) -> ExecPermit:
    """What to start. `env` are the variables the call itself sets. Waits while a person is asked; before that, `hold`
    is told the folders that must not change meanwhile.

    Raises ToolFailure, in words for the model, when the command may not run.
    """
    if "\x00" in command:
        raise ToolFailure("not run: the command contains a NUL character")
    if not command.strip():
        raise ToolFailure("command is empty")
    want = want or ExecPreferences()
    place = _place(ctx, want)
    case = _case(ctx, command, cwd, place, want=want, plain=not env)
    verdict = exec.decide_exec(case.mode, place, case.matched, odd=case.odd, tainted=_tainted(ctx, case))
    if verdict.action == "refuse":
        raise ToolFailure(f"not run: {verdict.why}. Do not look for a way around it; tell the person.")
    if verdict.action == "run" and place == "contained":
        _noted(ctx, case)
        argv = _start(ctx, case) if case.mode.security == "allowlist" else (_sh(ctx), "-c", command)
        return ExecPermit(argv, cwd, True, verdict.why)
    if place == "host":
        hold(exposure.list_own_folders(ctx))
    binding = await asyncio.to_thread(_binding, ctx, case, cwd, env)
    unheld = ctx.settings.cell.kind == "none" and bool(ctx.settings.cell.hide)  # it could open what is hidden
    if verdict.action == "run" and not unheld:
        _noted(ctx, case)
        argv = _start(ctx, case) if case.matched else (_sh(ctx), "-c", command)
        return ExecPermit(argv, cwd, False, verdict.why, approval="", binding=binding, env=ctx.settings.rules.env)
    told = await ctx.ask(_ask(ctx, case, cwd, env, binding=binding, why=verdict.why))
    why = _answered(ctx, case, told)
    outside = ctx.settings.rules.env if place == "host" else {}
    made = ExecPermit(_start(ctx, case), cwd, place == "contained", why, approval=told.id, binding=binding, env=outside)
    made.check()
    return made


def _tainted(ctx: ToolContext, case: _Case | None = None) -> bool:
    """Taint goes before rules. The machine's own files leave those that name every argument: their effect is known."""
    if case is not None and case.exact and not is_from_outside(ctx.taint):
        return False
    return is_reason_to_ask(ctx.settings.taint, "exec", ctx.taint)


def _place(ctx: ToolContext, want: ExecPreferences) -> exec.ExecPlace:
    """Inside or outside containment. Raises ToolFailure where outside was asked for and may not be given."""
    rules = ctx.settings.rules
    host = want.host or rules.host
    if host == "node":
        raise ToolFailure("not run: there is no node to run it on (exec host is node)")
    if exec.wants_host(rules.elevated, want.elevated):
        failing = rules.gates if rules.elevated != "off" else ("elevated mode is off in this session",)
        if not failing:
            return "host"
        if want.elevated:
            raise ToolFailure(f"not run: elevated is not available ({'; '.join(failing)}). Run it without elevated.")
    # who wants no containment did not mean that a page may run commands; their own files may
    loose = ctx.settings.cell.kind == "none" and is_from_outside(ctx.taint) and _tainted(ctx)
    if not needs_approval(ctx.settings.cell) and not loose:
        return "contained"
    if host == "sandbox":
        raise ToolFailure("not run: exec host is sandbox, and nothing contains commands on this machine")
    return "host"


def _case(
    ctx: ToolContext, command: str, cwd: str, place: exec.ExecPlace, *, want: ExecPreferences, plain: bool
) -> _Case:
    """`plain`: the call sets no variables. Rules are about programs and arguments alone, and a variable can make a
    program do anything."""
    rules = ctx.settings.rules
    host = approvals.read_approvals(rules.file)
    full = place == "host" and rules.elevated == "full" and not rules.gates
    mode = exec.resolve_exec_mode(
        rules, place, host=host.words(ctx.agent), security=want.security, ask=want.ask, full=full
    )
    parsed = shell.parse_command(command)
    path = ctx.settings.exec_env.get("PATH", os.defpath)
    programs = tuple(_program(s.argv, cwd, path, ctx.workspace) for s in parsed.segments)
    if place == "host":
        roots = exposure.list_own_folders(ctx)
        programs = tuple(msgspec.structs.replace(p, exposed=exposure.is_exposed(p.argv, cwd, roots)) for p in programs)
    entries = host.rules(ctx.agent)
    found = exec.match_programs(programs, entries, rules)
    matched = plain and bool(found) and all(m != "miss" for m in found)
    used = next(
        (e for p in programs for e in entries if matched and exec.match_programs((p,), (e,), rules) == ("listed",)),
        None,
    )
    exacts = [entry for entry in entries if entry.argv is not None]
    exact = matched and all(m != "miss" for m in exec.match_programs(programs, exacts, rules))
    odd = shell.find_deceptive_text(command) or shell.find_deceptive_text(cwd)
    if not odd and any(not p.argv[0].isascii() for p in programs):
        odd = "a program name with letters beyond ASCII"
    return _Case(command, parsed, programs, place, mode=mode, odd=odd, matched=matched, rule=used, exact=exact)


@cache
def _find_shared_folders() -> tuple[str, ...]:
    """Where everybody may write."""
    return tuple(map(find_real_path, ("/tmp", "/var/tmp", "/dev/shm")))


def _program(argv: tuple[str, ...], cwd: str, path: str, workspace: str) -> exec.ExecProgram:
    """The file the first word leads to, links followed."""
    first = argv[0]
    if "/" in first:
        tries = [os.path.join(cwd, first)]
    else:
        tries = [os.path.join(folder, first) for folder in path.split(":") if folder.startswith("/")]
    for one in tries:
        if os.path.isfile(one) and os.access(one, os.X_OK):
            real = os.path.realpath(one)
            homes = {*map(find_real_path, {workspace, cwd} - {"/"}), *_find_shared_folders()}
            own = any(is_inside(p, home) for home in homes for p in (real, one))
            return exec.ExecProgram(argv, real, one, own)
    return exec.ExecProgram(argv, "")


def _exact(case: _Case) -> bool:
    """Do we know every program and every argument?"""
    return bool(case.programs) and all(p.binary for p in case.programs)


def _start(ctx: ToolContext, case: _Case) -> tuple[str, ...]:
    """One known command is started without a shell; a chain is given to it with nothing left to interpret. Inside a
    cell programs are found there: it may have other files than the host."""
    if not _exact(case):
        return (_sh(ctx), "-c", case.command)
    if case.place == "contained":
        return (_SHELL, "-c", shell.quote_segments(case.parsed.segments))
    fixed = tuple(
        shell.ShellSegment((p.path, *p.argv[1:]), s.joined)
        for p, s in zip(case.programs, case.parsed.segments, strict=True)
    )
    return fixed[0].argv if len(fixed) == 1 else (_SHELL, "-c", shell.quote_segments(fixed))


def _sh(ctx: ToolContext) -> str:
    """fish reads another language than the one models write."""
    return _SHELL if os.path.basename(ctx.settings.shell) == "fish" else ctx.settings.shell


# what an answer is bound to


def _binding(ctx: ToolContext, case: _Case, cwd: str, env: Mapping[str, str]) -> dict[str, str]:
    """Everything besides the text that decides the effect: folder, programs, files named, values of variables."""
    bound = {f"cwd:{cwd}": _identity(cwd, "cwd")}
    binaries = [p.path for p in case.programs] if _exact(case) else [os.path.realpath(_sh(ctx))]
    for path in binaries:
        bound[f"bin:{path}"] = _identity(path, "bin")
    words = [w for p in case.programs for w in p.argv] if case.programs else _PIECE.findall(case.command)
    for word in dict.fromkeys(words):
        path = os.path.join(cwd, word)
        if len(bound) < MAX_FILES and len(word) < 1024 and os.path.isfile(path) and path not in binaries:
            bound[f"file:{path}"] = _identity(path, "file")
    tops = [root for root in exposure.list_own_folders(ctx) if is_inside(os.path.realpath(cwd), root)]
    blind = not case.programs or any(exposure.reads_orders(p) for p in case.programs)
    if case.place == "host" and tops and blind:
        top = ctx.workspace if os.path.realpath(ctx.workspace) in tops else cwd
        bound[f"tree:{top}"] = _identity(top, "tree")
    values = "\x00".join(f"{name}={value}" for name, value in sorted(env.items()))
    base = "\x00".join(sorted(ctx.settings.exec_env))
    bound["env"] = hashlib.sha256(f"{values}\x01{base}".encode("utf-8", "surrogatepass")).hexdigest()
    return bound


def _identity(path: str, kind: str) -> str:
    """Which file or folder it is, and for files which content it has. "gone" if there is none."""
    if kind == "tree":
        return exposure.fingerprint_tree(path)
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return "gone"
    if kind == "cwd":
        return f"{found.st_dev}:{found.st_ino}" if stat.S_ISDIR(found.st_mode) else "gone"
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_size}"


# the question


def _ask(
    ctx: ToolContext, case: _Case, cwd: str, env: Mapping[str, str], binding: dict[str, str], why: str
) -> ApprovalRequest:
    """Raises ToolFailure if the command cannot be shown whole."""
    rules: tuple[CommandRule, ...] = ()
    if _exact(case) and not case.odd and not env and case.mode.ask != "always":
        rules = exec.list_storable_rules(case.programs, ctx.settings.rules)
    allowed: tuple[ApprovalDecision, ...] = ("allow-once", "allow-always", "deny") if rules else ("allow-once", "deny")
    outside = case.place == "host"
    facts = exposure.describe_exposure(case.programs, cwd, exposure.list_own_folders(ctx)) if outside else ()
    if outside and ctx.settings.editor is not None and ctx.settings.editor.offers(ctx.session, "terminal"):
        facts = (*facts, ("runs in", "the editor's terminal, with its environment"))
    if "large" in binding.values():
        facts = (*facts, ("not held still", "the folder has too many files to be compared when the command starts"))
    return make_approval_request(
        ctx,
        "not run: the command needs an approval and is too long to be shown whole. Write it to a file in the workspace "
        "and run that file.",
        kind="exec",
        tool="exec",
        title=f"run a command {'outside' if outside else 'inside'} the sandbox",
        command=case.command,
        argv=_start(ctx, case),
        cwd=cwd,
        host="gateway" if outside else "sandbox",
        security=case.mode.security,
        ask=case.mode.ask,
        binary=" ".join(p.binary for p in case.programs) if _exact(case) else "",
        env=card.write_variables(env),
        binding=binding,
        why=why,
        warning=_warning(case),
        allowed=allowed,
        rules=rules,
        facts=facts,
    )


def _warning(case: _Case) -> str:
    if case.odd:
        return f"contains {case.odd}"
    if case.parsed.compound:
        return f"cannot be taken apart exactly: {case.parsed.compound}"
    runners = [p.argv[0] for p in case.programs if classify_command(p.argv, p.binary) in ("runner", "executes")]
    return f"{', '.join(dict.fromkeys(runners))} can run other programs" if runners else ""


def _answered(ctx: ToolContext, case: _Case, told: ApprovalAnswer) -> str:
    """Why it runs. Raises ToolFailure if it does not."""
    if told.allowed:
        return f"{told.decision} by {told.by}"
    if told.decision == "deny":
        raise ToolFailure(
            f"not run: the command was denied by {told.by or 'the owner'}. Do not try it again in another form; ask "
            "the person what to do instead."
        )
    fallback = approvals.read_approvals(ctx.settings.rules.file).words(ctx.agent).get("askFallback", "deny")
    verdict = exec.decide_unanswered(fallback if fallback in exec.SECURITY_LEVELS else "deny", case.matched, case.odd)
    if verdict.action == "run":
        return verdict.why
    raise ToolFailure(f"not run: it needs an approval, and {told.by or 'nobody answered'}.")


def _noted(ctx: ToolContext, case: _Case) -> None:
    """That a rule was used; seldom, and never a reason to fail."""
    file = ctx.settings.rules.file
    if case.rule is None or not file:
        return
    entry = next((e for e in approvals.read_approvals(file).entries(ctx.agent) if e.rule == case.rule), None)
    if entry is not None and ctx.now() - entry.used > TOUCH_MS:
        try:
            approvals.touch_rule(file, ctx.agent, case.rule, case.command, now=ctx.now())
        except StateError:
            return
