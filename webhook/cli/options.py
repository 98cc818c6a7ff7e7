"""The options that several commands have, spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    help="Policies, exceptions and params besides those in DIR, in the place of those of the same name. "
    "May be given several times.",
)
user = click.option(
    "--user",
    metavar="NAME",
    default="",
    help="Who creates the TrainJobs, for the subjects of policies; an AdmissionReview says it itself.",
)
groups = click.option(
    "--groups",
    metavar="NAME,...",
    callback=lambda _ctx, _param, value: tuple(filter(None, value.split(","))),
    default="",
    help="The groups of that user, with commas between them.",
)
namespace_labels = click.option(
    "--namespace-labels",
    metavar="KEY=VALUE,...",
    callback=lambda _ctx, _param, value: _labels(value),
    default="",
    help="Labels of the namespaces that DIR does not hold.",
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


def _labels(text: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping. Raises BadParameter."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.BadParameter(
                f"{text!r} is not KEY=VALUE,..., such as tier=research,ring=canary"
            )
    return {key: value for key, _, value in pairs}


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
