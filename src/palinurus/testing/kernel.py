"""A kernel that lacks something: the calling process, and all it starts, is refused system calls by name, for good.

For processes that a test starts: `refuse_calls` first, then what is tested. The refusal is the kernel's own.
"""

from __future__ import annotations

import errno

from palinurus.tools.sandbox.confine import forbid_new_privileges
from palinurus.tools.sandbox.seccomp import SeccompRule, install_rules
from palinurus.tools.sandbox.syscalls import detect_machine

# What to refuse for a machine without Landlock, and for one on which nobody may make namespaces.
NO_LANDLOCK = ("landlock_create_ruleset",)
NO_NAMESPACES = ("unshare", "mount", "mount_setattr", "open_tree")


def refuse_calls(*names: str) -> None:
    """Refuse these, as a kernel does that does not have them (ENOSYS). Raises OSError where there are no filters."""
    machine = detect_machine()
    if machine is None:
        raise OSError(errno.ENOSYS, "no filter of system calls on this machine")
    forbid_new_privileges()
    install_rules(machine, [SeccompRule(name, errno.ENOSYS) for name in names])
