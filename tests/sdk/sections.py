"""What a policy says for each option of ``given.py``: the same, in the words of documents."""

from __future__ import annotations

from tests.builders import Json

LABELS: Json = {"team": "nlp", "example.com/cost": "a1"}
ANNOTATIONS: Json = {"example.com/contact": "ml platform"}
POD: Json = {
    "serviceAccountName": "trainer",
    "nodeSelector": {"pool": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
                ]
            }
        }
    },
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
    "containers": [
        {"name": "node", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    ],
    "schedulingGates": [{"name": "example.com/quota"}],
    "imagePullSecrets": [{"name": "registry"}],
}
SECURED: Json = {
    **POD,
    "securityContext": {"runAsUser": 1000, "fsGroup": 7},
    "containers": [{**POD["containers"][0], "securityContext": {"runAsNonRoot": True}}],
}
NODE: Json = {"targetJobs": [{"name": "node"}]}
JOBSET: Json = {"labels": {"of": "jobset"}, "annotations": {"example.com/of": "jobset"}}

SECTIONS: dict[str, Json] = {
    "labels": {"labels": LABELS},
    "annotations": {"annotations": ANNOTATIONS},
    "spec-labels": {"specLabels": LABELS},
    "spec-annotations": {"specAnnotations": ANNOTATIONS},
    "overrides": {
        "podTemplateOverrides": [
            {
                **NODE,
                "metadata": {"labels": {"of": "pod"}, "annotations": {"example.com/of": "pod"}},
                "spec": POD,
            },
            {**NODE, "spec": {"nodeSelector": {"pool": "b", "more": "c"}}},
        ]
    },
    "patch": {
        "runtimePatches": [
            {
                "trainingRuntimeSpec": {
                    "template": {
                        "metadata": JOBSET,
                        "spec": {
                            "replicatedJobs": [
                                {
                                    "name": "node",
                                    "template": {
                                        "metadata": {"labels": {"of": "job"}},
                                        "spec": {
                                            "template": {
                                                "metadata": {"labels": {"of": "pod"}},
                                                "spec": SECURED,
                                            }
                                        },
                                    },
                                }
                            ]
                        },
                    }
                }
            }
        ]
    },
    "command": {"trainer": {"command": ["python", "train.py"]}},
    "args": {"trainer": {"args": ["--epochs", "3"]}},
    "deadline": {"activeDeadlineSeconds": 7200},
}
"""Case -> what stands under ``defaults`` or ``overrides``. ``custom`` has no words of its own."""

PATCH_IN_OLD_WORDS: Json = {
    "specLabels": JOBSET["labels"],
    "specAnnotations": JOBSET["annotations"],
    "podTemplateOverrides": [{**NODE, "metadata": {"labels": {"of": "pod"}}, "spec": SECURED}],
    # Metadata of Jobs came with patches.
    "runtimePatches": [
        {
            "trainingRuntimeSpec": {
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {"name": "node", "template": {"metadata": {"labels": {"of": "job"}}}}
                        ]
                    }
                }
            }
        }
    ],
}
"""``patch`` as far as the options of the SDK before it can say it."""
