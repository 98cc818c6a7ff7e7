"""``python -m tests.e2e.controlplane``: build the programs, and say where they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.e2e.controlplane.build import Programs
from tests.gobuild import BuildError


def main(argv: Sequence[str] | None = None) -> int:
    """Do what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="compile what is not there yet, and say where it is")
    parser.parse_args(argv)
    try:
        for path in Programs().build_all():
            sys.stdout.write(f"{path}\n")
            sys.stdout.flush()
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
