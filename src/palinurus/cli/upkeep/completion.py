"""`pal completion bash|zsh|fish`: a script for the shell, made of the parsers of all commands. The script starts no
program: a Tab costs no Python. One function per shell writes the same tree.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from palinurus.cli.args import SEEN_PARSERS, CommandParser
from palinurus.cli.main import COMMANDS, load_part
from palinurus.config.paths import find_user_home
from palinurus.errors import PalinurusError
from palinurus.files import write_whole_file

_MORE = {"gateway": ("status",)}  # words before --help that show another parser of the same command
_GLOBAL = ("--home", "--profile", "--help", "--version")
_FILES = ("FILE", "DIR", "PATH", "FOLDER", "WHEEL")


class CompletionNode(msgspec.Struct, frozen=True):
    """What may follow some words: the next word, options; values of options that have some."""

    words: tuple[str, ...]
    next: dict[str, str] = {}  # word -> what it does
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}  # () are files


def run_completion(argv: list[str]) -> int:
    """Exit code 0."""
    parser = CommandParser(
        "completion",
        "Print what makes Tab complete commands and options.",
        epilog="examples:\n  source <(pal completion bash)       for this shell\n"
        "  pal completion fish --install       for every new one",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(WRITERS))
    parser.add_argument("--install", action="store_true", help="put it where the shell looks")
    asked = parser.parse_args(argv)
    text = WRITERS[asked.shell](list(collect_nodes()))
    if not asked.install:
        print(text, end="")
        return 0
    path = locate_completion(asked.shell, os.environ.get)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole_file(path, text.encode(), mode=0o644)
    print(f"wrote {path}; new shells have it")
    if asked.shell == "zsh":
        print(f"  zsh looks there if ~/.zshrc says: fpath+=({os.path.dirname(path)}); autoload -U compinit; compinit")
    return 0


def locate_completion(shell: str, get: Callable[[str], str | None]) -> str:
    """Where a shell looks for the completions of one user."""
    home = find_user_home(os.environ)
    data = get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    config = get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return {
        "bash": os.path.join(data, "bash-completion", "completions", "pal"),
        "zsh": os.path.join(data, "zsh", "site-functions", "_pal"),
        "fish": os.path.join(config, "fish", "completions", "pal.fish"),
    }[shell]


# --- the tree --------------------------------------------------------------------------------------------------


def collect_nodes() -> Iterator[CompletionNode]:
    """`pal` itself, then every command with its verbs."""
    values = {"--home": (), "--profile": ("",)}
    yield CompletionNode((), {k: about for k, (_, about) in COMMANDS.items()}, dict.fromkeys(_GLOBAL, ""), values)
    for name, (where, _) in COMMANDS.items():
        parsers = [_show_parser(where, [*words, "--help"]) for words in ((), *((w,) for w in _MORE.get(name, ())))]
        yield from _describe(name, where, [parser for parser in parsers if parser is not None])


def _describe(name: str, where: str, parsers: list[argparse.ArgumentParser]) -> Iterator[CompletionNode]:
    node = CompletionNode((name,))
    deeper: list[CompletionNode] = []
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                told = {choice.dest: choice.help or "" for choice in action._choices_actions}
                for word, row in action.choices.items():
                    node.next[word] = told.get(word, "")
                    deeper.append(_read_options(CompletionNode((name, word)), row))
            elif not action.option_strings and action.choices:
                for word in map(str, action.choices):
                    node.next.setdefault(word, "")
                    own = _show_parser(where, [word, "--help"])
                    if own is not None and own.prog == f"pal {name} {word}":
                        deeper.append(_read_options(CompletionNode((name, word)), own))
        _read_options(node, parser)
    yield node
    yield from deeper


def _read_options(node: CompletionNode, parser: argparse.ArgumentParser) -> CompletionNode:
    if isinstance(parser, CommandParser):
        parser.offer_json()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        for flag in action.option_strings:
            node.options[flag] = " ".join((action.help or "").split())
            if action.nargs != 0:
                files = str(action.metavar or action.dest).upper() in _FILES
                node.values[flag] = tuple(map(str, action.choices)) if action.choices else () if files else ("",)
        if not action.option_strings and action.choices and len(node.words) > 1:
            node.next.update(dict.fromkeys(map(str, action.choices), ""))
    return node


def _show_parser(where: str, argv: list[str]) -> argparse.ArgumentParser | None:
    """The parser that a command reads this line with. Nothing is run: it is asked for its help."""
    seen: list[CommandParser] = []
    token = SEEN_PARSERS.set(seen)
    try:
        run: Any = load_part(where)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit, PalinurusError, ImportError):
            run(argv)
    finally:
        SEEN_PARSERS.reset(token)
    return seen[0] if seen else None


# --- shells ----------------------------------------------------------------------------------------------------


def write_bash(nodes: list[CompletionNode]) -> str:
    """A function that walks the words typed so far."""
    rows = "\n".join(
        f"    {_quote(' '.join(node.words))}) words={_quote(' '.join([*node.next, *node.options]))} ;;"
        for node in nodes
    )
    values = "\n".join(
        f"    {_quote(' '.join((*node.words, flag)))}) {_write_bash_value(found)} ;;"
        for node in nodes
        for flag, found in node.values.items()
    )
    return f"""# what `pal completion bash` printed
_pal() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} at="" words="" i=1 word next
  COMPREPLY=()
  while ((i < COMP_CWORD)); do
    word=${{COMP_WORDS[i]}}
    case $word in
    --home|--profile) [[ -z $at ]] && ((i++)) ;;
    -*) ;;
    *) next="${{at:+$at }}$word"; _pal_words "$next" && at=$next ;;
    esac
    ((i++))
  done
  case "${{at:+$at }}${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
  esac
  _pal_words "$at"
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
_pal_words() {{
  case "$1" in
{rows}
    *) return 1 ;;
  esac
}}
complete -o default -F _pal pal
"""


def _write_bash_value(found: tuple[str, ...]) -> str:
    if not found:
        return 'COMPREPLY=($(compgen -f -- "$cur")); return'
    words = " ".join(filter(None, found))
    return f'COMPREPLY=($(compgen -W {_quote(words)} -- "$cur")); return' if words else "return"


def write_zsh(nodes: list[CompletionNode]) -> str:
    """The same walk, with what each word does beside it."""
    rows = []
    for node in nodes:
        told = [f"{word}:{text}".replace("\\", "") for word, text in {**node.next, **node.options}.items()]
        rows.append(f"    {_quote(' '.join(node.words))}) told=({' '.join(map(_quote, told))}) ;;")
    values = "\n".join(
        f"    {_quote(' '.join((*node.words, flag)))}) "
        + ("_files" if not found else f"compadd -- {' '.join(map(_quote, filter(None, found)))}")
        + "; return ;;"
        for node in nodes
        for flag, found in node.values.items()
    )
    return f"""#compdef pal
# what `pal completion zsh` printed
_pal_told() {{
  case "$1" in
{chr(10).join(rows)}
    *) return 1 ;;
  esac
}}
_pal() {{
  local at="" next word; local -a told; integer i=2
  while ((i < CURRENT)); do
    word=$words[i]
    case $word in
    --home|--profile) [[ -z $at ]] && ((i++)) ;;
    -*) ;;
    *) next="${{at:+$at }}$word"; _pal_told "$next" && at=$next ;;
    esac
    ((i++))
  done
  case "${{at:+$at }}$words[CURRENT-1]" in
{values}
  esac
  _pal_told "$at"
  _describe -t words pal told || _files
}}
[[ $zsh_eval_context[-1] == loadautofunc ]] && _pal "$@" || compdef _pal pal
"""


def write_fish(nodes: list[CompletionNode]) -> str:
    """A line for each word and option, with the words it may stand behind."""
    known = " ".join(_quote(" ".join(node.words)) for node in nodes if node.words)
    lines = [
        "# what `pal completion fish` printed",
        "function __pal_at",
        "  set -l at; set -l skip 0",
        "  for word in (commandline -opc)[2..]",
        "    if test $skip = 1; set skip 0; continue; end",
        "    switch $word",
        "      case --home --profile; set skip 1",
        "      case '-*'",
        f"      case '*'; set -l next (string trim \"$at $word\"); contains -- $next {known}; and set at $next",
        "    end",
        "  end",
        '  test "$at" = "$argv[1]"',
        "end",
    ]
    for node in nodes:
        when = _quote(f"__pal_at {_quote(' '.join(node.words))}".replace("'", '"'))
        lines += [f"complete -c pal -n {when} -a {_quote(word)} -d {_quote(text)}" for word, text in node.next.items()]
        for flag, text in node.options.items():
            kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            found = node.values.get(flag)
            value = (
                "" if found is None else " -r -F" if not found else f" -x -a {_quote(' '.join(filter(None, found)))}"
            )
            lines.append(f"complete -c pal -n {when} {kind}{value} -d {_quote(text)}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


WRITERS: dict[str, Callable[[list[CompletionNode]], str]] = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}
