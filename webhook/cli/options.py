"""The options that several commands have, spelled and explained once."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

_F = TypeVar("_F", bound="Callable[..., Any]")

LINES: Final = ("2.0", "2.1", "2.2", "2.3")
"""The lines of the Trainer that can be predicted."""

PATH: Final = click.Path(path_type=Path)

filename = click.option(
    "-f",
    "--filename",
    metavar="FILE",
    required=True,
    help="YAML or JSON, of one or more documents or a List; - reads standard input.",
)


def path(
    *names: str, what: str = "FILE", about: str, required: bool = False, multiple: bool = False
) -> Callable[[_F], _F]:
    """An option that names a FILE or a DIR."""
    return click.option(
        *names, metavar=what, type=PATH, help=about, required=required, multiple=multiple
    )


def folder(*, required: bool) -> Callable[[_F], _F]:
    """``--from``: the server has other ways to find its cluster."""
    about = "The cluster: a folder of YAML with runtimes, namespaces, LimitRanges, RuntimeClasses."
    return path("--from", "directory", what="DIR", about=about, required=required)


directory = folder(required=True)
profile = path("--profile", about="Which plugins run, in which order, with which arguments.")
pod_groups = click.option(
    "--podgroups",
    "pod_groups",
    is_flag=True,
    help="Correct the PodGroups that the Trainer makes: only pods that exist first can be a gang.",
)
kubeconfig = click.option(
    "--kubeconfig",
    metavar="FILE",
    envvar="KUBECONFIG",
    default="~/.kube/config",
    show_default="$KUBECONFIG, else ~/.kube/config",
    help="The cluster, and who asks.",
)
context = click.option(
    "--context", metavar="NAME", help="The context of the kubeconfig; else its current one."
)
old = click.option(
    "--old",
    metavar="FILE",
    help="The stored objects: makes it an update of them.",
)
policies = click.option(
    "-p",
    "--policies",
    metavar="FILE|DIR",
    type=PATH,
    multiple=True,
    help="Policies, exceptions and params besides those in DIR, none of which may be there twice. "
    "May be given several times.",
)
log_level = click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="info",
    show_default=True,
    help="From which level on to log.",
)
trainer_version = click.option(
    "--trainer-version",
    type=click.Choice(LINES),
    help="Whose semantics to predict. Without it: what the TrainJob CRD in DIR shows, else what the "
    "job's own fields do.",
)


def output(choices: Sequence[str]) -> Callable[[_F], _F]:
    """``-o``: the first choice is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="What to print.",
    )


class Groups(click.ParamType[tuple[str, ...]]):
    """``a,b`` as names."""

    name = "NAME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split at commas."""
        if not isinstance(value, str):
            return tuple(value)
        found = tuple(part.strip() for part in value.split(","))
        if not all(found):
            self.fail(f"{value!r} has an empty name in it", param, ctx)
        return found


class Labels(click.ParamType[dict[str, str]]):
    """``k=v,...`` as labels."""

    name = "K=V,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """Split, and judge keys and values as the API server would."""
        from plugins.framework.schema.syntax import (  # noqa: PLC0415  # not for `--help`
            not_label_value,
            not_qualified_name,
        )

        if not isinstance(value, str):
            return dict(value)
        found: dict[str, str] = {}
        for part in value.split(","):
            key, equals, text = part.strip().partition("=")
            if not equals:
                self.fail(f"{part!r} is not KEY=VALUE, such as tier=research", param, ctx)
            for problem in (*not_qualified_name(key), *not_label_value(text)):
                self.fail(f"{part!r} can be no label: {problem}", param, ctx)
            if found.setdefault(key, text) != text:
                self.fail(f"{key} has two values", param, ctx)
        return found


class Moment(click.ParamType["datetime"]):
    """A moment by RFC 3339."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read as the documents' own moments are read."""
        from policies.reading.syntax import moment  # noqa: PLC0415  # not for `--help`

        found: datetime | None = moment(value) if isinstance(value, str) else value
        if found is None:
            self.fail(f"{value!r} is no time by RFC 3339, such as 2027-03-31T00:00:00Z", param, ctx)
        return found


def user(about: str) -> Callable[[_F], _F]:
    """``--user``."""
    return click.option("--user", metavar="NAME", default="", help=about)


_groups = click.option(
    "--groups",
    type=Groups(),
    metavar="NAME,...",
    multiple=True,
    help="The groups of --user; again, or with commas, for more.",
)


def groups(command: _F) -> _F:
    """``--groups``, which the command gets as the names of all."""

    @functools.wraps(command)
    def gathering(*, groups: tuple[tuple[str, ...], ...], **others: Any) -> Any:
        return command(groups=tuple(name for some in groups for name in some), **others)

    decorated: Any = _groups(gathering)
    return decorated  # type: ignore[no-any-return]  # the same command


_sender = user("Who sends it, where the input does not say.")
_namespace_labels = click.option(
    "--namespace-labels",
    type=Labels(),
    metavar="K=V,...",
    default={},
    help="Labels of the namespace, before those that it has in DIR.",
)
_now = click.option(
    "--now",
    type=Moment(),
    metavar="TIME",
    help="When it is sent (RFC 3339), by which exceptions expire. Without it: now.",
)


def asked(command: _F) -> _F:
    """Who sends the documents, where and when: four options that the command gets as one ``asked``."""

    @functools.wraps(command)
    def asking(
        *,
        user: str,
        groups: tuple[str, ...],
        namespace_labels: dict[str, str],
        now: datetime | None,
        **others: Any,
    ) -> Any:
        from plugins.framework.api.admission import UserInfo  # noqa: PLC0415  # not for `--help`
        from webhook.asked import Asked  # noqa: PLC0415

        return command(
            asked=Asked(
                user=UserInfo(username=user, groups=groups),
                namespace_labels=namespace_labels,
                now=now,
            ),
            **others,
        )

    decorated: Any = _sender(groups(_namespace_labels(_now(asking))))
    return decorated  # type: ignore[no-any-return]  # the same command, with fewer arguments


class Address(click.ParamType[tuple[str, int]]):
    """``HOST:PORT`` as a pair; without a host, all of them."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Split at the last colon; an IPv6 address stands in brackets."""
        if not isinstance(value, str):
            return tuple(value)
        host, colon, port = value.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:9443 or :9443", param, ctx)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            self.fail(
                f"{value!r}: an IPv6 address stands in brackets, such as [::1]:9443", param, ctx
            )
        return host, int(port)
