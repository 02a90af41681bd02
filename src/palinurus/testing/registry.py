"""A fake registry of skills on 127.0.0.1 with ClawHub's API: search, one skill, its archive, publishing."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from palinurus.testing.loopback import LoopbackHttp


class FakeRegistry:
    """`put` a version of a skill; `moderation` is what it says about one. `published` is what came."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[str, dict[str, bytes]]] = {}
        self.moderation: dict[str, dict[str, Any]] = {}
        self.published: list[dict[str, Any]] = []
        self.token = "clh-canary-token"
        self.asked: list[str] = []
        self._http = LoopbackHttp(
            {
                "GET /api/v1/search": self._search,
                "GET /api/v1/skills/{slug}": self._skill,
                "GET /api/v1/download": self._download,
                "POST /api/v1/skills": self._publish,
            }
        )

    @property
    def url(self) -> str:
        return self._http.url

    def put(self, slug: str, version: str, **files: str) -> None:
        """A version; `SKILL` is SKILL.md, other names get their dots back from double underscores."""
        named = {name.replace("__", ".").replace("SKILL", "SKILL.md"): text.encode() for name, text in files.items()}
        self.versions.setdefault(slug, {})[version] = named

    async def start(self) -> None:
        await self._http.start()

    async def stop(self) -> None:
        await self._http.stop()

    async def _search(self, request: web.Request) -> web.Response:
        words = request.query["q"].lower()
        self.asked.append(words)
        found = [
            {"slug": slug, "displayName": slug, "summary": f"about {slug}", "version": max(all_), "score": 1.0}
            for slug, all_ in self.versions.items()
            if words in slug
        ]
        return web.json_response({"results": found})

    async def _skill(self, request: web.Request) -> web.Response:
        slug = request.match_info["slug"]
        if slug not in self.versions:
            return web.Response(status=404, text="Skill not found")
        told: dict[str, Any] = {"skill": {"slug": slug, "displayName": slug, "summary": f"about {slug}"}}
        told |= {"latestVersion": {"version": max(self.versions[slug])}, "owner": {"handle": "ada"}}
        return web.json_response(told | {"moderation": self.moderation.get(slug)})

    async def _download(self, request: web.Request) -> web.Response:
        slug = request.query["slug"]
        files = self.versions.get(slug, {}).get(request.query.get("version", ""))
        if files is None:
            return web.Response(status=410)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return web.Response(body=out.getvalue(), content_type="application/zip")

    async def _publish(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="Unauthorized")
        payload: dict[str, Any] = {}
        files: dict[str, bytes] = {}
        async for part in await request.multipart():
            assert isinstance(part, aiohttp.BodyPartReader)
            data = bytes(await part.read())
            if part.name == "payload":
                payload = msgspec.json.decode(data)
            else:
                files[part.filename or ""] = data
        self.published.append(payload)
        self.versions.setdefault(payload["slug"], {})[payload["version"]] = files
        return web.json_response({"ok": True, "skillId": "s1", "versionId": "v1"})
