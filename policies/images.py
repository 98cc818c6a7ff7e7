"""References to images, read as container runtimes read them, and globs over them.

``nginx``, ``docker.io/nginx`` and ``index.docker.io/library/nginx:latest`` are one image. A list of allowed images
must see that, or another spelling walks past it; so references and patterns are brought to one form first. The
grammar is that of ``github.com/distribution/reference``, which the kubelet applies to every image of a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from plugins.framework.field import show
from policies.globs import CACHED, Glob, GlobError

DOCKER_HUB: Final = "docker.io"
LONGEST: Final = 1024
"""Characters of a reference that are read. The longest legal one, with a sha512, has about 800."""

_LONGEST_NAME: Final = 255
"""Characters of a repository behind its registry (``reference.RepositoryNameTotalLengthMax``)."""
_ALIASES: Final = frozenset(
    ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
)
"""Docker Hub. Runtimes rewrite the second themselves; the last two serve the same repositories."""
_HTTPS: Final = ":443"
_PORT_ZEROS: Final = re.compile(r":0+(?=[0-9]+\Z)", re.ASCII)
_LATEST: Final = "latest"

_HOST_PART: Final = "[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*"
_REGISTRY: Final = re.compile(
    rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?", re.ASCII
)
_NAME_PART: Final = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(rf"{_NAME_PART}(?:/{_NAME_PART})*", re.ASCII)
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(
    r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}", re.ASCII
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}", re.ASCII)
_IN_PATTERN: Final = re.compile(r"[a-z0-9._:/\[\]*?-]+", re.ASCII)


class ImageError(ValueError):
    """No reference to an image; the text says what is wrong, and no kubelet would run it."""


class Image(NamedTuple):
    """A reference in its one form."""

    name: str
    """Registry and repository: ``docker.io/library/nginx``."""
    tag: str
    """``latest`` where the reference has neither tag nor digest; "" where it has a digest alone."""
    digest: str
    """``sha256:...``; "" without. Where there is one it decides, and runtimes do not look at the tag."""

    def __str__(self) -> str:
        """Print in full: ``docker.io/library/nginx:latest``."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}@{self.digest}" if self.digest else f"{self.name}{tag}"


@lru_cache(maxsize=CACHED)
def parse(reference: str) -> Image:
    """Read a reference.

    Raises ImageError for what a kubelet refuses (InvalidImageName).
    """
    if len(reference) > LONGEST:
        raise ImageError(f"is longer than {LONGEST} characters")
    rest, at, digest = reference.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ImageError(f"has no digest that runtimes know behind its @: {show(digest)}")
    rest, colon, tag = _cut_tag(rest)
    if colon and not _TAG.fullmatch(tag):
        raise ImageError(f"has no tag behind its colon: {show(tag)}")
    if _IDENTIFIER.fullmatch(rest):
        raise ImageError("is 64 hexadecimal digits, as an image's own id, which is no reference")
    registry, repository = _split(rest)
    if not _REGISTRY.fullmatch(registry):
        raise ImageError(f"has no registry that can be one: {show(registry)}")
    if not _NAME.fullmatch(repository) or len(repository) > _LONGEST_NAME:
        raise ImageError(f"has no repository that can be one: {show(repository)}")
    return Image(f"{registry}/{repository}", tag or ("" if digest else _LATEST), digest)


class ImageGlob:
    """A glob over images: ``*`` and ``?`` stay between two slashes, ``**`` crosses them.

    A pattern is spelled as an image: without a registry it means Docker Hub, and it may have a tag or a digest of its
    own. Without, it matches all tags and digests. With a tag it matches no image that has a digest, since there the
    tag decides nothing and anything may stand in it.
    """

    __slots__ = ("_digest", "_name", "_tag", "pattern")

    def __init__(self, pattern: str) -> None:
        """Compile. Raises GlobError for what can match no image, or not what it seems to."""
        self.pattern = pattern
        rest, at, digest = pattern.partition("@")
        rest, colon, tag = _cut_tag(rest)
        if (at and not digest) or (colon and not tag):
            raise GlobError(
                "has nothing behind its last @ or colon; without them it matches every tag and digest"
            )
        self._name = Glob(_full(rest), path=True)
        self._tag = Glob(tag) if colon else None
        self._digest = Glob(digest) if at else None

    def matches(self, image: Image) -> bool:
        """Whether the image is one of those."""
        if not self._name.matches(image.name):
            return False
        if self._digest is not None:
            return bool(image.digest) and self._digest.matches(image.digest)
        return self._tag is None or (not image.digest and self._tag.matches(image.tag))


@lru_cache(maxsize=CACHED)
def image_glob(pattern: str) -> ImageGlob:
    """A glob over images, compiled once. Raises GlobError."""
    return ImageGlob(pattern)


def first(patterns: Iterable[str], image: Image) -> str | None:
    """The first of the patterns that an image matches; None where there is none. Raises GlobError."""
    return next((pattern for pattern in patterns if image_glob(pattern).matches(image)), None)


def problem(pattern: str) -> str:
    """What is wrong with a pattern over images; empty where nothing is."""
    try:
        image_glob(pattern)
    except GlobError as error:
        return str(error)
    return ""


def _cut_tag(text: str) -> tuple[str, str, str]:
    """Cut at the colon behind the last slash; one before it belongs to a registry's port."""
    head, slash, last = text.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}{slash}{name}", colon, tag


def _split(name: str) -> tuple[str, str]:
    """Registry and repository, as ``reference.ParseNormalizedNamed`` tells them apart."""
    first_part, slash, rest = name.partition("/")
    if not slash or not _is_registry(first_part):
        return DOCKER_HUB, name if slash else f"library/{name}"
    registry = _PORT_ZEROS.sub(":", first_part.lower()).removesuffix(_HTTPS)
    if registry not in _ALIASES:
        return registry, rest
    return DOCKER_HUB, rest if "/" in rest or "**" in rest else f"library/{rest}"


def _is_registry(part: str) -> bool:
    """Whether what stands before the first slash is a host, and not the first word of a repository."""
    return part == "localhost" or "." in part or ":" in part or part.lower() != part


def _full(pattern: str) -> str:
    """A pattern over names in the form that names are in."""
    first_part, slash, rest = pattern.partition("/")
    if not pattern:
        raise GlobError("matches no image: it has no name")
    if "**" in first_part:
        full = first_part.lower() + slash + rest
    elif slash and not rest:
        raise GlobError(f"names no repository; {pattern}** matches all of that registry")
    elif pattern == "*":
        raise GlobError(
            "would match the official images of Docker Hub only; ** matches every image"
        )
    elif slash and ("*" in first_part or "?" in first_part) and not _is_registry(first_part):
        raise GlobError(
            f"does not say what {first_part} stands for: docker.io/{pattern} for repositories of Docker Hub, "
            f"**/{rest} for any registry"
        )
    else:
        full = "/".join(_split(pattern))
    if not _IN_PATTERN.fullmatch(full) or "//" in full:
        raise GlobError(
            "matches no image: names have lower-case letters, digits, '.', '_', '-' and '/' in them, and no scheme before them"
        )
    return full
