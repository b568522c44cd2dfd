"""The command as `python -m spoold.cli`."""

import sys

from spoold.cli import main

if __name__ == "__main__":
    sys.exit(main())
