"""Checks what prose claims: every relative link leads somewhere, every plugin is in docs/plugins.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from plugins.registry import in_tree, opt_in

ROOT: Final = Path(__file__).parent.parent
LINK: Final = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
IMAGE: Final = re.compile(r"!\[[^\]\n]*\]\(([^)\s]+)\)")
CODE: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)


def main() -> int:
    """Print all problems; 1 if there are any."""
    problems = [*broken_links(ROOT), *missing_plugins(ROOT)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"docs: {len(problems)} problems in {len(pages(ROOT))} pages")
    return 1 if problems else 0


def pages(root: Path) -> list[Path]:
    """All Markdown of the project; not what was installed or built."""
    return sorted(
        page
        for page in root.rglob("*.md")
        if not any(part.startswith(".") or part == "build" for part in page.relative_to(root).parts)
    )


def broken_links(root: Path) -> Iterator[str]:
    """Relative links to files or headings that do not exist."""
    for page in pages(root):
        text = CODE.sub("", page.read_text(encoding="utf-8"))
        for target in [*LINK.findall(text), *IMAGE.findall(text)]:
            if not re.match(r"[a-z]+:", target) and not leads_somewhere(page, unquote(target)):
                yield f"{page.relative_to(root)}: broken link: {target}"


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether the file is there, and the heading in it."""
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return False
    if not anchor or file.suffix != ".md":
        return True
    headings = HEADING.findall(CODE.sub("", file.read_text(encoding="utf-8")))
    return anchor in {slug(heading) for heading in headings}


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def missing_plugins(root: Path) -> Iterator[str]:
    """Plugins that run and are described nowhere."""
    page = root / "docs/plugins.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    for spec in (*in_tree(), *opt_in()):
        if not re.search(rf"\b{spec.name}\b", text):
            yield f"docs/plugins.md: says nothing of {spec.name}"


if __name__ == "__main__":
    sys.exit(main())
