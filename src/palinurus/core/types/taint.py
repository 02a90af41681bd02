"""What the configuration says about untrusted content: which effects pass unasked, and where data may go. Values only.

The rules themselves are in `core/policy/taint.py`.
"""

from __future__ import annotations

import msgspec

# Places whose owners cannot be the author of a page, and whose visitors the author cannot see.
SAFE_HOSTS = (
    "datatracker.ietf.org", "developer.mozilla.org", "doc.rust-lang.org", "docs.djangoproject.com", "docs.docker.com",
    "docs.github.com", "docs.python.org", "docs.rs", "go.dev", "kubernetes.io", "learn.microsoft.com", "man7.org",
    "nodejs.org", "www.gnu.org", "www.postgresql.org", "www.rfc-editor.org", "www.sqlite.org", "wikipedia.org",
)  # fmt: skip


class TaintRules(msgspec.Struct, frozen=True):
    """tools.taint"""

    enabled: bool = True
    allow: tuple[str, ...] = ()  # tools that need no question; "exec:network" leaves commands their network
    hosts: tuple[str, ...] = SAFE_HOSTS  # pages here, and below these names, are fetched unasked
