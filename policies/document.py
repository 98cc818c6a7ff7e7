"""The platform's documents, typed: TrainJobPolicy, NamespacedTrainJobPolicy, PolicyException.

Only the shapes are here; ``policies.reading`` makes them of raw objects and reports every mistake with its field.
Words are those of ValidatingAdmissionPolicy (``admissionregistration.k8s.io/v1``) where it has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugins.framework.api import names
from plugins.framework.field import Path

if TYPE_CHECKING:
    from policies.options import Option

API_VERSION: Final = f"{names.POLICY_GROUP}/v1alpha1"
POLICY: Final = names.POLICY
NAMESPACED_POLICY: Final = names.NAMESPACED_POLICY
EXCEPTION: Final = names.EXCEPTION
KINDS: Final = names.POLICY_DOCUMENTS
POLICY_KINDS: Final = (names.POLICY, names.NAMESPACED_POLICY)

Action = Literal["Deny", "Warn", "Audit"]
FailurePolicy = Literal["Fail", "Ignore"]
Mutate = Literal["Apply", "Warn"]
Operation = Literal["CREATE", "UPDATE"]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True, slots=True)
class Expression:
    """A CEL expression and where it stands in its document."""

    text: str
    path: Path


class Named(NamedTuple):
    """A named expression: a match condition or a variable."""

    name: str
    expression: Expression


class Key(NamedTuple):
    """What a document is known by; the namespace is "" for what has none."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Print as messages name it: ``vision-gpu-rules``, ``team-vision/quick-jobs``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One of ``matchExpressions`` of a label selector (metav1.LabelSelectorRequirement)."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A label selector (metav1.LabelSelector); an empty one matches all."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeMatch:
    """Runtimes by kind (None: both) and a glob over names."""

    kind: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """Who created the job. Empty ``users`` and ``groups`` mean everybody; globs over names."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    exclude_users: tuple[str, ...] = ()
    exclude_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which TrainJobs; all parts must hold."""

    namespace_selector: Selector = Selector()
    object_selector: Selector = Selector()
    operations: frozenset[Operation] = frozenset(("CREATE", "UPDATE"))
    runtimes: tuple[RuntimeMatch, ...] = ()
    """Any of these; empty: all."""
    subjects: Subjects | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Where ``params`` comes from: a value in the document, or a labelled ConfigMap.

    ``namespace`` None means that of the request (``FromRequest``, and always for a namespaced policy).
    """

    value: Mapping[str, Any] | None = None
    name: str = ""
    namespace: str | None = None
    not_found: Literal["Deny", "Allow"] = "Deny"
    default: Mapping[str, Any] | None = None


Amount = Any
"""A JSON scalar as the document has it, or an ``Expression``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """``min`` and ``max``, each a value or an Expression; None: no bound."""

    min: Amount = None
    max: Amount = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Globs over image references; ``**`` crosses slashes, ``*`` does not."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    require_digest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One rule of ``limits``, over the resolved job. Exactly one of its subjects is set."""

    name: str
    path: Path
    resource: str = ""
    total: Bounds | None = None
    per_node: Bounds | None = None
    nodes: Bounds | None = None
    pods: Bounds | None = None
    images: Images | None = None
    require_labels: tuple[str, ...] = ()
    require_annotations: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    """Allowed names of runtimes, as globs."""
    fix: str = ""
    actions: tuple[Action, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One rule in CEL: true passes."""

    name: str
    path: Path
    expression: Expression
    message: str = ""
    message_expression: Expression | None = None
    fix: str = ""
    reason: str = "Forbidden"
    """Forbidden, Invalid, Unauthorized or RequestEntityTooLarge (as in ValidatingAdmissionPolicy)."""
    actions: tuple[Action, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of ``rollout``; the first that matches a request decides."""

    namespace_selector: Selector | None = None
    percent: int | None = None
    """0 to 100, by a hash of policy and namespace (``by: namespace``)."""
    actions: tuple[Action, ...] | None = None
    mutate: Mutate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What exceptions may loosen: names of rules (limits and validations), and for how long at most."""

    rules: frozenset[str]
    longest: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A TrainJobPolicy or NamespacedTrainJobPolicy."""

    key: Key
    uid: str = ""
    generation: int = 0
    priority: int = 0
    failure_policy: FailurePolicy = "Fail"
    match: Match = Match()
    match_conditions: tuple[Named, ...] = ()
    params: Params | None = None
    variables: tuple[Named, ...] = ()
    defaults: tuple[Option, ...] = ()
    overrides: tuple[Option, ...] = ()
    limits: tuple[Limit, ...] = ()
    validations: tuple[Validation, ...] = ()
    actions: tuple[Action, ...] = ("Deny",)
    mutate: Mutate = "Apply"
    rollout: tuple[Stage, ...] = ()
    exceptions: Offer = Offer(rules=frozenset())
    audit_annotations: tuple[Named, ...] = ()

    @property
    def is_namespaced(self) -> bool:
        """Whether it was written by who may write in one namespace only: less trusted."""
        return self.key.kind == names.NAMESPACED_POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionTarget:
    """One policy whose rules an exception loosens; no rules: all that the policy offers."""

    name: str
    kind: str = names.POLICY
    rules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyException:
    """A PolicyException: for jobs of its own namespace, until a moment."""

    key: Key
    policies: tuple[ExceptionTarget, ...]
    names: tuple[str, ...] = ()
    """Globs over names (or generateName) of TrainJobs; empty: all."""
    requested_by: tuple[str, ...] = ()
    """Globs over names of users who created the job; empty: everybody."""
    object_selector: Selector = Selector()
    grant: Mapping[str, Limit] = field(default_factory=dict)
    """Rule -> the looser limit in its place; a rule that is not here is off."""
    owner: str = ""
    reason: str = ""
    created_at: datetime | None = None
    expires_at: datetime


def expressions_of(limit: Limit) -> Iterator[Expression]:
    """Every expression among the bounds of a limit."""
    for bounds in (limit.total, limit.per_node, limit.nodes, limit.pods):
        if bounds is not None:
            for amount in (bounds.min, bounds.max):
                if isinstance(amount, Expression):
                    yield amount
