"""A shell command in a few words for people: `node --check /tmp/app.js` -> "check JS syntax for /tmp/app.js".

A table of programs; what it does not know is shown as typed. Nothing here decides anything: it is only shown.
"""

from __future__ import annotations

import re
import shlex

LENGTH = 100  # characters of an explanation
STEPS = 3  # commands of a list or pipe that are told

# program, or program and first words -> what it does. {1} is the first argument that is no option, {*} all of
# them; an explanation whose arguments are missing loses them with the words behind the bar.
COMMANDS: dict[str, str] = {
    "node --check": "check JS syntax| for {1}",
    "node -c": "check JS syntax| for {1}",
    "node -e": "run inline JS",
    "node": "run JS|: {1}",
    "python -m py_compile": "check Python syntax| for {1}",
    "python -m compileall": "check Python syntax| for {1}",
    "python -m pytest": "run tests| in {1}",
    "python -m unittest": "run tests| in {1}",
    "python -m pip install": "install| {*}",
    "python -m venv": "make a virtual environment| in {1}",
    "python -m http.server": "serve files over HTTP",
    "python -m": "run module| {1}",
    "python -c": "run inline Python",
    "python": "run Python|: {1}",
    "bash -n": "check shell syntax| for {1}",
    "sh -n": "check shell syntax| for {1}",
    "bash -c": "run shell command",
    "sh -c": "run shell command",
    "bash": "run script| {1}",
    "sh": "run script| {1}",
    "pytest": "run tests| in {1}",
    "tox": "run tests",
    "ruff check": "lint| {1}",
    "ruff format": "format| {1}",
    "mypy": "check types| of {1}",
    "eslint": "lint| {1}",
    "prettier": "format| {1}",
    "tsc": "check types",
    "npm install": "install packages|: {*}",
    "npm ci": "install packages",
    "npm test": "run tests",
    "npm run": "run script| {1}",
    "npx": "run| {1}",
    "pnpm install": "install packages|: {*}",
    "pnpm add": "install packages|: {*}",
    "pnpm run": "run script| {1}",
    "yarn install": "install packages",
    "yarn add": "install packages|: {*}",
    "pip install": "install| {*}",
    "uv pip install": "install| {*}",
    "uv sync": "install packages",
    "uv run": "run| {1}",
    "apt install": "install| {*}",
    "apt-get install": "install| {*}",
    "brew install": "install| {*}",
    "cargo build": "build",
    "cargo test": "run tests",
    "cargo run": "build and run",
    "go build": "build",
    "go test": "run tests",
    "go run": "run| {1}",
    "make": "make| {*}",
    "docker ps": "list containers",
    "docker build": "build image",
    "docker run": "run container| {1}",
    "docker logs": "show logs| of {1}",
    "git status": "check git status",
    "git diff": "show git changes",
    "git log": "show git history",
    "git show": "show commit| {1}",
    "git add": "stage| {*}",
    "git commit": "commit changes",
    "git push": "push commits",
    "git pull": "pull commits",
    "git fetch": "fetch commits",
    "git clone": "clone| {1}",
    "git checkout": "check out| {1}",
    "git switch": "switch to branch| {1}",
    "git branch": "list branches",
    "git merge": "merge| {1}",
    "git rebase": "rebase| onto {1}",
    "git stash": "stash changes",
    "git reset": "reset| to {1}",
    "git grep": 'search| for "{1}"',
    "ls": "list files| in {1}",
    "tree": "list files| in {1}",
    "cat": "show| {*}",
    "less": "show| {1}",
    "head": "show the start| of {1}",
    "tail": "show the end| of {1}",
    "wc": "count lines| of {1}",
    "grep": 'search| for "{1}"',
    "rg": 'search| for "{1}"',
    "find": "find files| in {1}",
    "fd": "find files|: {1}",
    "diff": "compare| {*}",
    "sed": "transform text",
    "awk": "process text",
    "sort": "sort lines| of {1}",
    "jq": "query JSON",
    "curl": "fetch| {url}",
    "wget": "download| {url}",
    "ping": "ping| {1}",
    "ssh": "connect| to {1}",
    "scp": "copy files| {*}",
    "rsync": "copy files| {*}",
    "mkdir": "create directory| {*}",
    "touch": "create| {*}",
    "rm": "delete| {*}",
    "cp": "copy| {*}",
    "mv": "move| {*}",
    "ln": "link| {*}",
    "chmod": "change permissions",
    "chown": "change owner",
    "tar": "pack or unpack files",
    "unzip": "unpack| {1}",
    "zip": "pack| {1}",
    "ps": "list processes",
    "kill": "stop process| {1}",
    "pkill": "stop process| {1}",
    "sleep": "wait| {1} s",
    "df": "show disk space",
    "du": "show disk usage| of {1}",
    "date": "show the date",
    "pwd": "show the directory",
    "which": "find program| {1}",
    "env": "show the environment",
    "echo": "print text",
    "printf": "print text",
    "sqlite3": "query| {1}",
    "systemctl": "manage services",
    "journalctl": "show system logs",
}
_ALSO = {"python3": "python", "nodejs": "node", "pip3": "pip", "zsh": "bash", "egrep": "grep", "fgrep": "grep"}
_AHEAD = frozenset({"sudo", "time", "nohup", "command", "exec", "env", "nice"})  # words before the program
_ENDS = frozenset({"&&", "||", ";", "|", "&", "|&", "\n"})
_SET = re.compile(r"[A-Za-z_]\w*=")
_NAME = r"(?:token|secret|passw(?:or)?d|api[_-]?key|authorization)[\w-]{0,64}"
_SECRET = re.compile(  # bounded everywhere: output may be one word of any length
    rf"(?i)(\b(?:bearer|basic)\s+|{_NAME}\s*[=:]\s*(?:bearer\s+)?|-[\w-]{{0,64}}{_NAME}\s+|://[^/\s:@]{{0,256}}:)"
    r"([^\s'\"@&]{3,})"
)
_KEY = re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abp]|AIza|AKIA)[-_]?[A-Za-z0-9_-]{12,}")


def explain_command(command: str) -> str:
    """What the command does, in one short line; the command itself if the table does not know it."""
    steps = _steps(command)
    if not steps:
        return shorten_line(command)
    told = [_tell(step) for step in steps[:STEPS]]
    if told[0] is None:
        return shorten_line(command)
    more = f", {len(steps) - STEPS} more" if len(steps) > STEPS else ""
    return (
        shorten_line(", then ".join(t or " ".join(step) for t, step in zip(told, steps, strict=False)), LENGTH) + more
    )


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
