"""Checks of our webhook configurations: that they are there, whole, in order, and can lock nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from plugins.framework import values
from plugins.framework.api import names
from webhook.doctor.facts import Facts, Object, Unread
from webhook.doctor.finding import INSTALL, Finding, fail, ok, unread, warn
from webhook.install.settings import CLOSED, NAMESPACE_NAME, Settings, manifests
from webhook.kube.arming import ANNOTATION, Replicas
from webhook.kube.injector import Configuration
from webhook.kube.shared import CONFIGURATIONS, SERVICE

REGISTRATION: Final = "registration"
ORDER: Final = "order"
FAILURE_POLICY: Final = "failure-policy"

SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")

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
        yield fail(REGISTRATION, problem, f"{INSTALL} puts it back")
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
                f"set its reinvocationPolicy to IfNeeded: {INSTALL}",
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
            yield warn(FAILURE_POLICY, f"the two entries differ: {listed}", INSTALL)


def _should_be_armed(facts: Facts) -> bool:
    """Whether as many replicas are Ready as the registration wants for Fail."""
    configuration = of(facts, CONFIGURATIONS[0])
    enough = values.text(values.at(configuration, "metadata", "annotations", ANNOTATION))
    if isinstance(facts.deployment, Unread) or not enough.isdecimal() or int(enough) == 0:
        return False
    return Replicas.of(facts.deployment).ready >= int(enough)


def entries(facts: Facts, configuration: Configuration) -> Sequence[Object]:
    """The entries of one of our configurations; none where it is missing or could not be read."""
    found = of(facts, configuration)
    return webhooks(found) if found else ()


def of(facts: Facts, configuration: Configuration) -> Object | None:
    """One of our configurations."""
    among = facts.mutating if configuration.kind == "mutating" else facts.validating
    if isinstance(among, Unread):
        return None
    return next((e for e in among if e["metadata"]["name"] == configuration.name), None)


def webhooks(configuration: Object) -> Sequence[Object]:
    """Its entries."""
    return values.objects(configuration.get("webhooks"))


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
    for name in _wanted(facts, configuration):
        place = configuration.place(name)
        if name not in there:
            yield f"{place} is missing"
            continue
        service = values.at_obj(there[name], "clientConfig", "service")
        called = (service.get("namespace"), service.get("name"))
        if service and called != (facts.namespace, SERVICE):
            yield f"{place} calls the service {called[0]}/{called[1]}, not {facts.namespace}/{SERVICE}"
        for namespace in (*SYSTEM, facts.namespace):
            is_closed = there[name].get("failurePolicy") != "Ignore"
            if is_closed and covers(there[name], {NAMESPACE_NAME: namespace}):
                yield f"{place} fails closed in {namespace}, which an outage of ours must never touch"


def _wanted(facts: Facts, configuration: Configuration) -> Iterator[str]:
    for obj in manifests(Settings(namespace=facts.namespace, certificates=facts.certificates)):
        if (obj["metadata"]["name"], "webhooks" in obj) == (configuration.name, True):
            yield from (each["name"] for each in webhooks(obj))


def _is_about_train_jobs(entry: Object) -> bool:
    return any(
        {names.GROUP, "*"} & set(values.items(rule.get("apiGroups")))
        and {"trainjobs", "*", "*/*"} & set(values.items(rule.get("resources")))
        for rule in values.objects(entry.get("rules"))
    )
