"""`make release`: dist/ with an sdist, the wheel with page and docs, a bill of materials and checksums.

Builds twice and refuses to go on when a byte differs; then installs the wheel into an empty environment and uses it as
a new person would: version, setup, a question, the gateway with its page and its docs. Before all that the files that
GitHub and Docker read are held against their schemas. Nothing is tagged or published from here: it says how.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION: str = PROJECT["version"]
WAIT = 60.0  # seconds for a gateway to come up on a busy machine

# Schemas that `check-jsonschema` carries, and what of ours they describe.
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "dependabot": ".github/dependabot.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "compose-spec": "examples/*/compose.yaml",
}


def check_schemas() -> int:
    """0 when every file is as its schema says; what is not is printed."""
    for name, pattern in SCHEMAS.items():
        files = sorted(map(str, ROOT.glob(pattern)))
        line = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{name}", *files]
        if not files or subprocess.run(line, stdout=subprocess.DEVNULL).returncode:
            print(f"{pattern}: not as the schema {name} says", file=sys.stderr)
            return 1
    return 0


def tell_tag(version: str, tags: list[str]) -> str:
    """What is left for a person to do."""
    if f"v{version}" in tags:
        return f"v{version} is tagged; `git push origin v{version}` has it built, tried and published"
    return f"to release it: git tag -a v{version} -m {version} && git push origin v{version}"


def find_release_faults(changelog: str, version: str) -> list[str]:
    """What keeps this tree from being released: a version that is none, a changelog without it and its date."""
    faults = []
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        faults.append(f"{version} is no semantic version")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        faults.append(f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)'")
    return faults


def build(folder: Path) -> list[Path]:
    """The sdist and the wheel; times inside them are the commit's."""
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": told.stdout.strip() or "1577836800"}
    line = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(line, cwd=ROOT, env=environ, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.iterdir())


def digest(file: Path) -> str:
    """Its SHA-256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def list_parts(root: Path = ROOT) -> list[dict[str, str]]:
    """What is installed with it, at the versions we test with, and what the page bundles: CycloneDX components."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").split()
    pins = {fold(name): version for name, _, version in (line.partition("==") for line in lines)}
    rows = []
    for scope, wanted in (("required", PROJECT["dependencies"]), *PROJECT["optional-dependencies"].items()):
        for line in wanted if scope != "dev" else ():
            name = fold(re.split(r"[\s<>=!~\[;]", line, maxsplit=1)[0])
            pinned = re.search(r"==([\w.]+)", line)
            rows.append(("pypi", name, pinned[1] if pinned else pins[name], scope))
    page = json.loads((root / "web" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    rows += [("npm", name, version, "required") for name, version in page.items()]
    return [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:{kind}/{name}@{version}",
            "bom-ref": f"pkg:{kind}/{name}@{version}",
            "scope": "required" if scope == "required" else "optional",
        }
        for kind, name, version, scope in sorted(set(rows))
    ]


def fold(name: str) -> str:
    """A package's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def make_bill(wheel: Path) -> dict[str, object]:
    """CycloneDX 1.6. Its number follows from the wheel, so that two builds are equal here too."""
    subject = {"type": "application", "name": "palinurus", "version": VERSION, "purl": f"pkg:pypi/palinurus@{VERSION}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest(wheel))}",
        "version": 1,
        "metadata": {"component": {**subject, "hashes": [{"alg": "SHA-256", "content": digest(wheel)}]}},
        "components": list_parts(),
    }


def try_wheel(wheel: Path, home: Path) -> list[str]:
    """Installs it into an empty environment and uses it; returns what was seen. Raises at the first failure."""
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    pal, python = home / "venv" / "bin" / "pal", home / "venv" / "bin" / "python"
    line = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        "constraints.txt",
        str(wheel),
    ]
    subprocess.run(line, cwd=ROOT, check=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PALINURUS_HOME": str(home / "state")}

    def say(*words: str) -> str:
        done = subprocess.run([str(pal), *words], cwd=home, env=environ, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"pal {' '.join(words)} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout.strip()

    seen = [say("--version"), say("setup", "--non-interactive").splitlines()[-1], say("agent", "-m", "hello")]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gateway = subprocess.Popen(
        [str(pal), "gateway", "--port", str(port)], cwd=home, env=environ, stdout=subprocess.DEVNULL
    )
    try:
        for path, wanted in (
            ("/health", b"ok"),
            ("/", b"<script"),
            ("/docs/", b"<nav"),
            ("/docs/config.html", b"gateway.port"),
        ):
            seen.append(f"{path}: {len(fetch(f'http://127.0.0.1:{port}{path}', wanted)):,} bytes")
    finally:
        gateway.send_signal(signal.SIGTERM)
        gateway.wait(60)
    return seen


def fetch(address: str, wanted: bytes) -> bytes:
    """What is there, once it is; raises RuntimeError when it does not come or does not hold `wanted`."""
    until, body = time.monotonic() + WAIT, b""
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                body = answer.read()
        except urllib.error.HTTPError as exc:
            body = exc.read()
        except OSError:
            time.sleep(0.2)
            continue
        break
    if wanted not in body:
        raise RuntimeError(f"{address} does not hold {wanted!r}: {body[:300]!r}")
    return body


def main() -> int:
    """0 when dist/ is ready."""
    faults = find_release_faults((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), VERSION)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if check_schemas():
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as other:
        first, second = build(DIST), build(Path(other))
        for one, two in zip(first, second, strict=True):
            if digest(one) != digest(two):
                print(f"two builds of {one.name} differ", file=sys.stderr)
                return 1
    wheel = next(file for file in first if file.suffix == ".whl")
    bill = DIST / f"palinurus-{VERSION}.cdx.json"
    bill.write_text(json.dumps(make_bill(wheel), indent=1), encoding="utf-8")
    files = [*first, bill]
    sums = "".join(f"{digest(file)}  {file.name}\n" for file in files)
    (DIST / "SHA256SUMS").write_text(sums, encoding="utf-8")
    with tempfile.TemporaryDirectory() as home:
        print("\n".join(try_wheel(wheel, Path(home))))
    print(
        "".join(f"{file.stat().st_size:>10,}  {file.name}\n" for file in files) + "two builds are equal, byte for byte"
    )
    tags = subprocess.run(["git", "tag"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    print(tell_tag(VERSION, tags))
    return 0


if __name__ == "__main__":
    sys.exit(main())
