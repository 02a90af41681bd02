"""Commands and the network once untrusted content was read: who keeps it, and whose words a command prints. Pure.

The machine's own files leave the network to steps that fetch what a project has declared, as long as what steers them
is older than the untrusted content. Nothing that runs a project's code keeps it: the model may have written that code a
second ago. What a command with a network prints may be anybody's words.
"""

from __future__ import annotations

import re
from itertools import dropwhile, pairwise
from typing import Literal, TypeAlias

from palinurus.core.policy.looking import explain_refused_look
from palinurus.core.policy.shell import parse_command
from palinurus.core.policy.taint import Taint, is_from_outside, is_reason_to_ask
from palinurus.core.types.approval import TaintRules
from palinurus.patterns import compile_late

# open: as it is; look: it is, unless the files of `list_manifests` are newer than the taint; closed: none.
NetworkVerdict: TypeAlias = Literal["open", "look", "closed"]

MAX_WORD = 4096
LIFECYCLE = frozenset(("preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare"))
_NODE = ("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "package-lock.json", "pnpm-lock.yaml",
         "yarn.lock")  # fmt: skip
_PYTHON_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "pip.conf", "uv.toml", "uv.lock")
# Steps that fetch: their words, how many operands they may have (-1: any), and the files that steer them. Those of git
# are held by the watch (tools/persona).
_FETCHING: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {
    ("git", "fetch"): (-1, ()), ("git", "pull"): (-1, ()), ("git", "push"): (-1, ()),
    ("npm", "ci"): (0, _NODE), ("npm", "install"): (0, _NODE), ("pnpm", "install"): (0, _NODE),
    ("yarn", "install"): (0, _NODE), ("pip", "install"): (0, _PYTHON_FILES), ("uv", "sync"): (0, _PYTHON_FILES),
    ("uv", "lock"): (0, _PYTHON_FILES),
    ("cargo", "fetch"): (0, ("Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".cargo/config")),
    ("go", "mod", "download"): (0, ("go.mod", "go.sum", "go.work")),
    ("bundle", "install"): (0, ("Gemfile", "Gemfile.lock", ".bundle/config")),
}  # fmt: skip
# Options of git after which a word stands for itself; after any other, which may be cut off, it can be the option's.
_GIT_FLAGS = frozenset(
    "-- -u --set-upstream -f --force --force-with-lease --tags --all --prune -p -q --quiet -v --verbose --rebase "
    "--ff-only --no-ff -n --dry-run --follow-tags --no-verify -d --delete --atomic --autostash".split()
)
# What leaves the files of a project as they are
_STILL = frozenset("add blame branch commit describe diff fetch grep log push reflog rev-parse show status tag".split())
_VALUED = frozenset(("-r", "-c", "--requirement", "--constraint"))  # options of pip whose value is a file
_REMOTE = compile_late(r"[\w][\w.-]*")
MAX_CLIMB = 6  # folders above one that are looked at
_GLUE = frozenset(("cd", "echo", "ls", "cat", "true", "pwd"))
_PYTHON = compile_late(r"python(?:3(?:\.\d+)?)?")
_DANGEROUS = compile_late(
    r"--(?:index-url|extra-index-url|registry|upload-pack|receive-pack|exec|find-links)\b|-[cif]$"
)

# Programs that print what is on this machine and nothing else; git by its first word.
_LOCAL = frozenset(
    "arch awk base64 basename bc bunzip2 bzip2 cal cat cd chmod cksum cmp column comm cp cut date dd df diff "
    "dirname dmesg du echo egrep env expand export expr factor false fgrep file find fmt fold free getconf grep "
    "gunzip gzip head hexdump hostname iconv id install join jq kill less ln locale ls lsblk lsof md5sum mkdir "
    "mktemp more mv nl nproc numfmt od paste patch pathchk pgrep popd pr printenv printf ps pushd pwd readlink "
    "realpath rename rev rg rm rmdir sed seq set sha1sum sha256sum sha512sum shuf sleep sort split stat strings sum "
    "tac tail tar tee test touch tput tr tree true truncate tsort tty type ulimit umask uname unexpand uniq unset "
    "unxz unzip uptime users vmstat w wc which who whoami xxd xz xzcat yes yq zcat zgrep zip".split()
)
_GIT = frozenset(
    "add am apply bisect blame branch checkout cherry-pick clean commit config describe diff grep init log merge mv "
    "rebase reflog reset restore revert rev-parse rm show stash status switch tag worktree".split()
)
_PROJECT = frozenset(
    "make pytest tox nox mvn gradle ctest cmake ninja npm pnpm yarn node cargo go bundle rake uv sh bash dash ruff "
    "mypy eslint tsc gcc g++ cc clang rustc javac java ruby perl php dotnet meson pip".split()
)
# Programs among these that run others if a word says so: what then runs may be a project's code.
_RUNNING: dict[str, re.Pattern[str]] = {
    "awk": compile_late(r"system\s*\(|\||/inet|^-[fEil]|^--(?:file|exec|include|load)"),
    "find": compile_late(r"^-(?:exec|ok)(?:dir)?$"),
    "git": compile_late(r"^(?:run|-x.*|--exec.*|-O.*|--open-files-in-pager.*|--ext-diff|--textconv)$"),
    "rg": compile_late(r"^--(?:pre(?:=|$)|hostname-bin)"),
    "sed": compile_late(r"(?:^|[\s;{}\d$/])e(?:\s|$)|[/|,#!:;][gipmIM0-9]*e[gipmIM0-9]*$|^-\w*f|^--file"),
    "sort": compile_late(r"^--compress-program"),
    "split": compile_late(r"^--filter"),
    "tar": compile_late(r"^--(?:to-command|checkpoint-action|use-compress|info-script|new-volume|rsh|rmt)|^-\w*[IF]"),
    "zip": compile_late(r"^-\w*TT|^--unzip-command"),
}
_ASSIGNED = compile_late(r"[A-Za-z_]\w*=")
_NETWORKED = compile_late(
    r"(?:^|[\s;|&(`'\"/])(?:curl|wget|nc|ncat|socat|ssh|scp|sftp|rsync|ftp|gh|glab|aws|gcloud|az|kubectl|docker|podman"
    r"|dig|host|nslookup|whois|ping|lynx|w3m|links|httpie?|https|xh|aria2c|youtube-dl|yt-dlp|telnet)(?:[\s;|&)'\"]|$)"
    r"|urllib|requests\.|httpx|aiohttp|fetch\(|http\.client|socket|LWP|Net::HTTP|/dev/tcp",
)


def names_address(word: str) -> bool:
    """Does the word look like a place on the network, or an option that names one? Long words do."""
    return bool(_DANGEROUS.match(word)) or _is_place(word)


def _is_place(word: str) -> bool:
    at = word.find("@")
    return len(word) > MAX_WORD or "://" in word or (at >= 0 and ":" in word[at:]) or word.startswith(("//", "ext::"))


def judge_network(command: str, taint: Taint, rules: TaintRules) -> NetworkVerdict:
    """What becomes of the network that the command's sandbox gives it. With content from outside it is none."""
    if not is_reason_to_ask(rules, "exec:network", taint):
        return "open"
    if is_from_outside(taint):
        return "closed"
    changes = False  # has one before it brought other files, from wherever git keeps them?
    for one in (parsed := parse_command(command)).segments:
        step = _find_step(one.argv)
        if step is None or (changes and step[1]):
            return "closed"
        changes = changes or (one.argv[0] == "git" and one.argv[1:2] != () and one.argv[1] not in _STILL)
    return "look" if parsed.segments else "closed"


def list_manifests(command: str, depth: int = 0) -> tuple[str, ...]:
    """The files that say what the fetching steps of a command do, as seen from the folder they run in. Programs look in
    the folders above, too: those of `depth` steps."""
    found: dict[str, None] = {}
    folder = ""
    for segment in parse_command(command).segments:
        argv = _strip_python(segment.argv)
        if argv[0] == "cd" and len(argv) == 2:
            folder = f"{argv[1]}/"
        names = (_find_step(segment.argv) or (0, ()))[1]
        values = [argv[at + 1] for at, word in enumerate(argv[:-1]) if word in _VALUED]
        if argv[0] == "git":  # a folder of that name is a repository, whose hooks run
            values += [word for word in argv[2:] if not word.startswith("-") and argv[1] in ("fetch", "pull", "push")]
        above = ("../" * up for up in range(min(depth + folder.count("/"), MAX_CLIMB) + 1))
        found.update(dict.fromkeys(f"{folder}{up}{name}" for up in above for name in (*names, *values)))
    return tuple(found)


def _strip_python(argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv[2:] if len(argv) > 2 and _PYTHON.fullmatch(argv[0]) and argv[1] == "-m" else argv


def _names_repository(rest: tuple[str, ...]) -> bool:
    """May a word for git mean another repository than one that it knows by a name: host:path, a folder?"""
    named = False  # old:new is a branch once the name of a remote stands before it
    for before, word in pairwise(rest):
        if word.startswith("-") and not word.startswith("--rep"):
            continue
        if word.startswith("--rep") or (not named and not _REMOTE.fullmatch(word)):
            return True
        named = named or not before.startswith("-") or before in _GIT_FLAGS
    return False


def _find_step(argv: tuple[str, ...]) -> tuple[int, tuple[str, ...]] | None:
    """The row of the table; None for what is no fetching step."""
    argv = _strip_python(argv)
    if argv[0] in _GLUE:
        return 0, ()
    row = next((row for words, row in _FETCHING.items() if argv[: len(words)] == words), None)
    if row is None:
        return (0, ()) if argv[0] == "git" and len(argv) > 1 and argv[1] in _GIT - {"config"} else None
    rest = argv[1:]
    if any(names_address(word) and word not in _VALUED for word in rest):
        return None
    if argv[0] == "git" and _names_repository(rest):
        return None
    operands = [
        word for at, word in enumerate(rest) if not word.startswith("-") and (at == 0 or rest[at - 1] not in _VALUED)
    ]
    known = 2 if argv[:2] == ("go", "mod") else 1
    return row if row[0] < 0 or len(operands) <= known else None


def classify_output(command: str, typed: str = "") -> str:
    """Whose words a command prints that had a network: "command" for the machine's own, "network" where a project's
    code ran that may have used it, "web" for all that fetches, names an address or is not known. `typed` into it since:
    no shell's words need to be, so only what looks like the network counts."""
    told = f"{command}\n{typed}"
    if _NETWORKED.search(told) or any(map(_is_place, told.split()[:2000])):
        return "web"
    parsed = parse_command(command)
    if not parsed.segments:
        # not understood word by word; nothing in it looks like the network, but its parts may be anything
        return "network"
    kinds = {_classify(one.argv) for one in parsed.segments}
    return next(kind for kind in ("web", "network", "command") if kind in kinds)


def _classify(argv: tuple[str, ...]) -> str:
    name = argv[0].rpartition("/")[2]
    if name == "env" and len(argv) > 1:  # what it runs counts; options may be anything
        rest = tuple(dropwhile(_ASSIGNED.match, argv[1:]))
        return "command" if not rest else _classify(rest) if not rest[0].startswith("-") else "network"
    if (runs := _RUNNING.get(name)) is not None and any(map(runs.search, argv[1:])):
        return "network"
    if name == "git":
        return "command" if len(argv) > 1 and argv[1] in _GIT else "network"
    if name in _LOCAL or (argv[0] == "pal" and not explain_refused_look(argv[1:])):  # what the program says of itself
        return "command"
    local = "/" in argv[0] or name in _PROJECT or _PYTHON.fullmatch(name)
    if len(argv) == 2 and argv[1] in ("--version", "-V", "--help"):
        return "command"
    return "network" if local else "web"
