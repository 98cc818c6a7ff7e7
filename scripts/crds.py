"""Writes the CustomResourceDefinitions of our kinds: for kustomize, and as templates of the chart.

::

    python -m scripts.crds

Their bounds are those by which ``policies.reading`` reads (``policies/reading/bounds.py``), so that a document that is
accepted there is accepted by the API server. A test compares the files with what is written here.

A value that may be ``{expression: ...}`` has no type: a structural schema cannot say "a number or an object". What it
may be is said by reading, when the policy is admitted. Fields under ``defaults`` and ``overrides`` that are not
known here are kept for the same reason: a misspelt one is refused by name instead of being dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from plugins.framework.api.names import POLICY_GROUP, RUNTIME_KINDS
from policies.document import EXCEPTION, NAMESPACED_POLICY, POLICY, POLICY_KINDS
from policies.reading import bounds, syntax
from policies.reading.match import OPERATIONS, OPERATORS
from policies.reading.policy import FAILURE_POLICIES, MUTATE
from policies.reading.rules import ACTIONS, REASONS

Json: TypeAlias = dict[str, Any]

DEPLOY: Final = Path(__file__).parent.parent / "deploy"
BASE: Final = DEPLOY / "kustomize" / "base" / "crds"
CHART: Final = DEPLOY / "helm" / "stationmaster" / "templates"
VERSION: Final = "v1alpha1"

_MAPS: Final = ("labels", "annotations", "specLabels", "specAnnotations")
_OPTIONS: Final = {
    "labels": "Labels of the TrainJob.",
    "annotations": "Annotations of the TrainJob.",
    "specLabels": "Labels of all that the TrainJob makes.",
    "specAnnotations": "Annotations of all that the TrainJob makes.",
    "trainer": "image, command, args, env, numNodes, numProcPerNode, resourcesPerNode.",
    "activeDeadlineSeconds": "How long the job may run.",
    "podTemplateOverrides": "Fields of the pods of target jobs.",
    "runtimePatches": "The same as patches of the runtime.",
    "naming": "A pattern for names, or a prefix.",
    "options": "Options of installed packages, by name.",
}
_FORCED: Final = {
    "suspend": "Whether a new job waits for somebody to let it start.",
    "managedBy": "Which controller a new job is for.",
}

_KEEP_START: Final = """\
{{- if .Values.crds.enabled }}
"""
_METADATA: Final = """\
metadata:
  labels:
    {{- include "stationmaster.labels" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""
_KEEP_END: Final = """\
{{- end }}
"""
_HEADER: Final = "# Written by scripts/crds.py.\n"


def main() -> int:
    """Write all files that are not as they should be, and name them."""
    for path, text in files().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(DEPLOY.parent))
    return 0


class _Plain(yaml.SafeDumper):
    """Without anchors: what is the same in two places is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always."""
        del data
        return True


def files() -> dict[Path, str]:
    """All files, by their paths."""
    found: dict[Path, str] = {}
    for crd in definitions():
        plural = crd["spec"]["names"]["plural"]
        text = yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True)
        found[BASE / f"{plural}.yaml"] = _HEADER + text
        template = text.replace("metadata:\n", _METADATA, 1)
        found[CHART / f"crd-{plural}.yaml"] = f"{_KEEP_START}{_HEADER}{template}{_KEEP_END}"
    return found


def definitions() -> tuple[Json, Json, Json]:
    """The three CustomResourceDefinitions."""
    return (
        _definition(
            POLICY,
            "trainjobpolicies",
            ("tjp",),
            scope="Cluster",
            description="The platform's rules over TrainJobs, as they will run.",
            spec=_policy_spec(is_namespaced=False),
            columns=_POLICY_COLUMNS,
        ),
        _definition(
            NAMESPACED_POLICY,
            "namespacedtrainjobpolicies",
            ("ntjp",),
            scope="Namespaced",
            description="Rules over the TrainJobs of its own namespace, as they will run.",
            spec=_policy_spec(is_namespaced=True),
            columns=_POLICY_COLUMNS,
        ),
        _definition(
            EXCEPTION,
            "policyexceptions",
            ("tjpx",),
            scope="Namespaced",
            description="Loosens rules that a policy offers, for TrainJobs of its own namespace and for a time.",
            spec=_exception_spec(),
            columns=_EXCEPTION_COLUMNS,
        ),
    )


def _definition(  # noqa: PLR0913  # the parts of a definition
    kind: str,
    plural: str,
    short: Sequence[str],
    *,
    scope: str,
    description: str,
    spec: Json,
    columns: Sequence[Json],
) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{POLICY_GROUP}"},
        "spec": {
            "group": POLICY_GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short),
                "categories": ["stationmaster"],
            },
            "scope": scope,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(columns),
                    "schema": {
                        "openAPIV3Schema": {
                            "description": description,
                            "type": "object",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": _status(),
                            },
                        }
                    },
                }
            ],
        },
    }


def _column(name: str, path: str, *, kind: str = "string", priority: int = 0) -> Json:
    column: Json = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})


_READY: Final = _column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_AGE: Final = _column("Age", ".metadata.creationTimestamp", kind="date")
_POLICY_COLUMNS: Final = (
    _column("Priority", ".spec.priority", kind="integer"),
    _column("Actions", ".spec.actions"),
    _READY,
    _column("Conflict", '.status.conditions[?(@.type=="Conflict")].status', priority=1),
    _column("Mutate", ".spec.mutate", priority=1),
    _column("Failure", ".spec.failurePolicy", priority=1),
    _AGE,
)
_EXCEPTION_COLUMNS: Final = (
    # Of several results of one path a column shows the first (tableconvertor.go); the whole list is for -o wide.
    _column("Policy", ".spec.policies[0].name"),
    _column("Expires", ".spec.expiresAt"),
    _column("Owner", ".spec.owner"),
    _READY,
    _column("Policies", ".spec.policies", priority=1),
    _column("Reason", ".spec.reason", priority=1),
    _AGE,
)


# --- words of a schema ------------------------------------------------------------------------------------------


def _object(
    description: str,
    properties: Mapping[str, Json],
    *,
    required: Sequence[str] = (),
    rules: Iterable[tuple[str, str]] = (),
    least: int = 0,
) -> Json:
    found: Json = (
        {"description": description, "type": "object"} if description else {"type": "object"}
    )
    if required:
        found["required"] = list(required)
    if least:
        found["minProperties"] = least
    found["properties"] = dict(properties)
    return found | _rules(rules)


def _rules(rules: Iterable[tuple[str, str]]) -> Json:
    found = [{"rule": rule, "message": message} for rule, message in rules]
    return {"x-kubernetes-validations": found} if found else {}


def _text(longest: int, description: str = "", *, pattern: str = "") -> Json:
    found: Json = {"description": description} if description else {}
    found |= {"type": "string", "minLength": 1, "maxLength": longest}
    return found | ({"pattern": pattern} if pattern else {})


def _word(allowed: Sequence[str], description: str, *, default: str = "") -> Json:
    found: Json = {"description": description, "type": "string", "enum": list(allowed)}
    return found | ({"default": default} if default else {})


def _set(items: Json, most: int, description: str, *, least: int = 0) -> Json:
    found: Json = {"description": description, "type": "array", "x-kubernetes-list-type": "set"}
    return found | ({"minItems": least} if least else {}) | {"maxItems": most, "items": items}


def _keyed(
    items: Json, keys: Sequence[str], most: int, description: str, *, least: int = 0
) -> Json:
    found: Json = {
        "description": description,
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }
    return found | ({"minItems": least} if least else {}) | {"maxItems": most, "items": items}


def _atomic(items: Json, most: int, description: str) -> Json:
    return {
        "description": description,
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "maxItems": most,
        "items": items,
    }


def _any(description: str) -> Json:
    return {"description": description, "x-kubernetes-preserve-unknown-fields": True}


def _free(description: str) -> Json:
    return {
        "description": description,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _globs(description: str, *, least: int = 0) -> Json:
    return _set(_text(bounds.LONGEST_GLOB), bounds.MOST_GLOBS, description, least=least)


def _expression(description: str) -> Json:
    return _text(bounds.LONGEST_EXPRESSION, description)


def _rule_name(description: str) -> Json:
    return _text(bounds.LONGEST_NAME, description, pattern=syntax.RULE)


_ACTIONS_RULE: Final = (
    "!('Deny' in self && 'Warn' in self)",
    "must not contain both Deny and Warn: the refusal says already what the warning would",
)


def _actions(description: str, *, default: Sequence[str] = ()) -> Json:
    found = _set({"type": "string", "enum": list(ACTIONS)}, len(ACTIONS), description, least=1)
    return found | ({"default": list(default)} if default else {}) | _rules([_ACTIONS_RULE])


def _selector(description: str) -> Json:
    requirement = _object(
        "",
        {
            "key": _text(bounds.LONGEST_KEY),
            "operator": {"type": "string", "enum": list(OPERATORS)},
            "values": _atomic(
                {"type": "string", "maxLength": bounds.LONGEST_LABEL_VALUE},
                bounds.MOST_SELECTED_VALUES,
                "Of which one must, or none may, be the label's.",
            ),
        },
        required=("key", "operator"),
        rules=[
            (
                (
                    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0"
                    " : !has(self.values) || size(self.values) == 0"
                ),
                "values must be specified when operator is In or NotIn, and may not be otherwise",
            )
        ],
    )
    return _object(
        description,
        {
            "matchLabels": {
                "type": "object",
                "maxProperties": bounds.MOST_SELECTED_LABELS,
                "additionalProperties": {
                    "type": "string",
                    "maxLength": bounds.LONGEST_LABEL_VALUE,
                },
            },
            "matchExpressions": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "maxItems": bounds.MOST_REQUIREMENTS,
                "items": requirement,
            },
        },
    )


# --- policies ---------------------------------------------------------------------------------------------------


def _policy_spec(*, is_namespaced: bool) -> Json:
    properties: dict[str, Json] = {
        "priority": {
            "description": "The higher one wins: defaults fill from the highest down, overrides apply from the"
            " lowest up; ties by name.",
            "type": "integer",
            "format": "int32",
            "default": 0,
        },
        "failurePolicy": _word(
            FAILURE_POLICIES,
            "What a fault of this policy does, not what its rules say.",
            default="Fail",
        ),
        "match": _match(),
        "matchConditions": _keyed(
            _named_expression(_text(bounds.LONGEST_KEY)),
            ("name",),
            bounds.MOST_MATCH_CONDITIONS,
            "CEL; all must be true.",
        ),
        "params": _params(is_namespaced=is_namespaced),
        "variables": _keyed(
            _named_expression(_text(bounds.LONGEST_NAME, pattern=syntax.IDENTIFIER)),
            ("name",),
            bounds.MOST_VARIABLES,
            "CEL, read as variables.NAME.",
        ),
        "defaults": _options("Written where the user left it unset.", _OPTIONS),
        "overrides": _overrides(is_namespaced=is_namespaced),
        "limits": _keyed(
            _limit(), ("name",), bounds.MOST_LIMITS, "Over the resolved job, without CEL."
        ),
        "validations": _keyed(
            _validation(), ("name",), bounds.MOST_VALIDATIONS, "CEL; true passes."
        ),
        "actions": _actions("What limits and validations do.", default=("Deny",)),
        "mutate": _word(
            MUTATE,
            "Whether defaults and overrides are written or only announced.",
            default="Apply",
        ),
        "rollout": _atomic(
            _stage(),
            bounds.MOST_STAGES,
            "What this policy does to some of the requests; the first stage that matches decides.",
        ),
        "exceptions": _object(
            "What a PolicyException may loosen; nothing by default.",
            {
                "rules": _set(
                    _rule_name(""), bounds.MOST_RULES, "Names of limits and validations."
                ),
                "longest": _text(
                    bounds.LONGEST_DURATION,
                    "How long an exception may last: 720h.",
                    pattern=syntax.DURATION,
                ),
            },
            required=("rules",),
        ),
        "auditAnnotations": _keyed(
            _object(
                "",
                {
                    "key": _text(bounds.LONGEST_NAME, pattern=syntax.AUDIT_KEY),
                    "valueExpression": _expression("CEL; a text."),
                },
                required=("key", "valueExpression"),
            ),
            ("key",),
            bounds.MOST_AUDIT_ANNOTATIONS,
            "What goes to the audit log.",
        ),
    }
    rules = [
        (
            (
                "!has(self.limits) || !has(self.validations) ||"
                " self.validations.all(v, !self.limits.exists(l, l.name == v.name))"
            ),
            "a limit and a validation may not have the same name",
        ),
        (
            (
                "!has(self.exceptions) || self.exceptions.rules.all(r,"
                " (has(self.limits) && self.limits.exists(l, l.name == r)) ||"
                " (has(self.validations) && self.validations.exists(v, v.name == r)))"
            ),
            "exceptions.rules must be names of limits and validations of this policy",
        ),
    ]
    if is_namespaced:
        rules.append(
            (
                "!has(self.overrides)",
                (
                    f"a {NAMESPACED_POLICY} has no overrides: what overrides what users say is the platform's,"
                    f" in a {POLICY}"
                ),
            )
        )
    return _object("", properties, rules=rules)


def _named_expression(name: Json) -> Json:
    return _object(
        "", {"name": name, "expression": _expression("CEL.")}, required=("name", "expression")
    )


def _match() -> Json:
    return _object(
        "Which TrainJobs; all that is said must hold.",
        {
            "namespaceSelector": _selector("Over the labels of the job's namespace."),
            "objectSelector": _selector("Over the labels of the job."),
            "operations": _set(
                {"type": "string", "enum": list(OPERATIONS)},
                len(OPERATIONS),
                "Both by default.",
                least=1,
            ),
            "runtimes": _atomic(
                _object(
                    "",
                    {
                        "kind": _word(RUNTIME_KINDS, "Both by default."),
                        "name": _text(bounds.LONGEST_GLOB, "A name, which may have a *."),
                    },
                    required=("name",),
                ),
                bounds.MOST_RUNTIMES,
                "Any of these; all by default.",
            ),
            "subjects": _object(
                "Who created the job; names may have a *.",
                {
                    "users": _globs("By name."),
                    "groups": _globs("By a group that they are in."),
                    "excludeUsers": _globs("All but these."),
                    "excludeGroups": _globs("All but those in these groups."),
                },
            ),
        },
    )


def _params(*, is_namespaced: bool) -> Json:
    only_own = [
        (
            "!has(self.namespace) || self.namespace == 'FromRequest'",
            (
                f"must be left out, or FromRequest: a {NAMESPACED_POLICY} has params from its own"
                " namespace only"
            ),
        )
    ]
    return _object(
        "What CEL sees as params.",
        {
            "value": _free("A value in the policy itself."),
            "configMapRef": _object(
                "A ConfigMap with the label stationmaster.dev/params.",
                {
                    "name": _text(bounds.LONGEST_OBJECT_NAME),
                    "namespace": _text(
                        bounds.LONGEST_OBJECT_NAME,
                        "FromRequest, which is the default: the namespace of the job.",
                    ),
                },
                required=("name",),
                rules=only_own if is_namespaced else (),
            ),
            "notFound": _word(("Deny", "Allow"), "Where there is neither ConfigMap nor default."),
            "default": _free("What there is where the ConfigMap says nothing."),
        },
        rules=[
            (
                "has(self.value) != has(self.configMapRef)",
                "must have either value or configMapRef",
            ),
            (
                "!has(self.value) || !has(self.notFound) && !has(self.default)",
                "notFound and default may not be set beside value, which is always there",
            ),
        ],
    )


def _options(description: str, known: Mapping[str, str]) -> Json:
    def value(name: str, text: str) -> Json:
        if name not in _MAPS:
            return _any(text)
        return {
            "description": text,
            "type": "object",
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
        }

    return _free(f"{description} Every value may be {{expression: ...}}.") | {
        "properties": {name: value(name, text) for name, text in known.items()}
    }


def _overrides(*, is_namespaced: bool) -> Json:
    if is_namespaced:
        return _free(f"Not in a {NAMESPACED_POLICY}.")
    return _options("Always written, whatever the user says.", _OPTIONS | _FORCED)


def _bounds(description: str) -> Json:
    return _object(
        description,
        {
            "min": _any("A number or a quantity, or {expression: ...}."),
            "max": _any("A number or a quantity, or {expression: ...}."),
        },
        least=1,
    )


def _subjects() -> dict[str, Json]:
    """What limits and grants have in common."""
    keys = _set(
        _text(bounds.LONGEST_KEY), bounds.MOST_REQUIRED_KEYS, "Keys that must be there.", least=1
    )
    return {
        "total": _bounds("Of the resource, over all pods of the job."),
        "perNode": _bounds("Of the resource, in each pod."),
        "nodes": _bounds("How many nodes the trainer has."),
        "pods": _bounds("How many pods the job has."),
        "images": _object(
            "Images of all containers; * stops at a slash, ** does not.",
            {
                "allow": _globs("One of these must match."),
                "deny": _globs("None of these may match."),
                "requireDigest": {
                    "description": "Whether each image must name its digest.",
                    "type": "boolean",
                },
            },
            least=1,
        ),
        "labels": _object("Labels of the job.", {"require": keys}, required=("require",)),
        "annotations": _object("Annotations of the job.", {"require": keys}, required=("require",)),
        "runtimes": _object(
            "The runtime of the job.",
            {"allow": _globs("Names, which may have a *.", least=1)},
            required=("allow",),
        ),
    }


_ONE_SUBJECT: Final = " + ".join(
    f"(has(self.{name}) ? 1 : 0)"
    for name in ("resource", "nodes", "pods", "images", "labels", "annotations", "runtimes")
)


def _limit() -> Json:
    return _object(
        "",
        {
            "name": _rule_name("Known by it in messages, metrics and exceptions."),
            "resource": _text(
                bounds.LONGEST_KEY,
                "As containers request it: nvidia.com/gpu. A glob over some of a domain adds them: nvidia.com/mig-*.",
            ),
            **_subjects(),
            "fix": _text(bounds.LONGEST_TEXT, "What the user can do, in one line."),
            "actions": _actions("Instead of those of the policy."),
        },
        required=("name",),
        rules=[
            (
                f"{_ONE_SUBJECT} == 1",
                "must have exactly one of resource, nodes, pods, images, labels, annotations, runtimes",
            ),
            (
                "has(self.resource) == (has(self.total) || has(self.perNode))",
                "resource must have total or perNode, and these belong to a resource",
            ),
        ],
    )


def _validation() -> Json:
    return _object(
        "",
        {
            "name": _rule_name("Known by it in messages, metrics and exceptions."),
            "expression": _expression("CEL; true passes."),
            "message": _text(bounds.LONGEST_TEXT, "In one line."),
            "messageExpression": _expression("CEL; a text, before message."),
            "fix": _text(bounds.LONGEST_TEXT, "What the user can do, in one line."),
            "reason": _word(REASONS, "Why it is refused, to machines.", default="Forbidden"),
            "actions": _actions("Instead of those of the policy."),
        },
        required=("name", "expression"),
    )


def _stage() -> Json:
    return _object(
        "",
        {
            "namespaceSelector": _selector("Over the labels of the job's namespace."),
            "percent": {
                "description": "Of the namespaces, by a hash of their names and the policy's.",
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "maximum": 100,
            },
            "by": _word(("namespace",), "Of what the percent are."),
            "actions": _actions("Instead of those of the policy."),
            "mutate": _word(MUTATE, "Instead of that of the policy."),
        },
        rules=[
            (
                "has(self.namespaceSelector) || has(self.percent)",
                "must have namespaceSelector or percent: where this stage matches",
            ),
            (
                "has(self.actions) || has(self.mutate)",
                "must have actions or mutate: what differs there",
            ),
            ("!has(self.by) || has(self.percent)", "by may only be set beside percent"),
        ],
    )


# --- exceptions -------------------------------------------------------------------------------------------------


def _exception_spec() -> Json:
    target = _object(
        "",
        {
            "kind": _word(POLICY_KINDS, "One of this namespace, where namespaced.", default=POLICY),
            "name": _text(bounds.LONGEST_OBJECT_NAME),
            "rules": _set(
                _rule_name(""), bounds.MOST_RULES, "By default, all that the policy offers."
            ),
        },
        required=("name",),
    )
    grant = _object("", _subjects(), least=1)
    return _object(
        "",
        {
            "policies": _keyed(
                target, ("kind", "name"), bounds.MOST_POLICIES, "Whose rules it loosens.", least=1
            ),
            "match": _object(
                "Which TrainJobs of the namespace; all by default.",
                {
                    "names": _globs("Names, which may have a *."),
                    "requestedBy": _globs("Users who created the job; names may have a *."),
                    "objectSelector": _selector("Over the labels of the job."),
                },
            ),
            "grant": {
                "description": "Rule -> the looser value in its place; a rule that is not here is off.",
                "type": "object",
                "maxProperties": bounds.MOST_RULES,
                "additionalProperties": grant,
            },
            "owner": _text(bounds.LONGEST_OWNER, "Who asks for it."),
            "reason": _text(bounds.LONGEST_TEXT, "Why, in one line."),
            "expiresAt": {
                "description": "When it ends, by RFC 3339.",
                "type": "string",
                "format": "date-time",
                "maxLength": bounds.LONGEST_OBJECT_NAME,
            },
        },
        required=("policies", "expiresAt"),
        rules=[
            (
                (
                    "!has(self.grant) || self.policies.exists(p, !has(p.rules) || size(p.rules) == 0) ||"
                    " self.grant.all(r, self.policies.exists(p, r in p.rules))"
                ),
                "grant must be for rules of spec.policies",
            )
        ],
    )


# --- status -----------------------------------------------------------------------------------------------------


def _status() -> Json:
    condition = _object(
        "",
        {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
        },
        required=("type", "status", "lastTransitionTime", "reason", "message"),
    )
    return _object(
        "Written by Stationmaster.",
        {
            "observedGeneration": {
                "description": "Of the spec that the rest is about.",
                "type": "integer",
                "format": "int64",
            },
            "conditions": _keyed(
                condition,
                ("type",),
                8,
                "Ready: it is in force. Conflict: it and another write different values to one field.",
            ),
            "counts": {
                "description": "What it did, and how often: matched, changed, denied, warned, ...",
                "type": "object",
                "maxProperties": 32,
                "additionalProperties": {"type": "integer", "format": "int64"},
            },
        },
    )


if __name__ == "__main__":
    sys.exit(main())
