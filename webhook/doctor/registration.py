"""Checks of our webhook configurations: that they are there, whole, in order, and can lock nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.field import show
from webhook.doctor.facts import Facts, Object, Unread
from webhook.doctor.finding import Finding, fail, ok, unread, warn
from webhook.doctor.installed import again, entries, of, settings, webhooks
from webhook.install.settings import CLOSED, NAMESPACE_NAME, manifests
from webhook.kube.arming import ANNOTATION, Replicas
from webhook.kube.injector import Configuration
from webhook.kube.shared import CONFIGURATIONS, SERVICE

REGISTRATION: Final = "registration"
ORDER: Final = "order"
FAILURE_POLICY: Final = "failure-policy"

SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")

_MATCHED: Final = ("apiGroups", "apiVersions", "resources", "operations")
"""Of a rule."""

THEIRS: Final = {"kueue": "Kueue", "trainer.kubeflow.org": "the Trainer"}
"""Who must see what we made of a TrainJob, by a word in what they call their webhooks and Services."""


def registration(facts: Facts) -> Iterator[Finding]:
    """Both configurations with all their entries, which call us and leave our namespace and Kubernetes' alone."""
    if isinstance(facts.mutating, Unread) or isinstance(facts.validating, Unread):
        for each in (facts.mutating, facts.validating):
            if isinstance(each, Unread):
                yield unread(REGISTRATION, each)
        return
    problems = [problem for each in CONFIGURATIONS for problem in _problems(facts, each)]
    for problem in problems:
        yield fail(REGISTRATION, problem, f"{again(facts)} puts it back")
    if not problems:
        yield ok(REGISTRATION, "both configurations are there, with all their entries")


def order(facts: Facts) -> Iterator[Finding]:
    """We come before the Trainer and Kueue, and are called again when one behind us changes a job."""
    ours = CONFIGURATIONS[0]
    if isinstance(facts.mutating, Unread) or not entries(facts, ours):
        return  # said by the check above
    others = {
        each["metadata"]["name"]: each
        for each in facts.mutating
        if each["metadata"]["name"] != ours.name and any(map(_is_about_train_jobs, webhooks(each)))
    }
    found = [*_misplaced(ours, others), *_called_once(facts, ours)]
    behind = sorted(name for name in others if name > ours.name)
    yield from found
    if not found:
        whom = f"before {', '.join(behind)}" if behind else "the only one for TrainJobs"
        yield ok(ORDER, f"{ours.name} is called {whom}")


def _misplaced(ours: Configuration, others: Mapping[str, Object]) -> Iterator[Finding]:
    rename = "configurations are called in the order of their names: rename it"
    for name in sorted(name for name in others if name < ours.name):
        if whose := _whose(others[name]):
            yield fail(
                ORDER,
                f"{name} is called before {ours.name}: {whose} does not see what we complete",
                rename,
            )
        else:
            yield warn(
                ORDER,
                f"{name} changes TrainJobs before {ours.name} sees them",
                f"{rename}, unless it is meant to come first",
            )


def _whose(configuration: Object) -> str:
    said = [configuration["metadata"]["name"]]
    for entry in webhooks(configuration):
        service = values.at_obj(entry, "clientConfig", "service")
        said += [values.text(each) for each in (entry.get("name"), *service.values())]
    return next((THEIRS[word] for word in THEIRS if any(word in each for each in said)), "")


def _called_once(facts: Facts, ours: Configuration) -> Iterator[Finding]:
    for entry in entries(facts, ours):
        if entry.get("reinvocationPolicy") != "IfNeeded":
            yield fail(
                ORDER,
                f"{ours.place(entry['name'])} is not called again when a webhook behind it changes a job",
                f"set its reinvocationPolicy to IfNeeded: {again(facts)}",
            )


def failure_policy(facts: Facts) -> Iterator[Finding]:
    """What an outage of ours does to new TrainJobs now; both entries must say the same."""
    said = {
        configuration.place(entry["name"]): values.text(entry.get("failurePolicy"))
        for configuration in CONFIGURATIONS
        for entry in entries(facts, configuration)
        if entry["name"] == CLOSED
    }
    match sorted(set(said.values())):
        case []:
            return  # said by the check of the registration
        case ["Fail"]:
            yield ok(
                FAILURE_POLICY, "Fail: new TrainJobs are refused while no replica can be reached"
            )
        case ["Ignore"] if _should_be_armed(facts):
            yield warn(
                FAILURE_POLICY,
                "Ignore, though enough replicas are Ready to fail closed",
                "the Lease's holder says Fail within ten seconds; if it stays, its log and /metrics say why",
            )
        case ["Ignore"]:
            yield ok(
                FAILURE_POLICY,
                "Ignore: new TrainJobs are let through unseen while no replica can be reached",
            )
        case _:
            listed = ", ".join(f"{place} says {policy}" for place, policy in sorted(said.items()))
            yield warn(FAILURE_POLICY, f"the two entries differ: {listed}", again(facts))


def _should_be_armed(facts: Facts) -> bool:
    """Whether as many replicas are Ready as the registration wants for Fail."""
    configuration = of(facts, CONFIGURATIONS[0])
    enough = values.text(values.at(configuration, "metadata", "annotations", ANNOTATION))
    if isinstance(facts.deployment, Unread) or not enough.isdecimal() or int(enough) == 0:
        return False
    return Replicas.of(facts.deployment).ready >= int(enough)


def covers(entry: Object, labels: Mapping[str, str]) -> bool:
    """Whether the entry's namespaceSelector selects a namespace with these labels."""
    selector = values.obj(entry.get("namespaceSelector"))
    wanted = values.obj(selector.get("matchLabels"))
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _meets(labels, each) for each in values.objects(selector.get("matchExpressions"))
    )


def _meets(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    """As ``metav1.LabelSelectorRequirement`` is defined: NotIn is met by a label that is not there."""
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in values.items(expression.get("values"))
        case "NotIn":
            return value not in values.items(expression.get("values"))
        case "Exists":
            return value is not None
        case _:
            return value is None


def _problems(facts: Facts, configuration: Configuration) -> Iterator[str]:
    title = f"{configuration.kind}/{configuration.name}"
    found = of(facts, configuration)
    if found is None:
        yield f"{title} does not exist"
        return
    there = {each["name"]: each for each in webhooks(found)}
    for wanted in _wanted(facts, configuration):
        place = configuration.place(wanted["name"])
        if wanted["name"] not in there:
            yield f"{place} is missing"
        else:
            entry = there[wanted["name"]]
            yield from (f"{place} {each}" for each in _deviations(facts, wanted, entry))


def _deviations(facts: Facts, wanted: Object, entry: Object) -> Iterator[str]:
    """What an entry does otherwise than the manifests', and must not."""
    service = values.at_obj(entry, "clientConfig", "service")
    called = (service.get("namespace"), service.get("name"))
    path = wanted["clientConfig"]["service"]["path"]
    if service and called != (facts.namespace, SERVICE):
        yield f"calls the service {called[0]}/{called[1]}, not {facts.namespace}/{SERVICE}"
    elif service and service.get("path") != path:
        yield f"calls {show(service.get('path', '/'))} of our Service, not {path}"
    if missing := _not_sent(wanted, entry):
        yield f"does not send us {', '.join(missing)}"
    is_closed = entry.get("failurePolicy") != "Ignore"
    if is_closed and entry["name"] != CLOSED:
        yield "fails closed: what it matches is stopped by an outage of ours, which only new TrainJobs may be"
    for namespace in (*SYSTEM, facts.namespace):
        if is_closed and covers(entry, {NAMESPACE_NAME: namespace}):
            yield f"fails closed in {namespace}, which an outage of ours must never touch"


def _not_sent(wanted: Object, entry: Object) -> list[str]:
    """What of the manifests' rules no rule of the entry matches."""
    rules = [
        {key: set(values.items(rule.get(key))) for key in _MATCHED}
        for rule in values.objects(entry.get("rules"))
    ]
    return [
        f"{operation} of {resource}.{group}/{version}"
        for rule in wanted["rules"]
        for group, version, resource, operation in product(*(rule[key] for key in _MATCHED))
        if not any(_sends(sent, (group, version, resource, operation)) for sent in rules)
    ]


def _sends(rule: Mapping[str, set[Any]], asked: Sequence[str]) -> bool:
    """As the API server matches: a star is everything, and ``*/*`` every resource with its subresources."""
    return all(
        {value, "*", *(("*/*",) if key == "resources" else ())} & rule[key]
        for key, value in zip(_MATCHED, asked, strict=True)
    )


def _wanted(facts: Facts, configuration: Configuration) -> Iterator[Object]:
    for obj in manifests(settings(facts)):
        if (obj["metadata"]["name"], "webhooks" in obj) == (configuration.name, True):
            yield from webhooks(obj)


def _is_about_train_jobs(entry: Object) -> bool:
    return any(
        {names.GROUP, "*"} & set(values.items(rule.get("apiGroups")))
        and {"trainjobs", "*", "*/*"} & set(values.items(rule.get("resources")))
        for rule in values.objects(entry.get("rules"))
    )
