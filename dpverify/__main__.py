"""``python -m dpverify``."""

import sys

from dpverify.cli import main

if __name__ == "__main__":
    sys.exit(main())
