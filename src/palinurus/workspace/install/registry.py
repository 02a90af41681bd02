"""A registry of skills with ClawHub's API (`/api/v1`): search, what is known of one, fetch, publish.

Knows addresses and shapes; asks through the `fetch` it is given, which is the program's gate for outgoing calls. What
comes is a stranger's: texts are cut, archives go through the same limits as any other source.
"""

from __future__ import annotations

import io
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from palinurus.core.skills.danger import SkillFile
from palinurus.core.skills.skill import strip_invisible
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.patterns import compile_late
from palinurus.workspace.install.source import ArchiveLimits, SkillDownload, read_zip

REGISTRY = "https://clawhub.ai"
VARIABLE = "CLAWHUB_REGISTRY"  # another one
TOKEN = "CLAWHUB_TOKEN"  # who publishes
ORIGIN = "clawhub:"
_SLUG = compile_late(r"(?:clawhub:)?([a-z0-9][a-z0-9-]{0,79})(?:@([\w.+-]{1,60}))?")
_BOUNDARY = "palinurus-skill-files-5d1f"


class RegistryRequest(msgspec.Struct, frozen=True):
    url: str
    headers: dict[str, str] = {}
    body: bytes | None = None


class RegistryAnswer(msgspec.Struct, frozen=True):
    """Status 0: nothing came, and `data` says why."""

    status: int
    data: bytes


RegistryFetch: TypeAlias = Callable[[RegistryRequest], Awaitable[RegistryAnswer]]


class RegistrySkill(msgspec.Struct, frozen=True):
    """What a registry says of one. `warning`: its own scanners found something."""

    slug: str
    name: str = ""
    summary: str = ""
    version: str = ""
    owner: str = ""
    warning: str = ""
    blocked: bool = False


def parse_slug(text: str) -> tuple[str, str] | None:
    """Name and version, if this can be the name of a skill in a registry."""
    found = _SLUG.fullmatch(text)
    return (found[1], found[2] or "") if found else None


class SkillRegistry:
    """One registry. Everything raises PalinurusError when it does not answer, NotFound for what it does not have."""

    def __init__(self, fetch: RegistryFetch, environ: Mapping[str, str]) -> None:
        self._fetch = fetch
        self._token = environ.get(TOKEN, "").strip()
        self.base = environ.get(VARIABLE, "").strip().rstrip("/") or REGISTRY

    async def search(self, words: str, most: int = 20) -> list[RegistrySkill]:
        """What fits, best first."""
        told = await self._get("search", {"q": words, "limit": str(most)})
        rows = told.get("results")
        made = [_read_row(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        return [one for one in made if one.slug][:most]

    async def describe(self, slug: str) -> RegistrySkill:
        """What is known of one."""
        told = await self._get(f"skills/{quote(slug, safe='')}", {}, slug)
        skill, latest, owner = (_object(told.get(name)) for name in ("skill", "latestVersion", "owner"))
        judged = _object(told.get("moderation"))
        return RegistrySkill(
            _text(skill.get("slug")) or slug,
            _text(skill.get("displayName")),
            _text(skill.get("summary")),
            _text(latest.get("version")),
            owner=_text(owner.get("handle")),
            warning=_text(judged.get("summary")) or ("suspicious" if judged.get("isSuspicious") else ""),
            blocked=judged.get("isMalwareBlocked") is True,
        )

    async def download(self, slug: str, version: str = "") -> SkillDownload:
        """Its files, of that version or the newest. What the registry itself blocks is not fetched."""
        about = await self.describe(slug)
        if about.blocked:
            raise BadRequest(f"the registry has blocked {slug} as harmful: {about.warning or 'no reason given'}")
        version = version or about.version
        asked = {"slug": about.slug, **({"version": version} if version else {})}
        data = await self._ask(RegistryRequest(f"{self.base}/api/v1/download?{urlencode(asked)}"), slug)
        parts = tuple(read_zip(io.BytesIO(data), ArchiveLimits()))
        return SkillDownload(parts, f"{ORIGIN}{about.slug}", version)

    async def publish(self, slug: str, version: str, parts: tuple[SkillFile, ...], notes: str = "") -> str:
        """Put a version there; what the registry says. Raises BadRequest without a token."""
        if not self._token:
            raise BadRequest(f"publishing needs your token of {self.base}", fix=f"put it into {TOKEN}")
        payload = {"slug": slug, "displayName": slug, "version": version, "changelog": notes, "tags": ["latest"]}
        body = _make_form(msgspec.json.encode(payload), parts)
        headers = {
            "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}",
            "Authorization": f"Bearer {self._token}",
        }
        await self._ask(RegistryRequest(f"{self.base}/api/v1/skills", headers, body), slug)
        return f"{self.base}: {slug} {version}"

    async def _get(self, path: str, asked: dict[str, str], slug: str = "") -> dict[str, Any]:
        query = f"?{urlencode(asked)}" if asked else ""
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {self._token}"} if self._token else {})}
        data = await self._ask(RegistryRequest(f"{self.base}/api/v1/{path}{query}", headers), slug)
        try:
            return _object(msgspec.json.decode(data))
        except msgspec.DecodeError:
            raise PalinurusError(f"{self.base} sent no JSON", fix=f"check {VARIABLE}") from None

    async def _ask(self, asked: RegistryRequest, slug: str) -> bytes:
        got = await self._fetch(asked)
        if got.status in (200, 201):
            return got.data
        if got.status in (404, 410):
            raise NotFound(f"{self.base} has no skill {slug!r}", fix="`pal skills search WORDS`")
        words = strip_invisible(got.data[:200].decode("utf-8", "replace"))
        fix = "try again later" if got.status else f"check the network, or {VARIABLE} (where the registry is)"
        raise PalinurusError(f"{self.base}: {f'HTTP {got.status} ' if got.status else ''}{words}".rstrip(), fix=fix)


def _read_row(row: dict[str, Any]) -> RegistrySkill:
    found = parse_slug(_text(row.get("slug")))
    return RegistrySkill(
        found[0] if found else "", _text(row.get("displayName")), _text(row.get("summary")), _text(row.get("version"))
    )


def _make_form(payload: bytes, parts: tuple[SkillFile, ...]) -> bytes:
    rows = [b'name="payload"\r\n\r\n' + payload]
    for part in parts:
        name = os.path.normpath(part.name).replace('"', "").encode()
        rows.append(b'name="files"; filename="' + name + b'"\r\nContent-Type: text/plain\r\n\r\n' + part.data)
    line = f"--{_BOUNDARY}".encode()
    return b"".join(line + b"\r\nContent-Disposition: form-data; " + row + b"\r\n" for row in rows) + line + b"--\r\n"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return strip_invisible(value)[:300] if isinstance(value, str) else ""
