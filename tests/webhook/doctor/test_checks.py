"""A good installation, and each thing that can be wrong with one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs import stored
from tests.webhook.doctor import good as g
from webhook.doctor.checks import examine
from webhook.doctor.facts import Facts, Unread
from webhook.doctor.finding import Finding
from webhook.doctor.installed import entries
from webhook.doctor.reading import needs
from webhook.doctor.workload import MOST_NAMED
from webhook.kube.shared import CONFIGURATIONS

UNREAD = Unread(what="things", why="403 Forbidden: no", needs="may get things")
STRANGER = g.make_authority()
FEWER = list(needs(g.NAMESPACE, "cert-manager"))


@dataclass(frozen=True, kw_only=True)
class Case:
    given: Callable[[], Facts]
    want: Sequence[tuple[str, str, str]]
    """Check, level, and a part of the message: all that is not ok."""


def changed(**fields: Any) -> Callable[[], Facts]:
    return lambda: replace(g.good(), **fields)


def entry(
    place: int,
    change: Callable[[g.Object], object],
    *,
    validating: bool = False,
    given: Callable[[], Facts] = g.good,
) -> Facts:
    """With one of our entries changed."""
    facts = given()
    among = facts.validating if validating else facts.mutating
    assert not isinstance(among, Unread)
    change(among[0]["webhooks"][place])
    return facts


def with_bundle(ca: bytes) -> Callable[[g.Object], object]:
    encoded = base64.b64encode(ca).decode()
    return lambda webhook: webhook["clientConfig"].update(caBundle=encoded)


def served(pem: bytes) -> dict[str, bytes]:
    return {stored.CA: g.pem(g.SIGNER), stored.LEAF: pem}


def places() -> list[str]:
    """What our entries are called, in order."""
    facts = g.good()
    return sorted(
        each.place(webhook["name"]) for each in CONFIGURATIONS for webhook in entries(facts, each)
    )


def without_events() -> g.Object:
    deployment = g.ready(2, of=2)
    pod = {"spec": {"containers": [{"args": ["serve", "--no-events"]}]}}
    return {**deployment, "spec": {**deployment["spec"], "template": pod}}


def switched(text: str) -> g.Object:
    return {"data": {"mode": text}}


def calling(why: str) -> str:
    return f'Internal error occurred: failed calling webhook "trainjobs.stationmaster.dev": {why}'


def denied_one(facts: Facts, *refused: str) -> Facts:
    assert not isinstance(facts.rights, Unread)
    rights = {right: str(right) not in refused for right in facts.rights}
    assert list(rights.values()).count(False) == len(refused)
    return replace(facts, rights=rights)


def entry_removed() -> Facts:
    facts = g.good()
    assert not isinstance(facts.validating, Unread)
    del facts.validating[0]["webhooks"][1]
    return facts


def pod_groups_entry(change: Callable[[g.Object], object]) -> Callable[[], Facts]:
    return lambda: entry(1, change, given=g.with_pod_groups)


def running(*flags: str, given: Callable[[], Facts]) -> Callable[[], Facts]:
    """With replicas that have these flags."""
    return lambda: replace(given(), deployment=g.ready(2, of=2, flags=flags))


def also(configuration: g.Object) -> Facts:
    facts = g.good()
    assert not isinstance(facts.mutating, Unread)
    return replace(facts, mutating=[configuration, *facts.mutating])


def with_policies(*policies: g.Object) -> Callable[[], Facts]:
    return changed(policies=policies)


def leaving(pod: g.Object) -> g.Object:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": g.RENEWED}}


def failing_open(given: Facts | None = None, **fields: Any) -> Facts:
    facts = replace(given or g.good(), **fields)
    for among in (facts.mutating, facts.validating):
        assert not isinstance(among, Unread)
        for webhook in among[0]["webhooks"]:
            webhook["failurePolicy"] = "Ignore"
    return facts


CASES = {
    "nothing is wrong": Case(given=g.good, want=()),
    "nothing is wrong with cert-manager": Case(given=g.by_cert_manager, want=()),
    # trainer
    "no Trainer": Case(
        given=changed(crd=None), want=[("trainer", "fail", "no TrainJobs are served")]
    ),
    "a Trainer that nobody knows": Case(
        given=changed(crd=g.crd("newOverrides")),
        want=[("trainer", "fail", "of no version of the Trainer that is known")],
    ),
    "TrainJobs of another API version": Case(
        given=changed(crd=g.crd(version="v2")),
        want=[("trainer", "fail", "served as v2, not as v1alpha1")],
    ),
    # registration
    "the mutating configuration is gone": Case(
        given=changed(mutating=[g.other(g.TRAINER)]),
        want=[("registration", "fail", "mutating/00-stationmaster does not exist")],
    ),
    "an entry was removed": Case(
        given=entry_removed,
        want=[
            ("registration", "fail", "stationmaster/deletions.stationmaster.dev is missing"),
        ],
    ),
    "an entry calls another namespace": Case(
        given=lambda: entry(0, lambda w: w["clientConfig"]["service"].update(namespace="old")),
        want=[("registration", "fail", "calls the service old/stationmaster, not")],
    ),
    "an entry fails closed in kube-system": Case(
        given=lambda: entry(0, lambda w: w.update(namespaceSelector={}), validating=True),
        want=[
            ("registration", "fail", f"fails closed in {namespace},")
            for namespace in ("kube-system", "kube-public", "kube-node-lease", g.NAMESPACE)
        ],
    ),
    "an entry calls another path": Case(
        given=lambda: entry(0, lambda w: w["clientConfig"]["service"].update(path="/validate")),
        want=[("registration", "fail", 'calls "/validate" of our Service, not /mutate')],
    ),
    "an entry calls no path": Case(
        given=lambda: entry(0, lambda w: w["clientConfig"]["service"].pop("path")),
        want=[("registration", "fail", 'calls "/" of our Service, not /mutate')],
    ),
    "an entry calls us by a URL, from outside": Case(
        given=lambda: entry(
            0, lambda w: w["clientConfig"].update(service=None, url="https://a.example/mutate")
        ),
        want=(),
    ),
    "an entry has lost its updates": Case(
        given=lambda: entry(0, lambda w: w["rules"][0].update(operations=["CREATE"])),
        want=[
            ("registration", "fail", "send us UPDATE of trainjobs.trainer.kubeflow.org/v1alpha1")
        ],
    ),
    "an entry sends more than it must": Case(
        given=lambda: entry(0, lambda w: w["rules"][0].update(operations=["*"], resources=["*/*"])),
        want=(),
    ),
    "an entry has no rules": Case(
        given=lambda: entry(1, lambda w: w.pop("rules"), validating=True),
        want=[("registration", "fail", "does not send us DELETE of trainjobs.")],
    ),
    "deletions fail closed": Case(
        given=lambda: entry(1, lambda w: w.update(failurePolicy="Fail"), validating=True),
        want=[("registration", "fail", "/deletions.stationmaster.dev fails closed: what it")],
    ),
    # order
    "the Trainer comes first": Case(
        given=lambda: also(g.other("0.trainer.kubeflow.org")),
        want=[("order", "fail", "before 00-stationmaster: the Trainer does not see")],
    ),
    "Kueue comes first, under another name": Case(
        given=lambda: also(g.other("0-queues", service="kueue-webhook-service")),
        want=[("order", "fail", "0-queues is called before 00-stationmaster: Kueue does not see")],
    ),
    "another name sorts before ours": Case(
        given=lambda: also(g.other("0-labels", group="*", resource="*")),
        want=[("order", "warn", "0-labels changes TrainJobs before 00-stationmaster")],
    ),
    "one for another kind may sort before ours": Case(
        given=lambda: also(g.other("0-pods", group="", resource="pods")), want=()
    ),
    "not called again": Case(
        given=lambda: entry(0, lambda w: w.update(reinvocationPolicy="Never")),
        want=[("order", "fail", "is not called again")],
    ),
    # failure-policy
    "the two entries differ": Case(
        given=lambda: entry(0, lambda w: w.update(failurePolicy="Ignore"), validating=True),
        want=[
            ("failure-policy", "warn", "mutating/00-stationmaster/trainjobs.stationmaster.dev says")
        ],
    ),
    # mode
    "only warned": Case(given=changed(mode=switched("warn")), want=[("mode", "warn", "warn, as")]),
    "switched off": Case(given=changed(mode=switched("Off\n")), want=[("mode", "warn", "off, as")]),
    "a mode that is none": Case(
        given=changed(mode=switched("Enforced")), want=[("mode", "warn", "says 'enforced'")]
    ),
    "a switch without its key": Case(given=changed(mode={}), want=[("mode", "warn", "says ''")]),
    "enforced in so many words": Case(given=changed(mode=switched("enforce")), want=()),
    # deployment
    "no Deployment": Case(
        given=changed(deployment=None), want=[("deployment", "fail", "there is none")]
    ),
    "none is Ready": Case(
        given=changed(deployment=g.ready(0, of=2)),
        want=[("deployment", "fail", "0 of 2 replicas are Ready")],
    ),
    "one of two is Ready": Case(
        given=changed(deployment=g.ready(1, of=2)),
        want=[("deployment", "warn", "1 of 2 replicas are Ready")],
    ),
    "only one is wanted": Case(
        given=changed(deployment=g.ready(1, of=1)),
        want=[("deployment", "warn", "each restart is an outage")],
    ),
    "scaled to none": Case(
        given=changed(deployment=g.ready(0, of=0)),
        want=[("deployment", "fail", "0 of 0 replicas are Ready")],
    ),
    # versions
    "two images": Case(
        given=changed(pods=[*g.pods("sm:2", "sm:1")]),
        want=[("versions", "warn", "replicas differ: sm:1, sm:2")],
    ),
    "one tag that means two images": Case(
        given=changed(pods=[*g.pods("sm:1", image_id="@a"), *g.pods("sm:1", image_id="@b")]),
        want=[("versions", "warn", "sm:1 (@a), sm:1 (@b)")],
    ),
    "a replica that is leaving does not count": Case(
        given=lambda: replace(g.good(), pods=[*g.pods("sm:2"), leaving(*g.pods("sm:1"))]), want=()
    ),
    # podgroups
    "nothing is wrong with PodGroups": Case(given=g.with_pod_groups, want=()),
    "PodGroups are registered, and replicas do not know of it": Case(
        given=running(given=g.with_pod_groups),
        want=[
            (
                "podgroups",
                "fail",
                "not corrected: mutating/00-stationmaster/podgroups.stationmaster.dev has us asked",
            )
        ],
    ),
    "replicas would correct PodGroups, and nobody asks them": Case(
        given=running("--podgroups", given=g.good),
        want=[
            (
                "podgroups",
                "fail",
                "run with --podgroups, but there is no mutating/00-stationmaster/",
            )
        ],
    ),
    "a profile says whether PodGroups are corrected": Case(
        given=running("--profile=/etc/p.yaml", given=g.with_pod_groups), want=()
    ),
    "a profile may correct PodGroups, and nobody asks": Case(
        given=running("--profile", "/etc/p.yaml", given=g.good), want=()
    ),
    "PodGroups are registered, and the Deployment may not be read": Case(
        given=lambda: replace(g.with_pod_groups(), deployment=UNREAD),
        want=[
            (check, "warn", "things: 403 Forbidden: no") for check in ("deployment", "podgroups")
        ],
    ),
    "PodGroups are registered, and there is no Deployment": Case(
        given=lambda: replace(g.with_pod_groups(), deployment=None),
        want=[("deployment", "fail", "there is none")],
    ),
    "PodGroups are sent elsewhere": Case(
        given=pod_groups_entry(lambda w: w["clientConfig"]["service"].update(path="/mutate")),
        want=[
            (
                "registration",
                "fail",
                'podgroups.stationmaster.dev calls "/mutate" of our Service, not /mutate-podgroups',
            )
        ],
    ),
    "PodGroups fail closed": Case(
        given=pod_groups_entry(lambda w: w.update(failurePolicy="Fail")),
        want=[
            ("registration", "fail", "podgroups.stationmaster.dev fails closed: what it matches")
        ],
    ),
    "PodGroups of Volcano are not sent": Case(
        given=pod_groups_entry(lambda w: w["rules"].pop(0)),
        want=[
            (
                "registration",
                "fail",
                "does not send us CREATE of podgroups.scheduling.volcano.sh/v1beta1, UPDATE of",
            )
        ],
    ),
    "PodGroups are not sent again": Case(
        given=pod_groups_entry(lambda w: w.update(reinvocationPolicy="Never")),
        want=[("order", "fail", "podgroups.stationmaster.dev is not called again")],
    ),
    "the TrainJob of a PodGroup may not be read": Case(
        given=lambda: denied_one(g.with_pod_groups(), "get trainjobs.trainer.kubeflow.org"),
        want=[("rbac", "fail", "may not: get trainjobs.trainer.kubeflow.org")],
    ),
    # policies
    "there are none": Case(given=changed(policies=[]), want=()),
    "a policy does not compile": Case(
        given=with_policies(g.policy(), g.policy("typo", why=("NotCompiled", "no field x"))),
        want=[
            (
                "policies",
                "fail",
                "TrainJobPolicy typo is not Ready, NotCompiled: no field x; each TrainJob that it is"
                " about hears of it as its actions say (failurePolicy Fail)",
            )
        ],
    ),
    "one of a team is passed by": Case(
        given=with_policies(
            g.policy("b", namespace="a", why=("Invalid", "no"), failure_policy="Ignore")
        ),
        want=[
            (
                "policies",
                "warn",
                "NamespacedTrainJobPolicy a/b is not Ready, Invalid: no; TrainJobs pass it by"
                " (failurePolicy Ignore)",
            )
        ],
    ),
    "what refuses is said before what is passed by": Case(
        given=with_policies(
            g.policy("a", why=("Invalid", "no"), failure_policy="Ignore"),
            g.policy("c", why=("Conflict", "of the same priority")),
            g.policy("b", why=("Quarantined", "twice")),
        ),
        want=[
            ("policies", "fail", "TrainJobPolicy b is not Ready, Quarantined: twice"),
            ("policies", "fail", "TrainJobPolicy c is not Ready, Conflict: of the same priority"),
            ("policies", "warn", "TrainJobPolicy a is not Ready, Invalid: no"),
        ],
    ),
    "two policies met": Case(
        given=with_policies(g.policy(conflict="at metadata.labels[a]")),
        want=[
            (
                "policies",
                "warn",
                "TrainJobPolicy gpus has met another policy, and neither value was written: at"
                " metadata.labels[a]",
            )
        ],
    ),
    "nobody writes conditions": Case(
        given=with_policies(g.policy(told=0)),
        want=[("policies", "warn", "TrainJobPolicy gpus: nobody has said yet whether it is Ready")],
    ),
    "a policy was just created": Case(
        given=with_policies(g.policy(told=0, made="2026-03-01T11:59:30Z")), want=()
    ),
    "a policy has changed since its conditions were written": Case(
        given=with_policies(g.policy(told=-1, why=("Invalid", "no longer true"))),
        want=[("policies", "warn", "is Ready: its status is about an older text")],
    ),
    "many are not Ready": Case(
        given=with_policies(*(g.policy(f"p-{i:02}", why=("Invalid", "no")) for i in range(12))),
        want=[
            *(("policies", "fail", f"TrainJobPolicy p-{i:02} is not Ready") for i in range(10)),
            ("policies", "fail", "and 2 more"),
        ],
    ),
    "the kinds of policies are not installed": Case(
        given=changed(policies=None),
        want=[("policies", "warn", "TrainJobPolicy or NamespacedTrainJobPolicy is not a kind of")],
    ),
    "policies may not be read": Case(
        given=changed(policies=UNREAD), want=[("policies", "warn", "things: 403 Forbidden: no")]
    ),
    # rbac
    "a right is missing": Case(
        given=lambda: denied_one(g.good(), "list limitranges"),
        want=[("rbac", "fail", "our service account may not: list limitranges")],
    ),
    "a right on one object is missing": Case(
        given=lambda: denied_one(
            g.good(), "get secrets stationmaster-certs in stationmaster-system"
        ),
        want=[("rbac", "fail", "get secrets stationmaster-certs in stationmaster-system")],
    ),
    "many rights are missing": Case(
        given=lambda: replace(g.good(), rights=dict.fromkeys(FEWER, False)),
        want=[("rbac", "fail", f"; and {len(FEWER) - MOST_NAMED} more")],
    ),
    # lease
    "no Lease": Case(given=changed(lease=None), want=[("lease", "fail", "does not exist")]),
    "nobody holds it": Case(
        given=changed(lease={"spec": {"holderIdentity": "", "renewTime": g.RENEWED}}),
        want=[("lease", "fail", "is held by nobody")],
    ),
    "its holder is gone": Case(
        given=changed(now=g.NOW + timedelta(minutes=2)),
        want=[("lease", "fail", "stationmaster-0_ab has not renewed it since 2026-03-01 11:59:58")],
    ),
    "its holder lives in the future": Case(
        given=changed(now=g.NOW - timedelta(minutes=2)),
        want=[("lease", "warn", "which is in the future")],
    ),
    "nobody holds it with cert-manager, so that no Events are written": Case(
        given=lambda: replace(g.by_cert_manager(), lease=None),
        want=[("lease", "warn", "does not exist")],
    ),
    "with cert-manager and without Events nobody needs it": Case(
        given=lambda: replace(g.by_cert_manager(), lease=None, deployment=without_events()),
        want=(),
    ),
    # certificate
    "no Secret": Case(
        given=changed(secret=None),
        want=[("certificate", "fail", "stationmaster-certs does not exist: nothing can be served")],
    ),
    "a Secret without a certificate": Case(
        given=changed(secret={stored.CA: g.pem(g.SIGNER)}),
        want=[("certificate", "fail", "holds no tls.crt")],
    ),
    "no Secret of cert-manager": Case(
        given=lambda: replace(g.by_cert_manager(), secret=None),
        want=[("certificate", "fail", "stationmaster-serving does not exist")],
    ),
    "an expired certificate": Case(
        given=changed(secret=served(g.leaf(g.SIGNER, days=0).certificate)),
        want=[("certificate", "fail", "expired on 2026-03-01 12:00 UTC")],
    ),
    "a certificate of tomorrow": Case(
        given=changed(secret=served(g.leaf(g.SIGNER, now=g.NOW + timedelta(days=1)).certificate)),
        want=[("certificate", "fail", "not valid before 2026-03-02")],
    ),
    "a certificate that nobody has renewed": Case(
        given=changed(secret=served(g.leaf(g.SIGNER, now=g.NOW - timedelta(days=25)).certificate)),
        want=[("certificate", "warn", "should have been renewed by now")],
    ),
    "a certificate for another name": Case(
        given=changed(secret=served(g.leaf(g.SIGNER, names=("localhost",)).certificate)),
        want=[("certificate", "fail", "it is not for stationmaster.stationmaster-system.svc")],
    ),
    "a certificate of a stranger": Case(
        given=changed(secret=served(g.leaf(STRANGER).certificate)),
        want=[("certificate", "fail", f"{place} does not trust it") for place in places()],
    ),
    # ca-bundle
    "a bundle was wiped": Case(
        given=lambda: entry(1, with_bundle(b""), validating=True),
        want=[
            ("ca-bundle", "fail", "deletions.stationmaster.dev trusts nobody"),
        ],
    ),
    "a bundle is rubbish": Case(
        given=lambda: entry(0, with_bundle(b"rubbish")),
        want=[
            ("certificate", "fail", "mutating/00-stationmaster/trainjobs"),
            ("ca-bundle", "fail", "its caBundle cannot be read"),
            ("ca-bundle", "fail", "do not all have the same"),
        ],
    ),
    "a bundle is another's": Case(
        given=lambda: entry(0, with_bundle(g.pem(STRANGER))),
        want=[
            ("certificate", "fail", "mutating/00-stationmaster/trainjobs"),
            ("ca-bundle", "fail", "do not all have the same"),
        ],
    ),
    "an expired authority": Case(
        given=lambda: entry(0, with_bundle(g.pem(g.make_authority(seconds=0)))),
        want=[
            ("certificate", "fail", "mutating/00-stationmaster/trainjobs"),
            ("ca-bundle", "fail", "its caBundle has expired"),
            ("ca-bundle", "fail", "do not all have the same"),
        ],
    ),
    # reach
    "refused by somebody behind us": Case(
        given=changed(trial=g.trial('admission webhook "validator.x" denied the request: no')),
        want=[("reach", "fail", "was not refused by us")],
    ),
    "not refused at all": Case(
        given=changed(trial=g.trial("", status=201)),
        want=[("reach", "fail", "was not refused by us")],
    ),
    "nobody listens": Case(
        given=changed(
            trial=g.trial(
                calling('Post "https://a": dial tcp 10.0.0.1:443: connect: connection refused'),
                status=500,
            )
        ),
        want=[("reach", "fail", 'cannot reach us: Post "https://a": dial tcp')],
    ),
    "in a namespace that is left out": Case(
        given=changed(trial=g.trial("", status=201, namespace="kube-system")),
        want=[("reach", "warn", "of the namespace kube-system are not ours to judge")],
    ),
    "in a namespace that does not exist": Case(
        given=changed(trial=g.trial('namespaces "x" not found', status=404, namespace="x")),
        want=[("reach", "warn", 'namespaces "x" not found')],
    ),
    "by somebody who may not make TrainJobs": Case(
        given=changed(trial=g.trial('User "bob" cannot create resource', status=403)),
        want=[("reach", "warn", 'cannot be told: User "bob" cannot create')],
    ),
    "we refuse nothing while we only warn": Case(
        given=changed(mode=switched("warn"), trial=g.trial("", status=201)),
        want=[("mode", "warn", "warn, as")],
    ),
    "we refuse nothing while we only warn, and who is not reached is passed over": Case(
        given=lambda: failing_open(
            g.by_cert_manager(), mode=switched("off"), trial=g.trial("", status=201)
        ),
        want=[("mode", "warn", "off, as"), ("reach", "warn", "cannot be told: the mode is off")],
    ),
    "not armed, though enough replicas are Ready": Case(
        given=failing_open,
        want=[("failure-policy", "warn", "Ignore, though enough replicas are Ready")],
    ),
    "not armed, as one replica is too few": Case(
        given=lambda: failing_open(deployment=g.ready(1, of=2)),
        want=[("deployment", "warn", "1 of 2 replicas are Ready")],
    ),
    "not armed, and nobody knows how many replicas are Ready": Case(
        given=lambda: failing_open(deployment=UNREAD),
        want=[("deployment", "warn", "things: 403 Forbidden: no")],
    ),
    "failing open for good, with cert-manager": Case(
        given=lambda: failing_open(g.by_cert_manager()), want=()
    ),
    # what may not be read
    "the configurations may not be read": Case(
        given=changed(mutating=UNREAD, validating=UNREAD),
        want=[("registration", "warn", "things: 403 Forbidden: no")] * 2,
    ),
    "the configurations may not be read, and we are not reached": Case(
        given=changed(
            mutating=UNREAD,
            validating=UNREAD,
            trial=g.trial(calling("connection refused"), status=500),
        ),
        want=[
            *[("registration", "warn", "things: 403 Forbidden: no")] * 2,
            ("reach", "fail", "cannot reach us: connection refused"),
        ],
    ),
    "nothing else may be read": Case(
        given=changed(
            crd=UNREAD,
            deployment=UNREAD,
            pods=UNREAD,
            lease=UNREAD,
            mode=UNREAD,
            secret=UNREAD,
            rights=UNREAD,
            trial=replace(g.trial(), tried=UNREAD),
        ),
        want=[
            (check, "warn", "cannot be told: things: 403 Forbidden: no")
            for check in (
                *("trainer", "mode", "deployment", "versions", "rbac", "lease"),
                *("certificate", "reach"),
            )
        ],
    ),
}

REMEDIES = {
    "x509: certificate signed by unknown authority": "see the checks of both",
    'no endpoints available for service "stationmaster"': "no replica is Ready",
    "connect: connection refused": "nobody listens there",
    "context deadline exceeded": "a firewall or NetworkPolicy",
    'service "stationmaster" not found': "stationmaster manifests | kubectl apply -f -",
    "EOF": "see the other checks",
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said_and_nothing_else(case: str) -> None:
    found = [each for each in examine(CASES[case].given()) if each.level != "ok"]

    want = CASES[case].want
    assert [(f.check, f.level) for f in found] == [(check, level) for check, level, _ in want]
    for finding, (_, _, message) in zip(found, want, strict=True):
        assert message in finding.message
        assert finding.remedy


def test_of_a_good_installation_each_check_says_one_thing() -> None:
    assert examine(g.good()) == [
        Finding(check=check, level="ok", message=message)
        for check, message in (
            ("trainer", "2.3: TrainJobs have runtimePatches"),
            ("registration", "both configurations are there, with all their entries"),
            ("order", f"00-stationmaster is called before {g.TRAINER}, {g.KUEUE}"),
            (
                "failure-policy",
                "Fail: new TrainJobs are refused while no replica can be reached",
            ),
            ("mode", "enforce"),
            ("deployment", "2 of 2 replicas are Ready"),
            ("versions", "all replicas run stationmaster:0.1.0"),
            ("podgroups", "left as the Trainer makes them, which is the default"),
            ("policies", "2 of 2 are Ready"),
            ("rbac", "our service account may do all that it needs"),
            ("lease", "held by stationmaster-0_ab"),
            ("certificate", "valid until 2026-03-31, and trusted by every entry"),
            ("ca-bundle", "the same in every entry, until 2027-03-01"),
            ("reach", "the API server asked us about a TrainJob in default"),
        )
    ]


AGAIN = {
    "with nothing said": (g.good, ""),
    "with PodGroups": (g.with_pod_groups, " --podgroups"),
    "with PodGroups that are only served": (running("--podgroups", given=g.good), " --podgroups"),
    "with cert-manager": (g.by_cert_manager, " --certificates cert-manager"),
    "in another namespace": (changed(namespace="team"), " --namespace team"),
}


@pytest.mark.parametrize("case", AGAIN)
def test_what_to_apply_again_is_what_was_installed(case: str) -> None:
    given, options = AGAIN[case]
    facts = replace(given(), rights=dict.fromkeys(FEWER, False))

    (finding,) = [each for each in examine(facts) if each.check == "rbac"]

    assert finding.remedy == f"stationmaster manifests{options} | kubectl apply -f - grants it"


def test_what_to_do_where_only_one_side_knows_of_pod_groups() -> None:
    (unknown,) = wrong(running(given=g.with_pod_groups)())
    assert "manifests --podgroups | kubectl apply -f - (Helm: podGroups.enabled=true)" in unknown
    assert "manifests | kubectl apply -f - (Helm: podGroups.enabled=false)" in unknown

    (unasked,) = wrong(running("--podgroups", given=g.good)())
    assert "manifests --podgroups | kubectl apply -f - (Helm: podGroups.enabled=true)" in unasked
    assert "else take --podgroups from the args of deployment/stationmaster" in unasked


def wrong(facts: Facts) -> list[str]:
    return [each.remedy for each in examine(facts) if each.level != "ok"]


@pytest.mark.parametrize("why", REMEDIES)
def test_what_is_behind_a_failed_call(why: str) -> None:
    facts = replace(g.good(), trial=g.trial(calling(why), status=500))

    (finding,) = [each for each in examine(facts) if each.level != "ok"]

    assert finding.message == f"the API server cannot reach us: {why}"
    assert REMEDIES[why] in finding.remedy


def test_a_leaf_that_came_with_its_intermediate_is_trusted() -> None:
    root, between, pair = chain()
    facts = replace(g.good(), secret=served(pair + between))
    for among in (facts.mutating, facts.validating):
        assert not isinstance(among, Unread)
        for webhook in among[0]["webhooks"]:
            with_bundle(root)(webhook)

    assert [f for f in examine(facts) if f.level != "ok"] == []

    without = replace(facts, secret=served(pair))
    assert {f.check for f in examine(without) if f.level != "ok"} == {"certificate"}


def chain() -> tuple[bytes, bytes, bytes]:
    """A root, what it signed, and a leaf of that."""
    root, between = g.make_authority(), g.make_authority()
    signed = (
        x509.CertificateBuilder()
        .subject_name(between.certificate.subject)
        .issuer_name(root.certificate.subject)
        .public_key(between.key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(between.certificate.not_valid_before_utc)
        .not_valid_after(between.certificate.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root.key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    return root.pem, pem, g.leaf(between).certificate


REASONS = {
    "NotCompiled": "stationmaster lint FILE says all",
    "Invalid": "stationmaster lint FILE says all",
    "Conflict": "another priority",
    "Quarantined": "stays out until they change",
    "FromTheFuture": "kubectl --namespace a get namespacedtrainjobpolicy b --output yaml",
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_to_do_about_a_policy(reason: str) -> None:
    facts = with_policies(g.policy("b", namespace="a", why=(reason, "no")))()

    (found,) = [each for each in examine(facts) if each.level != "ok"]

    assert REASONS[reason] in found.remedy
