"""Documents that say all that can be said, and thousands made of them by small changes."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, Final

import yaml

from policies.document import API_VERSION, EXCEPTION, NAMESPACED_POLICY, POLICY

Json = dict[str, Any]

_SPEC: Final = yaml.safe_load("""
priority: 500
failurePolicy: Ignore
match:
  namespaceSelector:
    matchLabels: {tier: research}
    matchExpressions:
    - {key: ring, operator: In, values: [canary, ""]}
    - {key: old, operator: DoesNotExist}
  objectSelector: {matchLabels: {example.com/team: vision}}
  operations: [CREATE]
  runtimes: [{kind: ClusterTrainingRuntime, name: "torch-*"}, {name: mpi}]
  subjects: {users: ["system:serviceaccount:*"], groups: [a], excludeUsers: [bob], excludeGroups: [platform-admins]}
matchConditions: [{name: example.com/uses-gpu, expression: "totals.requests[?'nvidia.com/gpu'].orValue(0) > 0"}]
params: {configMapRef: {name: gpu-rules, namespace: FromRequest}, notFound: Allow, default: {maxNodes: 8, deep: {list: [1, null]}}}
variables: [{name: team, expression: "object.metadata.?labels.?team.orValue('none')"}]
defaults:
  labels: {kueue.x-k8s.io/queue-name: {expression: "variables.team + '-queue'"}}
  trainer: {numNodes: 2, resourcesPerNode: {limits: {memory: 512Gi}}}
overrides: {suspend: true, activeDeadlineSeconds: {max: 259200}}
limits:
- {name: gpus, resource: nvidia.com/gpu, total: {min: 1, max: 64}, perNode: {min: 500m, max: "8"}, fix: use fewer, actions: [Warn]}
- {name: nodes, nodes: {min: 1, max: {expression: params.maxNodes}}}
- {name: pods, pods: {min: 1, max: 100}}
- {name: images, images: {allow: ["registry.example.com/**"], deny: ["**:latest"], requireDigest: true}}
- {name: team, labels: {require: [team, example.com/cost]}}
- {name: notes, annotations: {require: [Example.com/Note]}}
- {name: runtimes, runtimes: {allow: ["torch-*"]}}
validations:
- name: no-host-network
  expression: "podSets.all(p, !p.spec.?hostNetwork.orValue(false))"
  message: no host network
  messageExpression: "'host network is not allowed for team ' + variables.team"
  fix: remove hostNetwork from the runtime
  reason: Invalid
  actions: [Deny, Audit]
- {name: plain, expression: "true"}
actions: [Warn, Audit]
mutate: Warn
rollout:
- {namespaceSelector: {matchLabels: {ring: canary}}, actions: [Deny], mutate: Apply}
- {percent: 10, by: namespace, actions: [Deny]}
exceptions: {rules: [gpus, plain], longest: 720h}
auditAnnotations: [{key: gpus, valueExpression: "string(totals.requests['nvidia.com/gpu'])"}]
""")
_EXCEPTION: Final = yaml.safe_load("""
policies: [{name: vision-gpu-rules, rules: [gpus, images]}, {kind: NamespacedTrainJobPolicy, name: mine, rules: [nodes]}]
match:
  names: ["llama-70b-*"]
  requestedBy: [nightly-runs@example.com]
  objectSelector: {matchLabels: {team: vision}}
grant:
  gpus: {total: {max: 128}, perNode: {max: 16}}
  images: {images: {allow: ["registry.example.com/**", "mirror.example.com/**"]}}
  nodes: {nodes: {max: 32}}
owner: team-vision
reason: quarterly run
expiresAt: "2027-03-31T12:00:00.5+02:00"
""")

_WORDS: Final = (
    *("", " ", "a", "A", "b c", "a.b", "a/b", "-", "é", "x" * 64, "x" * 300, "a\nb", "in", "*"),
    *("Deny", "Warn", "In", "Exists", "CREATE", "FromRequest", "namespace", "Fail", "Forbidden"),
    *("720h", "30d", "0s", "8", "8Gi", "-1", "2027-03-31T00:00:00Z", "2027-02-30T00:00:00Z"),
)
_OTHERS: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 100, 101, 1.0, 1.5, 2**31 - 1, 2**31, 2**70, [], {}),
    *([""], ["a"], ["a", "a"], [1], [None], {"a": 1}, {"a": None}, {"expression": "1"}),
    *({"expression": ""}, {"name": "a"}, {"min": 1}, {"max": "8Gi"}, {"matchLabels": {"a": "b"}}),
)


def policy(spec: Json | None = None, *, name: str = "vision-gpu-rules") -> Json:
    """A TrainJobPolicy; without a spec, one that says all that can be said."""
    return _document(POLICY, {"name": name}, _SPEC if spec is None else spec)


def namespaced_policy(spec: Json | None = None) -> Json:
    """A NamespacedTrainJobPolicy; without a spec, one that says all that can be said."""
    own = {key: value for key, value in _SPEC.items() if key != "overrides"}
    metadata = {"name": "mine", "namespace": "team-vision"}
    return _document(NAMESPACED_POLICY, metadata, own if spec is None else spec)


def exception(spec: Json | None = None) -> Json:
    """A PolicyException; without a spec, one that says all that can be said."""
    metadata = {"name": "llama-70b-run", "namespace": "team-vision"}
    return _document(EXCEPTION, metadata, _EXCEPTION if spec is None else spec)


def complete() -> list[Json]:
    """One of each kind, with all that can be said."""
    return [policy(), namespaced_policy(), exception()]


def changed(dice: Random) -> Json:
    """A complete document with one to three values changed, dropped, added or repeated somewhere in its spec."""
    found = dice.choice(complete())
    for _ in range(dice.randint(1, 3)):
        _change(found, dice)
    return found


def _document(kind: str, metadata: Json, spec: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": deepcopy(spec),
    }


def _change(document: Json, dice: Random) -> None:
    parent: Any = document
    key: Any = "spec"
    while dice.random() < 0.85:
        below: Any = parent[key]
        if not below or not isinstance(below, dict | list):
            break
        parent = below
        key = dice.choice(list(below) if isinstance(below, dict) else range(len(below)))
    if key == "spec" and parent is document:
        parent, key = document["spec"], dice.choice(list(document["spec"]) or ["x"])
    match dice.randrange(6):
        case 0 if isinstance(parent, dict):
            parent.pop(key, None)
        case 0 | 1 if isinstance(parent, list):
            parent.append(deepcopy(dice.choice(parent)))
        case 1 if isinstance(parent, dict) and len(parent) > 1:
            parent[key] = deepcopy(dice.choice(list(parent.values())))
        case 2 if isinstance(parent, dict):
            parent[dice.choice(_WORDS)] = deepcopy(dice.choice(_OTHERS))
        case 3 | 4:
            parent[key] = dice.choice(_WORDS)
        case _:
            parent[key] = deepcopy(dice.choice(_OTHERS))
