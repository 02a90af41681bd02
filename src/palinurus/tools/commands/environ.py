"""The environment of child processes: built from an allowlist, never inherited; and our own kept from them.

`build_child_env` is called once at start; `explain_refused_variable` judges what a model asks for. A variable can be
code (LD_PRELOAD, BASH_ENV, GIT_SSH_COMMAND …), so what is not known to be harmless data is not passed on.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping

from palinurus.patterns import compile_late
from palinurus.tools.commands.toolchains import find_developer_tools

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def hide_process() -> bool:
    """Make this process unreadable for others of the same user. True if the kernel did; called once at start.

    A child could read /proc/<gateway>/environ, where the API keys are. Of a process that is not dumpable it cannot
    (root still can; there the sandbox has to help)."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return False
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return bool(prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0)


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin"
_KEPT = ("HOME", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_NAME = compile_late(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MAX_VALUE = 32_768

# Variables that make some program load, run or reinterpret things. Compared in upper case.
_PREFIXES = (
    "LD_", "DYLD_", "PYTHON", "PERL", "RUBY", "GIT_", "NODE_", "NPM_", "YARN_", "PNPM_", "PIP_", "UV_", "BUN_",
    "DENO_", "BUNDLE_", "GEM_", "CARGO_", "RUST", "GCC_", "CCC_", "JAVA_", "JDK_", "_JAVA", "MAVEN_", "GRADLE_",
    "CLASSPATH", "LUA_", "PHP", "TCL", "R_", "JULIA_", "GUILE_", "ERL_", "ELIXIR_", "MIX_", "DOTNET_", "CORECLR_",
    "COR_", "MONO_", "LESS", "SSH_", "SVN_", "HG", "CLOUDSDK_", "AWS_", "GOOGLE_", "AZURE_", "DOCKER_", "KUBE",
    "HELM_", "TF_", "ANSIBLE_", "BASH_", "ZSH", "ZDOT", "KSH", "FPATH", "GLIBC_", "GCONV_", "MALLOC_", "LOCPATH",
    "NLSPATH", "HOSTALIASES", "RES_", "OPENSSL_", "SSL_", "CURL_", "REQUESTS_", "GIO_", "GTK_", "QT_", "XDG_",
    "DBUS_", "SYSTEMD_", "INVOCATION_", "VIM", "NVIM", "EMACS", "MAKEFLAGS", "MFLAGS", "CMAKE_", "PKG_CONFIG",
    "VIRTUAL_ENV", "CONDA_", "OPENCLAW_", "PALINURUS_",
)  # fmt: skip
_EXACT = frozenset(
    (
        "PATH", "HOME", "SHELL", "USER", "LOGNAME", "ENV", "IFS", "CDPATH", "SHELLOPTS", "BASHOPTS", "PS0",
        "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND", "FCEDIT", "EDITOR", "VISUAL", "PAGER", "MANPAGER",
        "BROWSER", "TERMINFO", "TERMINFO_DIRS", "TERMCAP", "TMPDIR", "TMP", "TEMP", "GLOBIGNORE", "EXECIGNORE",
        "HISTFILE", "MAIL", "MAILPATH", "POSIXLY_CORRECT", "CC", "CXX", "CPP", "LDFLAGS", "CFLAGS", "CXXFLAGS",
        "CPPFLAGS", "GOFLAGS", "GOROOT", "GOPATH", "GOPROXY", "GOENV", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
        "NO_PROXY", "FTP_PROXY", "SUDO_ASKPASS", "SUDO_EDITOR", "TAR_OPTIONS", "GREP_OPTIONS", "RSYNC_RSH",
        "CVS_RSH", "INPUTRC", "WGETRC", "CURLRC", "NETRC", "GNUPGHOME", "PGPASSFILE", "PSQLRC", "PSQL_EDITOR",
        "MYSQL_HOME", "SQLITE_HISTORY", "JAVA_TOOL_OPTIONS", "GDK_PIXBUF_MODULE_FILE", "WINEDLLPATH", "MANPATH",
        "MANOPT", "GROFF_TMAC_PATH", "AWKPATH", "AWKLIBPATH",
    )
)  # fmt: skip

_HARMLESS = frozenset({"NODE_ENV", "RUST_LOG", "RUST_BACKTRACE"})


def build_search_path() -> str:
    """The PATH of tools. Our own commands come last: `pal` is found wherever it was installed, and shadows nothing."""
    return f"{PATH}:{os.path.dirname(sys.executable)}"


def build_child_env(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of tool processes: a fixed PATH, at its end the owner's tools, where they shadow nothing,
    the harmless part of ours, and what the owner declared."""
    kept = {name: environ[name] for name in _KEPT if environ.get(name)}
    kept |= {name: value for name, value in environ.items() if re.fullmatch(r"LC_[A-Z]+", name)}
    own = find_developer_tools(environ.get("HOME") or "/nonexistent", environ.get("PATH", "")).folders
    declared = {name: value for name, value in extra.items() if _NAME.fullmatch(name) and "\x00" not in value}
    return {"PATH": os.pathsep.join((build_search_path(), *own)), "TERM": "dumb", **kept, **declared}


def explain_refused_variable(name: str, value: str) -> str:
    """Why a variable asked for in a tool call is not set; "" if it is."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is no name for an environment variable"
    upper = name.upper()
    if upper not in _HARMLESS and (upper in _EXACT or upper.startswith(_PREFIXES)):
        return f"{name} may not be set for commands: it can change what programs load or run"
    if "\x00" in value or len(value) > MAX_VALUE:
        return f"the value of {name} contains a NUL character or is longer than {MAX_VALUE} characters"
    return ""
