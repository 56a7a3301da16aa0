"""``python -m dpverify``, and the command ``dpverify``."""

import sys

from dpverify._loading import few_searches_for_garbage


def main() -> int:
    """Load the command line, run one command and return its exit code."""
    few_searches_for_garbage()
    from dpverify.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
