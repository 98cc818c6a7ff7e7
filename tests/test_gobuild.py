"""What the oracles and the control plane are built with, as far as it needs no compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import gobuild


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


ROOTS = {
    "the variable names it": ({"STATIONMASTER_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c")),
    "else it is where caches are": ({"XDG_CACHE_HOME": "/x"}, Path("/x/stationmaster")),
    "else below the home": ({}, Path.home() / ".cache" / "stationmaster"),
}


@pytest.mark.parametrize("name", ROOTS)
def test_where_the_cache_is(name: str) -> None:
    environ, wanted = ROOTS[name]
    assert gobuild.cache_root(environ) == wanted


def test_go_on_the_path_comes_before_go_in_the_cache(tmp_path: Path) -> None:
    ours = executable(tmp_path / "cache" / "go-environment" / "bin" / "go")
    environ = {"PATH": str(tmp_path / "bin"), "STATIONMASTER_CACHE": str(tmp_path / "cache")}
    assert gobuild.find_go(environ) == str(ours)
    on_path = executable(tmp_path / "bin" / "go")
    assert gobuild.find_go(environ) == str(on_path)


def test_a_digest_is_of_names_contents_and_recipe(tmp_path: Path) -> None:
    file = tmp_path / "main.go"
    file.write_text("package main", encoding="utf-8")
    first = gobuild.digest([("a/main.go", file)])
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert gobuild.digest([("a/main.go", file)]) == first
    assert gobuild.digest([("b/main.go", file)]) != first
    assert gobuild.digest([("a/main.go", file)], recipe="2") != first
    file.write_text("package other", encoding="utf-8")
    assert gobuild.digest([("a/main.go", file)]) != first


def test_what_is_made_moves_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "oracle"
    with pytest.raises(RuntimeError), gobuild.moved_to(target):
        raise RuntimeError
    assert not target.exists()
    for text in ("old", "new"):
        with gobuild.moved_to(target) as made:
            made.mkdir()
            (made / "binary").write_text(text, encoding="utf-8")
    assert (target / "binary").read_text(encoding="utf-8") == "new"
    assert [path.name for path in target.parent.iterdir()] == ["oracle"]


def test_a_tree_of_the_module_cache_is_made_writable(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "crds").mkdir(parents=True)
    (source / "crds" / "a.yaml").write_text("a", encoding="utf-8")
    (source / "crds" / "a.yaml").chmod(0o444)
    copied = gobuild.copy_tree(source, tmp_path / "copied")
    assert (copied / "crds" / "a.yaml").stat().st_mode & 0o777 == 0o644


def test_a_failed_compile_ends_with_what_go_said(tmp_path: Path) -> None:
    go = executable(tmp_path / "bin" / "go")
    go.write_text("#!/bin/sh\necho no such package; exit 1\n", encoding="utf-8")
    told: list[str] = []
    environ = {"PATH": str(go.parent), "STATIONMASTER_CACHE": str(tmp_path / "cache")}
    with (
        gobuild.workshop(tmp_path, environ=environ, say=told.append) as workshop,
        pytest.raises(gobuild.BuildError, match="go build failed\nno such package"),
    ):
        workshop.compile(".", tmp_path / "binary", label="oracle")
    assert told[0] == "oracle: compiling"
