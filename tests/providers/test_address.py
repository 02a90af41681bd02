"""What a URL says about where a server is."""

from __future__ import annotations

import pytest

from palinurus.providers.address import is_local_url, show_host


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.4:1234/v1", True),
        ("http://10.0.0.1", True),
        ("http://box.local:1/v1", True),
        ("https://api.example.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("https://localhost.example.com", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_is_local(url: str, local: bool) -> None:
    assert is_local_url(url) is local


def test_host_of_shows_no_credentials() -> None:
    assert show_host("https://user:pass@api.example:8443/v1?key=secret") == "api.example:8443"
    assert show_host("") == show_host("http://[::1") == "the server"
