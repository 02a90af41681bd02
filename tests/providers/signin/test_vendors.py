"""What vendors' files say about signing in: accounts that every call names, addresses of companies, what is closed."""

from __future__ import annotations

import pytest

from palinurus.core.types.signin import SignInAccount
from palinurus.providers import VENDORS, load_row
from palinurus.providers.vendors.github_copilot import read_copilot_account
from palinurus.providers.vendors.openai import read_chatgpt_account
from palinurus.testing.oauth import make_jwt


def test_chatgpt_names_the_account_in_every_call() -> None:
    claims = {"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}}
    assert read_chatgpt_account({"id_token": make_jwt(claims)}).headers == {"chatgpt-account-id": "acc-1"}
    assert read_chatgpt_account({"access_token": make_jwt(claims)}).headers == {"chatgpt-account-id": "acc-1"}
    assert read_chatgpt_account({"access_token": "opaque"}) == SignInAccount()


@pytest.mark.parametrize(
    ("ends", "base"),
    [
        ({"api": "https://api.business.githubcopilot.com/"}, "https://api.business.githubcopilot.com"),
        ({"api": "http://evil.example"}, ""),
        ("no object", ""),
    ],
)
def test_copilot_of_a_company_has_an_address_of_its_own(ends: object, base: str) -> None:
    assert read_copilot_account({"token": "t", "endpoints": ends, "sku": "business"}) == SignInAccount(
        "business", base_url=base
    )


def test_every_row_can_be_used_or_says_what_to_do() -> None:
    rows = {name: load_row(VENDORS, name).signin for name in VENDORS if load_row(VENDORS, name).signin is not None}
    assert set(rows) == {"openai-codex", "github-copilot", "google", "anthropic"}
    for name, row in rows.items():
        urls = [value for field in row.__struct_fields__ if isinstance(value := getattr(row, field), str)]
        assert not any(value.startswith("http://") for value in urls), name
        assert row.closed or row.needs_client or (row.client_id and row.token_url)
