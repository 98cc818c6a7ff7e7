"""``stationmaster serve``: the webhook itself, from a folder of YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli import options
from webhook.cli.command import Examples

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.config import Address, LogFormat, LogLevel


@click.command(
    cls=Examples,
    examples={
        "Answer on this machine, and write the CA certificate beside": "serve --from cluster/",
        "Answer on all addresses": "serve --from cluster/ --listen :9443 --health-listen :8081",
        "Choose the plugins": "serve --from cluster/ --profile profile.yaml",
    },
)
@options.directory
@click.option(
    "--listen",
    type=options.Address(),
    default="127.0.0.1:9443",
    show_default=True,
    help="Where AdmissionReviews arrive, over TLS: /mutate and /validate.",
)
@click.option(
    "--health-listen",
    type=options.Address(),
    default="127.0.0.1:8081",
    show_default=True,
    help="Where probes and metrics are asked for: /healthz, /readyz, /metrics.",
)
@options.profile
@options.trainer_version
@click.option(
    "--cert-dir",
    metavar="DIR",
    type=options.PATH,
    help="Where to leave the CA certificate; without it, a folder of this user for running programs.",
)
@click.option(
    "--log-format",
    type=click.Choice(("json", "text")),
    default="json",
    show_default=True,
    help="How to write the log.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    default="info",
    show_default=True,
    help="From which level on.",
)
def command(  # noqa: PLR0913  # one argument an option
    *,
    directory: Path,
    listen: Address,
    health_listen: Address,
    profile: Path | None,
    trainer_version: str | None,
    cert_dir: Path | None,
    log_format: LogFormat,
    log_level: LogLevel,
) -> int:
    """Answer AdmissionReviews over TLS, from a folder of YAML.

    DIR is followed: a change is taken over as a whole, and the last good state is kept while a file
    is broken. The certificate is made at start; its CA is written where the log says.
    """
    from webhook import wiring  # noqa: PLC0415  # not for `--help`
    from webhook.config import ServeOptions  # noqa: PLC0415

    return wiring.run(
        ServeOptions(
            directory=directory,
            listen=listen,
            health_listen=health_listen,
            profile=profile,
            trainer_version=trainer_version,
            cert_dir=cert_dir,
            log_format=log_format,
            log_level=log_level,
        )
    )
