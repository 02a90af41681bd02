"""Changing the whole file at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palinurus.config.files import MAX_BYTES
from palinurus.config.rewrite import ANY_VERSION, StaleConfig, digest_config, merge_config, replace_config
from palinurus.config.secrets import MARKER
from palinurus.errors import BadRequest, ConfigError

ENV = {"HOME": "/nowhere"}
SAMPLE = """\
{
  // how to reach it
  gateway: {
    port: 18789, // the usual one
    auth: { token: "t0p-secret-value" },
  },
  session: { mainKey: "a" },
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "palinurus.json").write_text(SAMPLE)
    return tmp_path


def text(home: Path) -> str:
    return (home / "palinurus.json").read_text()


BASE = digest_config(SAMPLE.encode())


def test_a_patch_touches_only_what_it_names(home: Path) -> None:
    done = merge_config(str(home), ENV, BASE, '{"gateway": {"port": 81}, "session": null}')
    assert text(home) == SAMPLE.replace("18789", "81").replace('  session: { mainKey: "a" },\n', "")
    assert set(done.changed) == {"gateway.port", "session"} and done.restart == ("gateway.port",)
    assert done.hash == digest_config(text(home).encode()) and (home / "palinurus.json.bak").read_text() == SAMPLE


def test_objects_can_be_replaced_whole(home: Path) -> None:
    done = merge_config(str(home), ENV, BASE, '{"gateway": {"port": 82}}', ["gateway"])
    assert done.raw["gateway"] == {"port": 82}


def test_a_whole_text_keeps_secrets_and_the_comments_of_the_file(home: Path) -> None:
    sent = {"gateway": {"port": 82, "auth": {"token": MARKER}}}
    done = replace_config(str(home), ENV, BASE, json.dumps(sent))
    assert done.raw["gateway"]["auth"]["token"] == "t0p-secret-value"
    assert "// the usual one" in text(home) and "t0p-secret-value" in text(home) and "session" not in text(home)
    own = "// all mine\n" + json.dumps({"gateway": {"port": 83}})
    replace_config(str(home), ENV, done.hash, own)
    assert text(home) == own


def test_a_change_from_another_version_is_refused(home: Path) -> None:
    for base, words in (("0" * 64, "config changed since last load"), (None, "config base hash required")):
        with pytest.raises(StaleConfig, match=words):
            merge_config(str(home), ENV, base, '{"gateway": {"port": 81}}')
    assert text(home) == SAMPLE


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ('{"gateway": {"port": "abc"}}', ConfigError),
        ('{"gateway": {"prot": 81}}', ConfigError),
        ("{", BadRequest),
        ("[]", BadRequest),
        ('{"models": {"providers": {"x": {"apiKey": "__OPENCLAW_REDACTED__"}}}}', BadRequest),
    ],
)
def test_nothing_is_written_when_something_is_wrong(home: Path, change: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        merge_config(str(home), ENV, BASE, change)
    assert text(home) == SAMPLE and not (home / "palinurus.json.bak").exists()


def test_nothing_to_change_writes_nothing(home: Path) -> None:
    done = merge_config(str(home), ENV, BASE, '{"session": {"mainKey": "a"}}')
    assert done.changed == () and done.hash == BASE and not (home / "palinurus.json.bak").exists()


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    home = tmp_path / "new"
    done = merge_config(str(home), ENV, None, '{"gateway": {"port": 81}}')
    assert json.loads(text(home)) == {"gateway": {"port": 81}} and done.changed == ("gateway",)


def test_a_file_that_cannot_be_read_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "palinurus.json"
    file.write_bytes(b"{/*" + b"x" * MAX_BYTES + b"*/}")
    for base in (ANY_VERSION, digest_config(None)):
        with pytest.raises(ConfigError, match="larger than 4 MB"):
            merge_config(str(tmp_path), {}, base, "{gateway: {port: 7}}")
    assert file.stat().st_size > MAX_BYTES
