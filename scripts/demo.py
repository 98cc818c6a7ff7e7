"""What ``make run`` does: serve the example cluster, send an example TrainJob through it, go on serving.

The server is the real one, started as a user would start it; stop it by Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

from scripts import submit

ROOT: Final = Path(__file__).parent.parent
START_SECONDS: Final = 30.0


def main() -> int:
    """Start, show, and serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=9443)
    parser.add_argument("--health-port", type=int, default=8081)
    parser.add_argument("--job", type=Path, default=ROOT / "examples/trainjobs/torch-defaults.yaml")
    parser.add_argument("--once", action="store_true", help="stop after the example")
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # In step with the server's log, also into a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    # Without this, SIGTERM would end us and leave the server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="stationmaster-") as folder:
        command = serve_command(options.port, options.health_port, Path(folder))
        print(f"==> {' '.join(command[2:])}", flush=True)
        with subprocess.Popen(command, cwd=ROOT) as server:
            try:
                return show(server, options, Path(folder) / "stationmaster-ca.crt")
            except KeyboardInterrupt:
                return 0
            finally:
                server.send_signal(signal.SIGINT)
                server.wait()


def serve_command(port: int, health_port: int, certificates: Path) -> list[str]:
    """The command line of the server."""
    return [
        sys.executable,
        "-m",
        *("webhook.cli", "serve", "--from", "examples/cluster"),
        *("--listen", f"127.0.0.1:{port}", "--health-listen", f"127.0.0.1:{health_port}"),
        *("--cert-dir", str(certificates), "--log-format", "text"),
    ]


def show(server: subprocess.Popen[bytes], options: argparse.Namespace, ca: Path) -> int:
    """Wait until it serves, submit the example, and wait for the end."""
    if not is_ready(server, options.health_port, ca):
        return server.wait()
    tls = ssl.create_default_context(cafile=str(ca))
    result = submit.submit(options.job.relative_to(ROOT), f"https://127.0.0.1:{options.port}", tls)
    if options.once:
        return result
    print(f"\n==> still serving; the CA certificate is {ca}")
    print(f"    try: {sys.executable} -m scripts.submit FILE --ca {ca}")
    print("    stop with Ctrl-C", flush=True)
    return server.wait()


def is_ready(server: subprocess.Popen[bytes], health_port: int, ca: Path) -> bool:
    """Whether it has come up; False where it ended instead.

    Somebody else may answer on the port that ours could not get: the certificate is only ever ours.
    """
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health_port}/readyz", timeout=1):
                if ca.exists():
                    return True
        except OSError:  # of which urllib's own errors are a kind
            pass
        time.sleep(0.05)
    return False


if __name__ == "__main__":
    sys.exit(main())
