"""Finds the programs of the control plane, or compiles them once and keeps them in a cache.

``python -m tests.e2e.controlplane build`` compiles all. A program is looked for in the folder that
``KUBEBUILDER_ASSETS`` names, then in the cache, and compiled if it is in neither. Each Go module
below ``modules/`` has a folder of its own in the cache, named after a digest of all that decides
what comes out: another version of Kueue does not compile Kubernetes again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests import gobuild
from tests.conformance.build import LINES
from tests.conformance.build import SOURCES as ORACLES
from tests.gobuild import BuildError, Say

MODULES: Final = Path(__file__).parent / "modules"
ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
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
        files = [(file.name, file) for file in sorted((MODULES / self.name).iterdir())]
        return gobuild.digest(files, recipe=str(RECIPE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where programs and manifests are; compiles what is asked for and not there yet."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    say: Say = field(default=gobuild.say)

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

    def trainer_crds(self, line: str) -> Path:
        """The folder with the CRDs of another line of the Trainer, at the version that its oracle is built of."""
        home = ORACLES / LINES[line]
        with gobuild.workshop(home, environ=self.environ, say=self.say) as tools:
            return tools.sources(_TRAINER) / "manifests" / "base" / "crds"

    def _asset(self, name: str) -> Path | None:
        folder = self.environ.get(ASSETS_VARIABLE)
        found = Path(folder) / name if folder else None
        return found if found and found.is_file() and os.access(found, os.X_OK) else None

    def _folder(self, module: Module) -> Path:
        return gobuild.cache_root(self.environ) / "controlplane" / f"{module.name}-{module.digest}"

    @contextlib.contextmanager
    def _workshop(self, module: Module) -> Iterator[_Workshop]:
        home = MODULES / module.name
        with gobuild.workshop(home, environ=self.environ, say=self.say) as tools:
            yield _Workshop(module=module, folder=self._folder(module), tools=tools, programs=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workshop:
    """The one process that may write into a module's folder in the cache."""

    module: Module
    folder: Path
    tools: gobuild.Workshop
    programs: Programs

    def compile(self, name: str) -> None:
        """Compile one program, unless it was made while we waited for the lock."""
        target = self.folder / "bin" / name
        if target.exists():
            return
        with gobuild.moved_to(target) as made:
            home, package = self.tools.home, self.module.programs[name]
            if self.module.adapted:
                home, package = made.parent, "."
                self.module.adapted(self, home)
            self.tools.compile(package, made, label=name, linked=self.module.linked, home=home)

    def render(self) -> None:
        """Render the module's manifests."""
        target = self.folder / "manifests"
        if target.exists() or self.module.manifests is None:
            return
        with gobuild.moved_to(target) as made:
            made.mkdir()
            self.module.manifests(self, made)

    def kustomize(self, folder: Path) -> str:
        """What ``kubectl apply -k`` would send."""
        kubectl = self.programs.path("kubectl")
        return self.tools.call([str(kubectl), "kustomize", str(folder)])


def module_of(program: str) -> Module:
    """The module that a program is compiled from."""
    for module in MODULE.values():
        if program in module.programs:
            return module
    raise BuildError(f"no such program: {program!r}")


def _write_json(file: Path, text: str) -> None:
    """Keep documents as a JSON list: reading CRDs as YAML would cost seconds at each start."""
    file.write_text(json.dumps([each for each in yaml.safe_load_all(text) if each]))


def _trainer_manifests(workshop: _Workshop, made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=workshop.folder) as scratch:
        copied = gobuild.copy_tree(
            workshop.tools.sources(_TRAINER) / "manifests", Path(scratch) / "manifests"
        )
        overlay = copied / "overlays" / "manager" / "kustomization.yaml"
        # Its JobSet is a link to another repository; ours is started by itself.
        kept = [line for line in overlay.read_text().splitlines() if "third-party" not in line]
        overlay.write_text("\n".join(kept))
        runtimes = workshop.kustomize(copied / "overlays" / "runtimes")
        runtimes += "\n---\n" + workshop.kustomize(copied / "base" / "runtimes" / "data-cache")
        _write_json(made / "install.json", workshop.kustomize(overlay.parent))
        _write_json(made / "runtimes.json", runtimes)
    crds = workshop.tools.sources("sigs.k8s.io/scheduler-plugins") / "config" / "crd" / "bases"
    podgroups = crds / "scheduling.x-k8s.io_podgroups.yaml"
    _write_json(made / "podgroups.json", podgroups.read_text())


def _default_manifests(module: str) -> Callable[[_Workshop, Path], None]:
    def render(workshop: _Workshop, made: Path) -> None:
        config = workshop.tools.sources(module) / "config"
        _write_json(made / "install.json", workshop.kustomize(config / "default"))

    return render


def _kueue_main(workshop: _Workshop, scratch: Path) -> None:
    """Let a variable name the folder of the metrics certificates, which only root could fill."""
    text = (workshop.tools.sources(_KUEUE) / "cmd" / "kueue" / "main.go").read_text()
    if text.count(_KUEUE_METRICS_PATH) != 1:
        raise BuildError(f"Kueue's main.go does not name {_KUEUE_METRICS_PATH} once")
    changed = text.replace(_KUEUE_METRICS_PATH, f'os.Getenv("{KUEUE_METRICS_VARIABLE}")')
    (scratch / "main.go").write_text(changed)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(workshop.tools.home / name, scratch / name)


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
