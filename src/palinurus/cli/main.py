"""`pal`: finds the command and hands it the rest of the line. Imports nothing heavy, so that --version and --help
answer at once; commands are loaded from the table when they are run.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys

from palinurus import __version__

# What a disk may refuse anywhere, and what helps.
_DISK = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some space: the quota is used up",
    errno.EROFS: "that disk can only be read: set PALINURUS_HOME to a directory on another",
    errno.EIO: "check the disk",
}

# name -> (where it lives, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("palinurus.cli.chat:run_chat", "talk to the agent in the terminal (what `pal` alone does)"),
    "agent": ("palinurus.cli.agent:run_agent", "send one message, print the reply"),
    "print": ("palinurus.cli.headless:run_print", "answer one request, for programs (what `pal -p` does)"),
    "gateway": (
        "palinurus.cli.gateway.start:run_gateway_command",
        "run the gateway; install, start, stop, status, logs: as a service",
    ),
    "dashboard": ("palinurus.cli.gateway.dashboard:run_dashboard", "open the web page of the running gateway"),
    "setup": ("palinurus.cli.setup:run_setup", "the first run: choose a model; make config, workspace, token"),
    "import": ("palinurus.cli.migrate:run_import", "bring over what OpenClaw, hermes or nanobot has"),
    "export": ("palinurus.cli.migrate.back:run_export", "the way back: write this home as one that OpenClaw reads"),
    "status": ("palinurus.cli.look.status:run_status", "what is running, with which model, and what went wrong lately"),
    "doctor": ("palinurus.cli.doctor:run_doctor", "check the installation; offers to repair what is safe to repair"),
    "sessions": ("palinurus.cli.sessions:run_sessions", "look at, search, export, branch and clean up sessions"),
    "folders": ("palinurus.cli.access.folders:run_folders", "where sessions may work: list, allow, revoke"),
    "agents": ("palinurus.cli.agents:run_agents", "which agents there are: list, add, delete; bind, unbind, bindings"),
    "models": ("palinurus.cli.models.catalog:run_models", "list the models that can be used"),
    "policy": ("palinurus.cli.look.preview:run_policy", "which tools a run gets, and why not the others"),
    "prompt": ("palinurus.cli.look.preview:run_prompt", "show the system prompt a run would send"),
    "why": ("palinurus.cli.look.why:run_why", "why the last answer was as it was"),
    "record": ("palinurus.cli.look.replay:run_record", "runs on tape: on, off, status"),
    "replay": ("palinurus.cli.look.replay:run_replay", "play a recorded run again, offline: is it still the same?"),
    "diff": ("palinurus.cli.look.replay:run_diff", "compare two recorded runs"),
    "changes": ("palinurus.cli.look.changes:run_changes", "what a run changed in the workspace"),
    "undo": ("palinurus.cli.look.changes:run_undo", "undo what a run changed in the workspace"),
    "redo": ("palinurus.cli.look.changes:run_redo", "do again what was undone"),
    "usage": ("palinurus.cli.look.usage:run_usage", "what was used, and what it cost"),
    "cron": ("palinurus.cli.cron:run_cron", "jobs for later: add, list, edit, run, runs, pause, resume, rm, why"),
    "system": ("palinurus.cli.access.directory:run_system", "tell the agent something: event, heartbeat, presence"),
    "tasks": (
        "palinurus.cli.look.tasks:run_tasks",
        "what goes on in the background: turns, commands, sub-agents, jobs",
    ),
    "skills": ("palinurus.cli.skills:run_skills", "list, check, install and remove skills"),
    "plugins": ("palinurus.cli.plugins:run_plugins", "list, enable, check, make and test plugins"),
    "mcp": ("palinurus.cli.mcp:run_mcp", "tool servers: list, test, add, remove; serve ours to others"),
    "memory": ("palinurus.cli.memory:run_memory", "search what the agent remembers, see where it came from, undo"),
    "learn": ("palinurus.cli.look.learn:run_learn", "what the agent wants to remember: accept, refuse, undo"),
    "approvals": (
        "palinurus.cli.access.approvals:run_approvals",
        "answer the agent's questions for permission; their rules",
    ),
    "channels": (
        "palinurus.cli.channels:run_channels",
        "chat channels: list, status, add, remove, login, logout, test",
    ),
    "directory": ("palinurus.cli.access.directory:run_directory", "people and groups that have a conversation here"),
    "message": ("palinurus.cli.message:run_message", "write to a chat, or react, edit, delete, pin, poll, read there"),
    "pairing": (
        "palinurus.cli.access.pairing:run_pairing",
        "who may write in chat apps: list, approve, reject, revoke",
    ),
    "devices": (
        "palinurus.cli.access.devices:run_devices",
        "who may connect: list, approve, reject, revoke, rotate",
    ),
    "node": ("palinurus.cli.nodes.command:run_node", "this machine as a node of a gateway: run, status, install"),
    "nodes": ("palinurus.cli.nodes.command:run_nodes", "other machines: list, pair, approve, revoke, run, invoke"),
    "qr": ("palinurus.cli.nodes.command:run_qr", "a code to pair another machine, also as a QR code"),
    "fleet": ("palinurus.cli.fleet:run_fleet", "gateways that share one PostgreSQL: init, status, drain, evict"),
    "store": ("palinurus.cli.store:run_store", "copy a state between a directory and a fleet's PostgreSQL"),
    "sandbox": ("palinurus.cli.look.sandbox:run_sandbox", "what holds the agent's commands: explain it, test it"),
    "security": ("palinurus.cli.look.audit:run_security", "audit: find settings that weaken security"),
    "test": ("palinurus.testing.scenarios.command:main", "test your own agent: play the scenarios of a folder"),
    "torture": (
        "palinurus.testing.torture:main",
        "kill a copy of this again and again: is anything lost?",
    ),
    "backup": ("palinurus.cli.backup:run_backup", "the whole home in one file: create, verify, restore, list"),
    "update": ("palinurus.cli.upkeep.update:run_update", "another version: tried first, taken back if it fails"),
    "reset": ("palinurus.cli.upkeep.remove:run_reset", "begin again: settings, conversations, or everything"),
    "uninstall": ("palinurus.cli.upkeep.remove:run_uninstall", "take Palinurus off this machine"),
    "extras": ("palinurus.cli.extras:run_extras", "optional parts of this installation: list, add"),
    "completion": ("palinurus.cli.upkeep.completion:run_completion", "what Tab completes in bash, zsh and fish"),
    "profiles": ("palinurus.cli.upkeep.profiles:run_profiles", "several homes side by side: list them"),
    "config": ("palinurus.cli.config:run_config", "get, set, explain and validate settings"),
    "acp": ("palinurus.cli.bridges.acp:run_acp", "serve an editor over the Agent Client Protocol"),
    "logs": ("palinurus.cli.look.logs:run_logs", "what the gateway logged; --follow goes on"),
    "trace": ("palinurus.cli.look.why:run_trace", "follow one message from arrival to receipt"),
}

# parts of commands that only some calls need
PARTS: dict[str, str] = {
    "config": "palinurus.config.load:load_config",  # half of the time of a command that only looks at the store
    "examples": "palinurus.cli.examples:list_examples",  # for --help
    "parity": "palinurus.cli.parity:find_verb_answer",  # what a verb of OpenClaw's is called here
    "cache": "palinurus.cli.look.cache:print_cache",  # `pal why cache`
    "gateway": "palinurus.cli.gateway.serve:run_gateway",  # the program with its HTTP face
    "probe": "palinurus.tools.sandbox.probe:detect_support",  # what holds commands here: tried, in processes
    "held": "palinurus.services.containment:describe_containment",  # said once it serves
    "weak": "palinurus.config.sections.weakening:list_weaknesses",
    "service": "palinurus.cli.gateway.daemon:run_service",  # `pal gateway` with a verb
    "bridge": "palinurus.cli.bridges.editor:serve_acp",  # needs the extra `acp`
    "server": "palinurus.cli.bridges.mcpserver:serve_mcp",
    "mail": "palinurus.app.mail:MailWatch",
    "spans": "palinurus.cli.gateway.spans:OtelSpans",  # needs the extra `otel`
    "first": "palinurus.cli.setup.questions:open_terminal_questions",  # the questions of `pal setup`
    "tried": "palinurus.cli.setup.questions:try_current_model",  # one word from the model, for `pal doctor --ask`
    "tui": "palinurus.cli.tui.app:run_chat_screen",  # needs the extra `tui`
    "markdown-lines": "palinurus.cli.tui.markdown:draw_markdown",  # with the first answer
    "open-block": "palinurus.cli.tui.markdown:find_open_block",
    "status-command": "palinurus.cli.tui.statuscommand:StatusCommand",  # where one is configured
    "connect": "palinurus.gateway.client:connect_gateway",  # the gateway's protocol, with aiohttp
    "login": "palinurus.gateway.client:LoginOptions",
    "identity": "palinurus.gateway.client:load_identity",
    "link": "palinurus.cli.reach.gateway:find_connection_source",  # the screen's way to the agent, once it stands
    "open": "palinurus.cli.reach.embedded:open_program",  # the whole program with nothing running, for one command
    "own": "palinurus.cli.reach.embedded:start_embedded_gateway",  # the whole program, for the screen
    "serve": "palinurus.cli.reach.embedded:serve_app",  # `pal agent` and plain chats, for other commands
    "attach": "palinurus.cli.reach.embedded:attach_files",  # `pal agent --file` without a gateway
    "local": "palinurus.cli.reach.local:start_local_client",  # the whole program, when no gateway runs
    "brought": "palinurus.app.plugins:load_contributions",  # the whole program, for what plugins bring
    "other": "palinurus.cli.plugins:run_plugin_command",  # commands that plugins bring
    "node": "palinurus.cli.nodes.serve:serve_node",  # `pal node run`
    "node-options": "palinurus.cli.nodes.serve:NodeOptions",
    "node-state": "palinurus.cli.nodes.serve:read_state",
    "node-service": "palinurus.cli.gateway.daemon:run_node_service",
    "qr": "palinurus.cli.nodes.qr:draw_terminal_qr",  # needs segno
    "skill-search": "palinurus.cli.skillstore:search_skills",  # these ask servers elsewhere
    "skill-download": "palinurus.cli.skillstore:download_skill",
    "skill-again": "palinurus.cli.skillstore:fetch_again",
    "skill-outdated": "palinurus.cli.skillstore:list_outdated",
    "skill-publish": "palinurus.cli.skillstore:publish_skill",
    "model-login": "palinurus.cli.models.login:run_models_login",
    "model-logout": "palinurus.cli.models.login:run_models_logout",
    "restored": "palinurus.cli.backup:finish_restore",  # one that was killed
    "sessions-elsewhere": "palinurus.cli.sessions.elsewhere:run_elsewhere",
    "resume": "palinurus.cli.sessions.resume:find_resumed_session",
    "newest": "palinurus.cli.sessions.resume:find_newest_session",
    "inside": "palinurus.cli.inside:run_inside",  # what a command of the agent asks
}
# The first command of a group -> its heading in --help.
_GROUPS = {
    "chat": "Talk", "gateway": "Set up and run", "sessions": "Conversations, agents, models",
    "policy": "See why, and go back", "cron": "Jobs and background work", "skills": "What it can do and remember",
    "channels": "Chat apps and people", "node": "Other machines", "sandbox": "Safety and tests",
    "backup": "This installation", "config": "Settings, editors, logs",
}  # fmt: skip
_HEADLESS = {"-p", "--print", "--output-format", "--input-format"}  # a line with one of these is a program's
_HOMELESS = (["plugins", "new"], ["plugins", "test"])  # these need no home

_HELP = """Palinurus, a personal AI agent that runs on your own machine.

usage: pal [--home DIR | --profile NAME] [COMMAND] [options]

{commands}

  --home DIR     state directory (default: $PALINURUS_HOME, else ~/.palinurus)
  --profile NAME another one, ~/.palinurus-NAME, and its port (pal profiles)
  -p TEXT        answer once, for programs (pal print --help)
  --version, -V  print the version
  --help, -h     this text; `pal COMMAND --help` tells more about one
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns the exit code; as a program of its own (without `argv`) it ends here."""
    _mend_streams()
    words = [_mend_word(word) for word in (sys.argv[1:] if argv is None else argv)]
    try:
        try:
            code = _find_and_run(words)
        finally:
            sys.stdout.flush()
    except OSError as exc:
        code = _tell_refused_output(exc)
    if argv is None:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """End without taking a thousand modules apart, which was a sixth of a one-shot command. What is registered for the
    end is done. With threads that still run, or output that nobody takes, Python ends in its own way."""
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        return
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, AttributeError):
        return
    os._exit(code)


def _find_and_run(args: list[str]) -> int:
    while args and args[0].split("=", 1)[0] in ("--home", "--profile"):
        name, equals, value = args.pop(0).partition("=")
        if not equals:
            value = args.pop(0) if args else ""
        if not value or value.startswith("-"):
            return _say(f"{name} needs a {'directory' if name == '--home' else 'name'}", "`pal --help`", 64)
        if name == "--profile":
            if not value.isascii() or not value.replace("-", "").replace("_", "").isalnum() or len(value) > 32:
                return _say(f"{value!r} is no name for a profile", "letters, digits, - and _", 64)
            value = os.path.expanduser(f"~/.palinurus-{value}")
        os.environ["PALINURUS_HOME"] = value
    if args and args[0] in ("--version", "-V"):
        print(f"palinurus {__version__}")
        return 0
    if args and args[0] in ("--help", "-h", "help"):
        if args[0] != "help" or len(args) == 1:
            print(render_help(), end="")
            return 0
        args = [args[1], "--help"]
    flags = {one.partition("=")[0] for one in args} if args and args[0].startswith("-") else set()
    name = args.pop(0) if args and not flags else "print" if flags & _HEADLESS else "chat"
    if _is_inside() and not {"-h", "--help"} & set(args) and [name, *args[:1]] not in _HOMELESS:
        return _run(PARTS["inside"], [name, *args], [])
    if name not in COMMANDS:
        return _run(PARTS["other"], [name, *args], [name, *args])
    return _run(COMMANDS[name][0], args, [name, *args])


def _is_inside() -> bool:
    """Were we started by a command of the agent? Who names a home means that one."""
    return os.environ.get("OPENCLAW_SHELL") == "exec" and not os.environ.get("PALINURUS_HOME")


def _mend_word(word: str) -> str:
    """Bytes of the line that are no text are replaced, as in what is piped in; a file may be called so."""
    if word.isascii() or os.path.lexists(word):
        return word
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _mend_streams() -> None:
    """A stream that is closed leads nowhere, and bytes that are no text are replaced: neither ends a command."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif isinstance(stream, io.TextIOWrapper):
            try:
                stream.reconfigure(errors="replace")
            except OSError:  # somebody has read from it already
                pass


def render_help() -> str:
    """What --help prints."""
    width = max(len(name) for name in COMMANDS) + 2
    groups = {name: f"\n{title}\n" for name, title in _GROUPS.items()}
    rows = (f"{groups.get(name, '')}  {name:<{width}}{line}" for name, (_, line) in COMMANDS.items())
    return _HELP.format(commands="\n".join(rows).strip("\n"))


def load_part(where: str) -> object:
    """The attribute that "module:attribute" names."""
    module, _, attribute = where.partition(":")
    collecting = gc.isenabled()
    gc.disable()  # modules are loaded to stay: looking through them for garbage is a tenth of the time
    try:
        __import__(module)
    finally:
        if collecting:
            gc.freeze()  # else the next object that is made has all of them looked through at once
            gc.enable()
    return getattr(sys.modules[module], attribute)


class CollectedOutput(io.StringIO):
    """What a line prints that has no JSON of its own, where JSON was asked for."""


class CommandFailure:
    """What a command says when it could not do what it should."""

    def __init__(self, message: str, fix: str, code: int) -> None:
        self.message, self.fix, self.code = message, fix, code


def _run(where: str, args: list[str], line: list[str]) -> int:
    before = sys.stdout
    ended = _try(where, args, line)
    told: dict[str, object] = {}
    if isinstance(kept := sys.stdout, CollectedOutput) and kept is not before:
        sys.stdout, told = before, {"said": kept.getvalue().splitlines()}
    if isinstance(ended, CommandFailure) and "--json" in args[: args.index("--") if "--" in args else None]:
        told |= {"error": ended.message, "fix": ended.fix, "code": ended.code}
    code = ended if isinstance(ended, int) else _say(ended.message, ended.fix, ended.code)
    if told:
        print(load_part("palinurus.cli.args:to_json")({"ok": code == 0, **told}))  # type: ignore[operator]
    return code


def _try(where: str, args: list[str], line: list[str]) -> int | CommandFailure:
    expected: type[Exception] = load_part("palinurus.errors:PalinurusError")  # type: ignore[assignment]
    if spec := os.environ.get("PALINURUS_CRASH"):  # set by the crash tests only
        load_part("palinurus.crashpoints:arm_crashpoint")(spec)  # type: ignore[operator]
    load_part("palinurus.late:postpone_package")("aiohttp")  # type: ignore[operator]
    try:
        _finish_restore()
        code = load_part(where)(args)  # type: ignore[operator]
        sys.stdout.flush()
        return int(code)
    except expected as exc:
        if line and getattr(exc, "exit_code", 1) == 64 and (code := _answer_verb(line)) is not None:
            return code
        return CommandFailure(getattr(exc, "message", str(exc)), getattr(exc, "fix", ""), getattr(exc, "exit_code", 1))
    except KeyboardInterrupt:
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal shows ^C; the shell's prompt begins a line
        return 130
    except BrokenPipeError as exc:
        return _tell_refused_output(exc)
    except OSError as exc:
        if exc.errno in _DISK:
            if not exc.filename and not _takes_output():
                return _tell_refused_output(exc)
            where = exc.filename or os.environ.get("PALINURUS_HOME") or "~/.palinurus"
            return CommandFailure(f"{where} cannot be written: {exc.strerror}", _DISK[exc.errno], 74)  # EX_IOERR
        if not exc.filename:  # not the machine's files, but a mistake of ours
            try:
                os.getcwd()
            except FileNotFoundError:
                return CommandFailure("the folder you are in is no longer there", "`cd` to one that is", 66)
            return _confess(exc)
        return CommandFailure(
            f"{exc.filename}: {exc.strerror}", "check owner, mode and free space; PALINURUS_HOME may be elsewhere", 73
        )
    except Exception as exc:  # noqa: BLE001 - a border: nobody above takes it
        return _confess(exc)


def _takes_output() -> bool:
    try:
        print(flush=True)
    except OSError:
        return False
    return True


def _tell_refused_output(exc: OSError) -> int:
    """The reader has gone (`pal … | head`), or there is no room. What Python still wants to flush goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(exc, BrokenPipeError):
        return 141
    return _say(f"what is printed cannot be written: {exc.strerror}", _DISK.get(exc.errno or 0, ""), 74)


def _confess(exc: Exception) -> CommandFailure:
    """A mistake of ours is told like one, not with pages of source; who wants those says so."""
    if os.environ.get("PALINURUS_DEBUG"):
        raise exc
    said = f"{type(exc).__name__}: {exc}".splitlines()[0][:300]
    return CommandFailure(
        f"this should not have happened: {said}",
        "PALINURUS_DEBUG=1 before the command shows where; please report it",
        70,
    )


def _answer_verb(line: list[str]) -> int | CommandFailure | None:
    """A line that made no sense may be one of OpenClaw's: do it under our name, or say what there is instead."""
    answer = load_part(PARTS["parity"])(line)  # type: ignore[operator]
    if answer is None:
        return None
    return _find_and_run(list(answer.ours)) if answer.ours else CommandFailure(answer.why, "", 2)


def _finish_restore() -> None:
    home = str(load_part("palinurus.config.paths:find_home")(os.environ))  # type: ignore[operator]
    if os.path.isdir(home + str(load_part("palinurus.config.paths:RESTORED"))):
        load_part(PARTS["restored"])(home)  # type: ignore[operator]


def _say(message: str, fix: str, code: int) -> int:
    print(f"pal: {message}" + (f"\n  fix: {fix}" if fix else ""), file=sys.stderr)
    return code
