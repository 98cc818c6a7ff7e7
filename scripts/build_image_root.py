"""Makes the image's application folder: an environment with the wheel of this checkout, and nothing else.

    python scripts/build_image_root.py --out /app

The Dockerfile runs this in its build stage and copies the folder. It is a program of its own so that a
test can run it where there is no container engine (tests/test_image.py). Only what is in the wheel gets
into the image: no checkout, no pip, no compiler, no tests.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def main() -> int:
    """Build, install, compile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument(
        "--no-deps", action="store_true", help="leave the dependencies out (for a quick test)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        install(wheel, options.out, *(["--no-deps"] if options.no_deps else []))
    compile_all(options.out)
    return 0


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("stationmaster-*.whl")
    return wheel


def install(wheel: Path, out: Path, *arguments: str) -> None:
    """An environment without pip, and the wheel in it."""
    # Links, not copies: the image's last stage has the same interpreter at the same place.
    venv.EnvBuilder(with_pip=False, symlinks=True, clear=True).create(out)
    pip("--python", str(out / "bin/python"), "install", "--no-compile", *arguments, str(wheel))


def compile_all(out: Path) -> None:
    """Bytecode now, since the root file system is read-only later. Unchecked: nothing changes in there."""
    python = str(out / "bin/python")
    options = ("-q", "-j", "0", "--invalidation-mode", "unchecked-hash")
    subprocess.run([python, "-m", "compileall", *options, str(out / "lib")], check=True)


def pip(*arguments: str) -> None:
    """Run this interpreter's pip."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
