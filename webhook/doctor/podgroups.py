"""The check of the opt-in for PodGroups: what the API server is told, and what the replicas are, must agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from webhook.doctor.facts import Facts, Unread
from webhook.doctor.finding import Finding, fail, ok, unread
from webhook.doctor.installed import again, calls_for_pod_groups, corrects_pod_groups
from webhook.install.settings import POD_GROUPS
from webhook.kube.shared import CONFIGURATIONS, SERVICE

PODGROUPS: Final = "podgroups"

_WITH: Final = "(Helm: podGroups.enabled=true)"
_WITHOUT: Final = "(Helm: podGroups.enabled=false)"


def podgroups(facts: Facts) -> Iterator[Finding]:
    """They are corrected where that was asked for: either both sides know of it, or none."""
    if isinstance(facts.mutating, Unread):
        return  # said by the check of the registration
    place = CONFIGURATIONS[0].place(POD_GROUPS)
    is_called, is_corrected = calls_for_pod_groups(facts.mutating), corrects_pod_groups(facts)
    both = f"to have them corrected: {again(facts, pod_groups=True)} {_WITH}"
    if not is_called and is_corrected:
        yield fail(
            PODGROUPS,
            f"not corrected: replicas run with --podgroups, but there is no {place}",
            f"{both}; else take --podgroups from the args of deployment/{SERVICE}",
        )
    elif not is_called:
        yield ok(PODGROUPS, "left as the Trainer makes them, which is the default")
    elif isinstance(facts.deployment, Unread):
        yield unread(PODGROUPS, facts.deployment)
    elif is_corrected is False:
        yield fail(
            PODGROUPS,
            f"not corrected: {place} has us asked, but replicas run without --podgroups",
            f"{both}; else take the entry away: {again(facts, pod_groups=False)} {_WITHOUT}",
        )
    elif is_corrected:
        yield ok(PODGROUPS, "corrected: registered, and replicas run with --podgroups")
    elif facts.deployment is not None:
        yield ok(
            PODGROUPS, "registered; the profile of the replicas says whether they are corrected"
        )
