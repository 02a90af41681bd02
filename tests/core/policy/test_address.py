"""Addresses in every form: what is closed stays closed, however it is written; the open web stays open."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.policy.address import (
    BAD_PORTS,
    AddressRefusal,
    OpenHosts,
    UrlParts,
    extract_ipv4,
    judge_address,
    judge_url,
    normalize_allowed_host,
    parse_url,
)

# At least forty forms, each of which leads (or could lead) to this machine, its network or a cloud's keys.
CLOSED = [
    "http://127.0.0.1/", "http://127.1/", "http://127.0.1/", "http://2130706433/", "http://0x7f000001/",
    "http://0X7F.0.0.1/", "http://0177.0.0.1/", "http://017700000001/", "http://0x7f.1/", "http://127.255.255.254/",
    "http://0/", "http://0.0.0.0/", "http://0x0/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://１２７.0.0.1/",
    "http://127.0.0.1./", "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://foo.localhost/",
    "http://ⓛocalhost/", "http://printer.local/", "http://metadata.google.internal/", "http://router.lan/",
    "http://box.home.arpa/", "http://intranet/", "http://[::1]/", "http://[::]/", "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/", "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/", "http://[2001:0:7f00:1::]/",
    "http://[2001:0:808:808::80ff:fffe]/", "http://[2a00:1::5efe:10.0.0.1]/", "http://[2a00:1::200:5efe:7f00:1]/",
    "http://[fe80::1]/", "http://[fec0::1]/", "http://[fc00::1]/", "http://[fd00:ec2::254]/", "http://[ff02::1]/",
    "http://[2001:db8::1]/", "http://[100::1]/", "http://[4000::1]/", "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/", "http://168.63.129.16/", "http://192.0.0.192/", "http://100.100.100.200/",
    "http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.1.1/", "http://100.64.0.1/",
    "http://198.18.0.1/", "http://192.0.2.1/", "http://203.0.113.9/", "http://224.0.0.1/", "http://255.255.255.255/",
    "http://240.0.0.1/", "http://0xa9fea9fe/", "http://2852039166/", "http://0251.0376.0251.0376/",
]  # fmt: skip
# Not understood at all: refused whatever the rules say.
NONSENSE = [
    "file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "ftp://example.com/", "javascript:alert(1)", "data:text/html,x",
    "//example.com/", "example.com", "", "   ", "http://", "http:///x", "http://user@example.com/",
    "http://user:pass@example.com/", "http://example.com@127.0.0.1/", "http://127.0.0.1:99999/", "http://a:b/",
    "http://[::1", "http://[::1%25lo]/", "http://[fe80::1%eth0]/", "http://%31%32%37.0.0.1/", "http://exa mple.com/",
    "http://example.com/\r\nHost: x", "http://example.com\\@127.0.0.1/", "http://1.2.3.4.5/", "http://256.1.1.1/",
    "http://0x1ffffffff/", "http://09.1.1.1/", "http://a..b/", "http://-a.com/", "http://a_b-.com/", "http://faß.de/",
    "http://" + "a" * 64 + ".com/", "http://example.com/" + "x" * 9000, "http://\u202elocalhost/", "http://[1.2.3.4]/",
    "http://1.1.1.1\x00.example.com/", "http://example.com:0x50/", "HTTP+UNIX://x/",
]  # fmt: skip
OPEN = [
    "http://example.com/", "https://EXAMPLE.com./a/b?c=d#e", "http://8.8.8.8/", "http://1.1.1.1:8080/",
    "https://[2606:4700:4700::1111]/", "http://172.32.0.1/", "http://192.169.0.1/", "http://100.128.0.1/",
    "http://198.20.0.1/", "http://11.0.0.1/", "http://bücher.example/", "http://a_b.example.com/", "http://9.9.9.9/",
    "http://[64:ff9b::8.8.8.8]/", "http://local.example.com/", "http://notlocalhost.com/", "https://sub.internal.io/",
    "http://134744072/", "http://[2a00:1450:4001:80b::200e]/", "http://xn--bcher-kva.example/",
]  # fmt: skip


def verdict(url: str, rules: OpenHosts = OpenHosts()) -> AddressRefusal | None:
    found = parse_url(url)
    return found if isinstance(found, AddressRefusal) else judge_url(found, rules)


@pytest.mark.parametrize("url", CLOSED)
def test_closed_in_every_form_and_the_fix_is_named(url: str) -> None:
    refused = verdict(url)
    assert refused is not None and refused.why
    assert verdict(url, OpenHosts(frozenset({refused.entry}))) is None  # the entry it names does open it


@pytest.mark.parametrize("url", NONSENSE)
def test_what_is_no_web_address_has_no_setting_that_opens_it(url: str) -> None:
    refused = verdict(url)
    assert refused is not None and refused.entry == ""


@pytest.mark.parametrize("url", OPEN)
def test_the_open_web_is_open(url: str) -> None:
    assert verdict(url) is None


def test_the_lists_are_as_long_as_promised() -> None:
    assert len(CLOSED) + len(NONSENSE) >= 100 and len(set(CLOSED)) >= 60 and len(OPEN) >= 20


@given(st.sampled_from([0x7F000001, 0x0A010203, 0xA9FEA9FE, 0xC0A80001, 0xAC100001, 0]), st.data())
def test_generated_notations_of_closed_addresses(number: int, data: st.DataObject) -> None:
    """One to four parts, each decimal, octal or hexadecimal, with leading zeros."""
    parts = data.draw(st.integers(1, 4))
    values = [number >> (24 - 8 * i) & 255 for i in range(parts - 1)] + [number & (1 << 8 * (5 - parts)) - 1]
    forms = ["{}", "0{:o}", "0x{:x}", "0X{:X}", "00{:o}", "0x00{:x}"]
    host = ".".join(data.draw(st.sampled_from(forms)).format(v) for v in values)
    found = parse_url(f"http://{host}/")
    assert isinstance(found, UrlParts) and found.host == str(IPv4Address(number))
    assert judge_url(found) is not None


@given(st.sampled_from(["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.9"]), st.integers(0, 2**64 - 1))
def test_generated_carriers_of_closed_addresses(inner: str, rest: int) -> None:
    v4, public = int(IPv4Address(inner)), 0x2A00 << 112
    forms = [
        0xFFFF << 32 | v4,
        v4,
        0x64FF9B << 96 | v4,
        0x2002 << 112 | v4 << 80 | rest,
        0x20010000 << 96 | rest & ~0xFFFFFFFF | v4 ^ 0xFFFFFFFF,
        0x20010000 << 96 | v4 << 64 | rest,
        public | (rest >> 32) << 64 | 0x5EFE << 32 | v4,
    ]
    for form in forms:
        address = IPv6Address(form)
        assert IPv4Address(inner) in extract_ipv4(address)
        assert judge_address(UrlParts("http", "name.example", 80, "/"), str(address)) is not None


@given(st.text(max_size=60))
def test_any_text_is_judged_and_a_host_has_one_form(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}/"):
        found = parse_url(url)
        if isinstance(found, UrlParts):
            assert found.host.isascii() and found.host == found.host.lower()
            assert parse_url(found.url) == found


def test_a_name_that_only_leads_to_an_opened_address_is_not_opened() -> None:
    rules = OpenHosts(frozenset({"127.0.0.1:8123"}))
    assert verdict("http://127.0.0.1:8123/", rules) is None
    assert verdict("http://127.0.0.1:8124/", rules) is not None
    rebound = UrlParts("http", "evil.example", 8123, "/")
    assert judge_url(rebound, rules) is None  # the name says nothing yet
    refused = judge_address(rebound, "127.0.0.1", rules)
    assert refused is not None and "evil.example leads to 127.0.0.1" in refused.why


def test_an_opened_name_may_lead_inside_but_not_to_the_keys_of_the_machine() -> None:
    rules, at = OpenHosts(frozenset({"nas.local"})), UrlParts("http", "nas.local", 5000, "/")
    assert judge_url(at, rules) is None and judge_address(at, "192.168.1.5", rules) is None
    assert judge_address(at, "169.254.169.254", rules) is not None


def test_private_networks_can_be_opened_as_a_whole_without_loopback_and_metadata() -> None:
    rules = OpenHosts(private=True)
    opened = ["http://10.0.0.1/", "http://192.168.1.1/", "http://[fd12::1]/", "http://100.64.0.1/"]
    assert [verdict(url, rules) for url in opened] == [None] * 4
    for url in ("http://127.0.0.1/", "http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://100.100.100.200/"):
        assert verdict(url, rules) is not None
    assert verdict("http://198.18.0.1/", OpenHosts(benchmark=True)) is None
    assert verdict("http://[fd12::1]/", OpenHosts(unique_local=True)) is None


@pytest.mark.parametrize("port", sorted(BAD_PORTS)[::9])
def test_ports_of_other_services(port: int) -> None:
    refused = verdict(f"http://example.com:{port}/")
    assert refused is not None and refused.entry == f"example.com:{port}"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("127.0.0.1:8123", "127.0.0.1:8123"),
        ("0x7f.1:90", "127.0.0.1:90"),
        ("::1", "::1"),
        ("[::1]:8080", "[::1]:8080"),
        ("http://NAS.local:5000/", "nas.local:5000"),
        ("nas.local", "nas.local"),
        ("a b", None),
        ("", None),
        ("host/path", None),
        ("*", None),
    ],
)
def test_entries_of_allowed_hosts(text: str, made: str | None) -> None:
    assert normalize_allowed_host(text) == made
