"""``match`` of a policy, and label selectors wherever they stand."""

from __future__ import annotations

from typing import Final

from plugins.framework import field as words
from plugins.framework.api import names
from plugins.framework.schema.syntax import not_label_value, not_qualified_name
from policies import globs
from policies.document import (
    Match,
    Operation,
    Operator,
    Requirement,
    RuntimeMatch,
    Selector,
    Subjects,
)
from policies.reading.bounds import (
    LONGEST_GLOB,
    LONGEST_KEY,
    MOST_GLOBS,
    MOST_REQUIREMENTS,
    MOST_RUNTIMES,
    MOST_SELECTED_LABELS,
    MOST_SELECTED_VALUES,
)
from policies.reading.fields import Fields

OPERATIONS: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")
OPERATORS: Final[tuple[Operator, ...]] = ("In", "NotIn", "Exists", "DoesNotExist")

_MATCH: Final = ("namespaceSelector", "objectSelector", "operations", "runtimes", "subjects")
_SELECTOR: Final = ("matchLabels", "matchExpressions")
_REQUIREMENT: Final = ("key", "operator", "values")
_RUNTIME: Final = ("kind", "name")
_SUBJECTS: Final = ("users", "groups", "excludeUsers", "excludeGroups")


def match(spec: Fields) -> Match:
    """Read ``match``; all TrainJobs where there is none."""
    fields = spec.object("match", _MATCH)
    if fields is None:
        return Match()
    operations = fields.choices("operations", OPERATIONS)
    return Match(
        namespace_selector=selector(fields, "namespaceSelector"),
        object_selector=selector(fields, "objectSelector"),
        operations=frozenset(OPERATIONS if operations is None else operations),
        runtimes=_runtimes(fields),
        subjects=_subjects(fields),
    )


def selector(fields: Fields, name: str) -> Selector:
    """Read a metav1.LabelSelector; where there is none, it matches all."""
    found = fields.object(name, _SELECTOR)
    if found is None:
        return Selector()
    labels = []
    for key, path, value in found.keyed("matchLabels", MOST_SELECTED_LABELS):
        for problem in not_qualified_name(key):
            found.notes.error(words.invalid(path, key, problem))
        if type(value) is not str:
            found.notes.error(words.type_invalid(path, value, "must be a string"))
            continue
        for problem in not_label_value(value):
            found.notes.error(words.invalid(path, value, problem))
        labels.append((key, value))
    return Selector(
        match_labels=tuple(labels),
        match_expressions=tuple(
            _requirement(each)
            for each in found.objects("matchExpressions", _REQUIREMENT, MOST_REQUIREMENTS)
        ),
    )


def _requirement(fields: Fields) -> Requirement:
    """The rules and words are those of ``metav1/validation.ValidateLabelSelectorRequirement``."""
    fields.require("key", "")
    key = fields.text("key", LONGEST_KEY)
    for problem in not_qualified_name(key) if key else ():
        fields.invalid("key", problem)
    fields.require("operator", "")
    operator: Operator = fields.choice("operator", OPERATORS, OPERATORS[2])
    found = _values(fields)
    if "operator" in fields and operator in {"In", "NotIn"} and not fields.raw.get("values"):
        fields.notes.error(
            words.required(
                fields.at("values"), "must be specified when `operator` is 'In' or 'NotIn'"
            )
        )
    if operator == fields.raw.get("operator") in {"Exists", "DoesNotExist"} and found:
        fields.forbid(
            "values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    return Requirement(key=key, operator=operator, values=frozenset(found))


def _values(fields: Fields) -> list[str]:
    """A value of a label may be empty."""
    found = []
    for path, value in fields.items("values", MOST_SELECTED_VALUES):
        if type(value) is not str:
            fields.notes.error(words.type_invalid(path, value, "must be a string"))
            continue
        for problem in not_label_value(value):
            fields.notes.error(words.invalid(path, value, problem))
        found.append(value)
    return found


def _runtimes(fields: Fields) -> tuple[RuntimeMatch, ...]:
    found = []
    for each in fields.objects("runtimes", _RUNTIME, MOST_RUNTIMES):
        each.require("name", 'a name of runtimes, which may have a *: "torch-*"')
        kind = each.choice("kind", names.RUNTIME_KINDS, "")
        name = each.text("name", LONGEST_GLOB)
        if name and (wrong := globs.problem(name)):
            each.invalid("name", wrong)
        found.append(RuntimeMatch(kind=kind or None, name=name))
    return tuple(found)


def _subjects(fields: Fields) -> Subjects | None:
    found = fields.object("subjects", _SUBJECTS)
    if found is None:
        return None
    users, groups, exclude_users, exclude_groups = (
        found.globs(name, MOST_GLOBS, globs.problem) for name in _SUBJECTS
    )
    return Subjects(
        users=users, groups=groups, exclude_users=exclude_users, exclude_groups=exclude_groups
    )
