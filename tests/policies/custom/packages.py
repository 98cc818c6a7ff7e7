"""Publishes options as an installed package does: a module, and metadata with entry points, on the path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "options"

HEAD = """
from policies.custom import CustomOption
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
"""


def install(
    site: Path, source: str, points: Mapping[str, str], *, package: str = "outside"
) -> None:
    """A package of one module; ``points`` are entry points, option -> variable of the module."""
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{package}.py").write_text(HEAD + source)
    entries = {name: f"{package}:{variable}" for name, variable in points.items()}
    register(site, entries, package=package)


def register(site: Path, points: Mapping[str, str], *, package: str = "outside") -> None:
    """The metadata of a package; ``points`` as ``pyproject.toml`` has them."""
    info = site / f"{package}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
    entries = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[stationmaster.options]\n{entries}")


def publish(
    monkeypatch: pytest.MonkeyPatch, site: Path, source: str, *names: str, package: str = "outside"
) -> None:
    """Install a package whose options are variables of their own names."""
    install(site, source, {name: name.upper() for name in names}, package=package)
    monkeypatch.syspath_prepend(site)
