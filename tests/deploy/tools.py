"""The programs that render the manifests, where they can be had.

kubectl comes with the control plane of the e2e tests, or from the PATH. helm is looked for on the PATH and
in the cache; ``python -m tests.deploy.tools`` compiles it there (two minutes, once).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.controlplane.build import ASSETS_VARIABLE
from tests.gobuild import cache_root, find_go

DEPLOY: Final = Path(__file__).parent.parent.parent / "deploy"
CHART: Final = DEPLOY / "helm" / "stationmaster"
NAMESPACE: Final = "stationmaster-system"
HELM: Final = "v3.22.0"
KUBERNETES: Final = "1.36.3"
"""For whom helm renders: one that was compiled without a release's flags takes it for 1.20."""

Object = dict[str, Any]


def kubectl(environ: Mapping[str, str] = os.environ) -> str | None:
    """A kubectl; every one can render a kustomization."""
    assets = environ.get(ASSETS_VARIABLE)
    candidates = [Path(assets) / "kubectl"] if assets else []
    candidates += sorted(cache_root(environ).glob("controlplane/kubernetes-*/bin/kubectl"))
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    return shutil.which("kubectl", path=environ.get("PATH"))


def helm(environ: Mapping[str, str] = os.environ) -> str | None:
    """A helm."""
    found = shutil.which("helm", path=environ.get("PATH"))
    cached = _cached(environ)
    return found or (str(cached) if cached.is_file() else None)


def kustomized(program: str, overlay: str) -> list[Object]:
    """What ``kubectl apply -k`` would send."""
    return _objects([program, "kustomize", str(DEPLOY / "kustomize" / "overlays" / overlay)])


def with_components(program: str, folder: Path, overlay: str, *components: str) -> list[Object]:
    """What a kustomization of one's own in ``folder`` sends, with components added to an overlay."""
    deploy = Path(os.path.relpath(DEPLOY / "kustomize", folder))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(deploy / "overlays" / overlay)],
        "components": [str(deploy / "components" / each) for each in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return _objects([program, "kustomize", str(folder)])


def templated(program: str, *settings: str, namespace: str = NAMESPACE) -> list[Object]:
    """What ``helm install`` would send."""
    flags = [flag for setting in settings for flag in ("--set", setting)]
    return _objects(
        [
            *(program, "template", "stationmaster", str(CHART), "--namespace", namespace),
            *("--kube-version", KUBERNETES, *flags),
        ]
    )


def called(command: Sequence[str]) -> str:
    """What a program prints. Raises CalledProcessError, with its words, where it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _objects(command: Sequence[str]) -> list[Object]:
    return [obj for obj in yaml.safe_load_all(called(command)) if obj]


def _cached(environ: Mapping[str, str]) -> Path:
    return cache_root(environ) / "tools" / f"helm-{HELM}" / "helm"


def main() -> int:
    """Compile helm into the cache."""
    target = _cached(os.environ)
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        go = find_go(os.environ)
        environ = {**os.environ, "GOBIN": str(target.parent)}
        subprocess.run([go, "install", f"helm.sh/helm/v3/cmd/helm@{HELM}"], env=environ, check=True)
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
