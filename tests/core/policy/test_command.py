"""Wrappers, interpreters and executing options: a name never vouches for them."""

from __future__ import annotations

import pytest

from palinurus.core.policy.command import RUNNERS, classify_command, is_safe_filter
from palinurus.core.policy.exec import ExecProgram, list_storable_rules, match_programs
from palinurus.core.policy.shell import parse_command
from palinurus.core.types.approval import CommandRule, ExecRules

WRAPPED = [
    "env touch X", "env -S 'touch X'", "env FOO=1 touch X", "sudo touch X", "doas touch X", "su -c 'touch X'",
    "sh -c 'touch X'", "bash -lc 'touch X'", "dash -c 'touch X'", "zsh -c 'touch X'", "busybox touch X",
    "nohup touch X", "timeout 5 touch X", "nice touch X", "ionice -c3 touch X", "setsid touch X",
    "stdbuf -o0 touch X", "xargs touch", "parallel touch", "watch touch X", "flock /tmp/l touch X",
    "script -c 'touch X'", "find . -exec touch X", "find . -delete", "git -c core.sshCommand=x fetch",
    "git --exec-path=. x", "tar --checkpoint-action=exec=x", "tar -I x cf a", "ssh -o ProxyCommand=x h",
    "python -c x", "python3.11 -c x", "perl -e x", "node -e x", "ruby -e x", "php -r x", "awk 'BEGIN{system(1)}'",
    "sed -n 1e", "vim -c '!x'", "less x", "make", "npm run x", "npx x", "pip install x", "cargo run", "go run x",
    "docker run x", "unshare touch X", "chroot / touch X", "strace touch X", "gdb -ex x", "systemd-run touch X",
    "crontab x", "at now", "expect -c x", "command touch X", "eval touch X", "exec touch X", "rsync -e x a b",
    "zip -T -TT x a", "sort --compress-program=x", "man -P x y", "./ld-linux-x86-64.so.2 x",
]  # fmt: skip


@pytest.mark.parametrize("command", WRAPPED)
def test_no_rule_covers_a_wrapper(command: str) -> None:
    assert len(WRAPPED) >= 40
    (segment,) = parse_command(command).segments
    binary = f"/usr/bin/{segment.argv[0].rpartition('/')[2]}"
    program = ExecProgram(segment.argv, binary, binary)
    rules = [
        CommandRule(binary),
        CommandRule(segment.argv[0]),
        CommandRule("/usr/bin/*"),
        CommandRule("touch"),
        CommandRule(binary, segment.argv[1:]),
    ]
    assert match_programs((program,), rules, ExecRules()) == ("miss",)
    assert list_storable_rules((program,), ExecRules()) == ()


def test_the_name_and_the_file_behind_it_both_count() -> None:
    assert classify_command(("ls",), "/bin/busybox") == "runner"
    assert classify_command(("PYTHON3",)) == "runner" and classify_command(("python3.12.exe",)) == "runner"
    assert classify_command(("x",), "/etc/alternatives/mawk") == "runner"
    assert {"awk", "make", "npm", "env"} <= RUNNERS


NATURES = [
    ("git status", "opener"), ("git diff --ext-diff", "executes"), ("git -C x status", "executes"),
    ("tar xf a.tar", "opener"), ("tar --check=1 --checkpoint-act=exec=x xf a", "executes"),
    ("tar xfI a x", "executes"), ("find . -name x", "opener"), ("find . -fprintf x y", "executes"),
    ("find . -okdir x", "executes"), ("ls -la", "plain"), ("cat x", "plain"), ("echo x", "plain"),
    ("rm -rf x", "executes"), ("cp a b", "opener"), ("curl http://x", "opener"), ("curl -o x http://y", "executes"),
    ("curl -sSLo x http://y", "executes"), ("curl --outp=x http://y", "executes"), ("wget -O x y", "executes"),
    ("jq . x", "opener"), ("jq -rf x", "executes"), ("sort x", "opener"), ("sort --comp=x y", "executes"),
    ("sort -ro x y", "executes"), ("sed s/a/b/", "executes"), ("grep -rf x y", "executes"),
    ("rg --pre x y", "executes"), ("uniq a b", "executes"), ("rsync -ave x y", "executes"), ("fd -x rm", "executes"),
    ("fd --exec rm", "executes"), ("file -m x y", "executes"), ("date -s x", "executes"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "kind"), NATURES)
def test_natures(command: str, kind: str) -> None:
    assert classify_command(parse_command(command).segments[0].argv) == kind


FILTERS = [
    ("head", True), ("head -n 5", True), ("head -5", True), ("head -n5 -q", True), ("head -qn5", True),
    ("head -c 10", True), ("head --lines=5", True), ("head --lines 5", True), ("head --line=5", False),
    ("head --lin 5", False), ("head x", False), ("head -n 5 x", False), ("head -n", False), ("head -- x", False),
    ("head -x", False), ("head /etc/passwd", False), ("tail -n 3", True), ("tail -f", False), ("tail -F x", False),
    ("tail --follow", False), ("tail --pid=1", False), ("tail --retry", False), ("tail -n +3", True),
    ("cut -d: -f1", True), ("cut -d : -f 1", True), ("cut -f1 x", False), ("cut --output-delimiter=x -f1", True),
    ("cut --out=x -f1", False), ("uniq", True), ("uniq -c", True), ("uniq -cd", True), ("uniq in out", False),
    ("uniq -f 1", True), ("uniq --count", True), ("uniq --coun", False), ("tr a b", True), ("tr -d x", True),
    ("tr a b c", False), ("tr -ds a b", True), ("tr --delete x", True), ("tr --del x", False), ("wc", True),
    ("wc -l", True), ("wc -lwc", True), ("wc x", False), ("wc --files0-from=x", False), ("wc -", True),
    ("sort", True), ("sort -rn", True), ("sort -k 2 -t ,", True), ("sort -o x", False), ("sort -no x", False),
    ("sort --output=x", False), ("sort --compress-program=x", False), ("sort --compress-prog x", False),
    ("sort -T /x", False), ("sort x", False), ("sort --files0-from=x", False), ("sort -S 1", False), ("grep x", True),
    ("grep -i x", True), ("grep x y", False), ("grep -e x", True), ("grep -e x y", False), ("grep -f x", False),
    ("grep -rf x", False), ("grep -r x", False), ("grep --file=x", False), ("cat", False), ("jq .", False),
    ("awk 1", False), ("sed p", False), ("tee x", False),
]  # fmt: skip


@pytest.mark.parametrize(("command", "verdict"), FILTERS)
def test_filters_are_safe_only_as_filters(command: str, verdict: bool) -> None:
    assert len(FILTERS) >= 60
    assert is_safe_filter(parse_command(command).segments[0].argv) is verdict
