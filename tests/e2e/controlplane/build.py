"""Finds the programs of the control plane, or compiles them once and keeps them in a cache.

``python -m tests.e2e.controlplane build`` compiles all. A program is looked for in the folder that
``KUBEBUILDER_ASSETS`` names, then in the cache, and compiled if it is in neither. Each Go module
below ``modules/`` has a folder of its own in the cache, named after a digest of all that decides
what comes out: another version of Kueue does not compile Kubernetes again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests.conformance.build import BuildError, cache_root, find_go

MODULES: Final = Path(__file__).parent / "modules"
ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
PROGRESS_SECONDS: Final = 10.0
KUBERNETES: Final = "v1.36.3"
RECIPE: Final = 1
"""Raised when the way of building changes, though no module file does."""

KUEUE_METRICS_VARIABLE: Final = "KUEUE_METRICS_CERTS"
_KUEUE_METRICS_PATH: Final = '"/etc/kueue/metrics/certs"'

_VERSION: Final = {
    # Without these, clients see v0.0.0 and some refuse to talk.
    "k8s.io/component-base/version.gitVersion": KUBERNETES,
    "k8s.io/component-base/version.gitMajor": "1",
    "k8s.io/component-base/version.gitMinor": KUBERNETES.split(".")[1],
    "k8s.io/client-go/pkg/version.gitVersion": KUBERNETES,
}
_TRAINER: Final = "github.com/kubeflow/trainer/v2"
_JOBSET: Final = "sigs.k8s.io/jobset"
_KUEUE: Final = "sigs.k8s.io/kueue"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One folder of ``modules/``: its programs by name, and what else is taken from its sources."""

    name: str
    programs: Mapping[str, str]
    linked: Mapping[str, str] = field(default_factory=dict)
    manifests: Callable[[_Workshop, Path], None] | None = None
    adapted: Callable[[_Workshop, Path], None] | None = None
    """Writes a main package of its own into a folder, where upstream's does not do as it is."""

    @property
    def digest(self) -> str:
        """Of everything that decides what is built."""
        found = hashlib.sha256(f"{RECIPE} {platform.system()} {platform.machine()}".encode())
        for file in sorted((MODULES / self.name).iterdir()):
            found.update(f"\n{file.name}\n".encode())
            found.update(file.read_bytes())
        return found.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where programs and manifests are; compiles what is asked for and not there yet."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    say: Say = field(default_factory=lambda: _say)

    def path(self, name: str) -> Path:
        """The program, compiled now if need be. Raises BuildError where it cannot be had."""
        if found := self._asset(name):
            return found
        module = module_of(name)
        target = self._folder(module) / "bin" / name
        if not target.exists():
            with self._workshop(module) as workshop:
                workshop.compile(name)
        return target

    def manifests(self, name: str) -> Path:
        """The folder of YAML that the module of this name was installed by, rendered."""
        module = MODULE[name]
        target = self._folder(module) / "manifests"
        if not target.exists():
            self.path("kubectl")  # now: the lock below cannot be taken twice
            with self._workshop(module) as workshop:
                workshop.render()
        return target

    def build_all(self) -> Iterator[Path]:
        """Compile and render everything, one after the other."""
        for module in MODULE.values():
            for name in module.programs:
                yield self.path(name)
            if module.manifests:
                yield self.manifests(module.name)

    def _asset(self, name: str) -> Path | None:
        folder = self.environ.get(ASSETS_VARIABLE)
        found = Path(folder) / name if folder else None
        return found if found and found.is_file() and os.access(found, os.X_OK) else None

    def _folder(self, module: Module) -> Path:
        return cache_root(self.environ) / "controlplane" / f"{module.name}-{module.digest}"

    @contextlib.contextmanager
    def _workshop(self, module: Module) -> Iterator[_Workshop]:
        root = cache_root(self.environ)
        root.mkdir(parents=True, exist_ok=True)
        # The same lock as the oracles': two compiles at a time are slower than one after the other.
        with (root / "build.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield _Workshop(
                module=module,
                folder=self._folder(module),
                go=find_go(root, self.environ),
                programs=self,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workshop:
    """The one process that may write into a module's folder in the cache."""

    module: Module
    folder: Path
    go: str
    programs: Programs

    @property
    def home(self) -> Path:
        """The folder of the module's files."""
        return MODULES / self.module.name

    def compile(self, name: str) -> None:
        """Compile one program beside its place and move it there, so that no half one is seen."""
        target = self.folder / "bin" / name
        if target.exists():  # made while we waited for the lock
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            made = Path(scratch) / name
            flags = ["-mod=readonly", "-trimpath", "-buildvcs=false"]
            linked = "".join(f" -X {key}={value}" for key, value in self.module.linked.items())
            flags.append(f"-ldflags=-s -w{linked}")
            home, package = self.home, self.module.programs[name]
            if self.module.adapted:
                home, package = Path(scratch), "."
                self.module.adapted(self, home)
            command = [self.go, "build", "-v", *flags, "-o", str(made), package]
            self._watched(command, name, home)
            made.rename(target)

    def render(self) -> None:
        """Render the module's manifests beside their place and move them there."""
        target = self.folder / "manifests"
        if target.exists() or self.module.manifests is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            self.module.manifests(self, made)
            made.rename(target)

    def sources(self, module: str) -> Path:
        """The read-only folder of a Go module's sources, at the version that ours asks for."""
        self.call([self.go, "mod", "download", module])
        return Path(self.call([self.go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]))

    def kustomize(self, folder: Path) -> str:
        """What ``kubectl apply -k`` would send."""
        kubectl = self.programs.path("kubectl")
        return self.call([str(kubectl), "kustomize", str(folder)])

    def call(self, command: Sequence[str]) -> str:
        """Run a tool in the module's folder and return what it printed."""
        done = subprocess.run(command, cwd=self.home, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)} failed\n{done.stderr[-4000:]}")
        return done.stdout.strip()

    def _watched(self, command: Sequence[str], name: str, home: Path) -> None:
        """Run a compile, telling every few seconds how far it is."""
        say = self.programs.say
        say(f"{name}: compiling")
        nice = ["nice", "-n", "19"] if shutil.which("nice") else []
        started = time.monotonic()
        with tempfile.TemporaryFile("w+") as log:
            with subprocess.Popen([*nice, *command], cwd=home, stdout=log, stderr=log) as process:
                while True:
                    try:
                        code = process.wait(timeout=PROGRESS_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        compiled = os.pread(log.fileno(), 1 << 24, 0).count(b"\n")
                        seconds = time.monotonic() - started
                        say(f"{name}: {compiled} packages compiled, {seconds:.0f} s")
                    except BaseException:
                        process.terminate()
                        raise
            if code != 0:
                log.seek(0)
                raise BuildError(f"{name}: go build failed\n{log.read()[-4000:]}")
        say(f"{name}: compiled in {time.monotonic() - started:.0f} s")


def module_of(program: str) -> Module:
    """The module that a program is compiled from."""
    for module in MODULE.values():
        if program in module.programs:
            return module
    raise BuildError(f"no such program: {program!r}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _copy(source: Path, target: Path) -> Path:
    """Copy a tree out of the module cache, whose files are read-only."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def _write_json(file: Path, text: str) -> None:
    """Keep documents as a JSON list: reading CRDs as YAML would cost seconds at each start."""
    file.write_text(json.dumps([each for each in yaml.safe_load_all(text) if each]))


def _trainer_manifests(workshop: _Workshop, made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=workshop.folder) as scratch:
        copied = _copy(workshop.sources(_TRAINER) / "manifests", Path(scratch) / "manifests")
        overlay = copied / "overlays" / "manager" / "kustomization.yaml"
        # Its JobSet is a link to another repository; ours is started by itself.
        kept = [line for line in overlay.read_text().splitlines() if "third-party" not in line]
        overlay.write_text("\n".join(kept))
        runtimes = workshop.kustomize(copied / "overlays" / "runtimes")
        runtimes += "\n---\n" + workshop.kustomize(copied / "base" / "runtimes" / "data-cache")
        _write_json(made / "install.json", workshop.kustomize(overlay.parent))
        _write_json(made / "runtimes.json", runtimes)
    crds = workshop.sources("sigs.k8s.io/scheduler-plugins") / "config" / "crd" / "bases"
    podgroups = crds / "scheduling.x-k8s.io_podgroups.yaml"
    _write_json(made / "podgroups.json", podgroups.read_text())


def _default_manifests(module: str) -> Callable[[_Workshop, Path], None]:
    def render(workshop: _Workshop, made: Path) -> None:
        config = workshop.sources(module) / "config"
        _write_json(made / "install.json", workshop.kustomize(config / "default"))

    return render


def _kueue_main(workshop: _Workshop, scratch: Path) -> None:
    """Let a variable name the folder of the metrics certificates, which only root could fill."""
    text = (workshop.sources(_KUEUE) / "cmd" / "kueue" / "main.go").read_text()
    if text.count(_KUEUE_METRICS_PATH) != 1:
        raise BuildError(f"Kueue's main.go does not name {_KUEUE_METRICS_PATH} once")
    changed = text.replace(_KUEUE_METRICS_PATH, f'os.Getenv("{KUEUE_METRICS_VARIABLE}")')
    (scratch / "main.go").write_text(changed)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(workshop.home / name, scratch / name)


MODULE: Final[Mapping[str, Module]] = {
    module.name: module
    for module in (
        Module(
            name="kubernetes",
            programs={
                "etcd": "go.etcd.io/etcd/server/v3",
                "kubectl": "k8s.io/kubernetes/cmd/kubectl",
                "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
                "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            },
            linked=_VERSION,
        ),
        Module(
            name="trainer",
            programs={"trainer-controller-manager": f"{_TRAINER}/cmd/trainer-controller-manager"},
            manifests=_trainer_manifests,
        ),
        Module(
            name="jobset",
            programs={"jobset-controller-manager": _JOBSET},
            manifests=_default_manifests(_JOBSET),
        ),
        Module(
            name="kueue",
            programs={"kueue-controller-manager": f"{_KUEUE}/cmd/kueue"},
            manifests=_default_manifests(_KUEUE),
            adapted=_kueue_main,
        ),
    )
}
