"""config.*: reading and changing the config file. Secrets leave as a marker, and the marker keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus import __version__
from palinurus.config import explain, paths, rewrite
from palinurus.config.explain import KeyExplanation, explain_key
from palinurus.config.load import ConfigReading, load_config, read_config
from palinurus.config.rewrite import ConfigChange, StaleConfig, digest_config
from palinurus.config.secrets import redact_config
from palinurus.errors import BadRequest, ConfigError, PalinurusError
from palinurus.gateway.context import refuse_in_fleet
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams


class ConfigKeyParams(MethodParams, frozen=True):
    path: Annotated[str, Meta(min_length=1, max_length=1024)]


async def explain_config_key(call: MethodCall, asked: ConfigKeyParams) -> dict[str, Any]:
    """As `pal config explain` says it; secrets are masked."""
    program = call.program

    def look() -> KeyExplanation:
        return explain_key(load_config(program.settings.home, program.environ), asked.path)

    found = await asyncio.to_thread(look)
    return dict(msgspec.to_builtins(found, enc_hook=str))


class ConfigSetParams(MethodParams, frozen=True):
    raw: NonEmpty
    base_hash: NonEmpty | None = None


class ConfigApplyParams(ConfigSetParams, frozen=True):
    session_key: str | None = None
    delivery_context: dict[str, Any] | None = None
    note: str | None = None
    restart_delay_ms: Annotated[int, Meta(ge=0)] | None = None


class ConfigPatchParams(ConfigApplyParams, frozen=True):
    replace_paths: tuple[NonEmpty, ...] = ()


async def get_config(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """The file as it stands, judged; secrets as the marker."""
    program = call.program
    file = paths.locate_config_file(program.settings.home)
    found = await asyncio.to_thread(read_config, file, program.settings.home, program.environ)
    shown = redact_config(found.raw)
    return {
        "path": file,
        "exists": found.data is not None,
        # The text itself can be shown only if nothing in it had to be replaced.
        "raw": found.text if shown == found.raw else None,
        "parsed": shown,
        "sourceConfig": shown,
        "resolved": shown,
        "config": shown,
        "hash": digest_config(found.data),
        "valid": not any(problem.fatal for problem in found.problems),
        "issues": _issues(found, fatal=True),
        "warnings": [*_issues(found, fatal=False), *({**one, "inert": True} for one in _issues(found, inert=True))],
        "legacyIssues": [],
    }


def _issues(found: ConfigReading, *, fatal: bool = False, inert: bool = False) -> list[dict[str, Any]]:
    told = [problem for problem in (found.inert if inert else found.problems) if problem.fatal is fatal]
    return [{"path": p.path, "message": p.message, "line": p.line, "hint": p.hint} for p in told]


async def replace_config(call: MethodCall, asked: ConfigSetParams) -> dict[str, Any]:
    """Write the whole file."""
    program = call.program
    return await _write(
        call, lambda: rewrite.replace_config(program.settings.home, program.environ, asked.base_hash, asked.raw)
    )


async def merge_config(call: MethodCall, asked: ConfigPatchParams) -> dict[str, Any]:
    """Lay a merge patch over the file."""
    program = call.program
    home, whole = program.settings.home, asked.replace_paths
    work = partial(rewrite.merge_config, home, program.environ, asked.base_hash, asked.raw, whole=whole)
    return await _write(call, work)


@contextmanager
def translate_config_errors() -> Iterator[None]:
    """What is wrong with a config that somebody wants written, as clients are told it."""
    try:
        yield
    except ConfigError as exc:
        issues = [{"path": p.path, "message": p.message, "hint": p.hint} for p in exc.problems]
        raise MethodError(f"invalid config: {exc.problems[0]}", details={"issues": issues}) from None
    except (StaleConfig, BadRequest) as exc:
        raise MethodError(exc.message) from None
    except PalinurusError as exc:
        raise MethodError(exc.message, code="UNAVAILABLE", retryable=True) from None


async def _write(call: MethodCall, work: Callable[[], ConfigChange]) -> dict[str, Any]:
    await refuse_in_fleet(call)
    with translate_config_errors():
        done = await asyncio.to_thread(work)
    return {
        "ok": True,
        "path": done.file,
        "config": redact_config(done.raw),
        "hash": done.hash,
        "changedPaths": list(done.changed),
        "restartRequired": list(done.restart),
    }


async def get_config_schema(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """All keys there are."""
    made = await asyncio.to_thread(explain.build_json_schema)
    at = datetime.fromtimestamp(call.program.clock.now() / 1000, UTC).isoformat()
    return {"schema": made, "uiHints": explain.build_hints(), "version": __version__, "generatedAt": at}


async def lookup_config_key(call: MethodCall, asked: ConfigKeyParams) -> dict[str, Any]:
    """One key and what is below it."""
    found = await asyncio.to_thread(explain.lookup_key, asked.path)
    if found is None:
        raise MethodError("config schema path not found")
    return found


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("config.explain", ADMIN, ConfigKeyParams, explain_config_key),
    GatewayMethod("config.get", READ, NoParams, get_config),
    GatewayMethod("config.set", ADMIN, ConfigSetParams, replace_config),
    GatewayMethod("config.apply", ADMIN, ConfigApplyParams, replace_config, write=True),
    GatewayMethod("config.patch", ADMIN, ConfigPatchParams, merge_config, write=True),
    GatewayMethod("config.schema", ADMIN, NoParams, get_config_schema),
    GatewayMethod("config.schema.lookup", READ, ConfigKeyParams, lookup_config_key),
)
