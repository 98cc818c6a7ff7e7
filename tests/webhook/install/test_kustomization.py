from __future__ import annotations

from pathlib import Path

import pytest

from plugins.framework.errors import ConfigError
from webhook.install.kustomization import build

THING = "kind: ConfigMap\nmetadata: {name: thing}\n"

UNKNOWN = {
    "a word": ("namePrefix: x-\n", "namePrefix: not among apiVersion, images, kind, labels"),
    "a target by label": (
        "patches: [{target: {labelSelector: a=b}, patch: '[]'}]\n",
        "patches: target: labelSelector: not among kind, name",
    ),
    "a patch by path": ("patches: [{path: patch.yaml}]\n", "patches: path: not among"),
    "labels in selectors": (
        "labels: [{pairs: {a: b}, includeSelectors: true}]\n",
        "labels: includeSelectors: not among pairs",
    ),
    "an image by another name": (
        "images: [{name: a, newName: b}]\n",
        "images: newName: not among name, newTag",
    ),
}


def folder(root: Path, text: str) -> Path:
    (root / "thing.yaml").write_text(THING)
    (root / "kustomization.yaml").write_text(text)
    return root


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_refused_and_not_passed_over(tmp_path: Path, case: str) -> None:
    text, message = UNKNOWN[case]

    with pytest.raises(ConfigError) as refused:
        build(folder(tmp_path, f"resources: [thing.yaml]\n{text}"))

    assert message in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "kustomization.yaml"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        build(folder(tmp_path, "resources: [nowhere.yaml]\n"))


def test_a_target_is_matched_as_a_whole(tmp_path: Path) -> None:
    """Kustomize anchors its expressions."""
    patch = "patch: '[{op: add, path: /data, value: {a: b}}]'"
    targets = ("{kind: Config}", "{kind: (Config|Other)Map, name: thin}", "{name: th.*}")
    patches = ", ".join(f"{{target: {target}, {patch}}}" for target in targets)

    (obj,) = build(folder(tmp_path, f"resources: [thing.yaml]\npatches: [{patches}]\n"))
    assert obj["data"] == {"a": "b"}

    (obj,) = build(
        folder(tmp_path, f"resources: [thing.yaml]\npatches: [{patches.rsplit(', {', 1)[0]}]\n")
    )
    assert "data" not in obj
