"""A shell command in a few words for people: `node --check /tmp/app.js` -> "check JS syntax for /tmp/app.js".

A table of programs; what it does not know is shown as typed. Nothing here decides anything: it is only shown.
"""

from __future__ import annotations

import re
import shlex

from palinurus.patterns import compile_late

LENGTH = 100  # characters of an explanation
STEPS = 3  # commands of a list or pipe that are told

# What it does <- program, or program and first words. {1} is the first argument that is no option, {*} all of them; an
# explanation whose arguments are missing loses them with the words behind the bar.
_MEANINGS: dict[str, str] = {
    "check JS syntax| for {1}": "node --check, node -c",
    "run inline JS": "node -e",
    "run JS|: {1}": "node",
    "check Python syntax| for {1}": "python -m py_compile, python -m compileall",
    "run tests| in {1}": "python -m pytest, python -m unittest, pytest",
    "install| {*}": "python -m pip install, pip install, uv pip install, apt install, apt-get install, brew install",
    "make a virtual environment| in {1}": "python -m venv",
    "serve files over HTTP": "python -m http.server",
    "run module| {1}": "python -m",
    "run inline Python": "python -c",
    "run Python|: {1}": "python",
    "check shell syntax| for {1}": "bash -n, sh -n",
    "run shell command": "bash -c, sh -c",
    "run script| {1}": "bash, sh, npm run, pnpm run",
    "run tests": "tox, npm test, cargo test, go test",
    "lint| {1}": "ruff check, eslint",
    "format| {1}": "ruff format, prettier",
    "check types| of {1}": "mypy",
    "check types": "tsc",
    "install packages|: {*}": "npm install, pnpm install, pnpm add, yarn add",
    "install packages": "npm ci, yarn install, uv sync",
    "run| {1}": "npx, uv run, go run",
    "build": "cargo build, go build",
    "build and run": "cargo run",
    "make| {*}": "make",
    "list containers": "docker ps",
    "build image": "docker build",
    "run container| {1}": "docker run",
    "show logs| of {1}": "docker logs",
    "check git status": "git status",
    "show git changes": "git diff",
    "show git history": "git log",
    "show commit| {1}": "git show",
    "stage| {*}": "git add",
    "commit changes": "git commit",
    "push commits": "git push",
    "pull commits": "git pull",
    "fetch commits": "git fetch",
    "clone| {1}": "git clone",
    "check out| {1}": "git checkout",
    "switch to branch| {1}": "git switch",
    "list branches": "git branch",
    "merge| {1}": "git merge",
    "rebase| onto {1}": "git rebase",
    "stash changes": "git stash",
    "reset| to {1}": "git reset",
    'search| for "{1}"': "git grep, grep, rg",
    "list files| in {1}": "ls, tree",
    "show| {*}": "cat",
    "show| {1}": "less",
    "show the start| of {1}": "head",
    "show the end| of {1}": "tail",
    "count lines| of {1}": "wc",
    "find files| in {1}": "find",
    "find files|: {1}": "fd",
    "compare| {*}": "diff",
    "transform text": "sed",
    "process text": "awk",
    "sort lines| of {1}": "sort",
    "query JSON": "jq",
    "fetch| {url}": "curl",
    "download| {url}": "wget",
    "ping| {1}": "ping",
    "connect| to {1}": "ssh",
    "copy files| {*}": "scp, rsync",
    "create directory| {*}": "mkdir",
    "create| {*}": "touch",
    "delete| {*}": "rm",
    "copy| {*}": "cp",
    "move| {*}": "mv",
    "link| {*}": "ln",
    "change permissions": "chmod",
    "change owner": "chown",
    "pack or unpack files": "tar",
    "unpack| {1}": "unzip",
    "pack| {1}": "zip",
    "list processes": "ps",
    "stop process| {1}": "kill, pkill",
    "wait| {1} s": "sleep",
    "show disk space": "df",
    "show disk usage| of {1}": "du",
    "show the date": "date",
    "show the directory": "pwd",
    "find program| {1}": "which",
    "show the environment": "env",
    "print text": "echo, printf",
    "query| {1}": "sqlite3",
    "manage services": "systemctl",
    "show system logs": "journalctl",
}
COMMANDS: dict[str, str] = {command: what for what, names in _MEANINGS.items() for command in names.split(", ")}
_ALSO = {"python3": "python", "nodejs": "node", "pip3": "pip", "zsh": "bash", "egrep": "grep", "fgrep": "grep"}
_AHEAD = frozenset({"sudo", "time", "nohup", "command", "exec", "env", "nice"})  # words before the program
_ENDS = frozenset({"&&", "||", ";", "|", "&", "|&", "\n"})
_SET = compile_late(r"[A-Za-z_]\w*=")
_NAME = r"(?:token|secret|passw(?:or)?d|api[_-]?key|authorization)[\w-]{0,64}"
_SECRET = compile_late(  # bounded everywhere: output may be one word of any length
    rf"(?i)(\b(?:bearer|basic)\s+|{_NAME}\s*[=:]\s*(?:bearer\s+)?|-[\w-]{{0,64}}{_NAME}\s+|://[^/\s:@]{{0,256}}:)"
    r"([^\s'\"@&]{3,})"
)
_KEY = compile_late(r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abp]|AIza|AKIA)[-_]?[A-Za-z0-9_-]{12,}")


def explain_command(command: str) -> str:
    """What the command does, in one short line; the command itself if the table does not know it."""
    steps = _steps(command)
    if not steps:
        return shorten_line(command)
    told = [_tell(step) for step in steps[:STEPS]]
    if told[0] is None:
        return shorten_line(command)
    more = f", {len(steps) - STEPS} more" if len(steps) > STEPS else ""
    return shorten_line(", then ".join(t or " ".join(step) for t, step in zip(told, steps, strict=False))) + more


def shorten_line(text: str, length: int = LENGTH) -> str:
    """One line of at most `length` characters, without what looks like a secret."""
    line = " ".join(mask_secrets(text[: length * 8]).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def mask_secrets(text: str) -> str:
    """`text` with what looks like a key or a password replaced."""
    return _KEY.sub("***", _SECRET.sub(r"\1***", text))


def _steps(command: str) -> list[list[str]]:
    """The simple commands in it, without changes of directory; [] if it cannot be read."""
    lexer = shlex.shlex(command[:4000].strip().replace("\\\n", " "), posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    steps: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _ENDS or not word.strip(";&|\n"):
                steps.append([])
            else:
                steps[-1].append(word)
    except ValueError:  # a quote that is never closed
        return []
    return [step for step in map(_bare, steps) if step and step[0] not in ("cd", "set", "export", "source", ".")]


def _bare(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and (_SET.match(words[at]) or (words[at] in _AHEAD and at + 1 < len(words))):
        at += 1
    return words[at:]


def _tell(words: list[str]) -> str | None:
    program = words[0].rsplit("/", 1)[-1]
    words = [re.sub(r"^python3\.\d+$", "python", _ALSO.get(program, program)), *words[1:]]
    for count in (3, 2, 1):
        template = COMMANDS.get(" ".join(words[:count])) if len(words) >= count else None
        if template is not None:
            return _filled(template, words[count:])
    return None


def _filled(template: str, words: list[str]) -> str:
    plain = [w for w in words if not w.startswith("-") and not re.fullmatch(r"\d*[<>]{1,2}.*", w)]
    url = next((w for w in plain if "://" in w), plain[0] if plain else "")
    head, bar, tail = template.partition("|")
    if bar and not plain:
        return head
    first = plain[0] if plain else ""
    return f"{head}{tail}".replace("{1}", first).replace("{*}", " ".join(plain[:3])).replace("{url}", url)
