"""`pal update`: N, N + 1 and back, with wheels made from a changed tree; bad ones are taken back, nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import palinurus
from palinurus.cli.upkeep import versions
from palinurus.testing.home import check_home
from ports import reserve_port

SOURCE = Path(palinurus.__file__).parent
NEEDS = ("aiohttp>=3.14,<4", "msgspec>=0.22,<1")
STEP = "CREATE TABLE more (a TEXT); ALTER TABLE spent ADD COLUMN more TEXT;"
SCHEMA = ("store/sqlite/schema.py", "] = (_FIRST, _KEPT)", f'] = (_FIRST, _KEPT, "{STEP}")')
# Where a test wants it so, this comes up on a copy, but not where the owner's config is.
REFUSE = "refuse"
BAD = (
    "cli/gateway/serve.py",
    "    hide_process()\n",
    f'    if settings.gateway.port and os.path.exists(os.environ["HOME"] + "/{REFUSE}"): raise SystemExit("no")\n'
    "    hide_process()\n",
)
DEAF = (
    "cli/agent.py",
    "def run_agent(argv: list[str]) -> int:",
    "def run_agent(argv: list[str]) -> int:\n    return 5\n",
)
ONE_WAY = (SCHEMA[0], SCHEMA[1], SCHEMA[1].replace("_KEPT)", '_KEPT, "DROP INDEX spent_at;")'))


def make_wheel(folder: Path, version: str, *changes: tuple[str, str, str]) -> Path:
    """The package as it is here, with other words in some files."""
    texts = dict.fromkeys(["__init__.py", *(name for name, _, _ in changes)], "")
    for name in texts:
        texts[name] = (SOURCE / name).read_text()
    texts["__init__.py"] = texts["__init__.py"].replace(f'"{palinurus.__version__}"', f'"{version}"')
    for name, old, new in changes:
        assert old in texts[name], name
        texts[name] = texts[name].replace(old, new)
    file = folder / f"palinurus-{version}-py3-none-any.whl"
    info = f"palinurus-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as packed:
        for path in sorted(SOURCE.rglob("*")):
            name = path.relative_to(SOURCE).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and "static" not in path.parts:
                packed.writestr(f"palinurus/{name}", texts.get(name, "") or path.read_bytes())
        needs = "".join(f"Requires-Dist: {need}\n" for need in NEEDS)
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.4\nName: palinurus\nVersion: {version}\n{needs}")
    return file


class Place:
    """An environment with version N in it, as pip leaves one, and a home."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.port = root, root / "home", reserve_port()
        venv.create(root / "env", with_pip=False, symlinks=True)
        (self.site,) = (root / "env" / "lib").glob("python*/site-packages")
        (self.site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.wheels = root / "wheels"
        self.wheels.mkdir()
        wheel = make_wheel(self.wheels, "1.0")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(self.site)
        about = {"url": wheel.as_uri(), "archive_info": {}}
        (self.site / "palinurus-1.0.dist-info" / "direct_url.json").write_text(json.dumps(about))
        self.home.mkdir(mode=0o700)
        config = f'{{agents: {{defaults: {{model: "builtin/demo"}}}}, gateway: {{port: {self.port}}}}}'
        (self.home / "palinurus.json").write_text(config)
        (self.home / "palinurus.json").chmod(0o600)

    def pal(self, *words: str, code: int | None = 0, crash: str = "") -> str:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root), "PALINURUS_HOME": str(self.home)}
        environ |= {"PALINURUS_CRASH": crash} if crash else {}
        python = str(self.root / "env" / "bin" / "python")
        done = subprocess.run([python, "-m", "palinurus", *words], env=environ, capture_output=True, text=True)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    @property
    def good(self) -> Path:
        """A version that can be put in force."""
        return self.root / "palinurus-1.1-py3-none-any.whl"

    def version(self) -> str:
        return self.pal("--version").split()[1]

    def schema(self) -> int:
        with closing(sqlite3.connect(self.home / "state.db")) as base:
            return int(base.execute("PRAGMA user_version").fetchone()[0])

    def messages(self) -> list[str]:
        with closing(sqlite3.connect(self.home / "state.db")) as base:
            return [row[0] for row in base.execute("SELECT state FROM inbox ORDER BY seq")]

    def running(self) -> str:
        """The version of the gateway that runs."""
        found = json.loads(self.pal("status", "--json", code=None))
        return str(found["version"]) if found["gateway"] else ""

    def end(self) -> None:
        for name in ("gateway.json", "gateway.lock"):
            if (self.home / name).exists():
                text = (self.home / name).read_text()
                pid = json.loads(text)["pid"] if name.endswith("json") else int(text or 0)
                if pid and Path(f"/proc/{pid}/environ").exists():
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One environment with two versions unpacked, copied for nobody: the tests put it back as it was."""
    place = Place(tmp_path_factory.mktemp("update"))
    place.pal("agent", "-m", "hello")
    shutil.copytree(place.home, place.root / "fresh")
    make_wheel(place.root, "1.1", SCHEMA, BAD)  # one for all: a version that is there already is not compiled again
    return place.root


@pytest.fixture
def place(ground: Path) -> Iterator[Place]:
    made = Place.__new__(Place)
    made.root, made.home, made.wheels = ground, ground / "home", ground / "wheels"
    (made.site,) = (ground / "env" / "lib").glob("python*/site-packages")
    shutil.rmtree(made.home)
    shutil.copytree(ground / "fresh", made.home)
    (made.site / versions.POINTER).unlink(missing_ok=True)
    (made.root / REFUSE).unlink(missing_ok=True)
    yield made
    made.end()


def test_there_and_back(place: Place) -> None:
    """Running all the while; the schema goes up and comes down, and what came in with N + 1 is still there."""
    place.pal("gateway", "start")
    assert "1.0 is the newest there is" in place.pal("update", "--check")
    good = Path(shutil.copy(place.good, place.wheels))
    assert json.loads(place.pal("update", "--check", "--json"))["available"].startswith("1.1-")
    assert "Palinurus 1.1 is in force" in place.pal("update", "--yes")
    good.unlink()
    assert (place.version(), place.schema(), place.running()) == ("1.1", 3, "1.1")
    place.pal("agent", "-m", "said to 1.1")
    before = place.messages()
    place.pal("update", "--to", "1.0", "--yes")
    assert (place.version(), place.schema(), place.running()) == ("1.0", 2, "1.0")
    assert place.messages() == before and len(before) >= 2
    place.pal("gateway", "stop")
    assert check_home(str(place.home)) == []
    rows = json.loads(place.pal("update", "--list", "--json"))
    assert [(row["version"], row["inForce"]) for row in rows] == [("1.0", True), ("1.1", False)]


@pytest.mark.torture
def test_one_that_is_deaf_is_never_put_in_force(place: Place) -> None:
    wheel = make_wheel(place.root, "1.2", DEAF)
    said = place.pal("update", "--to", str(wheel), "--yes", code=1)
    assert "1.2 is not put in force" in said and "nothing was changed" in said
    assert (place.version(), place.schema()) == ("1.0", 2)


@pytest.mark.torture
def test_one_whose_schema_has_no_way_back_is_refused(place: Place) -> None:
    wheel = make_wheel(place.root, "1.3", ONE_WAY)
    said = place.pal("update", "--to", str(wheel), "--yes", code=1)
    assert "cannot go back to schema 2: index spent_at changed since" in said and "--one-way" in said
    assert (place.version(), place.schema()) == ("1.0", 2)


def test_one_that_fails_in_earnest_is_taken_back(place: Place) -> None:
    """Its schema was up already, the gateway that ran is back, with what it had accepted."""
    place.pal("gateway", "start")
    before = place.messages()
    (place.root / REFUSE).touch()
    said = place.pal("update", "--to", str(place.good), "--yes", code=1)
    assert "1.1 does not come up" in said and "1.0 is in force again" in said
    assert (place.version(), place.schema(), place.running()) == ("1.0", 2, "1.0")
    assert place.messages() == before
    place.pal("agent", "-m", "and now")
    note = json.loads((place.home / "update.json").read_text())
    assert note["step"] == "undone" and os.path.exists(note["copy"])


POINTS = ("update.tried", "update.pointed", "update.switched", "update.stopped", "update.fitted")


@pytest.mark.torture
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step(place: Place, point: str) -> None:
    """Either version works at once, and the next `pal update` says what happened and ends it."""
    place.pal("gateway", "start")
    place.pal("update", "--to", str(place.good), "--yes", code=137, crash=f"{point}:1")
    assert place.version() in ("1.0", "1.1")
    place.pal("agent", "-m", "in between")
    said = place.pal("update", "--to", str(place.good), "--yes")
    assert "was cut off" in said
    assert (place.version(), place.schema(), place.running()) == ("1.1", 3, "1.1")
    assert place.messages() == ["done", "done"]


@pytest.mark.torture
def test_killed_while_it_is_taken_back(place: Place) -> None:
    place.pal("gateway", "start")
    (place.root / REFUSE).touch()
    place.pal("update", "--to", str(place.good), "--yes", code=137, crash="update.lowered:1")
    said = place.pal("update", code=1)
    assert "it is checked now" in said and "1.0 is in force again" in said
    assert (place.version(), place.schema(), place.running()) == ("1.0", 2, "1.0")


@pytest.mark.torture
def test_what_is_installed_by_hand_wins(place: Place) -> None:
    """The pointer counts only over the installation it was made for."""
    place.pal("update", "--to", str(place.good), "--yes")
    assert place.version() == "1.1"
    info = place.site / "palinurus-1.0.dist-info"
    info.rename(place.site / "palinurus-1.0.1.dist-info")
    try:
        assert place.version() == "1.0"
    finally:
        (place.site / "palinurus-1.0.1.dist-info").rename(info)


def test_what_is_no_wheel_of_ours(place: Place) -> None:
    (place.root / "palinurus-9-py3-none-any.whl").write_text("no")
    assert "is no wheel of Palinurus" in place.pal(
        "update", "--to", str(place.root / "palinurus-9-py3-none-any.whl"), code=64
    )
    assert "no package index has Palinurus" in place.pal("update", "--to", "7.7", code=66)
    stranger = place.root / "palinurus-9.1-py3-none-any.whl"
    with zipfile.ZipFile(stranger, "w") as packed:
        packed.writestr("sitecustomize.py", "")
    assert "none of ours" in place.pal("update", "--to", str(stranger), "--yes", code=64)


def test_numbers_and_needs(tmp_path: Path) -> None:
    assert versions.to_number("1.10.0") == (1, 10) and versions.to_number("1.4.1.post1") == (1, 4, 1)
    info = tmp_path / "palinurus-1.dist-info"
    info.mkdir()
    rows = ("msgspec>=0.1,<90", "msgspec (>=95)", "nowhere-to-be-found", "numpy==1 ; extra == 'memory'")
    (info / "METADATA").write_text("".join(f"Requires-Dist: {row}\n" for row in rows))
    assert versions.list_unmet(str(tmp_path)) == ["msgspec>=95", "nowhere-to-be-found"]


def _git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(root), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.torture
@pytest.mark.parametrize("crash", ["", "update.moved:1"])
def test_a_checkout_goes_there_and_back(place: Place, tmp_path: Path, crash: str) -> None:
    """Tried beside; git moves the files while the version beside is in force; then the checkout is again."""
    clone = tmp_path / "clone"
    wheel = make_wheel(tmp_path, "2.0")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(clone / "src")
    shutil.rmtree(clone / "src" / "palinurus-2.0.dist-info")
    (clone / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(NEEDS)}\n")
    for name in ("constraints.txt", "README.md", "docs/a.md"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text("")
    _git(tmp_path, "init", "-q", "-b", "trunk", str(clone))
    _git(clone, "add", ".")
    _git(clone, "commit", "-qm", "one")
    old = _git(clone, "rev-parse", "HEAD")
    init = clone / "src" / "palinurus" / "__init__.py"
    init.write_text(init.read_text().replace('"2.0"', '"2.1"'))
    _git(clone, "commit", "-qam", "two")
    _git(clone, "tag", "next")
    _git(clone, "reset", "-q", "--hard", old)
    info, kept = place.site / "palinurus-1.0.dist-info", place.site / "kept"
    kept.mkdir()
    for path in (info, place.site / "palinurus"):
        path.rename(kept / path.name)
    (place.site / "editable.pth").write_text(f"{clone / 'src'}\n")
    (place.site / "palinurus-2.0.dist-info").mkdir()
    about = {"url": clone.as_uri(), "dir_info": {"editable": True}}
    (place.site / "palinurus-2.0.dist-info" / "direct_url.json").write_text(json.dumps(about))
    try:
        init.write_text(init.read_text() + "\n# mine\n")
        assert "not committed" in place.pal("update", "--to", "next", "--yes", code=64)
        _git(clone, "checkout", "-q", ".")
        place.pal("update", "--to", "next", "--yes", code=137 if crash else 0, crash=crash)
        assert place.version() == "2.1"
        if crash:
            assert "was cut off after it was put in force" in place.pal("update")
        assert _git(clone, "log", "-1", "--format=%s") == "two" and _git(clone, "status", "--short", "-uno") == ""
        assert place.version() == "2.1" and not (place.site / versions.POINTER).exists()
        place.pal("update", "--to", old, "--yes")
        assert place.version() == "2.0" and _git(clone, "rev-parse", "HEAD") == old
    finally:
        (place.site / "editable.pth").unlink()
        shutil.rmtree(place.site / "palinurus-2.0.dist-info")
        for path in kept.iterdir():
            path.rename(place.site / path.name)
        kept.rmdir()
