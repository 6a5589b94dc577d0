"""`python -m evervec`."""

import sys

from evervec.cli import main

if __name__ == "__main__":
    sys.exit(main())
