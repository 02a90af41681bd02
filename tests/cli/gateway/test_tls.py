"""gateway.tls through the product: HTTPS and WSS are served, plain HTTP is not, and `pal` finds its way in."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import ssl
import stat
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nursery import Program
from palinurus.cli.gateway.serve import run_gateway
from palinurus.config.load import load_config
from palinurus.config.sections.gateway import TlsSettings
from palinurus.errors import ConfigError

Pal = Callable[..., "subprocess.CompletedProcess[str]"]
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
CONFIG = '{agents: {defaults: {model: "builtin/demo"}}, gateway: {tls: {enabled: true%s}}}'


@pytest.fixture
def gateway(demo: Path) -> Iterator[tuple[str, int]]:
    """What a gateway with a certificate of its own said, and its port."""
    (demo / "palinurus.json").write_text(CONFIG % "")
    running = Program("gateway", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE, umask=0)
    said = ""
    assert running.stdout is not None and running.stderr is not None
    for line in running.stdout:
        said += line
        if "stop " in line:
            break
    found = re.search(r"https://127\.0\.0\.1:(\d+)/", said)
    yield said, int(found[1]) if found else 0
    running.terminate()
    log = running.communicate(timeout=60)[1]
    assert running.returncode == 0 and "Traceback" not in log, log


def test_https_is_served_plain_http_is_not_and_pal_knows_the_certificate(
    gateway: tuple[str, int], demo: Path, pal: Pal
) -> None:
    said, port = gateway
    assert port, said
    served = ssl.get_server_certificate(("127.0.0.1", port))
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(served)).hexdigest()
    shown = ":".join(digest[at : at + 2] for at in range(0, 64, 2)).upper()
    assert shown in said, "a person can compare what the browser shows"
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=anybody) as answer:
        assert b'"live"' in answer.read()
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"HTTP" not in plain.makefile("rb").read()

    status = pal("status")
    assert status.returncode == 0 and f"https://127.0.0.1:{port}" in status.stdout and shown in status.stdout
    assert pal("dashboard", "--no-open").stdout.startswith(f"https://127.0.0.1:{port}/#token=")
    assert "AGENTS.md" in pal("agent", "-m", "list files").stdout  # over HTTPS
    listed = pal("devices", "list")  # over WSS
    assert listed.returncode == 0, listed.stderr

    key = demo / "gateway" / "tls" / "gateway-key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    place = json.loads((demo / "gateway.json").read_text())
    (demo / "gateway.json").write_text(json.dumps({**place, "fingerprint": "0" * 64}))
    other = pal("devices", "list")
    assert other.returncode != 0 and "Traceback" not in other.stderr, "not our certificate: no token for it"
    assert "not running" in pal("status").stdout


def pair(folder: Path, name: str) -> tuple[str, str]:
    cert, key = str(folder / f"{name}-cert.pem"), str(folder / f"{name}-key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*made, "-days", "1", "-subj", "/CN=x", "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    return cert, key


def test_a_bad_certificate_or_key_says_which_and_what_to_do(demo: Path, tmp_path: Path) -> None:
    cert, key = pair(tmp_path, "one")
    other = pair(tmp_path, "two")[1]
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate at all")
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    gone = str(tmp_path / "gone.pem")
    for told, where, why in (
        (f', certPath: "{gone}", keyPath: "{key}"', "gateway.tls.certPath", "cannot be read"),
        (f', certPath: "{cert}", keyPath: "{gone}"', "gateway.tls.keyPath", "cannot be read"),
        (f', certPath: "{broken}", keyPath: "{key}"', "gateway.tls.certPath", "no certificate"),
        (f', certPath: "{damaged}", keyPath: "{key}"', "gateway.tls.certPath", "no certificate"),
        (f', certPath: "{cert}", keyPath: "{broken}"', "gateway.tls.keyPath", "no private key"),
        (f', certPath: "{cert}", keyPath: "{other}"', "gateway.tls.keyPath", "another certificate"),
        (f', certPath: "{gone}", keyPath: "{gone}x", autoGenerate: false', "gateway.tls.certPath", "cannot be read"),
    ):
        (demo / "palinurus.json").write_text(CONFIG % told)
        with pytest.raises(ConfigError) as caught:
            run_gateway(["--port", "0"])
        text = str(caught.value)
        assert where in text and why in text and ";" in text, text
        assert not (demo / "gateway.json").exists()


def test_half_a_pair_and_no_pair_at_all_are_findings_of_the_config(demo: Path) -> None:
    for told, found in (
        (', certPath: "a.pem"', "gateway.tls.keyPath: is missing beside certPath"),
        (', keyPath: "a.pem"', "gateway.tls.certPath: is missing beside keyPath"),
        (", autoGenerate: false", "gateway.tls.certPath: is missing while autoGenerate is false"),
    ):
        (demo / "palinurus.json").write_text(CONFIG % told)
        loaded = load_config(str(demo), {})
        assert found in str(loaded.problems[0]) and loaded.problems[0].fatal
        assert loaded.settings.gateway.tls == TlsSettings(enabled=True)  # with a certificate of our own, never without


def test_without_a_gateway_commands_say_so(demo: Path, pal: Pal) -> None:
    (demo / "palinurus.json").write_text(CONFIG % "")
    said = pal("devices", "list")
    assert "Traceback" not in said.stderr and "ValueError" not in said.stderr
    assert "https://127.0.0.1:18789" in pal("status").stdout
