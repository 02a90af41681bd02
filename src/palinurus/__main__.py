"""`python -m palinurus` is `pal`."""

import sys

from palinurus.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
