import os
from pathlib import Path

import pytest

from palinurus.config import paths
from palinurus.errors import StateUnwritable


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.palinurus"),
        ({"HOME": "/h", "PALINURUS_HOME": "/state"}, "/state"),
        ({"HOME": "/h", "PALINURUS_HOME": "~/p/../q"}, "/h/q"),
        ({"HOME": "/h", "PALINURUS_HOME": "~"}, "/h"),
        ({"HOME": "/h", "PALINURUS_HOME": "  "}, "/h/.palinurus"),
        ({"HOME": "/h", "PALINURUS_HOME": "~user/x"}, os.path.join(os.getcwd(), "~user/x")),
    ],
)
def test_home(environ: dict[str, str], expected: str) -> None:
    assert paths.find_home(environ) == expected


def test_a_relative_home_is_taken_from_here() -> None:
    assert paths.find_home({"HOME": "/h", "PALINURUS_HOME": "rel"}) == os.path.join(os.getcwd(), "rel")


def test_without_HOME_the_password_database_is_asked() -> None:
    assert os.path.isabs(paths.find_home({}))


def test_names_in_the_home() -> None:
    assert paths.locate_config_file("/s") == "/s/palinurus.json"
    assert paths.locate_last_good("/s/palinurus.json") == "/s/palinurus.json.last-good"
    assert paths.locate_backup("/s/palinurus.json") == "/s/palinurus.json.bak"
    assert paths.locate_token_file("/s") == "/s/gateway.token"
    assert paths.locate_workspace("/s") == "/s/workspace"


@pytest.mark.parametrize("name", ["HOME", "PALINURUS_HOME"])
def test_a_folder_for_something_else_is_no_home(tmp_path: Path, name: str) -> None:
    """`/` as a home was closed to all others, and `pal doctor --fix` would have closed all that is in it."""
    place = tmp_path / ".palinurus"
    place.mkdir()
    (place / "letters").write_text("mine")
    environ = {name: str(tmp_path if name == "HOME" else place)}
    assert paths.find_home(environ) == str(place)  # nobody else may enter it
    place.chmod(0o755)
    with pytest.raises(StateUnwritable, match="no home") as caught:
        paths.find_home(environ)
    assert "PALINURUS_HOME" in caught.value.fix
    assert (place.stat().st_mode & 0o777) == 0o755
    (place / "palinurus.json").write_text("{}")
    assert paths.find_home(environ) == str(place)
    with pytest.raises(StateUnwritable):
        paths.find_home({"PALINURUS_HOME": "/"})
