"""Requests that are signed instead of carrying a key: what arrives at the server verifies there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from palinurus.abort import Abort
from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelEvent, ModelFailure, ModelSpec, StreamDone, StreamFailed
from palinurus.providers import VENDORS, credentials, load_row
from palinurus.providers.catalog import Catalog
from palinurus.providers.stream import ProviderModels, format_stamp
from palinurus.providers.wire import SigningKeys
from palinurus.providers.wire.aws import SigningScope, sign_headers
from palinurus.testing.clock import START_MS
from providers.kit import agent, recorded, request, settings

ACCESS, SECRET, TOKEN = "AKIDEXAMPLE00000", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session-token-0123456789"
VENDOR = load_row(VENDORS, "amazon-bedrock")
ARN = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0"


class Clock:
    def now(self) -> int:
        return START_MS

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        return None


class Region:
    """A server that checks signatures as the service does: over the request as it came off the wire."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    async def answer(self, asked: web.Request) -> web.Response:
        body = await asked.read()
        given = asked.headers
        names = given["Authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        scope = given["Authorization"].split("Credential=")[1].split(",")[0].split("/")
        signed = {name: given[name] for name in names if not name.startswith("x-amz-") and name != "host"}
        expected = sign_headers(
            "POST",
            f"http://{given['Host']}{asked.raw_path}",
            signed,
            body,
            SigningKeys(ACCESS, SECRET, given.get("x-amz-security-token", "")),
            SigningScope(scope[2], scope[3], given["x-amz-date"]),
        )
        self.seen.append({"path": asked.raw_path, "region": scope[2], "service": scope[3], "names": names})
        if expected["authorization"] != given["Authorization"]:
            return web.json_response({"message": "The request signature we calculated does not match"}, status=403)
        return web.Response(body=recorded("bedrock/tools.bin"), content_type="application/vnd.amazon.eventstream")


async def ask(model: str, environ: dict[str, str], **provider: Any) -> tuple[list[ModelEvent], Region]:
    region = Region()
    app = web.Application()
    app.router.add_post("/{tail:.*}", region.answer)
    async with TestServer(app) as server:
        own = ProviderSettings("amazon-bedrock", base_url=str(server.make_url("")).rstrip("/"), **provider)
        models = ProviderModels(Catalog(settings(own), environ), Clock())
        found = models._catalog.find(f"amazon-bedrock/{model}", agent())
        assert isinstance(found, ModelSpec)
        asked = msgspec.structs.replace(request(UserMessage("grüß dich")), model=found)
        try:
            return [event async for event in models.stream(asked, Abort())], region
        finally:
            await models.close()


KEYS = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}


@pytest.mark.parametrize("model", ["us.anthropic.claude-opus-4-8", "us.anthropic.claude-haiku-4-5-20251001-v1:0", ARN])
@pytest.mark.parametrize("more", [{}, {"AWS_SESSION_TOKEN": TOKEN}, {"AWS_REGION": "eu-central-1"}])
async def test_the_signature_verifies(model: str, more: dict[str, str]) -> None:
    events, region = await ask(model, KEYS | more)
    assert isinstance(events[-1], StreamDone), events[-1]
    (seen,) = region.seen
    assert (seen["region"], seen["service"]) == (more.get("AWS_REGION", "us-east-1"), "bedrock")
    assert {"content-type", "host", "x-amz-date"} <= set(seen["names"])
    assert ("x-amz-security-token" in seen["names"]) == ("AWS_SESSION_TOKEN" in more)


async def test_a_wrong_secret_is_an_auth_failure_that_shows_nothing() -> None:
    events, _ = await ask("m", KEYS | {"AWS_SECRET_ACCESS_KEY": "not-the-secret-0123456789"})
    last = events[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "auth"
    assert "not-the-secret" not in repr(events) and ACCESS not in repr(events)


async def test_a_bearer_key_goes_before() -> None:
    sent: list[str] = []

    async def answer(asked: web.Request) -> web.Response:
        sent.append(asked.headers["Authorization"])
        return web.Response(body=recorded("bedrock/tools.bin"), content_type="application/vnd.amazon.eventstream")

    app = web.Application()
    app.router.add_post("/{tail:.*}", answer)
    async with TestServer(app) as server:
        own = ProviderSettings("amazon-bedrock", base_url=str(server.make_url("")).rstrip("/"))
        for environ in (KEYS | {"AWS_BEARER_TOKEN_BEDROCK": "bearer-0123"}, KEYS):
            models = ProviderModels(Catalog(settings(own), environ), Clock())
            found = models._catalog.find("amazon-bedrock/m", agent())
            assert isinstance(found, ModelSpec)
            async for _ in models.stream(msgspec.structs.replace(request(UserMessage("x")), model=found), Abort()):
                pass
            await models.close()
    assert sent[0] == "Bearer bearer-0123" and sent[1].startswith("AWS4-HMAC-SHA256 Credential=AKID")


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ({"AWS_REGION": "eu-west-3"}, "https://bedrock-runtime.eu-west-3.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "us-gov-west-1"}, "https://bedrock-runtime.us-gov-west-1.amazonaws.com"),
        ({"AWS_REGION": "evil.example/"}, "https://bedrock-runtime.us-east-1.amazonaws.com"),
    ],
)
def test_the_region_moves_the_vendors_own_address_only(environ: dict[str, str], url: str) -> None:
    assert credentials.resolve_base_url(VENDOR.base_url, VENDOR, environ) == url
    assert (
        credentials.resolve_base_url("https://proxy.example/us-east-1", VENDOR, environ)
        == "https://proxy.example/us-east-1"
    )
    other = load_row(VENDORS, "openai")
    assert credentials.resolve_base_url(other.base_url, other, environ) == other.base_url


def test_without_credentials_the_message_names_both_ways() -> None:
    found = credentials.find_key("amazon-bedrock", None, VENDOR, {"AWS_ACCESS_KEY_ID": "only"}, False)
    assert isinstance(found, ModelFailure)
    assert "AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in found.message
    signer = credentials.find_signer(VENDOR, KEYS)
    assert signer is not None and SECRET not in repr(signer)
    assert credentials.find_key("amazon-bedrock", None, VENDOR, KEYS, False) == Secret()


def test_models_that_credentials_can_sign_for_are_listed_but_never_chosen_by_themselves() -> None:
    catalog = Catalog(settings(), KEYS)
    assert catalog.key_source("amazon-bedrock") == "AWS_ACCESS_KEY_ID"
    assert "amazon-bedrock" in {model.ref.provider for model in catalog.all()}
    assert catalog.default(agent()).ref.provider == "builtin"
    assert Catalog(settings(), {"AWS_ACCESS_KEY_ID": "only"}).key_source("amazon-bedrock") == ""


def test_the_time_of_a_signature() -> None:
    assert format_stamp(1_769_903_999_999) == "20260131T235959Z"


def test_model_settings_are_those_of_any_provider() -> None:
    own = ProviderSettings("amazon-bedrock", models=(ModelSettings("m", reasoning=True),))
    found = Catalog(settings(own), KEYS).find("amazon-bedrock/m", agent())
    assert isinstance(found, ModelSpec) and found.api == "bedrock-converse-stream" and found.reasoning
