"""Legal shapes of Pods, Jobs and JobSets, as their CRD schemas allow them.

Tables map a field to what makes a value for it. Vocabularies are small on purpose, so that names
meet again in patches, in other containers, and in what the Trainer adds by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.conformance.dice import Dice, Json, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Maker = Callable[[Dice], Any]

WORDS: Final = ("a", "b", "c", "d")
IMAGES: Final = ("x", "example.com/team/image:1.2", "example.com/i@sha256:" + "ab" * 32)
ENV_NAMES: Final = ("A", "B", "C", "D", "LOG_LEVEL", "PATH_EXTRA")
VOLUMES: Final = ("v1", "v2", "v3", "initializer", "shm")
PATHS: Final = ("/a", "/b", "/workspace", "/data", "/dev/shm", "/root/.ssh", "/etc/mpi")
LABEL_KEYS: Final = ("a", "b", "team", "example.com/tier", "app.kubernetes.io/name")
QUANTITIES: Final[tuple[str | int, ...]] = (
    "1", 1, "2", 4, "500m", "2500m", "0.5", "1.5", ".5", "5.", "+2", "0", 0, "100m",
    "1Gi", "0.5Gi", "1.5Gi", "0.1Gi", "512Mi", "64Ki", "1Ti", "2Pi", "1Ei",
    "1k", "1M", "2G", "3T", "1P", "1E", "1e3", "1E3", "12e-1", "1e-3", "3E2",
    "1u", "1n", "100n", "128974848", "9223372036854775807", "10000000000000000000",
    "0.000000001", "1000000", "1024Mi", "1000m", "1024", "-1", "00.50", "007",
)  # fmt: skip
CPU: Final[tuple[str | int, ...]] = (
    "2", 1, "4", "500m", "2500m", "0.7", "1.5", "2000m", "1e1", "0", "3.0", "100u", "1k",
)  # fmt: skip
MEMORY: Final[tuple[str | int, ...]] = (
    "1Gi", "512Mi", "0.5Gi", "1.5Gi", "1G", "1e9", "128974848", 1073741824, "64Ki", "1000k",
)  # fmt: skip
COUNTS: Final[tuple[str | int, ...]] = ("1", 1, "2", 2, "4", "8", 0, "1k", "2000m")
GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu", "example.com/GPU", "gpu.intel.com/i915")
DEVICES: Final = (
    "google.com/tpu", "nvidia.com/mig-1g.5gb", "habana.ai/gaudi", "hugepages-2Mi",
    "ephemeral-storage", "example.com/foo", "pods",
)  # fmt: skip


def word(dice: Dice) -> str:
    """Return a short word."""
    return dice.pick(WORDS)


def text(dice: Dice) -> str:
    """Return a text that needs quoting somewhere."""
    options = ("a", "1", "true", "x=y z", "$(A)", "line\nbreak", 'quo"te', "ümläut", "<&>", "")
    value = dice.pick(options)
    if value == "":
        dice.tag("shape:empty-string")
    return value


def flag(dice: Dice) -> bool:
    """Return a bool; false is what omitempty drops."""
    return dice.chance(50)


def number(dice: Dice) -> int:
    """Return a small number, zero included."""
    return dice.pick((1, 2, 3, 10, 0, 600))


def texts(dice: Dice) -> list[str]:
    """Return a list of texts, now and then empty."""
    return dice.several(1, 3, text) if not dice.chance(5) else _empty_list(dice)


def _empty_list(dice: Dice) -> list[Any]:
    dice.tag("shape:empty-list")
    return []


def empty(dice: Dice) -> Json:
    """Return an object without fields."""
    dice.tag("shape:empty-map")
    return {}


def constant(*options: Any) -> Maker:
    """Return a maker that picks one of the values."""
    return lambda dice: dice.pick(options)


def list_of(make: Maker, low: int = 1, high: int = 2, *, keys: tuple[str, ...] = ()) -> Maker:
    """Return a maker of lists; with keys, of lists of type map."""

    def made(dice: Dice) -> list[Any]:
        items = dice.several(low, high, make)
        return unique(items, *keys) if keys else items

    return made


def object_of(makers: Mapping[str, Maker], low: int = 0, high: int = 3, **fixed: Maker) -> Maker:
    """Return a maker of objects: the fixed fields always, of the table some."""

    def made(dice: Dice) -> Json:
        return {name: make(dice) for name, make in fixed.items()} | dice.some(makers, low, high)

    return made


def string_map(dice: Dice) -> dict[str, str]:
    """Return labels, annotations, or anything of that shape."""
    keys = dice.sample(LABEL_KEYS, dice.pick((1, 2, 1, 3, 0)))
    if not keys:
        dice.tag("shape:empty-map")
    return {key: dice.pick(("x", "y", "z", "")) for key in keys}


def quantity(dice: Dice) -> str | int:
    """Return a quantity in one of the many ways to write it."""
    value = dice.pick(QUANTITIES)
    dice.tag("shape:quantity", f"quantity:{value!r}")
    return value


def resource_list(dice: Dice) -> dict[str, str | int]:
    """Return requests or limits."""
    made: dict[str, str | int] = {}
    if dice.chance(75):
        made["cpu"] = dice.pick(CPU)
    if dice.chance(60):
        made["memory"] = dice.pick(MEMORY)
    if dice.chance(35):
        made[dice.pick(GPUS)] = dice.pick(COUNTS)
        dice.tag("resource:gpu")
        if dice.chance(10):
            made[dice.pick(GPUS)] = dice.pick(COUNTS)
            dice.tag("resource:several-gpus")
    if dice.chance(15):
        made[dice.pick(DEVICES)] = dice.pick(COUNTS)
        dice.tag("resource:device")
    if dice.chance(20):
        made[dice.pick(("cpu", "memory", "example.com/foo"))] = quantity(dice)
    if not made:
        dice.tag("shape:empty-map")
    return dict(dice.shuffled(list(made.items())))


def resources(dice: Dice) -> Json:
    """Return the resources of a container or of spec.trainer."""
    made: Json = {}
    shape = dice.below(10)
    if shape not in {0, 9}:
        made["requests"] = resource_list(dice)
    if shape not in {1, 2, 9}:
        made["limits"] = resource_list(dice)
    if dice.chance(8):
        made["claims"] = unique(dice.several(1, 2, _CLAIM), "name")
        dice.tag("resource:claims")
    return made


def env(dice: Dice, names: tuple[str, ...] = ENV_NAMES) -> list[Json]:
    """Return environment variables, each name once."""
    if dice.chance(3):
        return _empty_list(dice)
    return [env_entry(dice, name) for name in dice.sample(names, dice.between(1, 3))]


def env_entry(dice: Dice, name: str) -> Json:
    """Return one variable, its value in any of the legal forms."""
    made: Json = {"name": name}
    form = dice.weighted({"value": 60, "nothing": 8, "from": 28, "both": 4})
    dice.tag(f"env:{form}")
    if form in {"value", "both"}:
        made["value"] = text(dice)
    if form in {"from", "both"}:
        kind = dice.pick(tuple(ENV_SOURCES))
        dice.tag(f"env:{kind}")
        made["valueFrom"] = {kind: ENV_SOURCES[kind](dice)}
    return made


_CLAIM: Final = object_of({"request": word}, 0, 1, name=word)
_OPTIONAL: Final[Mapping[str, Maker]] = {"optional": flag}
ENV_SOURCES: Final[Mapping[str, Maker]] = {
    "fieldRef": object_of(
        {"apiVersion": constant("v1")},
        0,
        1,
        fieldPath=constant("metadata.name", "status.podIP", "metadata.labels['a']"),
    ),
    "configMapKeyRef": object_of(_OPTIONAL, 0, 1, name=word, key=word),
    "secretKeyRef": object_of(_OPTIONAL, 0, 1, name=word, key=word),
    "resourceFieldRef": object_of(
        {"containerName": constant("node", "side"), "divisor": quantity},
        0,
        2,
        resource=constant("limits.cpu", "requests.memory"),
    ),
    "fileKeyRef": object_of(_OPTIONAL, 0, 1, volumeName=constant(*VOLUMES), path=word, key=word),
}


def env_from(dice: Dice) -> Json:
    """Return one envFrom source."""
    kind = dice.pick(("secretRef", "configMapRef"))
    made: Json = {kind: {"name": word(dice)} | dice.some(_OPTIONAL, 0, 1)}
    if dice.chance(30):
        made["prefix"] = dice.pick(("P_", ""))
    return made


def port(dice: Dice) -> Json:
    """Return a container port; unnamed ones and the Trainer's own number are frequent."""
    made: Json = {"containerPort": dice.pick((29500, 8080, 29500, 9090, 22))}
    if dice.chance(40):
        made["name"] = dice.pick(("http", "metrics", "ssh", "c10d"))
    if dice.chance(30):
        made["protocol"] = dice.pick(("TCP", "UDP"))
    if dice.chance(8):
        made["hostPort"] = dice.pick((8080, 0))
    if dice.chance(5):
        made["hostIP"] = "127.0.0.1"
    return made


def ports(dice: Dice) -> list[Json]:
    """Return ports whose number and (defaulted) protocol differ."""
    made = dice.several(1, 3, port)
    unnamed = sum("name" not in item for item in made)
    if unnamed > 1:
        dice.tag("port:several-unnamed")
    if any(item["containerPort"] == 29500 for item in made):
        dice.tag("port:29500")
    kept = {(item["containerPort"], item.get("protocol", "TCP")): item for item in made}
    return list(kept.values())


def volume_mount(dice: Dice) -> Json:
    """Return one mount."""
    made: Json = {"name": dice.pick(VOLUMES), "mountPath": dice.pick(PATHS)}
    if dice.chance(30):
        made["readOnly"] = flag(dice)
    if dice.chance(15):
        made |= dice.some(_MOUNT_FIELDS, 1, 1)
    return made


_MOUNT_FIELDS: Final[Mapping[str, Maker]] = {
    "subPath": constant("s", ""),
    "subPathExpr": constant("$(A)"),
    "mountPropagation": constant("None", "HostToContainer"),
    "recursiveReadOnly": constant("Disabled", "IfPossible"),
}
_KEY_ITEM: Final = object_of({"mode": constant(256, 420, 0)}, 0, 1, key=word, path=word)
_LOCAL_REF: Final = object_of({"name": word}, 1, 1)
_LABEL_SELECTOR: Final = object_of(
    {
        "matchLabels": string_map,
        "matchExpressions": list_of(
            object_of(
                {"values": list_of(word, 0, 2)}, 0, 1, key=word, operator=constant("In", "Exists")
            )
        ),
    },
    0,
    2,
)
_CLAIM_SPEC: Final = object_of(
    {
        "storageClassName": constant("fast", ""),
        "volumeMode": constant("Filesystem"),
        "volumeName": word,
        "selector": _LABEL_SELECTOR,
        "dataSource": object_of({"apiGroup": word}, 0, 1, kind=constant("PVC"), name=word),
        "dataSourceRef": object_of({"namespace": word}, 0, 1, kind=constant("PVC"), name=word),
        "volumeAttributesClassName": word,
    },
    0,
    2,
    accessModes=constant(["ReadWriteOnce"], ["ReadWriteMany", "ReadOnlyMany"]),
    resources=object_of(
        {
            "requests": lambda dice: {"storage": quantity(dice)},
            "limits": lambda dice: {"storage": quantity(dice)},
        },
        1,
        2,
    ),
)
_PROJECTED: Final[Mapping[str, Maker]] = {
    "secret": object_of({"items": list_of(_KEY_ITEM), "optional": flag}, 0, 2, name=word),
    "configMap": object_of({"items": list_of(_KEY_ITEM), "optional": flag}, 0, 2, name=word),
    "serviceAccountToken": object_of({"audience": word, "expirationSeconds": number}, path=word),
    "downwardAPI": object_of(
        {
            "items": list_of(
                object_of(
                    {"fieldRef": object_of({}, 0, 0, fieldPath=constant("metadata.name"))},
                    0,
                    1,
                    path=word,
                )
            )
        }
    ),
}
VOLUME_SOURCES: Final[Mapping[str, Maker]] = {
    "emptyDir": object_of({"medium": constant("Memory", ""), "sizeLimit": quantity}, 0, 2),
    "configMap": object_of(
        {"items": list_of(_KEY_ITEM), "defaultMode": constant(420, 0), "optional": flag}, name=word
    ),
    "secret": object_of(
        {"items": list_of(_KEY_ITEM), "defaultMode": constant(256), "optional": flag},
        secretName=word,
    ),
    "persistentVolumeClaim": object_of({"readOnly": flag}, 0, 1, claimName=word),
    "hostPath": object_of(
        {"type": constant("Directory", "")}, 0, 1, path=constant("/a", "/dev/shm")
    ),
    "projected": object_of(
        {"defaultMode": constant(420, 0)}, 0, 1, sources=list_of(object_of(_PROJECTED, 1, 1), 0, 2)
    ),
    "downwardAPI": object_of(
        {
            "items": list_of(
                object_of(
                    {
                        "resourceFieldRef": object_of(
                            {"divisor": quantity, "containerName": word},
                            resource=constant("limits.cpu"),
                        )
                    },
                    1,
                    1,
                    path=word,
                )
            )
        }
    ),
    "ephemeral": object_of(
        {"volumeClaimTemplate": object_of({"metadata": empty}, 0, 1, spec=_CLAIM_SPEC)}, 1, 1
    ),
    "csi": object_of({"readOnly": flag, "volumeAttributes": string_map}, driver=word),
    "nfs": object_of({"readOnly": flag}, server=word, path=constant("/a")),
    "iscsi": object_of({"portals": list_of(word)}, targetPortal=word, iqn=word, lun=constant(1, 0)),
    "rbd": object_of({"pool": word}, 0, 1, monitors=list_of(word), image=word),
    "cephfs": object_of({"path": word, "secretRef": _LOCAL_REF}, monitors=list_of(word)),
    "image": object_of({"reference": word, "pullPolicy": constant("Always")}, 1, 2),
    "gcePersistentDisk": object_of({"partition": number, "readOnly": flag}, pdName=word),
    "awsElasticBlockStore": object_of({"fsType": word}, volumeID=word),
    "azureDisk": object_of({"cachingMode": constant("None")}, diskName=word, diskURI=word),
    "fc": object_of({"targetWWNs": list_of(word), "lun": constant(0, 1)}, 1, 2),
}


def volume(dice: Dice, name: str) -> Json:
    """Return a volume of any source; ordinary ones are more frequent."""
    common = ("emptyDir", "configMap", "secret", "persistentVolumeClaim")
    kind = dice.pick(common) if dice.chance(50) else dice.pick(tuple(VOLUME_SOURCES))
    dice.tag(f"volume:{kind}")
    return {"name": name, kind: VOLUME_SOURCES[kind](dice)}


def volumes(dice: Dice) -> list[Json]:
    """Return volumes, each name once."""
    return [volume(dice, name) for name in dice.sample(VOLUMES, dice.between(1, 3))]


def toleration(dice: Dice) -> Json:
    """Return one toleration."""
    makers: Mapping[str, Maker] = {
        "key": word,
        "operator": constant("Exists", "Equal"),
        "value": word,
        "effect": constant("NoSchedule", "NoExecute"),
        "tolerationSeconds": constant(60, 0),
    }
    return dice.some(makers, 1, 3)


_NODE_TERM: Final = object_of(
    {
        "matchExpressions": list_of(
            object_of({"values": list_of(word, 0, 2)}, 0, 1, key=word, operator=constant("In"))
        ),
        "matchFields": list_of(object_of({}, 0, 0, key=word, operator=constant("Exists"))),
    },
    0,
    2,
)
_POD_TERM: Final = object_of(
    {
        "labelSelector": _LABEL_SELECTOR,
        "namespaceSelector": _LABEL_SELECTOR,
        "namespaces": list_of(word),
        "matchLabelKeys": list_of(word),
        "mismatchLabelKeys": list_of(word),
    },
    0,
    2,
    topologyKey=word,
)
_POD_AFFINITY: Final = object_of(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": list_of(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": list_of(
            object_of({}, 0, 0, weight=number, podAffinityTerm=_POD_TERM)
        ),
    },
    0,
    2,
)
affinity: Final = object_of(
    {
        "nodeAffinity": object_of(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": object_of(
                    {}, 0, 0, nodeSelectorTerms=list_of(_NODE_TERM, 0, 2)
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": list_of(
                    object_of({}, 0, 0, weight=number, preference=_NODE_TERM), 0, 2
                ),
            },
            0,
            2,
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
    0,
    2,
)
_SECCOMP: Final = object_of(
    {"localhostProfile": word}, 0, 1, type=constant("RuntimeDefault", "Localhost")
)
_SELINUX: Final = object_of({"level": word, "role": word, "type": word, "user": word}, 0, 2)
_SHARED_SECURITY: Final[Mapping[str, Maker]] = {
    "runAsUser": constant(1000, 0),
    "runAsGroup": constant(1000, 0),
    "runAsNonRoot": flag,
    "seccompProfile": _SECCOMP,
    "seLinuxOptions": _SELINUX,
    "appArmorProfile": object_of({}, 0, 0, type=constant("Unconfined")),
    "windowsOptions": object_of({"hostProcess": flag, "runAsUserName": word}, 0, 2),
}
pod_security: Final = object_of(
    {
        **_SHARED_SECURITY,
        "fsGroup": constant(1000, 0),
        "fsGroupChangePolicy": constant("Always"),
        "supplementalGroups": list_of(number, 0, 2),
        "supplementalGroupsPolicy": constant("Merge"),
        "sysctls": list_of(object_of({}, 0, 0, name=word, value=word)),
    },
    0,
    4,
)
container_security: Final = object_of(
    {
        **_SHARED_SECURITY,
        "allowPrivilegeEscalation": flag,
        "privileged": flag,
        "readOnlyRootFilesystem": flag,
        "procMount": constant("Default"),
        "capabilities": object_of(
            {
                "add": list_of(constant("IPC_LOCK", "NET_RAW"), 0, 2),
                "drop": list_of(constant("ALL")),
            },
            0,
            2,
        ),
    },
    0,
    4,
)
_HANDLER: Final[Mapping[str, Maker]] = {
    "exec": object_of({"command": texts}, 1, 1),
    "httpGet": object_of(
        {
            "path": constant("/", ""),
            "scheme": constant("HTTP", "HTTPS"),
            "host": word,
            "httpHeaders": list_of(object_of({}, 0, 0, name=word, value=text)),
        },
        0,
        3,
        port=constant(8080, "http"),
    ),
    "tcpSocket": object_of({"host": word}, 0, 1, port=constant("ssh", 22)),
}


def probe(dice: Dice) -> Json:
    """Return a probe."""
    handlers: dict[str, Maker] = dict(_HANDLER)
    handlers["grpc"] = object_of({"service": constant("s", "")}, 0, 1, port=constant(8080))
    timing: Mapping[str, Maker] = {
        "initialDelaySeconds": number,
        "periodSeconds": number,
        "timeoutSeconds": number,
        "failureThreshold": number,
        "successThreshold": constant(1),
        "terminationGracePeriodSeconds": number,
    }
    return dice.some(handlers, 1, 1) | dice.some(timing, 0, 3)


CONTAINER_FIELDS: Final[Mapping[str, Maker]] = {
    "imagePullPolicy": constant("Always", "IfNotPresent"),
    "workingDir": constant("/workspace", ""),
    "envFrom": list_of(env_from),
    "livenessProbe": probe,
    "readinessProbe": probe,
    "startupProbe": probe,
    "lifecycle": object_of(
        {
            "preStop": object_of(
                {**_HANDLER, "sleep": object_of({}, 0, 0, seconds=constant(5, 0))}, 1, 1
            ),
            "postStart": object_of(_HANDLER, 1, 1),
            "stopSignal": constant("SIGTERM"),
        },
        0,
        2,
    ),
    "securityContext": container_security,
    "stdin": flag,
    "stdinOnce": flag,
    "tty": flag,
    "terminationMessagePath": constant("/dev/termination-log", ""),
    "terminationMessagePolicy": constant("File"),
    "resizePolicy": list_of(
        object_of(
            {},
            0,
            0,
            resourceName=constant("cpu", "memory"),
            restartPolicy=constant("NotRequired"),
        ),
        1,
        1,
    ),
    "volumeDevices": list_of(
        object_of({}, 0, 0, name=word, devicePath=constant("/dev/xvda", "/dev/b")),
        keys=("devicePath",),
    ),
}


def container(dice: Dice, name: str) -> Json:
    """Return a container of a runtime's template."""
    made: Json = {"name": name}
    if dice.chance(92):
        made["image"] = dice.pick(IMAGES)
    if dice.chance(30):
        made["command"] = texts(dice)
    if dice.chance(20):
        made["args"] = texts(dice)
    if dice.chance(40):
        made["env"] = env(dice)
    if dice.chance(25):
        made["ports"] = ports(dice)
    if dice.chance(45):
        made["resources"] = resources(dice)
    if dice.chance(30):
        made["volumeMounts"] = unique(dice.several(0, 3, volume_mount), "mountPath")
    return made | dice.some(CONTAINER_FIELDS, 0, dice.pick((0, 1, 0, 2)))


def pod_resources(dice: Dice) -> Json:
    """Return Pod-level resources, which replace the sum of the containers for some names only."""
    dice.tag("pod:resources")
    return resources(dice)


def overhead(dice: Dice) -> Json:
    """Return a Pod overhead."""
    dice.tag("pod:overhead")
    return {"cpu": dice.pick(CPU)} | ({"memory": dice.pick(MEMORY)} if dice.chance(50) else {})


POD_FIELDS: Final[Mapping[str, Maker]] = {
    "activeDeadlineSeconds": constant(600),
    "affinity": affinity,
    "automountServiceAccountToken": flag,
    "dnsConfig": object_of(
        {
            "nameservers": list_of(constant("10.0.0.1")),
            "searches": list_of(word),
            "options": list_of(object_of({"value": word}, 0, 1, name=word)),
        },
        0,
        2,
    ),
    "dnsPolicy": constant("ClusterFirst", "None"),
    "enableServiceLinks": flag,
    "hostAliases": list_of(
        object_of({"hostnames": list_of(word)}, 0, 1, ip=constant("10.0.0.1", "10.0.0.2")),
        keys=("ip",),
    ),
    "hostIPC": flag,
    "hostNetwork": flag,
    "hostPID": flag,
    "hostUsers": flag,
    "hostname": constant("h", ""),
    "imagePullSecrets": list_of(_LOCAL_REF, 1, 3, keys=("name",)),
    "nodeName": word,
    "nodeSelector": string_map,
    "os": object_of({}, 0, 0, name=constant("linux")),
    "overhead": overhead,
    "preemptionPolicy": constant("Never"),
    "priority": constant(10, 0),
    "readinessGates": list_of(object_of({}, 0, 0, conditionType=word)),
    "resourceClaims": list_of(
        object_of({"resourceClaimName": word, "resourceClaimTemplateName": word}, 0, 1, name=word),
        keys=("name",),
    ),
    "resources": pod_resources,
    "restartPolicy": constant("Never", "OnFailure"),
    "runtimeClassName": constant("gvisor", "kata"),
    "schedulerName": constant("volcano", "scheduler-plugins-scheduler"),
    "schedulingGates": list_of(object_of({}, 0, 0, name=word), 1, 3, keys=("name",)),
    "securityContext": pod_security,
    "serviceAccount": word,
    "serviceAccountName": word,
    "setHostnameAsFQDN": flag,
    "shareProcessNamespace": flag,
    "subdomain": word,
    "terminationGracePeriodSeconds": constant(30, 0),
    "tolerations": list_of(toleration, 0, 2),
    "topologySpreadConstraints": list_of(
        object_of(
            {
                "labelSelector": _LABEL_SELECTOR,
                "minDomains": number,
                "matchLabelKeys": list_of(word),
                "nodeAffinityPolicy": constant("Honor"),
            },
            0,
            2,
            maxSkew=constant(1, 2),
            topologyKey=word,
            whenUnsatisfiable=constant("DoNotSchedule"),
        ),
        keys=("topologyKey", "whenUnsatisfiable"),
    ),
}


def pod_fields(dice: Dice) -> Json:
    """Return some fields of a Pod besides its containers and volumes."""
    made = dice.some(POD_FIELDS, 0, dice.pick((0, 1, 2, 4)))
    dice.tag(*(f"pod:{name}" for name in made))
    return made


_POD_FAILURE_POLICY: Final = object_of(
    {},
    0,
    0,
    rules=list_of(
        object_of(
            {
                "onExitCodes": object_of(
                    {"containerName": constant("node")},
                    0,
                    1,
                    operator=constant("In"),
                    values=constant([1], [42, 43]),
                ),
                "onPodConditions": list_of(object_of({}, 0, 0, type=word, status=constant("True"))),
            },
            1,
            1,
            action=constant("FailJob", "Ignore"),
        )
    ),
)
JOB_FIELDS: Final[Mapping[str, Maker]] = {
    "activeDeadlineSeconds": number,
    "backoffLimit": constant(0, 3),
    "backoffLimitPerIndex": constant(1, 0),
    "completionMode": constant("Indexed", "NonIndexed"),
    "completions": constant(1, 2, 5, 0),
    "managedBy": constant("kubernetes.io/job-controller"),
    "manualSelector": flag,
    "maxFailedIndexes": number,
    "parallelism": constant(1, 2, 3, 0),
    "podFailurePolicy": _POD_FAILURE_POLICY,
    "podReplacementPolicy": constant("Failed"),
    "selector": _LABEL_SELECTOR,
    "successPolicy": object_of(
        {}, 0, 0, rules=list_of(object_of({"succeededCount": number}, 1, 1), 1, 1)
    ),
    "suspend": flag,
    "ttlSecondsAfterFinished": constant(60, 0),
}


def job_fields(dice: Dice) -> Json:
    """Return some fields of a Job besides its Pod template."""
    made = dice.some(JOB_FIELDS, 0, dice.pick((0, 0, 1, 3)))
    dice.tag(*(f"job:{name}" for name in made))
    return made


def metadata(dice: Dice) -> Json:
    """Return metadata of a template, mostly labels and annotations."""
    made = dice.some({"labels": string_map, "annotations": string_map}, 0, 2)
    if dice.chance(6):
        made |= dice.some(
            {
                "finalizers": list_of(constant("example.com/a", "example.com/b"), 1, 2),
                "name": word,
                "namespace": word,
            },
            1,
            2,
        )
        dice.tag("shape:template-metadata-name")
    return made


JOBSET_FIELDS: Final[Mapping[str, Maker]] = {
    "coordinator": object_of(
        {"jobIndex": constant(0, 1), "podIndex": constant(0)}, replicatedJob=constant("node")
    ),
    "failurePolicy": object_of(
        {
            "maxRestarts": number,
            "restartStrategy": constant("Recreate", "BlockingRecreate"),
            "rules": list_of(
                object_of(
                    {
                        "targetReplicatedJobs": list_of(constant("node"), 0, 1),
                        "onJobFailureReasons": list_of(constant("BackoffLimitExceeded")),
                        "onJobFailureMessagePatterns": list_of(constant(".*")),
                    },
                    0,
                    2,
                    name=constant("rule1"),
                    action=constant("FailJobSet", "RestartJobSet"),
                ),
                1,
                1,
            ),
        },
        0,
        2,
    ),
    "managedBy": constant("jobset.sigs.k8s.io/jobset-controller"),
    "network": object_of(
        {
            "subdomain": constant("sub", ""),
            "enableDNSHostnames": flag,
            "publishNotReadyAddresses": flag,
        },
        0,
        3,
    ),
    "startupPolicy": object_of({}, 0, 0, startupPolicyOrder=constant("AnyOrder", "InOrder")),
    "successPolicy": object_of(
        {"targetReplicatedJobs": list_of(constant("node", "launcher"), 0, 2)},
        operator=constant("All", "Any"),
    ),
    "suspend": flag,
    "ttlSecondsAfterFinished": constant(60, 0),
    "volumeClaimPolicies": list_of(
        object_of(
            {"retentionPolicy": object_of({"whenDeleted": constant("Delete", "Retain")}, 0, 1)},
            templates=list_of(
                object_of(
                    {},
                    0,
                    0,
                    metadata=object_of({}, 0, 0, name=constant(*VOLUMES)),
                    spec=_CLAIM_SPEC,
                ),
                0,
                2,
            ),
        )
    ),
}


def jobset_fields(dice: Dice) -> Json:
    """Return some fields of a JobSet besides its jobs."""
    made = dice.some(JOBSET_FIELDS, 0, dice.pick((0, 0, 1, 3)))
    dice.tag(*(f"jobset:{name}" for name in made))
    if "subdomain" in made.get("network", {}):
        dice.tag("jobset:network.subdomain")
    return made
