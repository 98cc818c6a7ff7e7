"""``stationmaster options``: what policies can write, ours and that of installed packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from plugins.framework.errors import ConfigError
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.tables import table

if TYPE_CHECKING:
    from webhook.described import Described

_COLUMNS: Final = ("NAME", "KEY", "UNDER", "TRAINER", "SDK OR PACKAGE", "MERGE")


@click.command(
    cls=Examples,
    examples={
        "All options": "options",
        "What one does on each line of the Trainer": "options PodTemplateOverrides",
        "A policy that uses it, to begin with": "options specLabels --example > policy.yaml",
        "For programs": "options -o json",
    },
)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--example", is_flag=True, help="Print a policy that uses the option NAME.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="How to print it.",
)
def command(*, name: str | None, example: bool, output: str) -> int:
    """List what policies can write under defaults and overrides, and how it is merged.

    Options have the names of the Kubeflow SDK where it has them, and a KEY in policies. Those of
    installed packages are named under the key options.
    """
    from webhook import described  # noqa: PLC0415  # the engine, and not for `--help`

    found = described.all_described()
    if name is None:
        if example:
            raise click.UsageError("--example is about one option: stationmaster options NAME")
        _print_all(found, output)
        return 0
    one = _named(found, name)
    if example:
        if one.problem:
            raise ConfigError(f"option {one.name} {one.problem}")
        policy = described.example(one)
        out.write_objects("json" if output == "json" else "yaml", [policy], as_list=False)
    elif output == "json":
        out.write_json([one.as_json()], as_list=False)
    else:
        out.write("".join(f"{line}\n" for line in _details(one)))
    return 0


def _print_all(found: Sequence[Described], output: str) -> None:
    if output == "json":
        out.write(out.to_json([one.as_json() for one in found], pretty=True))
        return
    out.write(table(_COLUMNS, (_row(one) for one in found)))


def _row(one: Described) -> tuple[str, ...]:
    if one.problem:
        return one.name, one.key, "cannot be used", "-", one.package, one.problem
    return (
        one.name,
        one.key,
        ", ".join(one.modes),
        ", ".join(one.usable_lines),
        one.sdk or one.package or "-",
        one.merge,
    )


def _named(found: Sequence[Described], name: str) -> Described:
    """By name or key, in any case. Raises ConfigError that says what was meant."""
    known: dict[str, Described] = {}
    for one in reversed(found):
        known |= {word.lower(): one for word in one.words}
    if name.lower() in known:
        return known[name.lower()]
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    meant = f"did you mean {known[close[0]].name}?" if close else "`options` lists all"
    raise ConfigError(f"there is no option {name}; {meant}")


def _details(one: Described) -> Iterator[str]:
    yield f"{one.name}: {one.summary}" if one.summary else one.name
    rows: list[tuple[str, str]] = [
        ("key", one.key),
        ("fields", ", ".join(one.fields)),
        ("merge", one.merge),
        ("under", ", ".join(one.modes)),
        *_of_lines(one.lines),
        ("backends", ", ".join(one.backends)),
        ("trainers", ", ".join(one.trainers)),
        ("SDK", one.sdk),
        ("package", one.package),
        ("problem", one.problem),
    ]
    yield from (f"  {label:18}{text}" for label, text in rows if text)
    if not one.problem:
        yield f"An example: stationmaster options {one.name} --example"


def _of_lines(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Lines that are alike in one row."""
    alike: dict[str, list[str]] = {}
    for line, text in lines:
        alike.setdefault(text, []).append(line)
    for text, names in alike.items():
        yield f"Trainer {names[0]}{f'-{names[-1]}' if len(names) > 1 else ''}", text
