"""Signature Version 4 against the vectors AWS publishes, and a model id with a colon."""

from __future__ import annotations

import msgspec
import pytest

from palinurus.providers.wire import SigningKeys
from palinurus.providers.wire.aws import SigningScope, parse_region, sign_headers

KEYS = SigningKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SCOPE = SigningScope("us-east-1", "service", "20150830T123600Z")


@pytest.mark.parametrize(
    ("method", "url", "signature"),
    [
        ("GET", "https://example.amazonaws.com/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "GET",
            "https://example.amazonaws.com/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("POST", "https://example.amazonaws.com/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ],
)
def test_published_vectors(method: str, url: str, signature: str) -> None:
    headers = sign_headers(method, url, {}, b"", KEYS, SCOPE)
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )
    assert headers["x-amz-date"] == SCOPE.at


def test_a_temporary_key_signs_its_token() -> None:
    headers = sign_headers(
        "POST", "https://h.example/", {"Content-Type": "a  b"}, b"{}", KEYS._replace(token="tok"), SCOPE
    )
    assert headers["x-amz-security-token"] == "tok"
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token," in headers["authorization"]


def test_everything_that_is_signed_matters() -> None:
    def signature(url: str = "https://h.example/model/a%3A0/x", body: bytes = b"{}", at: str = SCOPE.at) -> str:
        return sign_headers("POST", url, {}, body, KEYS, msgspec.structs.replace(SCOPE, at=at))[
            "authorization"
        ].rpartition("=")[2]

    one = signature()
    others = [signature("https://h.example/model/a:0/x"), signature(body=b"{ }"), signature(at="20150830T123601Z")]
    assert one == signature() and one not in others


def test_credentials_do_not_print_themselves() -> None:
    assert "wJalr" not in repr(KEYS) + str(KEYS)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com", "us-west-2"),
        ("http://127.0.0.1:8080", "us-east-1"),
        ("", "us-east-1"),
    ],
)
def test_region(url: str, found: str) -> None:
    assert parse_region(url) == found
