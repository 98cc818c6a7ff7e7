"""A command whose help ends in examples: most of what there is to learn is how it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class Examples(click.Command):
    """Adds a section of examples, a comment and a command line each, with the program's own name."""

    def __init__(
        self, *args: Any, examples: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        """Take the examples as what they are for, and the words behind the program's name."""
        super().__init__(*args, **kwargs)
        self.examples = examples or {}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples where click has its epilog."""
        program = ctx.find_root().info_name or "stationmaster"
        with formatter.section("Examples"):
            for i, (purpose, line) in enumerate(self.examples.items()):
                gap = "\n" if i else ""
                formatter.write(f"{gap}  # {purpose}\n  {program} {line}\n")
        super().format_epilog(ctx, formatter)
