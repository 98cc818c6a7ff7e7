"""Puts a Pipeline together from a profile file: the same for the server and for the command line."""

from __future__ import annotations

from pathlib import Path

from plugins import runtime_defaults
from plugins.framework import gang, profile, registry
from plugins.framework.errors import BadInput, ConfigError
from plugins.framework.pipeline import Pipeline, Recorder
from plugins.framework.registry import Registry
from plugins.registry import in_tree
from plugins.registry import registry as ours
from policies import plugin as policies
from policies.plugin import PlatformPolicy
from webhook import yamlio


def build_pipeline(
    path: Path | None, recorder: Recorder | None = None, *, pod_groups: bool = False
) -> Pipeline:
    """The Pipeline of a profile file, or of the built-in profile; ``pod_groups`` adds what corrects them.

    Raises ConfigError where the file cannot be read, names what does not exist, or sets what cannot be set.
    """
    known = built_in()
    in_tree_names = names()
    chosen = profile.default(in_tree_names)
    if path is not None:
        chosen = profile.decode(_read(path), in_tree_names)
        registry.add_outside(known, chosen.named - set(known.names))
    if pod_groups:
        chosen = chosen.with_plugin(gang.CORRECTION)
    return Pipeline(known, chosen, recorder)


def built_in() -> Registry:
    """Every plugin that comes with us: those of ``plugins``, and the platform's policies."""
    known = ours()
    known.register(policies.SPEC)
    return known


def names() -> list[str]:
    """Every plugin that runs by default, in order: the platform's defaults come before those of the runtime."""
    out = [spec.name for spec in in_tree()]
    out.insert(out.index(runtime_defaults.NAME), policies.NAME)
    return out


def platform_policy(pipeline: Pipeline) -> PlatformPolicy | None:
    """The plugin that knows the platform's policies, where the profile has it."""
    found = pipeline.plugins.get(policies.NAME)
    return found if isinstance(found, PlatformPolicy) else None


def _read(path: Path) -> object:
    try:
        return yamlio.load(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except BadInput as error:
        raise ConfigError(str(error)) from error
