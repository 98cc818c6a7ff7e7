"""Puts a kustomization together, as kustomize does: of its words, those that deploy/kustomize uses.

So that ``stationmaster manifests`` prints what ``kubectl apply -k`` applies, from the same files and
without a program that has to be there. A word that is not known here is refused, never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from plugins.framework.errors import ConfigError
from webhook import yamlio

Object: TypeAlias = dict[str, Any]

FILE: Final = "kustomization.yaml"

_WORDS: Final = frozenset({"apiVersion", "kind", "resources", "labels", "patches", "images"})


def build(folder: Path, onto: Sequence[Object] = ()) -> list[Object]:
    """The objects of a kustomization, in the order in which its files name them.

    A component changes the objects of the kustomization that it is put ``onto``, and adds its own.

    Raises:
        ConfigError: a file is missing, cannot be read, or says what is not known here.
    """
    file = folder / FILE
    said = yamlio.load(_read(file), str(file))
    _only(_WORDS, said, str(file))
    own = [obj for name in said.get("resources", ()) for obj in _resource(folder / name)]
    objects = [*onto, *own]
    for patch in said.get("patches", ()):
        _only({"target", "patch"}, patch, f"{file}: patches")
        _only({"kind", "name"}, patch["target"], f"{file}: patches: target")
        objects = [_patched(obj, patch) if _is(obj, patch["target"]) else obj for obj in objects]
    for label in said.get("labels", ()):
        _only({"pairs"}, label, f"{file}: labels")
        objects = [_labelled(obj, label["pairs"]) for obj in objects]
    for image in said.get("images", ()):
        _only({"name", "newTag"}, image, f"{file}: images")
        _tag(objects, image["name"], image["newTag"])
    return objects


def containers(objects: Sequence[Object]) -> Iterator[Object]:
    """The containers of all workloads."""
    for obj in objects:
        pod = obj.get("spec", {}).get("template", {}).get("spec", {})
        yield from pod.get("containers", ())


def _resource(path: Path) -> list[Object]:
    if path.is_dir():
        return build(path)
    return [document.obj for document in yamlio.read(_read(path), str(path))]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error


def _only(known: set[str] | frozenset[str], said: Mapping[str, Any], where: str) -> None:
    if unknown := sorted(set(said) - known):
        raise ConfigError(f"{where}: {', '.join(unknown)}: not among {', '.join(sorted(known))}")


def _is(obj: Object, target: Mapping[str, str]) -> bool:
    """As kustomize has it, each is a regular expression for the whole word."""
    return all(
        re.fullmatch(target[key], value)
        for key, value in (("kind", obj["kind"]), ("name", obj["metadata"]["name"]))
        if key in target
    )


def _patched(obj: Object, patch: Mapping[str, Any]) -> Object:
    import jsonpatch  # noqa: PLC0415  # only an overlay has patches

    operations = yamlio.load(patch["patch"], FILE)
    done: Object = jsonpatch.apply_patch(obj, operations)
    return done


def _labelled(obj: Object, pairs: Mapping[str, str]) -> Object:
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), **pairs}
    return {**obj, "metadata": {**metadata, "labels": labels}}


def _tag(objects: Sequence[Object], name: str, tag: str) -> None:
    for container in containers(objects):
        if container["image"] == name:
            container["image"] = f"{name}:{tag}"
