"""Who may own a patch: a domain-prefixed path, and none of ours."""

from __future__ import annotations

import pytest

from tests.builders import job_patch, make_runtime, make_train_job
from tests.plugins.kit import Case, check, forbidden, invalid, table

RUNTIME = make_runtime().plain().node()
JOB = make_train_job().suspended()
AT = "spec.runtimePatches[0].manager"

# As the Trainer's own code answers (IsDomainPrefixedPath).
GOOD = [
    "kueue.k8s.io/manager",
    "kueue.x-k8s.io/manager",
    "a.io/b/c",
    "x/y",
    "a.io/%zz",
    "a.io/b-c._~!$&'()*+,;=:",
    "1a.io/x",
]
BAD = {
    "J22 kueue.k8s.io/": (
        "kueue.k8s.io/",
        'must be a domain-prefixed path (such as "acme.io/foo")',
    ),
    "J23 no path": ("foo", "must be a domain-prefixed path"),
    "J23 upper case in the domain": ("Foo.io/x", '"Foo.io" must be a lowercase RFC 1123 subdomain'),
    "J23 a blank in the path": ("a.io/b c", "Invalid path"),
    "no domain": ("/x", "must be a domain-prefixed path"),
    "an underscore in the domain": ("a_b.io/x", "RFC 1123 subdomain"),
    "an empty label in the domain": ("a..io/x", "RFC 1123 subdomain"),
    "a dash before the domain": ("-a.io/x", "RFC 1123 subdomain"),
    "a question mark in the path": ("a.io/b?c", "Invalid path"),
    "a letter that is not ASCII": ("a.io/ü", "Invalid path"),
}


@pytest.mark.parametrize("manager", GOOD)
def test_managers_that_pass(manager: str) -> None:
    check(Case(job=JOB.patch(manager, job_patch("node")), runtime=RUNTIME))


@table(BAD)
def test_managers_that_are_refused(case: tuple[str, str]) -> None:
    manager, says = case
    check(
        Case(job=JOB.patch(manager), runtime=RUNTIME, refused=(invalid(AT, f'"{manager}"', says),))
    )


def test_each_is_refused_at_its_own_index() -> None:
    job = JOB.patch("a.io/x").patch("foo").patch("b.io/x").patch("bar")
    refused = (invalid("spec.runtimePatches[1].manager"), invalid("spec.runtimePatches[3].manager"))
    check(Case(job=job, runtime=RUNTIME, refused=refused))


@pytest.mark.parametrize("manager", ["stationmaster.dev/defaults", "stationmaster.dev/overrides"])
def test_our_own_names_are_ours(manager: str) -> None:
    refused = (forbidden(AT, "belongs to Stationmaster"),)
    check(Case(job=JOB.patch(manager), runtime=RUNTIME, refused=refused))


def test_our_own_names_are_ours_on_update_too() -> None:
    job = JOB.patch("a.io/x").patch("stationmaster.dev/overrides")
    refused = (forbidden("spec.runtimePatches[1].manager", "belongs to Stationmaster"),)
    check(Case(old=JOB, job=job, runtime=RUNTIME, refused=refused))


def test_an_entry_of_ours_that_is_stored_passes() -> None:
    old = JOB.patch("stationmaster.dev/defaults")
    check(Case(old=old, job=old.patch("a.io/x"), runtime=RUNTIME))


def test_a_bad_name_that_is_stored_passes() -> None:
    old = JOB.patch("foo")
    check(Case(old=old, job=old.patch("a.io/x"), runtime=RUNTIME))


def test_a_bad_name_that_is_new_is_refused_on_update() -> None:
    refused = (invalid("spec.runtimePatches[1].manager"),)
    check(
        Case(
            old=JOB.patch("foo"),
            job=JOB.patch("foo").patch("bar"),
            runtime=RUNTIME,
            refused=refused,
        )
    )
