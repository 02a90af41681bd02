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
    assert paths.home(environ) == expected


def test_a_relative_home_is_taken_from_here() -> None:
    assert paths.home({"HOME": "/h", "PALINURUS_HOME": "rel"}) == os.path.join(os.getcwd(), "rel")


def test_without_HOME_the_password_database_is_asked() -> None:
    assert os.path.isabs(paths.home({}))


def test_names_in_the_home() -> None:
    assert paths.config_file("/s") == "/s/palinurus.json"
    assert paths.last_good("/s/palinurus.json") == "/s/palinurus.json.last-good"
    assert paths.backup("/s/palinurus.json") == "/s/palinurus.json.bak"
    assert paths.token_file("/s") == "/s/gateway.token"
    assert paths.workspace("/s") == "/s/workspace"
