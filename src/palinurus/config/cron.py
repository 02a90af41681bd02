"""cron: whether jobs run, how many at once, where results may be posted, how many runs are remembered. Pure."""

from __future__ import annotations

import msgspec

from palinurus.config.schema import Config
from palinurus.config.schema.rest import CronSection
from palinurus.config.secrets import Secret

RUNS, MOST = 200, 2000


class CronSettings(msgspec.Struct, frozen=True):
    """`timezone` is for cron lines that name none."""

    enabled: bool = True
    webhook: str = ""  # for jobs that deliver by webhook and name no address
    webhook_token: Secret = Secret()
    runs: int = RUNS  # remembered of each job
    timezone: str = ""


def resolve_cron(config: Config, timezone: str) -> CronSettings:
    """The settings."""
    section = config.cron or CronSection()
    kept = (section.run_log or {}).get("keepLines") if isinstance(section.run_log, dict) else None
    token = section.webhook_token
    return CronSettings(
        enabled=section.enabled is not False,
        webhook=(section.webhook or "").strip(),
        webhook_token=Secret(token if isinstance(token, str) else ""),
        runs=min(kept, MOST) if isinstance(kept, int) and kept > 0 else RUNS,
        timezone=timezone,
    )
