"""Checks of the cluster around: the Trainer, the switch, and whether the API server reaches us."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugins.framework import lines, values
from plugins.framework.cluster import TRAIN_JOB_CRD
from webhook.doctor.facts import Facts, Object, Unread
from webhook.doctor.finding import Finding, fail, ok, unread, warn
from webhook.doctor.installed import again, entries
from webhook.doctor.registration import covers
from webhook.install.settings import CLOSED
from webhook.kube.shared import CONFIGURATIONS, SERVICE
from webhook.mode import KEY, NAME, RIGHT

TRAINER: Final = "trainer"
MODE: Final = "mode"
REACH: Final = "reach"

_NETWORK: Final = {
    "x509": "the caBundle and the certificate do not fit: see the checks of both",
    "no endpoints available": "no replica is Ready: see the check of deployment",
    "connection refused": "nobody listens there: see the check of deployment",
    "deadline exceeded": (
        "a firewall or NetworkPolicy between the API server and port 9443 of the pods?"
        " On managed clusters the control plane may need a rule for that port"
    ),
    "not found": f"the Service {SERVICE} is missing: {{again}}",
}
"""What may be behind a failed call, by what the API server says of it."""


def trainer(facts: Facts) -> Iterator[Finding]:
    """The TrainJobs that are served are of a version that we can predict."""
    if isinstance(facts.crd, Unread):
        yield unread(TRAINER, facts.crd)
        return
    if facts.crd is None:
        yield fail(
            TRAINER, f"no TrainJobs are served: there is no {TRAIN_JOB_CRD}", "install the Trainer"
        )
        return
    line = lines.of_crd(facts.crd)
    served = [
        each["name"]
        for each in values.objects(values.at(facts.crd, "spec", "versions"))
        if each.get("served")
    ]
    if line is None:
        yield fail(
            TRAINER,
            f"{TRAIN_JOB_CRD} is of no version of the Trainer that is known here",
            f"known are {', '.join(lines.LINES)}: use a Stationmaster that knows yours",
        )
    elif "v1alpha1" not in served:
        yield fail(
            TRAINER,
            f"TrainJobs are served as {', '.join(served) or 'nothing'}, not as v1alpha1",
            "we are registered for v1alpha1: use a Stationmaster that knows your Trainer",
        )
    else:
        yield ok(TRAINER, f"{line.name}: TrainJobs have {line.generation}")


def mode(facts: Facts) -> Iterator[Finding]:
    """What the switch says; without its ConfigMap all is enforced."""
    if isinstance(facts.mode, Unread):
        yield unread(MODE, facts.mode)
        return
    said = _said(facts)
    where = f"the ConfigMap {facts.namespace}/{NAME}"
    back = f"when that is over: kubectl --namespace {facts.namespace} delete configmap {NAME}"
    if facts.mode is None:
        yield ok(MODE, "enforce")
    elif said == "enforce":
        yield ok(MODE, f"enforce, as {where} says")
    elif said == "warn":
        yield warn(MODE, f"warn, as {where} says: nothing is changed or refused, only said", back)
    elif said == "off":
        yield warn(MODE, f"off, as {where} says: nothing is changed, refused or said", back)
    else:
        yield warn(MODE, f"{where} says {said!r}", f"data.{KEY} must be one of {RIGHT}")


def reach(facts: Facts) -> Iterator[Finding]:
    """A TrainJob that we refuse, as a dry run: who answers, if anybody."""
    trial = facts.trial
    entry = next((e for e in entries(facts, CONFIGURATIONS[0]) if e["name"] == CLOSED), None)
    if entry is None and not isinstance(facts.mutating, Unread):
        return  # nobody calls us, which the check of the registration says
    if isinstance(trial.tried, Unread):
        yield unread(REACH, trial.tried)
        return
    if entry is not None and not covers(entry, trial.labels):
        yield warn(
            REACH,
            f"cannot be told: TrainJobs of the namespace {trial.namespace} are not ours to judge",
            "name one that is not left out: --try-in NAMESPACE",
        )
        return
    message = values.text(trial.tried.said.get("message"))
    failed = f'failed calling webhook "{CLOSED}"'
    if f'admission webhook "{CLOSED}" denied' in message:
        yield ok(REACH, f"the API server asked us about a TrainJob in {trial.namespace}")
    elif failed in message:
        why = message.partition(failed)[2].lstrip(": ")
        yield fail(REACH, f"the API server cannot reach us: {why}", _remedy(facts, why))
    elif trial.tried.status in {401, 403} and "admission webhook" not in message:
        yield warn(
            REACH,
            f"cannot be told: {message}",
            f"ask as who may create trainjobs in {trial.namespace}",
        )
    elif trial.tried.status == 404:
        yield warn(
            REACH,
            f"cannot be told: no TrainJob can be made in {trial.namespace}: {message}",
            "name a namespace that exists: --try-in NAMESPACE",
        )
    else:
        yield _unrefused(facts, entry)


def _unrefused(facts: Facts, entry: Object | None) -> Finding:
    """Nobody says that we were asked: we let the job pass, or nobody was there and the entry fails open."""
    policy = values.text(entry.get("failurePolicy")) if entry else ""
    said = _said(facts)
    if policy == "Fail" and said in {"warn", "off"}:
        return ok(REACH, f"the API server asked us, and the mode is {said}: nothing is refused")
    if said in {"warn", "off"}:
        return warn(
            REACH,
            f"cannot be told: the mode is {said}, and who is not reached is passed over",
            "look at stationmaster_admission_requests_total of /metrics",
        )
    return fail(
        REACH,
        "a TrainJob of a runtime that does not exist was not refused by us:"
        " the API server did not ask us, or got no answer and let it pass",
        f"see the other checks; the log of the API server names {CLOSED}",
    )


def _said(facts: Facts) -> str:
    """What is in the ConfigMap; empty where there is none, or it cannot be read."""
    if isinstance(facts.mode, Unread):
        return ""
    return values.text(values.at(facts.mode, "data", KEY)).strip().lower()


def _remedy(facts: Facts, why: str) -> str:
    for word, remedy in _NETWORK.items():
        if word in why:
            return remedy.format(again=again(facts))
    return "see the other checks"
