"""Keys: where they come from, what is said when there is none, and that they show nowhere."""

from __future__ import annotations

from palinurus.config.sections.models import ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.vendor import Vendor
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import build_key_headers, find_key
from providers.kit import settings

VENDOR = Vendor("v", "Vee", "openai-completions", "https://v.example", keys=("V_KEY", "V_OTHER"))
OWN = ProviderSettings("v", api_key=Secret("from-config"))


def key(settings: ProviderSettings | None, vendor: Vendor | None, environ: dict[str, str], local: bool = False) -> str:
    found = find_key("v", settings, vendor, environ, local)
    return found.reveal() if isinstance(found, Secret) else f"! {found.message}"


def source(environ: dict[str, str], *own: ProviderSettings) -> str:
    catalog = Catalog(settings(*own), environ)
    catalog.vendors = {"v": VENDOR}
    return catalog.key_source("v")


def test_config_then_variables_in_order() -> None:
    assert key(OWN, VENDOR, {"V_KEY": "env"}) == "from-config"
    assert key(None, VENDOR, {"V_KEY": " ", "V_OTHER": " env "}) == "env"
    assert source({}, OWN) == "config"
    assert source({"V_OTHER": "x"}) == "V_OTHER"
    assert source({}) == "" and Catalog(settings(), {}).key_source("nobody") == ""


def test_a_missing_key_names_the_variable_and_the_config_key() -> None:
    found = find_key("v", None, VENDOR, {}, False)
    assert isinstance(found, ModelFailure) and found.kind == "config"
    assert "V_KEY" in found.message and "models.providers.v.apiKey" in found.message
    assert "models.providers.v.apiKey" in key(ProviderSettings("v"), None, {})


def test_who_needs_none() -> None:
    assert key(None, VENDOR, {}, local=True) == ""
    assert key(None, Vendor("o", "O", "ollama", "x", keyless=True), {}) == ""
    assert key(ProviderSettings("v", headers={"X-API-Key": "h"}), None, {}) == ""


def test_headers() -> None:
    assert build_key_headers(Secret("k"), "authorization") == {"authorization": "Bearer k"}
    assert build_key_headers(Secret("k\n"), "x-api-key") == {"x-api-key": "k"}
    assert build_key_headers(Secret(), "authorization") == {}


def test_secrets_do_not_show() -> None:
    assert "from-config" not in repr(OWN) + str(OWN.api_key) + f"{OWN.api_key}"
