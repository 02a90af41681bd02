import os

import pytest

from palinurus.config import paths


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
