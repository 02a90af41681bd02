"""Writes the pages of the docs that are made from the program itself: commands of `pal`, chat commands, vendors of
models, the Python names for embedders and plugin authors, every error with its fix. A test compares.

    python packaging/pages.py        all of them, into docs/
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

from palinurus import errors
from palinurus.cli.main import COMMANDS, main
from palinurus.core.types.model import FailureKind
from palinurus.core.types.vendor import Vendor
from palinurus.inbox.commands.table import build_menu
from palinurus.providers import VENDORS, load_row

DOCS = Path(__file__).resolve().parent.parent / "docs"
SOURCE = DOCS.parent / "src" / "palinurus"
MADE = "by `python packaging/pages.py`; do not edit."
CLI = f"""# Every command of pal

`pal [--home DIR] COMMAND …`. `pal COMMAND --help` says the same on your screen; what each exit code means is in
[Running the gateway](operations.md). With `--json` an error is JSON, too: `{{"ok": false, "error", "fix", "code"}}`.
Made from the parsers {MADE}
"""
CHAT = f"""# Every chat command

Typed in the terminal, on the page and in every chat app. A directive (marked *d*) may also stand at the beginning of a
message: `/think high what is wrong here?` answers at that level. *Owner*: only you, and clients with `operator.admin`.
Skills that people may call have a command each, plugins bring more. Made from the table of commands {MADE}
"""
VENDOR = f"""# Every vendor of models

What a vendor is called in `provider/model`, which variables hold its key (the first that is set wins), and what it is
known to offer; every other model of the vendor works as well, by its id. How to choose one: [Models](models.md). Made
from `src/palinurus/providers/vendors` {MADE}
"""
PYTHON = f"""# Python names

What programs that embed an agent, plugins and tests import; everything else may change. Made from the docstrings {MADE}
"""
NAMES = {
    "Embedding and plugins": "palinurus:Agent AgentAnswer tool hook ToolReach",
    "What a plugin is handed": "palinurus.plugins.api:PluginApi PluginCommandCall PluginRegistrationError",
    "Testing": "palinurus.testing.model:ScriptedModel say call_tools",
    "Fixtures of pytest": "palinurus.testing.plugin:agent cassette assert_tools assert_no_sink assert_prefix_stable",
}
ERRORS = f"""# Every error

What the program says when something cannot be done, its exit code, and the way out; `…` stands for what differs (a
name, a path, another program's words). Not sure where to begin: [When something is wrong](troubleshooting.md). Made
from the places that raise them {MADE}
"""
# Where in the docs the errors of a part are explained: the first row whose beginning fits the file.
AREAS = (
    ("channels cli/channels app/channels core/channel", "Channels", "channels.md"),
    ("providers cli/models cli/model app/model agent/think", "Models and providers", "models.md"),
    ("config cli/config app/config", "Configuration", "config.md"),
    ("workspace/install cli/skills app/skill workspace/skill", "Skills", "skills.md"),
    ("plugins cli/plugin app/plugin", "Plugins", "plugins.md"),
    ("store/postgres store/copy cli/fleet app/fleet", "Fleet", "fleet.md"),
    ("app/migrate cli/migrate sessions/imports", "Import and export", "migration.md"),
    ("cli/backup cli/upkeep store app/upkeep", "State, backup and update", "operations.md"),
    ("cli/access core/policy tools/sandbox app/security cli/sandbox", "Rights, approvals, sandbox", "approvals.md"),
    ("cli/nodes gateway/nodes", "Nodes", "nodes.md"),
    ("triggers cli/cron cli/schedule app/jobs", "Jobs and schedules", "schedules.md"),
    ("sessions cli/sessions inbox", "Sessions and messages", "sessions.md"),
    ("tools agent", "Tools", "tools.md"),
    ("testing cli/torture cli/test", "Testing", "testing.md"),
    ("gateway cli/gateway cli/reach", "Gateway", "gateway.md"),
    ("", "Everything else", "cli.md"),
)
# Commands whose verbs have parsers of their own, and those that have a second parser for some verbs (named by one).
APART = {"models"}
SERVICE = {"gateway": "status"}


class Caught(BaseException):
    """Carries the parser of a command out of it before anything is done."""


def list_verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The verbs that it has parsers for."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def find_parser(command: str, home: str, *verb: str) -> argparse.ArgumentParser:
    """The parser that a command, or a verb of it, makes for its line."""
    usual = argparse.ArgumentParser.parse_known_args

    def catch(self: argparse.ArgumentParser, args: list[str] | None = None, *_: object, **__: object) -> None:
        raise Caught(self, args or [])

    argparse.ArgumentParser.parse_known_args = catch  # type: ignore[method-assign,assignment]
    try:
        main(["--home", home, command, *verb, "--help"])
    except Caught as caught:
        parser, words = caught.args
        return list_verbs(parser).get(words[0] if words else "", parser)  # `pal qr` is a verb of another command
    finally:
        argparse.ArgumentParser.parse_known_args = usual  # type: ignore[method-assign]
    raise LookupError(f"{command} has no parser")


def tell_arguments(parser: argparse.ArgumentParser) -> list[str]:
    """A line for each argument; those that every command has are left out."""
    rows = []
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) or action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(action.option_strings) or name_value(action)
        value = f" {name_value(action)}" if action.option_strings and action.nargs != 0 else ""
        said = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%").replace("\n", " ")
        rows.append(f"- `{names}{value}`" + (f": {said}" if said else ""))
    return rows


def name_value(action: argparse.Action) -> str:
    """What stands for its value in a usage line."""
    word = action.metavar or (
        "|".join(map(str, action.choices)) if action.choices else action.dest.upper().replace("_", "-")
    )
    word = word if isinstance(word, str) else " ".join(word)
    return {"?": f"[{word}]", "*": f"[{word} …]", "+": f"{word} …"}.get(str(action.nargs), word)


def tell_command(name: str, about: str, home: str) -> list[str]:
    """One command's part of the page."""
    parser = find_parser(name, home)
    lines = [
        f"## pal {name}",
        "",
        about[0].upper() + about[1:] + "." * (not about.endswith("?")),
        "",
        *tell_arguments(parser),
    ]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {row.dest: row.help for row in action._choices_actions}
            for verb, inner in action.choices.items():
                lines += ["", f"**`pal {name} {verb}`** {helps.get(verb) or ''}".rstrip(), "", *tell_arguments(inner)]
        elif name in APART and action.choices:
            verbs = [(verb, find_parser(name, home, verb)) for verb in action.choices]
            for verb, inner in ((verb, inner) for verb, inner in verbs if inner.prog != parser.prog):
                about = (inner.description or "").partition(" Example")[0]
                lines += ["", f"**`pal {name} {verb}`** {about}".rstrip(), "", *tell_arguments(inner)]
    if name in SERVICE:
        lines += ["", f"**`pal {name} VERB`**", "", *tell_arguments(find_parser(name, home, SERVICE[name]))]
    if parser.epilog:
        lines += ["", "```sh", *(line.strip() for line in parser.epilog.strip().splitlines()), "```"]
    return lines


def make_cli_page() -> str:
    """docs/cli.md"""
    with tempfile.TemporaryDirectory() as home, contextlib.redirect_stdout(None):
        parts = [line for name, (_, about) in COMMANDS.items() for line in ("", *tell_command(name, about, home))]
    lines: list[str] = []
    for line in parts:  # one empty line is enough
        if line or (lines and lines[-1]):
            lines.append(line)
    return CLI + "\n".join(["", *lines]).rstrip() + "\n"


def make_chat_page() -> str:
    """docs/commands.md"""
    rows = build_menu()
    lines = [CHAT]
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += [f"## {group[0].upper()}{group[1:]}", "", "| command | what it does | |", "| --- | --- | --- |"]
        for row in (row for row in rows if row["group"] == group):
            usage = f"/{row['name']} {row['usage']}".strip().replace("|", "\\|")
            also = "".join(f", `/{name}`" for name in row["aliases"])
            marks = ", ".join(["owner"] * (row["scope"] == "owner") + ["*d*"] * row["directive"])
            lines.append(f"| `{usage}`{also} | {row['description']} | {marks} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def make_vendor_page() -> str:
    """docs/vendors.md"""
    lines = [VENDOR]
    for name in sorted(VENDORS):
        vendor = load_row(VENDORS, name)
        if not isinstance(vendor, Vendor):
            continue
        keys = ", ".join(f"`{key}`" for key in vendor.keys) or ("none is needed" if vendor.keyless else "–")
        lines += [f"## {vendor.name}", "", f"`{vendor.id}/…`; key: {keys}", ""]
        if vendor.models:
            lines += [
                "| model | context | answer | thinks | sees |",
                "| --- | --: | --: | --- | --- |",
            ]
        for model in vendor.models:
            words = f"{'yes' if model.reasoning else ''} | {'yes' if model.vision else ''}"
            lines.append(f"| `{vendor.id}/{model.id}` | {model.context_window:,} | {model.max_tokens:,} | {words} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def sign(name: str, value: Callable[..., object]) -> str:
    """Its line, with types as they are written. Raises TypeError, ValueError for what cannot be called."""
    line = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"{name}{inspect.signature(value)}")  # types are texts there
    return line.replace("(self, ", "(").replace("(self)", "()")


def tell_object(name: str, value: object) -> list[str]:
    """A class with its public methods, or a function: line and docstring."""
    lines = [f"### {name}", ""]
    with contextlib.suppress(TypeError, ValueError):
        lines += ["```python", sign(name, value), "```", ""]  # type: ignore[arg-type]
    lines += [inspect.getdoc(value) or "", ""]
    for member, inner in vars(value).items() if inspect.isclass(value) else ():
        if not member.startswith("_") and inspect.isfunction(inner) and inner.__doc__:
            lines.append(f"- `{sign(member, inner)}`: {' '.join((inspect.getdoc(inner) or '').split())}")
    return [*lines, ""]


def make_python_page() -> str:
    """docs/python.md"""
    lines = [PYTHON]
    for title, words in NAMES.items():
        lines += [f"## {title}", ""]
        module = ""
        for word in words.split():
            module, _, name = word.rpartition(":") if ":" in word else (module, ":", word)
            lines += tell_object(name, getattr(importlib.import_module(module), name))
    return "\n".join(lines).rstrip() + "\n"


def read_text(node: ast.expr) -> str | None:
    """What an expression says, with `…` for what is filled in; None where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(read_text(part) or "…" for part in node.values)
    if isinstance(node, ast.IfExp):
        return read_text(node.body) or read_text(node.orelse)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{read_text(node.left) or '…'}{read_text(node.right) or '…'}"
    return None


@cache
def find_errors() -> list[tuple[str, str, int, str]]:
    """(file, message, exit code, fix) of every place that raises one of errors.py with words of its own."""
    kinds = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and hasattr(kind, "exit_code")}
    found = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(f"{name}(" in text for name in kinds) else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and node.args):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            message = read_text(node.args[0]) if name in kinds else None
            if message and any(len(word) > 3 for word in message.replace("…", " ").split()):
                fix = next((read_text(word.value) or "…" for word in node.keywords if word.arg == "fix"), "")
                file = path.relative_to(SOURCE).as_posix()
                found.add((file, message, kinds[name].exit_code, fix))
    return sorted(found)


def make_errors_page() -> str:
    """docs/errors.md"""
    lines = [ERRORS, "## Exit codes", "", "| code | what it means |", "| --: | --- |"]
    for row in (row for row in (errors.__doc__ or "").splitlines() if row.startswith(("├", "│", "└"))):
        name, _, about = row.lstrip("├│└─ ").partition(" ")
        lines.append(f"| {getattr(errors, name).exit_code} | {about.strip()} |")
    lines += ["", "## Why a model call failed", "", "| kind | what it is |", "| --- | --- |"]
    text = (SOURCE / "core" / "types" / "model.py").read_text(encoding="utf-8")
    for kind in get_args(FailureKind):
        about = next(line for line in text.splitlines() if line.startswith(f'    "{kind}",'))
        lines.append(f"| `{kind}` | {about.partition('#')[2].strip()} |")
    by_area: dict[str, list[str]] = {}
    for file, message, code, fix in find_errors():
        area = next(row for row in AREAS if file.startswith(tuple(row[0].split(" "))))
        said, out = (" ".join(words.split()).replace("|", "\\|").replace("<", "&lt;") for words in (message, fix))
        by_area.setdefault(area[1], []).append(f"| {said} | {code} | {out} |")
    for _, title, page in AREAS:
        rows = sorted(set(by_area.get(title, [])))
        lines += [
            "",
            f"## {title}",
            "",
            f"[More]({page})",
            "",
            "| it says | code | what to do |",
            "| --- | --: | --- |",
            *rows,
        ]
    return "\n".join(lines).rstrip() + "\n"


PAGES = {
    "errors.md": make_errors_page,
    "cli.md": make_cli_page,
    "commands.md": make_chat_page,
    "vendors.md": make_vendor_page,
    "python.md": make_python_page,
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make(), encoding="utf-8")
