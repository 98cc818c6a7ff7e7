"""``spec`` of a TrainJobPolicy or NamespacedTrainJobPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from plugins.framework import field as words
from plugins.framework.schema.syntax import not_label_1123, not_subdomain
from policies import options
from policies.document import (
    NAMESPACED_POLICY,
    FailurePolicy,
    Key,
    Match,
    Mutate,
    Named,
    Offer,
    Params,
    Policy,
    Stage,
)
from policies.options import Option
from policies.reading.bounds import (
    DEEPEST_PARAMS,
    LEAST_PRIORITY,
    LONGEST_DURATION,
    LONGEST_EXCEPTION,
    LONGEST_OBJECT_NAME,
    MOST_AUDIT_ANNOTATIONS,
    MOST_MATCH_CONDITIONS,
    MOST_PARAMS_BYTES,
    MOST_PRIORITY,
    MOST_RULES,
    MOST_STAGES,
    MOST_VARIABLES,
)
from policies.reading.fields import Fields, missing
from policies.reading.match import match, selector
from policies.reading.rules import (
    Names,
    actions,
    limits,
    named,
    required_expression,
    rule_names,
    validations,
)
from policies.reading.syntax import (
    duration,
    not_audit_key,
    not_condition_name,
    not_variable_name,
)
from policies.writes import Mode

FAILURE_POLICIES: Final[tuple[FailurePolicy, ...]] = ("Fail", "Ignore")
MUTATE: Final[tuple[Mutate, ...]] = ("Apply", "Warn")
FROM_REQUEST: Final = "FromRequest"
"""No namespace can have this name: a namespace's is lower case."""

SPEC: Final = (
    "priority",
    "failurePolicy",
    "match",
    "matchConditions",
    "params",
    "variables",
    "defaults",
    "overrides",
    "limits",
    "validations",
    "actions",
    "mutate",
    "rollout",
    "exceptions",
    "auditAnnotations",
)
_DOES: Final = ("defaults", "overrides", "limits", "validations", "auditAnnotations")
_PARAMS: Final = ("value", "configMapRef", "notFound", "default")
_STAGE: Final = ("namespaceSelector", "percent", "by", "actions", "mutate")

_NEVER_UNSET: Final = (
    "cannot be defaulted: the CRD's own default arrives before any policy, so it is never unset;"
    " set it under overrides"
)


def policy(spec: Fields, key: Key, metadata: Mapping[str, Any]) -> Policy:
    """Read all of ``spec``; only to be used where no error was noted."""
    names = rule_names()
    is_namespaced = key.kind == NAMESPACED_POLICY
    generation = metadata.get("generation")
    uid = metadata.get("uid")
    found = Policy(
        key=key,
        uid=uid if type(uid) is str else "",
        generation=generation if type(generation) is int else 0,
        priority=spec.whole("priority", LEAST_PRIORITY, MOST_PRIORITY) or 0,
        failure_policy=failure_policy(spec),
        match=matched(spec, is_namespaced=is_namespaced),
        match_conditions=named(
            spec,
            "matchConditions",
            MOST_MATCH_CONDITIONS,
            Names(not_condition_name, "a condition is known by its name"),
        ),
        params=_params(spec, is_namespaced=is_namespaced),
        variables=named(
            spec,
            "variables",
            MOST_VARIABLES,
            Names(not_variable_name, "a variable is read as variables.NAME"),
        ),
        defaults=_options(spec, "defaults"),
        overrides=_overrides(spec, is_namespaced=is_namespaced),
        limits=limits(spec, names),
        validations=validations(spec, names),
        actions=actions(spec) or ("Deny",),
        mutate=spec.choice("mutate", MUTATE, "Apply"),
        rollout=_rollout(spec),
        exceptions=_offer(spec, names),
        audit_annotations=_audit_annotations(spec),
    )
    if not any(spec.raw.get(name) for name in _DOES):
        spec.notes.warn(spec.path, f"does nothing: it has none of {', '.join(_DOES)}")
    return found


def failure_policy(spec: Fields) -> FailurePolicy:
    """Read ``failurePolicy``."""
    return spec.choice("failurePolicy", FAILURE_POLICIES, "Fail")


def matched(spec: Fields, *, is_namespaced: bool) -> Match:
    """Read ``match``."""
    found = match(spec)
    if is_namespaced and type(spec.raw.get("match")) is dict:
        path = spec.at("match").child("namespaceSelector")
        if spec.raw["match"].get("namespaceSelector") is not None:
            spec.notes.warn(
                path,
                f"a {NAMESPACED_POLICY} is for the jobs of its own namespace; the selector can only"
                " tell whether it is in force there",
            )
    return found


def _options(spec: Fields, mode: Mode) -> tuple[Option, ...]:
    if mode not in spec:
        return ()
    path, raw = spec.at(mode), spec.raw[mode]
    if type(raw) is not dict:
        spec.notes.error(words.type_invalid(path, raw, "must be an object"))
        return ()
    if mode == "defaults":
        for name in ("suspend", "managedBy"):
            if name in raw:
                spec.notes.error(words.forbidden(path.child(name), _NEVER_UNSET))
        raw = {name: value for name, value in raw.items() if name not in {"suspend", "managedBy"}}
    found, errors = options.read(mode, raw, path)
    spec.notes.error(*errors)
    return found


def _overrides(spec: Fields, *, is_namespaced: bool) -> tuple[Option, ...]:
    if is_namespaced:
        spec.forbid(
            "overrides",
            f"a {NAMESPACED_POLICY} has none: what overrides what users say is the platform's, in a"
            " TrainJobPolicy",
        )
        return ()
    return _options(spec, "overrides")


def _params(spec: Fields, *, is_namespaced: bool) -> Params | None:
    fields = spec.object("params", _PARAMS)
    if fields is None:
        return None
    if "value" in fields:
        for name in _PARAMS[1:]:
            fields.forbid(name, "may not be set beside value, which is always there")
        return Params(value=_free(fields, "value"))
    if not fields.require("configMapRef", "must have configMapRef or value"):
        return Params()
    ref = fields.object("configMapRef", ("name", "namespace"))
    name, namespace = ("", None) if ref is None else _reference(ref, is_namespaced=is_namespaced)
    return Params(
        name=name,
        namespace=namespace,
        not_found="Allow"
        if fields.choice("notFound", ("Deny", "Allow"), "Deny") == "Allow"
        else "Deny",
        default=_free(fields, "default"),
    )


def _reference(fields: Fields, *, is_namespaced: bool) -> tuple[str, str | None]:
    """Where no namespace is said it is that of the request, as in ValidatingAdmissionPolicy."""
    fields.require("name", "the name of a ConfigMap")
    name = fields.text("name", LONGEST_OBJECT_NAME)
    for problem in not_subdomain(name) if name else ():
        fields.invalid("name", problem)
    namespace = fields.text("namespace", LONGEST_OBJECT_NAME)
    if namespace in {"", FROM_REQUEST}:
        return name, None
    if is_namespaced:
        fields.forbid(
            "namespace",
            f"must be left out, or {FROM_REQUEST}: a {NAMESPACED_POLICY} has params from its own"
            " namespace only",
        )
        return name, None
    for problem in not_label_1123(namespace):
        fields.invalid("namespace", f"must be {FROM_REQUEST} or a namespace: {problem}")
    return name, namespace


def _free(fields: Fields, name: str) -> Mapping[str, Any] | None:
    """An object of any fields, within bounds: each request carries it into CEL."""
    if name not in fields:
        return None
    value = fields.raw[name]
    if type(value) is not dict:
        fields.notes.error(words.type_invalid(fields.at(name), value, "must be an object"))
        return None
    if _is_deeper(value, DEEPEST_PARAMS):
        fields.notes.error(
            words.invalid(fields.at(name), value, f"must be at most {DEEPEST_PARAMS} levels deep")
        )
        return None
    try:
        size = len(orjson.dumps(value))
    except TypeError:  # an integer beyond 64 bits, half a surrogate pair
        fields.notes.error(
            words.invalid(
                fields.at(name), value, "must hold only numbers within 64 bits, and Unicode"
            )
        )
        return None
    if size > MOST_PARAMS_BYTES:
        fields.notes.error(words.too_long(fields.at(name), "", MOST_PARAMS_BYTES))
    return value


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            item
            for each in level
            for item in (each.values() if type(each) is dict else each)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return False
    return True


def _rollout(spec: Fields) -> tuple[Stage, ...]:
    found: list[Stage] = []
    last: Fields | None = None
    for fields in spec.objects("rollout", _STAGE, MOST_STAGES):
        if last is not None:
            spec.notes.warn(fields.path, f"is never reached: {last.path} matches everything")
        stage = _stage(fields)
        if last is None and _is_for_all(fields, stage):
            last = fields
        found.append(stage)
    return tuple(found)


def _stage(fields: Fields) -> Stage:
    for pair, why in (
        (("namespaceSelector", "percent"), "where this stage matches"),
        (("actions", "mutate"), "what differs there"),
    ):
        if not set(pair) & set(fields.raw):
            fields.notes.error(words.required(fields.path, f"must have {' or '.join(pair)}: {why}"))
    if "by" in fields:
        fields.choice("by", ("namespace",), "namespace")
        if "percent" not in fields:
            fields.forbid("by", "may only be set beside percent")
    mutate: Mutate = fields.choice("mutate", MUTATE, "Apply")
    return Stage(
        namespace_selector=selector(fields, "namespaceSelector")
        if "namespaceSelector" in fields
        else None,
        percent=fields.whole("percent", 0, 100),
        actions=actions(fields),
        mutate=mutate if "mutate" in fields else None,
    )


def _is_for_all(fields: Fields, stage: Stage) -> bool:
    selects_all = not fields.raw.get("namespaceSelector")
    return selects_all and ("percent" not in fields or stage.percent == 100)


def _offer(spec: Fields, names: Names) -> Offer:
    fields = spec.object("exceptions", ("rules", "longest"))
    if fields is None:
        return Offer(rules=frozenset())
    fields.require("rules", "the rules that a PolicyException may loosen")
    rules = fields.located("rules", MOST_RULES, LONGEST_OBJECT_NAME)
    for rule, path in rules.items():
        if rule not in names.all:
            fields.notes.error(missing(path, rule, names.all, "rules of this policy"))
    text = fields.text("longest", LONGEST_DURATION)
    longest = duration(text) if text else None
    if text and not longest:
        fields.invalid("longest", "must be a span of time, such as 720h or 90m, and more than none")
    elif longest and longest > LONGEST_EXCEPTION:
        hours = int(LONGEST_EXCEPTION.total_seconds()) // 3600
        fields.invalid("longest", f"must be at most {hours}h")
    elif rules and not text:
        fields.notes.warn(
            fields.at("longest"), "is not set: an exception may last as long as it says itself"
        )
    return Offer(rules=frozenset(rules), longest=longest or None)


def _audit_annotations(spec: Fields) -> tuple[Named, ...]:
    names = Names(not_audit_key, "the annotation's key")
    return tuple(
        Named(names.read(each, "key"), required_expression(each, "valueExpression"))
        for each in spec.objects(
            "auditAnnotations", ("key", "valueExpression"), MOST_AUDIT_ANNOTATIONS
        )
    )
