#!/bin/sh
# Which Python `make` uses: the one that is called python3, unless that was built without the compiler's profile (as pyenv
# does if not told otherwise) and the system's own will do: a start takes a third less there (docs/decisions/0126).
# PYTHON=... decides instead.
will_do='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
quick='import sys, sysconfig; sys.exit("--enable-optimizations" not in (sysconfig.get_config_var("CONFIG_ARGS") or ""))'
system=${SYSTEM_PYTHON:-/usr/bin/python3}
if ! python3 -c "$quick" 2>/dev/null && "$system" -c "$will_do" 2>/dev/null; then
  echo "$system"
else
  echo python3
fi
