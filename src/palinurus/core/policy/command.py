"""What a program can be made to do by its arguments. Tables and their reading; pure.

Three kinds matter: a *runner* exists to run other things (shells, interpreters, wrappers, build tools); an
*opener* has options that run or write things; the rest is plain. A name alone never vouches for the first two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.policy.shell import parse_command
from palinurus.patterns import compile_late

Nature: TypeAlias = Literal["runner", "executes", "opener", "plain"]

_RUNNERS: dict[str, str] = {
    "shells": "sh bash dash zsh ksh mksh fish csh tcsh ash yash elvish nu pwsh powershell rbash busybox toybox",
    "words of shells": "command builtin eval exec source . trap alias hash enable coproc",
    "wrappers": (
        "env sudo doas su runuser sg newgrp pkexec run0 nohup setsid time timeout nice ionice chrt taskset stdbuf "
        "unbuffer xargs parallel watch flock script screen tmux dtach abduco expect at batch crontab systemd-run "
        "systemctl start-stop-daemon run-parts cpulimit entr inotifywait fswatch direnv logrotate catchsegv"
    ),
    "rooms": (
        "unshare nsenter chroot bwrap firejail proot fakeroot fakechroot cgexec numactl prlimit setpriv capsh "
        "setarch linux32 linux64 i386 x86_64 docker podman nerdctl kubectl lxc-attach machinectl vagrant"
    ),
    "tracers": "strace ltrace gdb lldb perf valgrind rr ld.so ld-linux.so ld-linux-x86-64.so ld-linux-aarch64.so",
    "other machines": (
        "ssh scp sftp mosh rsh rlogin telnet nc ncat netcat socat ftp lftp tftp ansible ansible-playbook fab salt "
        "git-shell git-upload-pack"
    ),
    "interpreters": (
        "python pypy ipython perl ruby irb node nodejs deno bun tsx ts-node php lua luajit tclsh wish guile "
        "racket sbcl clisp ghc runghc runhaskell scala scala-cli kotlin kotlinc groovy java javaw jshell erl "
        "elixir iex escript julia r rscript octave gnuplot maxima bc dc ocaml swift dart awk gawk mawk nawk m4"
    ),
    "editors and pagers": (
        "ed ex vi vim nvim view vimdiff rvim emacs emacsclient nano pico joe micro less more most man info pinfo "
        "lynx w3m elinks mutt pager sensible-editor sensible-pager xdg-open open see run-mailcap"
    ),
    "builders": (
        "make gmake bmake cmake ninja meson scons bazel just task rake gradle gradlew mvn ant sbt lein tox nox "
        "pytest py.test cargo rustup rustc go gofmt gcc g++ cc c++ clang clang++ tcc ld as composer mix rebar "
        "dotnet nuget stack cabal opam"
    ),
    "installers": (
        "npm npx pnpm pnpx yarn yarnpkg corepack pip pipx uv uvx poetry pdm hatch conda mamba pipenv bundle "
        "bundler gem apt apt-get aptitude dpkg rpm yum dnf zypper pacman apk brew snap flatpak nix nix-shell nix- "
        "env nix-build guix emerge asdf mise rbenv pyenv nvm volta"
    ),
    "consoles": "sqlite sqlite3 psql mysql mariadb mongo mongosh redis-cli dialog whiptail zenity",
    "agents": "pal palinurus openclaw claude codex",
}
RUNNERS: frozenset[str] = frozenset(name for group in _RUNNERS.values() for name in group.split())

# Programs with options that run or write: what those look like. An exact command may be allowed, the name may not.
OPENERS: dict[str, re.Pattern[str]] = {
    name: compile_late(pattern)
    for names, pattern in (
        ("find", r"-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls|files0-from)\b.*"),
        ("fd fdfind", r"-[A-Za-z]*[xX].*|--e[xec]*.*"),
        ("git", r"-c.*|-C.*|--c.*|--exec.*|--upload-pack.*|--receive-pack.*|-u.*|--ext-diff|--textconv|ext::.*"
                r"|-O.*|--open.*|--pager.*|--paginate|-p|--work-tree.*|--git-dir.*|bisect|filter-branch|rebase|submodule"
                r"|difftool|mergetool|config|hook|alias.*|maintenance|send-email|instaweb|web--browse|daemon"),
        ("tar bsdtar gtar", r"--check.*|--to-c.*|--use-c.*|--rsh.*|--rmt.*|--info-s.*|--new-v.*|-?[A-Za-z]*[IF].*"),
        ("cpio pax", r"--rsh.*|--to-.*"),
        ("zip", r"-[A-Za-z]*T.*|-TT.*|--unzip.*"),
        ("unzip", r"-[A-Za-z]*o.*"),
        ("sort", r"--comp.*|--com.*|-[A-Za-z]*[oT].*|--ou.*|--te.*|--files.*"),
        ("sed gsed", r"(?s).*"),
        ("rsync", r"-[A-Za-z]*e.*|--rs.*|--rsync-.*|--daemon.*|--remote.*"),
        ("wget", r"--use.*|-[A-Za-z]*[OePio].*|--out.*|--exec.*|--post.*|--body.*|--conf.*|--inp.*"),
        ("curl", r"-[A-Za-z]*[oOKTFdcDE].*|--out.*|--rem.*|--conf.*|--up.*|--data.*|--form.*|--cook.*|--dump.*"),
        ("grep egrep fgrep zgrep rg ag ack", r"-[A-Za-z]*f.*|--fil.*|--pre.*|--pager.*|--search-z.*|-z|--hostname.*"),
        ("jq yq gojq", r"-[A-Za-z]*[fLi].*|--from.*|--lib.*|--slurpf.*|--rawf.*|--argf.*|--in.*"),
        ("diff sdiff", r"-[A-Za-z]*o.*|--ou.*|--diff-p.*"),
        ("split csplit", r"--fil.*"),
        ("tee install cp mv ln rmdir mkdir touch chmod chown chgrp mkfifo", r"(?!)"),
        ("rm dd shred truncate mknod mkfs wipefs fdisk parted", r"(?s).*"),
        ("date hostname", r"-[A-Za-z]*[sfF].*|--se.*|--fi.*"),
        ("openssl gpg gpg2 ssh-keygen ssh-add ssh-agent", r"(?s).*"),
        ("ffmpeg convert magick mogrify identify pandoc latex pdflatex xelatex lualatex tex gs dot", r"(?s).*"),
        ("hg svn bzr cvs fossil p4", r"(?s).*"),
        ("mount umount losetup insmod modprobe kill pkill killall reboot shutdown halt poweroff", r"(?s).*"),
        ("iptables nft ip", r"(?s).*"),
        ("xdotool osascript xclip pbcopy dbus-send gdbus busctl notify-send", r"(?s).*"),
        ("tree", r"-[A-Za-z]*o.*|-R"),
        ("file", r"-[A-Za-z]*[mCf].*|--mag.*|--comp.*|--fil.*"),
        ("gzip gunzip bzip2 xz zstd 7z 7za unrar rar ar", r"(?!)"),
        ("top htop", r"(?s).*"),
        ("uniq", r"[^-].*"),
    )
    for name in names.split()
}  # fmt: skip

# Whatever folder and operands they get, they run nothing, write nothing and print no file's content.
_ONLOOKERS = frozenset(
    "arch basename date df dirname du echo false free groups id ls lsblk lscpu nproc printf ps pwd readlink realpath "
    "seq sleep stat true tty uname uptime w who whoami".split()
)
# They write no file of their own, as long as they are not asked to by an option that `OPENERS` names.
_READERS = _ONLOOKERS | frozenset(
    "[ cat cd cksum cmp column comm cut diff egrep expr fd fdfind fgrep file find fold grep head hexdump hostname jq "
    "less md5sum more nl od printenv rg sha1sum sha256sum sort tail test tr tree type uniq wc which".split()
)
_GIT_READS = frozenset("blame describe diff grep log ls-files ls-tree rev-parse shortlog show status".split())
_VERSIONED = compile_late(r"(?<![\d.])(?:[-.]?\d+(?:\.\d+)*[a-z]?)$")
_EXTENSION = compile_late(r"\.(?:exe|cmd|bat|ps1|com)$")


def list_program_names(path: str) -> tuple[str, ...]:
    """The names a program answers to in the tables: `python3.11` is a python, `/usr/bin/GIT` is git."""
    base = _EXTENSION.sub("", path.rpartition("/")[2].lower())
    return base, _VERSIONED.sub("", base)


def classify_command(argv: Sequence[str], binary: str = "") -> Nature:
    """What this call can do, judged by the name it is called by and by the file that name leads to."""
    called = tuple(name for path in (argv[0], binary) if path for name in list_program_names(path))
    if any(name in RUNNERS for name in called):
        return "runner"
    for name in called:
        opener = OPENERS.get(name)
        if opener is not None:
            return "executes" if any(opener.fullmatch(word) for word in argv[1:]) else "opener"
    return "plain"


def only_reads(command: str) -> bool:
    """Does a whole command line plainly write no file? A guess by names, to save looking: nothing is allowed by it."""
    parsed = parse_command(command)
    return bool(parsed.segments) and all(_reads(segment.argv) for segment in parsed.segments)


def _reads(argv: Sequence[str]) -> bool:
    if argv[0] == "git":
        return len(argv) > 1 and argv[1] in _GIT_READS and not any(word.startswith("--output") for word in argv)
    return argv[0] in _READERS and classify_command(argv) != "executes"


def is_onlooker(binary: str) -> bool:
    """Is it one of the system's programs that cannot be turned against anybody by the files around them?"""
    folder, _, name = binary.rpartition("/")
    return name in _ONLOOKERS and folder in ("/bin", "/usr/bin")


class FilterProfile(msgspec.Struct, frozen=True):
    """The options with which a filter only reads stdin and writes stdout. `operands`: words that are no files."""

    flags: str  # letters
    valued: str  # letters that take a value
    long: frozenset[str]
    long_valued: frozenset[str]
    operands: int = 0
    number: bool = False  # -5 means -n 5


def _profile(
    flags: str, valued: str, long: str, long_valued: str, operands: int = 0, number: bool = False
) -> FilterProfile:
    return FilterProfile(
        flags, valued, frozenset(long.split()), frozenset(long_valued.split()), operands=operands, number=number
    )


SAFE_FILTERS: dict[str, FilterProfile] = {
    "cut": _profile("nsz", "bcdf", "complement only-delimited zero-terminated",
                    "bytes characters delimiter fields output-delimiter"),
    "uniq": _profile("cdDiuz", "fsw", "count repeated ignore-case unique zero-terminated all-repeated",
                     "skip-fields skip-chars check-chars"),
    "head": _profile("qvz", "cn", "quiet silent verbose zero-terminated", "bytes lines", number=True),
    "tail": _profile("qvz", "cn", "quiet silent verbose zero-terminated", "bytes lines", number=True),
    "tr": _profile("cCdst", "", "complement delete squeeze-repeats truncate-set1", "", 2),
    "wc": _profile("cmlLw", "", "bytes chars lines max-line-length words", ""),
    "sort": _profile("bdfghinMRrVcCmsuz", "kt", "ignore-leading-blanks dictionary-order ignore-case numeric-sort "
                     "general-numeric-sort human-numeric-sort version-sort reverse stable unique zero-terminated",
                     "key field-separator"),
    "grep": _profile("EFGiInovwxcqslhH", "eABCm", "extended-regexp fixed-strings ignore-case invert-match count "
                     "line-number only-matching quiet silent word-regexp line-regexp",
                     "regexp after-context before-context context max-count", 1),
}  # fmt: skip


def is_safe_filter(argv: Sequence[str]) -> bool:
    """Is this a known filter used as one: no file, no option that is not listed, no abbreviation?"""
    profile = SAFE_FILTERS.get(argv[0].rpartition("/")[2])
    if profile is None:
        return False
    operands, at, open_ended = 0, 1, False
    while at < len(argv):
        word = argv[at]
        at += 1
        if open_ended or not word.startswith("-") or word == "-":
            operands += word != "-" or profile.operands > 0
        elif word == "--":
            open_ended = True
        elif profile.number and word[1:].isascii() and word[1:].isdigit():
            continue
        else:
            taken = _long(word[2:], profile) if word.startswith("--") else _short(word[1:], profile)
            if taken is None:
                return False
            at += taken
            if taken and at > len(argv):
                return False
            if list_program_names(argv[0])[0] == "grep" and (word.startswith(("-e", "--regexp"))):
                operands += 1  # with -e the first word that is no option would be a file
    return operands <= profile.operands


def _long(word: str, profile: FilterProfile) -> int | None:
    """How many further words it takes; None if it is not listed. An abbreviation is not."""
    name, equals, _ = word.partition("=")
    if name in profile.long and (not equals or name == "all-repeated"):
        return 0
    if name in profile.long_valued:
        return 0 if equals else 1
    return None


def _short(cluster: str, profile: FilterProfile) -> int | None:
    for index, letter in enumerate(cluster):
        if letter in profile.valued:
            return 0 if index + 1 < len(cluster) else 1
        if letter not in profile.flags:
            return None
    return 0
