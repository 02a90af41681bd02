"""The environment of children: an allowlist, and names a model may not set."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from palinurus.tools.commands.environ import build_child_env, build_search_path, explain_refused_variable

CODE = (
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PYTHONPATH",
    "PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "PERLLIB", "RUBYOPT",
    "RUBYLIB", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_CONFIG_GLOBAL", "GIT_ASKPASS", "PAGER",
    "EDITOR", "VISUAL", "LESSOPEN", "LESSCLOSE", "npm_config_prefix", "PIP_INDEX_URL", "PIP_CONFIG_FILE",
    "RUSTUP_HOME", "RUSTC_WRAPPER", "CARGO_HOME", "CLOUDSDK_PYTHON", "SHELLOPTS", "BASHOPTS", "PS4",
    "PROMPT_COMMAND", "IFS", "CDPATH", "PATH", "HOME", "SHELL", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH",
    "HTTP_PROXY", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "GCONV_PATH", "LOCPATH",
    "HOSTALIASES", "MALLOC_CHECK_", "TERMINFO", "MANPAGER", "BROWSER", "SUDO_ASKPASS", "TAR_OPTIONS", "RSYNC_RSH",
    "CVS_RSH", "SVN_SSH", "HGRCPATH", "LUA_PATH", "PHPRC", "PHP_INI_SCAN_DIR", "DOTNET_STARTUP_HOOKS",
    "COR_PROFILER", "CORECLR_PROFILER", "GOFLAGS", "GOPROXY", "CC", "CXX", "CFLAGS", "MAKEFLAGS", "VIMINIT",
    "EMACSLOADPATH", "ZDOTDIR", "SSH_ASKPASS", "SSH_AUTH_SOCK", "DOCKER_HOST", "KUBECONFIG", "AWS_CONFIG_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS", "XDG_CONFIG_HOME", "GIO_EXTRA_MODULES", "GTK_MODULES", "QT_PLUGIN_PATH",
    "TMPDIR", "OPENSSL_CONF", "INPUTRC", "AWKPATH", "OPENCLAW_SHELL", "PALINURUS_CALL",
)  # fmt: skip


def test_variables_that_are_code() -> None:
    for name in CODE:
        assert explain_refused_variable(name, "x") and explain_refused_variable(name.lower(), "x"), name
        if name not in ("PATH", "HOME", "SHELL", "TMPDIR"):
            assert name not in build_child_env({name: "x"}, {})


@pytest.mark.parametrize("name", ["FOO", "MY_TOKEN", "NODE_ENV", "RUST_LOG", "DEBUG", "CI", "_x1"])
def test_ordinary_variables(name: str) -> None:
    assert explain_refused_variable(name, "value") == ""


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A\x00", "\u00c4", "x" * 200])
def test_what_is_no_name(name: str) -> None:
    assert "no name" in explain_refused_variable(name, "x")


def test_values() -> None:
    assert "NUL" in explain_refused_variable("A", "a\x00b")
    assert "longer" in explain_refused_variable("A", "x" * 40_000)


def test_the_allowlist() -> None:
    ours = {
        "PATH": "/evil",
        "TERM": "xterm",
        "HOME": "/home/me",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TZ": "UTC",
        "USER": "me",
        "OPENAI_API_KEY": "canary",
        "LC_evil()": "x",
    }
    assert build_child_env(ours, {"DECLARED": "yes", "bad name": "x", "NUL": "a\x00"}) == {
        "PATH": build_search_path(),
        "TERM": "dumb",
        "HOME": "/home/me",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TZ": "UTC",
        "USER": "me",
        "DECLARED": "yes",
    }


def test_there_are_enough_names() -> None:
    assert len(set(CODE)) >= 80


def test_a_child_sees_none_of_them(tmp_path: Path) -> None:
    """The gateway's environment and a workspace's .env file are full of them."""
    (tmp_path / ".env").write_text("".join(f"{name}=canary\n" for name in CODE))
    env = build_child_env(dict.fromkeys(CODE, "canary"), {})
    out = subprocess.run(["/usr/bin/env"], env=env, cwd=tmp_path, capture_output=True, check=True, text=True).stdout
    seen = dict(line.split("=", 1) for line in out.splitlines())
    assert {name for name, value in seen.items() if value == "canary"} <= {"HOME", "SHELL", "TMPDIR"}
    assert seen["PATH"] == build_search_path()


async def test_a_call_that_sets_one_runs_nothing(do: Any, workspace: Path) -> None:
    for name in CODE:
        result = await do("exec", command="touch ran", env={name: "x"})
        assert result.isError and name in result.text and not (workspace / "ran").exists(), name
