"""``make cluster``: a control plane with the Trainer and Stationmaster, to try things out until Ctrl-C.

Stationmaster is installed by its own manifests. What they do not find here, a network and nodes, is played
(``deployed.py``): its replicas are processes beside the cluster, as are the controllers.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.e2e.controlplane import ControlPlane, Programs
from tests.e2e.controlplane.network import Network
from tests.e2e.controlplane.process import StartError
from tests.e2e.deployed import Deployed
from tests.gobuild import BuildError

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples"
REPLICAS: Final = 2
"""As the manifests have it, and as many as it takes to fail closed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.cluster", description=(__doc__ or "").replace("``", "")
    )
    parser.add_argument("--kueue", action="store_true", help="run Kueue, too")
    parser.add_argument("--bare", action="store_true", help="leave Stationmaster out, to compare")
    parser.add_argument(
        "--folder", type=Path, help="keep certificates, logs and etcd's data in this new folder"
    )
    arguments = parser.parse_args(argv)
    # SIGTERM leaves as Ctrl-C does: through every `with`, which stops what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _folder(arguments.folder) as home:
            return run(home, kueue=arguments.kueue, bare=arguments.bare)
    except (BuildError, StartError, TimeoutError) as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("stopped")
        return 130


def run(home: Path, *, kueue: bool, bare: bool) -> int:
    """Start, say what to try, and wait until we are told to stop."""
    began = time.monotonic()
    programs = Programs(say=_say)
    _fetch(programs, kueue=kueue)
    with ExitStack() as stack:
        _say("starting etcd, kube-apiserver and kube-controller-manager")
        network = stack.enter_context(Network())
        plane = stack.enter_context(
            ControlPlane(home, programs=programs, apiserver_environ=network.environ)
        )
        _say("starting the controllers of JobSet and the Trainer" + (" and Kueue" if kueue else ""))
        plane.start_jobset()
        plane.start_trainer()
        if kueue:
            plane.start_kueue()
        if not bare:
            _say(f"installing Stationmaster, and starting {REPLICAS} replicas")
            deployed = Deployed(plane, network, home / "account")
            deployed.scale(REPLICAS)
            _say("waiting until its registration fails closed")
            deployed.wait_until_armed()
        _apply_examples(plane)
        _say(f"ready after {time.monotonic() - began:.0f} s; logs are in {home / 'logs'}")
        _tell(plane, bare=bare)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
        _say("stopping; a second Ctrl-C is not faster")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say("stopped")
    return 0


def _fetch(programs: Programs, *, kueue: bool) -> None:
    """All programs before the first is started: to compile them takes a quarter of an hour, once."""
    names = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]
    controllers = ["jobset", "trainer", *(["kueue"] if kueue else [])]
    for name in (*names, *(f"{each}-controller-manager" for each in controllers)):
        programs.path(name)
    for each in controllers:
        programs.manifests(each)


def _apply_examples(plane: ControlPlane) -> None:
    """The namespaces and runtimes that the example jobs name; those that the Trainer ships are among them."""
    flags = ("--server-side", "--force-conflicts", "--recursive")
    done = plane.kubectl("apply", *flags, "-f", str(EXAMPLES / "cluster"))
    if done.returncode != 0:
        raise StartError(f"the example cluster could not be applied\n{done.stderr}")


def _tell(plane: ControlPlane, *, bare: bool) -> None:
    kubectl = _typed("kubectl", plane.programs.path("kubectl"))
    ours = _typed("stationmaster", Path(sys.executable).parent / "stationmaster")
    job = _typed_path(EXAMPLES / "trainjobs" / "torch-defaults.yaml")
    refused = _typed_path(EXAMPLES / "trainjobs" / "refused.yaml")
    lines = [
        f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig()))}",
        f"{kubectl} create -o yaml -f {job}   # see what is completed",
        f"{kubectl} create -f {refused}   # see what is refused",
    ]
    if not bare:
        lines.append(f"{ours} doctor   # see whether all is well")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
    _say("try these in another terminal; Ctrl-C here stops it")


def _typed(name: str, path: Path) -> str:
    """The shortest that a shell understands: the name, where it is that program."""
    found = shutil.which(name)
    same = found is not None and Path(found).resolve() == path.resolve()
    return name if same else _typed_path(path)


def _typed_path(path: Path) -> str:
    inside = path.is_relative_to(Path.cwd())
    return shlex.quote(str(path.relative_to(Path.cwd()) if inside else path))


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="stationmaster-") as made:
            yield Path(made)
        return
    if chosen.exists() and any(chosen.iterdir()):
        raise StartError(f"{chosen} is not empty: name a new folder")
    chosen.mkdir(parents=True, exist_ok=True)
    yield chosen.resolve()


def _say(text: str) -> None:
    """What goes on, in step with the standard output."""
    sys.stderr.write(f"==> {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
