"""``limits`` and ``validations`` of a policy, ``grant`` of an exception, and lists of named expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypedDict

from plugins.framework import field as words
from plugins.framework import quantity
from plugins.framework.schema.shape import as_int
from plugins.framework.schema.syntax import not_qualified_name
from policies import globs
from policies.document import (
    Action,
    Amount,
    Bounds,
    Expression,
    Images,
    Limit,
    Named,
    Validation,
)
from policies.images import problem as image_problem
from policies.reading.bounds import (
    LONGEST_KEY,
    LONGEST_TEXT,
    MOST_COUNT,
    MOST_GLOBS,
    MOST_LIMITS,
    MOST_REQUIRED_KEYS,
    MOST_VALIDATIONS,
)
from policies.reading.fields import EXPRESSION, Fields
from policies.reading.syntax import not_rule_name

ACTIONS: Final[tuple[Action, ...]] = ("Deny", "Warn", "Audit")
REASONS: Final = ("Forbidden", "Invalid", "Unauthorized", "RequestEntityTooLarge")
SUBJECTS: Final = (
    "resource",
    "nodes",
    "pods",
    "images",
    "labels",
    "annotations",
    "runtimes",
)
"""What a limit may be about; exactly one."""
GRANT: Final = ("total", "perNode", *SUBJECTS[1:])
"""What a grant may say: a limit without its name and resource, which are those of the rule that it loosens."""

_LIMIT: Final = ("name", *SUBJECTS, "total", "perNode", "fix", "actions")
_VALIDATION: Final = (
    "name",
    "expression",
    "message",
    "messageExpression",
    "fix",
    "reason",
    "actions",
)
_BOUNDS: Final = ("min", "max")
_IMAGES: Final = ("allow", "deny", "requireDigest")
_ONE: Final = (
    "must have exactly one of resource, nodes, pods, images, labels, annotations, runtimes"
)
_COUNT: Final = f"must be a whole number between 0 and {MOST_COUNT}"
_DOMAIN: Final = "a pattern must name a domain, as nvidia.com/mig-* does: what it matches is added, and cores and bytes have no sum"
_AMOUNT: Final = "must be a whole number or a quantity, such as 8, 500m or 512Gi"
_OR_EXPRESSION: Final = ', or {expression: "..."}'


class _About(TypedDict, total=False):
    """The fields of a Limit that a grant has too."""

    total: Bounds | None
    per_node: Bounds | None
    nodes: Bounds | None
    pods: Bounds | None
    images: Images | None
    require_labels: tuple[str, ...]
    require_annotations: tuple[str, ...]
    runtimes: tuple[str, ...]


class Names:
    """The names that one list, or two together, have used up."""

    def __init__(self, problem: Callable[[str], str], what: str) -> None:
        """``problem`` says why a text is no such name, ``what`` asks for one."""
        self._problem = problem
        self._what = what
        self.all: dict[str, None] = {}

    def read(self, fields: Fields, name: str = "name") -> str:
        """The name in a field, required, well formed and not used before."""
        if not fields.require(name, self._what):
            return ""
        text = fields.text(name, LONGEST_KEY)
        if not text:
            return ""
        if problem := self._problem(text):
            fields.invalid(name, problem)
        elif text in self.all:
            fields.notes.error(words.duplicate(fields.at(name), text))
        self.all[text] = None
        return text


def rule_names() -> Names:
    """Of limits and validations together: exceptions name a rule, whichever it is."""
    return Names(
        not_rule_name, "a rule is known by its name, in messages, metrics and PolicyExceptions"
    )


def named(fields: Fields, list_name: str, most: int, names: Names) -> tuple[Named, ...]:
    """Read ``matchConditions`` or ``variables``."""
    return tuple(
        Named(names.read(each), required_expression(each, "expression"))
        for each in fields.objects(list_name, ("name", "expression"), most)
    )


def required_expression(fields: Fields, name: str) -> Expression:
    """An expression that must be there; where it is not, an empty one, which nobody will see."""
    fields.require(name, f"{name} is not specified")
    return fields.expression(name) or Expression("", fields.at(name))


def actions(fields: Fields, name: str = "actions") -> tuple[Action, ...] | None:
    """Read a list of actions; None where there is none.

    ``Deny`` with ``Warn`` is refused as ValidatingAdmissionPolicy refuses it: who is denied has read it already.
    """
    found = fields.choices(name, ACTIONS)
    if found is not None and "Deny" in found and "Warn" in found:
        fields.invalid(
            name,
            "must not contain both Deny and Warn: the refusal says already what the warning would",
        )
    return found


def limits(fields: Fields, names: Names) -> tuple[Limit, ...]:
    """Read ``limits``."""
    return tuple(_limit(each, names) for each in fields.objects("limits", _LIMIT, MOST_LIMITS))


def _limit(fields: Fields, names: Names) -> Limit:
    name = names.read(fields)
    said = [subject for subject in SUBJECTS if subject in fields]
    if not said and not {"total", "perNode"} & set(fields.raw):
        fields.notes.error(words.required(fields.path, _ONE))
    if len(said) > 1:
        fields.notes.error(words.invalid(fields.path, said, _ONE))
    return Limit(
        name=name,
        path=fields.path,
        resource=_resource(fields),
        **_about(fields, takes_expressions=True),
        fix=fields.line("fix", LONGEST_TEXT),
        actions=actions(fields),
    )


def _resource(fields: Fields) -> str:
    """A resource as containers request it: ``cpu``, ``nvidia.com/gpu``; or a glob, ``nvidia.com/mig-*``.

    A glob needs a domain: what extended resources count may be added, cores and bytes may not.
    """
    bounds = [name for name in ("total", "perNode") if name in fields]
    if "resource" not in fields:
        for name in bounds:
            fields.notes.error(words.required(fields.at("resource"), f"{name} of what?"))
        return ""
    if not bounds:
        fields.notes.error(
            words.required(fields.path, "must have total or perNode: how much of the resource")
        )
    found = fields.text("resource", LONGEST_KEY)
    if "*" in found or "?" in found:
        if "/" not in found:
            fields.invalid("resource", _DOMAIN)
            return found
        problems = not_qualified_name(found.replace("*", "x").replace("?", "x"))
    else:
        problems = not_qualified_name(found) if found else []
    for problem in problems:
        fields.invalid("resource", problem)
    return found


def grant(fields: Fields, rule: str) -> Limit:
    """Read one entry of ``grant``: the looser limit that stands in a rule's place.

    Its numbers are plain: an expression would let whoever may write an exception decide anew at every request.
    """
    said = {name for name in GRANT if name in fields}
    if not said:
        fields.notes.error(
            words.required(fields.path, f"must have one of {', '.join(GRANT)}: the looser value")
        )
    if len(said) > 1 and said != {"total", "perNode"}:
        fields.notes.error(
            words.invalid(
                fields.path, sorted(said), "must be about one thing, as the rule that it loosens"
            )
        )
    return Limit(name=rule, path=fields.path, **_about(fields, takes_expressions=False))


def _about(fields: Fields, *, takes_expressions: bool) -> _About:
    def bounds(name: str) -> Bounds | None:
        return _bounds(fields, name, takes_expressions=takes_expressions)

    return {
        "nodes": bounds("nodes"),
        "pods": bounds("pods"),
        "images": _images(fields),
        "require_labels": _required_keys(fields, "labels"),
        "require_annotations": _required_keys(fields, "annotations"),
        "runtimes": _runtimes(fields),
        "total": bounds("total"),
        "per_node": bounds("perNode"),
    }


def _bounds(fields: Fields, name: str, *, takes_expressions: bool) -> Bounds | None:
    found = fields.object(name, _BOUNDS)
    if found is None:
        return None
    if not found.raw and not found.has_unknown:
        found.notes.error(words.required(found.path, "must have min, max, or both"))
    is_count = name in {"nodes", "pods"}
    least, most = (
        _amount(found, bound, is_count=is_count, takes_expressions=takes_expressions)
        for bound in _BOUNDS
    )
    low, high = _nano(least), _nano(most)
    if low is not None and high is not None and low > high:
        found.invalid("min", f"must not be more than max, which is {words.show(most)}")
    return Bounds(min=least, max=most)


def _amount(fields: Fields, name: str, *, is_count: bool, takes_expressions: bool) -> Amount:
    """A number, a quantity where it is one of a resource, or an Expression; None for what is neither."""
    if name not in fields:
        return None
    raw, path = fields.raw[name], fields.at(name)
    right = (_COUNT if is_count else _AMOUNT) + (_OR_EXPRESSION if takes_expressions else "")
    if type(raw) is dict:
        return _expression(fields, name, right) if takes_expressions else _plain(fields, name)
    value: Any = as_int(raw) if type(raw) is float else raw
    if is_count:
        return _count(fields, name, value, right)
    if type(value) is float:
        right += f'; a fraction is written as text: "{value:g}"'
    if type(value) is not int and type(value) is not str:
        fields.notes.error(words.type_invalid(path, raw, right))
        return None
    return _quantity(fields, name, value)


def _count(fields: Fields, name: str, value: Any, right: str) -> int | None:
    if type(value) is not int:
        fields.notes.error(words.type_invalid(fields.at(name), fields.raw[name], right))
        return None
    if 0 <= value <= MOST_COUNT:
        return value
    fields.invalid(name, right)
    return None


def _quantity(fields: Fields, name: str, value: int | str) -> int | str | None:
    try:
        is_negative = quantity.parse(value).nano < 0
    except quantity.QuantityError as error:
        fields.notes.error(words.invalid(fields.at(name), value, error.detail))
        return None
    if is_negative:
        fields.notes.error(words.invalid(fields.at(name), value, "must not be negative"))
        return None
    return value


def _plain(fields: Fields, name: str) -> None:
    fields.forbid(name, "must be a plain value: what is granted is fixed when it is granted")


def _expression(fields: Fields, name: str, right: str) -> Expression | None:
    found = fields.object(name, EXPRESSION)
    if found is None:
        return None
    if not found.has_unknown:
        found.require("expression", right)
    return found.expression("expression")


def _nano(amount: Amount) -> int | None:
    if amount is None or type(amount) is Expression:
        return None
    return quantity.parse(amount).nano


def _images(fields: Fields) -> Images | None:
    found = fields.object("images", _IMAGES)
    if found is None:
        return None
    images = Images(
        allow=found.globs("allow", MOST_GLOBS, image_problem),
        deny=found.globs("deny", MOST_GLOBS, image_problem),
        require_digest=found.flag("requireDigest"),
    )
    if not found.raw and not found.has_unknown:
        found.notes.error(words.required(found.path, "must have allow, deny or requireDigest"))
    return images


def _required_keys(fields: Fields, name: str) -> tuple[str, ...]:
    found = fields.object(name, ("require",))
    if found is None:
        return ()
    found.require("require", f"the keys of {name} that a job must have")
    keys = found.located("require", MOST_REQUIRED_KEYS, LONGEST_KEY)
    _at_least_one(found, "require")
    for key, path in keys.items():
        # The keys of annotations may be upper case in their prefix (ValidateAnnotations).
        for problem in not_qualified_name(key.lower() if name == "annotations" else key):
            found.notes.error(words.invalid(path, key, problem))
    return tuple(keys)


def _runtimes(fields: Fields) -> tuple[str, ...]:
    found = fields.object("runtimes", ("allow",))
    if found is None:
        return ()
    found.require("allow", "the names of runtimes that a job may use")
    _at_least_one(found, "allow")
    return found.globs("allow", MOST_GLOBS, globs.problem)


def _at_least_one(fields: Fields, name: str) -> None:
    if fields.raw.get(name) == []:
        fields.notes.error(words.required(fields.at(name), "must have at least one item"))


def validations(fields: Fields, names: Names) -> tuple[Validation, ...]:
    """Read ``validations``."""
    return tuple(
        _validation(each, names)
        for each in fields.objects("validations", _VALIDATION, MOST_VALIDATIONS)
    )


def _validation(fields: Fields, names: Names) -> Validation:
    name = names.read(fields)
    expression = required_expression(fields, "expression")
    if "\n" in expression.text.strip() and not {"message", "messageExpression"} & set(fields.raw):
        fields.notes.error(
            words.required(
                fields.at("message"), "must be specified if expression contains line breaks"
            )
        )
    return Validation(
        name=name,
        path=fields.path,
        expression=expression,
        message=fields.line("message", LONGEST_TEXT),
        message_expression=fields.expression("messageExpression"),
        fix=fields.line("fix", LONGEST_TEXT),
        reason=fields.choice("reason", REASONS, "Forbidden"),
        actions=actions(fields),
    )
