from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import images
from policies.globs import GlobError
from policies.images import Image, ImageError, image_glob, parse

SHA = "sha256:" + "a" * 64
NGINX = "docker.io/library/nginx"


@pytest.mark.parametrize(
    ("reference", "wanted"),
    {
        "nginx": Image(NGINX, "latest", ""),
        "nginx:1.27": Image(NGINX, "1.27", ""),
        "library/nginx": Image(NGINX, "latest", ""),
        "docker.io/nginx": Image(NGINX, "latest", ""),
        "Docker.IO/nginx": Image(NGINX, "latest", ""),
        "index.docker.io/library/nginx:latest": Image(NGINX, "latest", ""),
        "registry-1.docker.io/library/nginx": Image(NGINX, "latest", ""),
        "docker.io:443/library/nginx": Image(NGINX, "latest", ""),
        f"nginx@{SHA}": Image(NGINX, "", SHA),
        f"nginx:1@{SHA}": Image(NGINX, "1", SHA),
        "pytorch/pytorch:2": Image("docker.io/pytorch/pytorch", "2", ""),
        "localhost/a": Image("localhost/a", "latest", ""),
        "localhost:5000": Image("docker.io/library/localhost", "5000", ""),
        "localhost:5000/a": Image("localhost:5000/a", "latest", ""),
        "Registry.Example.com/a/b:T": Image("registry.example.com/a/b", "T", ""),
        "registry.example.com:0443/a": Image("registry.example.com/a", "latest", ""),
        "registry.example.com:8443/a": Image("registry.example.com:8443/a", "latest", ""),
        "[fd00::1]:5000/a": Image("[fd00::1]:5000/a", "latest", ""),
    }.items(),
)
def test_spellings_of_one_image_are_one(reference: str, wanted: Image) -> None:
    assert parse(reference) == wanted


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "Nginx",
        "a//b",
        "/a",
        "a/",
        "a:",
        "a@",
        "a@sha256:abc",
        f"a@{SHA.upper()}",
        f"a@{SHA}@{SHA}",
        "a" * 64,
        "https://registry.example.com/a",
        "registry.example.com./a",
        "a b",
        "a\n",
        "registry.example.com/a\u0661",
        "a:" + "t" * 129,
        "a" * 256,
        "a/" * 600,
        "-.example.com/a",
    ],
)
def test_what_no_kubelet_runs_is_no_reference(reference: str) -> None:
    with pytest.raises(ImageError):
        parse(reference)


@given(st.text("aA0:/.@_-*", max_size=40))
def test_reading_is_total_and_stable(reference: str) -> None:
    try:
        image = parse(reference)
    except ImageError:
        return
    assert parse(str(image)) == image, "its full form is the same image"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("**", ("nginx", "registry.example.com/a/b/c:1", f"x@{SHA}"), ()),
        ("nginx", ("nginx:1", f"docker.io/nginx@{SHA}"), ("pytorch/nginx", "example.com/nginx")),
        (
            "registry.example.com/**",
            ("registry.example.com/a", "Registry.example.com:443/a/b"),
            (
                "registry.example.com.evil.test/a",
                "evil.test/registry.example.com/a",
                "registry.example.com:8443/a",
                "nginx",
            ),
        ),
        (
            "registry.example.com/*",
            ("registry.example.com/a:1",),
            ("registry.example.com/a/b",),
        ),
        (
            "registry.example.com/team-?/*",
            ("registry.example.com/team-a/x",),
            ("registry.example.com/team-ab/x",),
        ),
        ("docker.io/*", ("nginx", "library/nginx"), ("pytorch/pytorch",)),
        ("docker.io/**", ("nginx", "pytorch/pytorch", "index.docker.io/a/b"), ("quay.io/a/b",)),
        ("*.example.com/**", ("a.example.com/x",), ("a/b.example.com/x", "example.com/x")),
        ("**:latest", ("nginx", "quay.io/a:latest"), ("nginx:1", f"nginx:latest@{SHA}")),
        ("nginx:1.*", ("nginx:1.27",), ("nginx:2", f"nginx:1.27@{SHA}")),
        ("nginx@sha256:*", (f"nginx@{SHA}", f"nginx:1@{SHA}"), ("nginx:1",)),
        ("localhost:5000/**", ("localhost:5000/a/b",), ("localhost/a",)),
    ],
)
def test_patterns(pattern: str, yes: tuple[str, ...], no: tuple[str, ...]) -> None:
    matches = image_glob(pattern).matches
    assert [r for r in yes if not matches(parse(r))] == []
    assert [r for r in no if matches(parse(r))] == []


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("*", "** matches every image"),
        ("*/torch", "docker.io/*/torch"),
        ("registry.example.com/", "registry.example.com/**"),
        ("https://registry.example.com/**", "no scheme"),
        ("registry.example.com/Team/**", "lower-case"),
        ("nginx:", "nothing behind"),
        ("nginx@", "nothing behind"),
        ("", "matches no image"),
        ("a{b,c}/x", "matches no image"),
        ("a" * 600, "at most 512"),
    ],
)
def test_patterns_that_do_not_say_what_they_seem_to_are_refused(pattern: str, says: str) -> None:
    with pytest.raises(GlobError):
        image_glob(pattern)
    assert says in images.problem(pattern)


def test_a_good_pattern_has_no_problem() -> None:
    assert images.problem("registry.example.com/**") == ""
    assert images.first(("quay.io/**", "**"), parse("nginx")) == "**"
