"""What is known about a vendor: one `Vendor` in one file of `providers/vendors`. These are its types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.prompt.facts import PromptContribution
from palinurus.core.types.model import ModelRequest, ModelSpec, TokenPrice
from palinurus.core.types.signin import SignInRow


class ThinkingLevel(msgspec.Struct, frozen=True):
    """A thinking level a model offers: canonical id, and the vendor's word for it if that differs."""

    id: str
    label: str = ""

    @property
    def display_name(self) -> str:
        return self.label or self.id


class ThinkingProfile(msgspec.Struct, frozen=True):
    """What a model offers, in rank order. `default` None: no opinion (then medium if it reasons, else off)."""

    levels: tuple[ThinkingLevel, ...]
    default: str | None = None
    keep: bool = False  # True: offered even if the catalog says the model does not reason


WINDOW = 200_000  # tokens, where nobody says otherwise


class VendorModel(msgspec.Struct, frozen=True):
    """A model the vendor's file knows."""

    id: str
    name: str = ""
    reasoning: bool = False
    vision: bool = False
    tools: bool = True
    context_window: int = WINDOW
    max_tokens: int = 8192
    price: TokenPrice | None = None
    compat: dict[str, Any] = {}  # what the config may say under models[].compat, said by the vendor


def make_thinking_model(
    id: str, name: str, window: int = WINDOW, most: int = 64_000, vision: bool = True
) -> VendorModel:
    """A model that thinks, and sees unless told otherwise."""
    return VendorModel(id, name, reasoning=True, vision=vision, context_window=window, max_tokens=most)


def keep_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The body as the wire built it."""
    return body


class SigningVariables(msgspec.Struct, frozen=True):
    """Variables that hold credentials to sign requests with, where a vendor takes signatures beside bearer keys."""

    access: str
    secret: str
    token: str = ""  # of temporary credentials
    regions: tuple[str, ...] = ()  # variables that name the region; the first set one wins
    region: str = ""  # the one in the vendor's base URL


class Vendor(msgspec.Struct, frozen=True):
    """`profile(model)` gives the thinking levels; `shape(body, request)` has the last word on the payload: thinking
    fields, service tier, quirks. It knows the vendor's own API (and `apis`); without one, and for models that the
    config reaches through another API, the common rules hold (`vendors/custom.py`). All pure."""

    id: str
    name: str
    api: str
    base_url: str
    keys: tuple[str, ...] = ()  # environment variables that hold the API key, first set one wins
    models: tuple[VendorModel, ...] = ()
    profile: Callable[[ModelSpec], ThinkingProfile] | None = None
    shape: Callable[[dict[str, Any], ModelRequest], dict[str, Any]] = keep_body
    headers: Callable[[ModelRequest], dict[str, str]] | None = None  # None: what the API asks for
    auth_header: str = "authorization"  # "authorization" sends Bearer <key>; any other name sends the bare key
    keyless: bool = False  # local servers: no key needed
    window: int = WINDOW  # tokens that a model takes which `models` does not list
    aliases: tuple[str, ...] = ()  # other spellings of the provider id
    reasons: Callable[[str], bool] | None = None  # can a model that `models` does not list think? by its id
    prompt: Callable[[ModelSpec], PromptContribution] | None = None  # what its models are told besides
    signing: SigningVariables | None = None
    apis: tuple[str, ...] = ()  # others that `shape` knows
    signin: SignInRow | None = None  # how one signs in instead of keeping a key

    def shapes(self, api: str) -> bool:
        """Does `shape` know what to do with bodies of this API?"""
        return self.shape is not keep_body and api in (self.api, *self.apis)
