"""Finishes the pods as the controller does and wraps them into a JobSet; knows JobSet's own rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import pods, values
from plugins.framework.api import names
from plugins.framework.field import Findings
from plugins.framework.info import Container
from plugins.framework.interface import (
    ComponentBuilderPlugin,
    CustomValidationPlugin,
    PreBuildSyncPlugin,
    ValidateRuntimePlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec
from plugins.jobset import coordinator, derived_names, images, initializers, template

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.info import Info, PodSet
    from plugins.framework.runtime import CompiledRuntime

NAME: Final = "JobSet"

_INITIALIZERS: Final = (("dataset", names.DATASET_INITIALIZER), ("model", names.MODEL_INITIALIZER))


@dataclass(frozen=True)
class JobSet(
    PreBuildSyncPlugin, CustomValidationPlugin, ValidateRuntimePlugin, ComponentBuilderPlugin
):
    """The JobSet of a TrainJob (semantics 2.7, 2.8, 4.1, 10.2)."""

    name: ClassVar[str] = NAME

    def pre_build_sync(self, ctx: Context, info: Info) -> None:
        """Leave the controller's last edits: counts, initializers, ``spec.trainer``, the PodGroup's labels."""
        del ctx
        info.later(_sync)
        if info.job.initializer:
            info.by = "spec.initializer"
            info.later(_initialize)
        if info.job.trainer is not None:
            info.by = "spec.trainer"
            _set_image(info)
            info.later(_train)
        if info.pod_labels or info.pod_annotations:
            info.by = "podGroupPolicy"
            info.later(_mark)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Names that are too long for what is derived from them; images and initializers that come to nothing."""
        del old
        found = Findings()
        found.error(*derived_names.own_name(ctx.line, new))
        if info is None:
            return found
        found.error(*derived_names.too_long(info), *coordinator.without_pod(info))
        found.error(*images.problems(info))
        found.error(*initializers.problems(info))
        sound = self._runtime_findings(info.runtime)
        if sound.errors:
            found.warn(f"{info.runtime.kind} {info.runtime.name} has a fault: {sound.errors[0]}")
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """The Trainer's ancestor rules, and all that JobSet's webhook will refuse later."""
        del ctx, old
        return self._runtime_findings(new)

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """One JobSet."""
        metadata = pods.metadata(info, ctx.namespace, info.job.name)
        for key, value in (("labels", info.labels), ("annotations", info.annotations)):
            if value:
                metadata[key] = value
        spec = dict(info.template)
        if info.pod_sets:
            spec["replicatedJobs"] = [p.template for p in info.pod_sets]
        suspend = info.job.spec.get("suspend")
        spec.pop("suspend", None)
        if suspend is not None:
            spec["suspend"] = suspend
        return [
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": metadata,
                "spec": spec,
            }
        ]

    @staticmethod
    def _runtime_findings(runtime: CompiledRuntime) -> Findings:
        kept: Findings | None = runtime.memo.get(NAME)
        if kept is None:
            kept = runtime.memo[NAME] = template.problems(runtime)
        return Findings(errors=list(kept.errors), warnings=list(kept.warnings))


def _sync(info: Info) -> None:
    """Counts into parallelism and completions; ports as copying them back leaves them; replicas 1."""
    first = info.trainer
    for pod_set in info.pod_sets:
        built = pod_set.template
        count = pod_set.count
        if info.line.name == "2.0" and pod_set.ancestor == names.TRAINER and first is not None:
            count = first.count
        spec = built["template"]["spec"]
        spec["parallelism"] = spec["completions"] = count
        if pod_set.ancestor in names.ANCESTORS:
            built["replicas"] = 1
        kinds = (
            ("containers", "initContainers") if info.line.syncs_init_containers else ("containers",)
        )
        for kind in kinds:
            for raw in pod_set.pod_under_construction().get(kind) or ():
                Container(raw).fold()


def _initialize(info: Info) -> None:
    for key, ancestor in _INITIALIZERS:
        source = info.job.initializer.get(key)
        if type(source) is not dict:
            continue
        for pod_set in info.pod_sets:
            if pod_set.ancestor == ancestor:
                _initialize_one(pod_set, ancestor, source)


def _initialize_one(pod_set: PodSet, ancestor: str, source: dict[str, Any]) -> None:
    for container in pod_set.edit_all(ancestor):
        uri = source.get("storageUri")
        if type(uri) is str:
            container.upsert_env(pods.env("STORAGE_URI", uri))
        container.upsert_env(*pods.trainer_env(values.objects(source.get("env"))))
        secret = source.get("secretRef")
        if type(secret) is dict:
            entry = {"secretRef": {"name": values.text(secret.get("name"))}}
            container.raw["envFrom"] = [*(container.raw.get("envFrom") or ()), entry]


def _set_image(info: Info) -> None:
    """Known at once: who asks for images alone need not wait for pods."""
    image = (info.job.trainer or {}).get("image")
    if type(image) is str:
        for pod_set in info.pod_sets:
            if pod_set.ancestor == names.TRAINER:
                pod_set.node_image = image


def _train(info: Info) -> None:
    env = pods.trainer_env(info.job.env)
    for pod_set in info.pod_sets:
        is_trainer = pod_set.ancestor == names.TRAINER
        launcher_node = (
            info.line.launcher_node_env
            and info.runtime.runs_launcher_as_node
            and pod_set.name == names.NODE
        )
        if not is_trainer and not launcher_node:
            continue
        for container in pod_set.edit_all(names.NODE):
            if is_trainer:
                if pod_set.node_image is not None:
                    container.raw["image"] = pod_set.node_image
                _replace(container, "command", info.command)
                _replace(container, "args", info.args)
            container.upsert_env(*env)


def _replace(container: Container, key: str, words: list[str] | None) -> None:
    """An empty list replaces too, and then nothing is left: the runtime's own words are gone."""
    if words is not None:
        container.raw.pop(key, None)
        if words:
            container.raw[key] = words


def _mark(info: Info) -> None:
    for pod_set in info.pod_sets:
        pod_template = pod_set.template["template"]["spec"]["template"]
        metadata = dict(values.obj(pod_template.get("metadata")))
        for key, more in (("labels", info.pod_labels), ("annotations", info.pod_annotations)):
            if more:
                metadata[key] = {**values.obj(metadata.get(key)), **more}
        pod_template["metadata"] = metadata


def new(_args: Args, _handle: Handle) -> JobSet:
    """Build the plugin."""
    return JobSet()


SPEC: Final = PluginSpec(name=NAME, build=new)
