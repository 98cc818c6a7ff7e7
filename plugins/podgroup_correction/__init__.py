"""Has a PodGroup ask for the pods that exist first, and for what these need: a gang that can be complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import gang, quantity
from plugins.framework.field import Findings, Path
from plugins.framework.interface import CorrectPodGroupPlugin
from plugins.framework.quantity import QuantityError
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugins.framework.context import Context
    from plugins.framework.draft import Draft
    from plugins.framework.info import Info

NAME: Final = gang.CORRECTION

MEMBERS: Final = Path("spec", "minMember")
RESOURCES: Final = Path("spec", "minResources")

MOST_MEMBERS: Final = 2**31 - 1
"""What the field holds in both CRDs. A patch past it would have the PodGroup refused."""


@dataclass(frozen=True)
class PodGroupCorrection(CorrectPodGroupPlugin):
    """``minMember`` and ``minResources``, of the scheduler-plugins' PodGroup and of Volcano's alike."""

    name: ClassVar[str] = NAME

    def correct_pod_group(self, ctx: Context, info: Info, draft: Draft) -> Findings:
        """Write what differs in value; a PodGroup that sets neither of the two is not the controller's."""
        del ctx
        found = Findings()
        given_members, given_resources = draft.get(MEMBERS), draft.get(RESOURCES)
        if given_members is None and given_resources is None:
            return found
        try:
            wanted = gang.first_gang(info)
        except QuantityError as error:
            found.warn(f"the PodGroup is left as it is: {error}")
            return found
        if not 1 <= wanted.members <= MOST_MEMBERS:
            found.warn(
                f"the PodGroup is left as it is: a gang of {wanted.members} pods cannot be asked for"
            )
            return found
        draft.set(MEMBERS, wanted.members)
        if not _asks_the_same(given_resources, wanted.resources):
            draft.set(RESOURCES, wanted.resources)
        found.warn(*gang.warn_about_first(info))
        return found


def _asks_the_same(given: Any, wanted: Mapping[str, str]) -> bool:
    """Whether both ask for the same, in whatever form; nothing at all asks for nothing."""
    given = {} if given is None else given
    if type(given) is not dict or given.keys() != wanted.keys():
        return False
    try:
        return all(
            quantity.cmp(quantity.parse(given[name]), quantity.parse(text)) == 0
            for name, text in wanted.items()
        )
    except QuantityError:
        return False


def new(_args: Args, _handle: Handle) -> PodGroupCorrection:
    """Build the plugin."""
    return PodGroupCorrection()


SPEC: Final = PluginSpec(name=NAME, build=new)
