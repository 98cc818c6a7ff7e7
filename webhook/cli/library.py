"""``stationmaster library``: the policies that come with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

import policies
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.report import FINE
from webhook.cli.tables import table

FOLDER: Final = Path(policies.__file__).parent / "library"
TEST: Final = "_test"


@click.command(
    cls=Examples,
    examples={
        "Which there are": "library",
        "Take one, and make it yours": "library gpu-caps > gpu-caps.yaml",
        "Take its tests, too": "library --test gpu-caps > gpu-caps_test.yaml",
    },
)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--test", "is_test", is_flag=True, help="Print the tests of the policy instead.")
def command(*, name: str | None, is_test: bool) -> int:
    """List the policies that come with Stationmaster, or print one.

    Each is a start: read it, change what is not yours (registries, pools, names of labels), test it and
    roll it out in steps. docs/policies/library has a page on each.
    """
    if name is None:
        if is_test:
            raise click.UsageError("--test wants the NAME of a policy")
        out.write(table(("NAME", "WHAT IT DOES"), [(one, summary(one)) for one in names()]))
        return FINE
    if name not in names():
        raise click.BadParameter(
            f"there is no policy {name!r}; there are {', '.join(names())}", param_hint="NAME"
        )
    out.write(read(f"{name}{TEST}" if is_test else name))
    return FINE


def names() -> list[str]:
    """All policies of the library, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.endswith(TEST))


def read(stem: str) -> str:
    """A file of the library."""
    return (FOLDER / f"{stem}.yaml").read_text(encoding="utf-8")


def summary(name: str) -> str:
    """What a policy does: the comment that its file begins with."""
    return read(name).partition("\n")[0].removeprefix("# ")
