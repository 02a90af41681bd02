"""Files of encrypted rooms."""

import pytest

from palinurus.channels.matrix.sealed.files import open_file, seal_file


def test_there_and_back_and_not_when_it_was_changed() -> None:
    sealed, told = seal_file(b"a chart" * 1000)
    assert b"chart" not in sealed and open_file(sealed, told) == b"a chart" * 1000
    with pytest.raises(ValueError):
        open_file(sealed[:-1] + b"x", told)
