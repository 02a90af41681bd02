from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.email.inbound import is_verified_sender

MX = "mx.home.test"


@pytest.mark.parametrize(
    "header",
    [
        f"{MX}; dmarc=pass (p=reject dis=none) header.from=a.test",
        f'{MX} 1; dkim=pass reason="good" header.d=a.test header.s=x; spf=fail smtp.mailfrom=b.test',
        f"{MX.upper()}; spf=pass (sender (10.0.0.1) ok) smtp.mailfrom=ann@a.test",
        f"{MX};\r\n\tdkim=pass\r\n header.i=@a.test",
        f"{MX}; dkim=fail header.d=a.test; dkim=pass header.d=a.test",
    ],
)
def test_our_server_vouches(header: str) -> None:
    assert is_verified_sender([header], MX, "a.test")


@pytest.mark.parametrize(
    "header",
    [
        "",
        MX,
        f"{MX}; none",
        "mx.evil.test; dmarc=pass header.from=a.test",
        f"mx.evil.test ({MX}); dmarc=pass header.from=a.test",
        f"{MX}; dkim=pass header.d=evil.test",
        f"{MX}; dkim=pass header.d=nota.test",
        f"{MX}; dkim=pass header.d=sub.a.test",
        f"{MX}; dkim=pass header.d=test",
        f"{MX}; dkim=pass",
        f"{MX}; dkim=none (dkim=pass header.d=a.test)",
        f"{MX}; spf=softfail smtp.mailfrom=a.test",
        f"{MX}; dmarc=fail header.from=a.test; spf=pass smtp.mailfrom=a.test",
        f"{MX}; xdkim=pass header.d=a.test",
    ],
)
def test_nobody_vouches(header: str) -> None:
    assert not is_verified_sender([header], MX, "a.test")


def test_only_the_topmost_verdict_of_our_server_counts() -> None:
    good, bad = f"{MX}; dmarc=pass header.from=a.test", f"{MX}; dmarc=none header.from=a.test"
    assert is_verified_sender(["other.test; spf=fail", good, bad], MX, "a.test")
    assert not is_verified_sender([bad, good], MX, "a.test")  # the lower one came with the mail
    assert not is_verified_sender([good], "", "a.test") and not is_verified_sender([good], MX, "")
    assert is_verified_sender([f"{MX}; dkim=pass header.d=a.test"], MX, "mail.a.test")


@given(st.lists(st.text(alphabet='mx.;=() "dkimpass,header@\r\n', max_size=80), max_size=4))
def test_no_header_without_our_servers_name_is_believed(headers: list[str]) -> None:
    assert not is_verified_sender(headers, "real.server", "a.test")
