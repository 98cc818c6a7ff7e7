"""What each verb is for. Who adds one says so here; one that is not needed any more goes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.deploy.conftest import Rendered
from webhook.install import settings as install
from webhook.kube.events import FOLLOWED
from webhook.kube.resources import ALWAYS, ASKED

CACHES = "the caches list and watch it (webhook/kube/resources.py)"
ADVICE = "the warnings of plugins/lifecycle are made of it (webhook/kube/resources.py)"
CERTIFICATES = "certificates shared by the replicas (webhook/kube/secret.py)"
LEASE = "who of the replicas writes (webhook/kube/lease.py)"
POLICIES = "what the platform has written is read, and followed"
STATUS = "whether a policy is Ready, in conflict, and what it did is told in its status"
PARAMS = (
    "what policies name as their params, of those with the label stationmaster.dev/params: the"
    " selector is in the request, as RBAC has none"
)
SWITCH = "the mode is followed, by the one name (webhook/kube/mode.py)"
EVENTS = (
    "what is told of TrainJobs and JobSets, and which of it we have told (webhook/kube/events.py)"
)
TELLING = "an Event on a TrainJob; to tell it again is to count it on (webhook/kube/correlator.py)"
BUNDLE = (
    "the caBundle is compared and repaired (webhook/kube/injector.py), Fail armed and disarmed"
    " (webhook/kube/arming.py)"
)

FOR = {
    **{
        (f"trainer.kubeflow.org/{plural}", verb): CACHES
        for plural in ("trainingruntimes", "clustertrainingruntimes")
        for verb in ("list", "watch")
    },
    **{
        (f"trainer.kubeflow.org/{plural}", "get"): "a CREATE names one that the caches lack"
        for plural in ("trainingruntimes", "clustertrainingruntimes")
    },
    **{
        (resource, verb): CACHES
        for resource in (
            "/limitranges",
            "/namespaces",
            "node.k8s.io/runtimeclasses",
            "scheduling.k8s.io/priorityclasses",
            "apiextensions.k8s.io/customresourcedefinitions",
        )
        for verb in ("list", "watch")
    },
    **{
        (resource, verb): ADVICE
        for resource in (
            "trainer.kubeflow.org/trainjobs",
            "jobset.x-k8s.io/jobsets",
            "scheduling.x-k8s.io/podgroups",
            "scheduling.volcano.sh/podgroups",
        )
        for verb in ("list", "watch")
    },
    **{
        (f"stationmaster.dev/{plural}", verb): POLICIES
        for plural in ("trainjobpolicies", "namespacedtrainjobpolicies", "policyexceptions")
        for verb in ("list", "watch")
    },
    **{
        (f"stationmaster.dev/{plural}/status", "patch"): STATUS
        for plural in ("trainjobpolicies", "namespacedtrainjobpolicies", "policyexceptions")
    },
    **{("/configmaps", verb): PARAMS for verb in ("list", "watch")},
    ("/events", "list"): EVENTS,
    ("/events", "watch"): EVENTS,
    ("/events", "create"): TELLING,
    ("/events", "patch"): TELLING,
    ("/configmaps", "get"): "the Trainer's snapshot of a runtime, beside its TrainJob",
}
STATUSES = {what for what in FOR if what[0].endswith("/status")}
NAMED = {
    (
        "/namespaces",
        "get",
        "stationmaster-system",
    ): "the registration ends with it (webhook/kube/tie.py)",
    ("/configmaps", "list", "stationmaster-mode"): SWITCH,
    ("/configmaps", "watch", "stationmaster-mode"): SWITCH,
    ("/secrets", "get", "stationmaster-certs"): CERTIFICATES,
    ("/secrets", "update", "stationmaster-certs"): CERTIFICATES,
    ("coordination.k8s.io/leases", "get", "stationmaster"): LEASE,
    ("coordination.k8s.io/leases", "update", "stationmaster"): LEASE,
    (
        "apps/deployments",
        "get",
        "stationmaster",
    ): "how many replicas are Ready decides what fails closed (webhook/kube/arming.py)",
    **{
        (f"admissionregistration.k8s.io/{kind}webhookconfigurations", verb, name): BUNDLE
        for kind, name in (("mutating", "00-stationmaster"), ("validating", "stationmaster"))
        for verb in ("get", "patch")
    },
}
IN_OUR_NAMESPACE = {
    ("/secrets", "create"): CERTIFICATES,
    ("coordination.k8s.io/leases", "create"): LEASE,
}


def granted(rendered: Rendered, kind: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for role in rendered:
        if role["kind"] == kind:
            for rule in role["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        for verb in rule["verbs"]:
                            names = tuple(rule.get("resourceNames", ()))
                            yield f"{group}/{resource}", verb, names


def test_each_verb_is_for_something_and_there_is_no_other(self_managed: Rendered) -> None:
    unnamed = {
        (what, verb) for what, verb, names in granted(self_managed, "ClusterRole") if not names
    }
    local = {(what, verb) for what, verb, names in granted(self_managed, "Role") if not names}
    named = {
        (what, verb, name)
        for kind in ("Role", "ClusterRole")
        for what, verb, names in granted(self_managed, kind)
        for name in names
    }

    assert unnamed == set(FOR)
    assert local == set(IN_OUR_NAMESPACE)
    assert named == set(NAMED)


def test_secrets_are_never_listed_and_never_another_namespaces(manifests: Rendered) -> None:
    """``list secrets`` reads every Secret there is."""
    for what, verb, _ in granted(manifests, "ClusterRole"):
        assert what != "/secrets"
        assert "*" not in what + verb
    for what, verb, names in granted(manifests, "Role"):
        assert (what, verb) not in {("/secrets", "list"), ("/secrets", "watch")}
        assert what != "/configmaps" or names == ("stationmaster-mode",)


def test_what_is_kept_may_be_read(manifests: Rendered) -> None:
    may = {(what, verb) for what, verb, _ in granted(manifests, "ClusterRole")}

    for resource in (*ALWAYS, *ASKED, *FOLLOWED):
        for verb in ("list", "watch"):
            assert (f"{resource.group}/{resource.plural}", verb) in may


def test_with_cert_manager_only_what_is_told_may_be_written_and_who_writes_it(kubectl: str) -> None:
    from tests.deploy.tools import kustomized  # noqa: PLC0415  # needs kubectl

    rendered = kustomized(kubectl, "cert-manager")
    writes = {
        (what, verb)
        for kind in ("Role", "ClusterRole")
        for what, verb, _ in granted(rendered, kind)
        if verb not in {"get", "list", "watch"}
    }

    assert writes == {
        ("/events", "create"),
        ("/events", "patch"),
        ("coordination.k8s.io/leases", "create"),
        ("coordination.k8s.io/leases", "update"),
        *STATUSES,
    }


def test_with_cert_manager_and_without_events_only_statuses_may_be_written_and_who_writes_them() -> (
    None
):
    rendered = install.manifests(install.Settings(certificates="cert-manager", events=False))
    writes = {
        (what, verb)
        for kind in ("Role", "ClusterRole")
        for what, verb, _ in granted(rendered, kind)
        if verb not in {"get", "list", "watch"}
    }

    assert writes == {
        *STATUSES,
        ("coordination.k8s.io/leases", "create"),
        ("coordination.k8s.io/leases", "update"),
    }


def test_roles_are_bound_to_our_account_only(manifests: Rendered) -> None:
    for binding in manifests:
        if binding["kind"] in {"RoleBinding", "ClusterRoleBinding"}:
            (subject,) = binding["subjects"]
            assert (subject["kind"], subject["name"]) == ("ServiceAccount", "stationmaster")
