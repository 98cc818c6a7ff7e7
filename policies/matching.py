"""Whether a policy is about a TrainJob, and if not, why.

What can be known of a namespace, an operation and a runtime alone (`static_misses`) is the same for thousands of
requests, and is asked once for each such triple. What depends on the job (`dynamic_misses`) is asked in every round,
since defaults may add the label that another policy selects. Both yield the parts that do not match, in the words of
``stationmaster explain``; nothing yielded is a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugins.framework import values
from plugins.framework.api.admission import UserInfo
from plugins.framework.field import show
from policies import globs
from policies.record import Record

if TYPE_CHECKING:
    from policies.document import Key, Match, Policy, Requirement, RuntimeMatch, Selector, Subjects

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""Every namespace has it, with its own name; the API server sees to that."""
MOST_SHOWN: Final = 10
"""Names of a list that a reason shows."""

Labels: TypeAlias = Mapping[str, Any]
"""Labels of an object that may not have passed the schema yet: values of any type."""
Creator: TypeAlias = UserInfo | Record
"""Who created the job: the user of a CREATE request, or what was recorded then."""


class Miss(NamedTuple):
    """One part of a match that does not hold."""

    part: str
    """The field: ``namespaceSelector``, ``operations``, ``runtimes``, ``objectSelector``, ``subjects``, ``namespace``."""
    reason: str
    """What is wanted, and what there is."""

    def __str__(self) -> str:
        """Print as ``runtimes: wants torch-*, and the job runs on ClusterTrainingRuntime jax``."""
        return f"{self.part}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a request is about; what static matching depends on."""

    namespace: str
    labels: Mapping[str, str]
    """Labels of the namespace, as `namespace_labels` gives them."""
    operation: str
    runtime_kind: str
    runtime_name: str


def namespace_labels(name: str, metadata: Mapping[str, Any] | None) -> dict[str, str]:
    """The labels of a namespace with that metadata; of an unknown one (None) only its name is known."""
    found = values.obj(metadata.get("labels")) if metadata is not None else {}
    kept = {key: value for key, value in found.items() if type(value) is str}
    return {**kept, NAME_LABEL: name}


# Static


def static_misses(policy: Policy, place: Place) -> Iterator[Miss]:
    """What does not match of a policy, whatever the job. A namespaced policy is about its own namespace."""
    match = policy.match
    if policy.is_namespaced and policy.key.namespace != place.namespace:
        yield Miss(
            "namespace",
            f"the policy is of namespace {policy.key.namespace}, the job of {place.namespace}",
        )
    for reason in selector_misses(match.namespace_selector, place.labels):
        yield Miss("namespaceSelector", f"{reason} on namespace {place.namespace}")
    if place.operation not in match.operations:
        wanted = ", ".join(sorted(match.operations))
        yield Miss("operations", f"wants {wanted}, and this is {place.operation or 'none'}")
    if match.runtimes and not any(_is_runtime(one, place) for one in match.runtimes):
        wanted = _some(f"{one.kind} {one.name}" if one.kind else one.name for one in match.runtimes)
        yield Miss(
            "runtimes",
            f"wants {wanted}, and the job runs on {place.runtime_kind} {place.runtime_name}",
        )


def _is_runtime(wanted: RuntimeMatch, place: Place) -> bool:
    return (wanted.kind is None or wanted.kind == place.runtime_kind) and globs.glob(
        wanted.name
    ).matches(place.runtime_name)


# Dynamic


def dynamic_misses(
    match: Match, key: Key, *, labels: Labels, creator: Creator, old_labels: Labels | None = None
) -> Iterator[Miss]:
    """What does not match of a policy with that key, of a job with these labels in the current round.

    On UPDATE a selector that the old labels meet is met, as with ValidatingAdmissionPolicy: nobody leaves a policy by
    the very change that takes the label away.
    """
    missed = list(selector_misses(match.object_selector, labels))
    if missed and old_labels is not None:
        missed = missed if any(selector_misses(match.object_selector, old_labels)) else []
    for reason in missed:
        yield Miss("objectSelector", f"{reason} on the TrainJob")
    if match.subjects is not None:
        reason = subjects_miss(match.subjects, key, creator)
        if reason:
            yield Miss("subjects", reason)


def subjects_miss(subjects: Subjects, key: Key, creator: Creator) -> str:
    """Why whoever created the job is none of the subjects of the policy with that key; "" where they are.

    ``users`` and ``groups`` are alternatives, as the subjects of a RoleBinding are; one exclusion is enough.
    """
    if isinstance(creator, Record):
        if str(key) in creator.policies:
            return ""
        return "the job's record does not say that its creator was meant when it was created"
    who = f"the job was created by {show(creator.username)}"
    excluded = globs.first(subjects.exclude_users, creator.username)
    if excluded is not None:
        return f"{who}, whom excludeUsers {excluded} leaves out"
    for group in creator.groups:
        excluded = globs.first(subjects.exclude_groups, group)
        if excluded is not None:
            return f"{who} of group {show(group)}, which excludeGroups {excluded} leaves out"
    if not subjects.users and not subjects.groups:
        return ""
    if globs.first(subjects.users, creator.username) is not None:
        return ""
    if any(globs.first(subjects.groups, group) is not None for group in creator.groups):
        return ""
    wanted = [f"users {_some(subjects.users)}"] if subjects.users else []
    wanted += [f"groups {_some(subjects.groups)}"] if subjects.groups else []
    groups = f" of groups {_some(map(show, creator.groups))}" if creator.groups else ""
    return f"wants {' or '.join(wanted)}, and {who}{groups}"


# Selectors


def selector_misses(selector: Selector, labels: Labels) -> Iterator[str]:
    """What of a label selector these labels do not meet (``metav1.LabelSelectorAsSelector``); none: they meet it."""
    for key, wanted in selector.match_labels:
        if labels.get(key) != wanted:
            yield f"wants {key}={wanted}, and there is {_there(labels, key)}"
    for requirement in selector.match_expressions:
        if not _meets(requirement, labels):
            yield f"wants {_words(requirement)}, and there is {_there(labels, requirement.key)}"


def selects(selector: Selector, labels: Labels) -> bool:
    """Whether the labels meet the selector."""
    return next(selector_misses(selector, labels), None) is None


def _meets(requirement: Requirement, labels: Labels) -> bool:
    """``NotIn`` holds without the label, as ``DoesNotExist`` does."""
    there = requirement.key in labels
    match requirement.operator:
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
        case "In":
            return there and _is_one_of(labels[requirement.key], requirement.values)
        case "NotIn":
            return not (there and _is_one_of(labels[requirement.key], requirement.values))


def _is_one_of(value: Any, wanted: frozenset[str]) -> bool:
    return type(value) is str and value in wanted


def _words(requirement: Requirement) -> str:
    match requirement.operator:
        case "Exists":
            return f"{requirement.key} to exist"
        case "DoesNotExist":
            return f"{requirement.key} not to exist"
        case "In":
            return f"{requirement.key} in ({_some(sorted(requirement.values))})"
        case "NotIn":
            return f"{requirement.key} not in ({_some(sorted(requirement.values))})"


def _there(labels: Labels, key: str) -> str:
    if key not in labels:
        return f"no {key}"
    value = labels[key]
    return f"{key}={value if type(value) is str and value.isprintable() and len(value) < 64 else show(value)}"


def _some(names: Iterable[str]) -> str:
    """The first names of a list, and how many there are more."""
    listed = list(names)
    more = len(listed) - MOST_SHOWN
    shown = ", ".join(listed[:MOST_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
