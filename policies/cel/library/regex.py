"""find and findAll (``library/regex.go``), on the engine's own RE2: Python's ``re`` would take exponential time.

The engine has ``regex.extract``, which answers with the group where there is one and with an error where there are
more, so a pattern's groups are made silent first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

from policies.cel.library.function import INT, STRING, STRINGS, Function, Overload
from policies.cel.messages import plain

_CONFIG: Final = "name: regex\nextensions:\n- name: optional\n- name: regex\n"


def functions() -> tuple[Function, ...]:
    """The library."""
    one: tuple[Overload, ...] = (((STRING, STRING), STRING),)
    many: tuple[Overload, ...] = (((STRING, STRING), STRINGS), ((STRING, STRING, INT), STRINGS))
    return (
        Function(
            library="regex", name="find", overloads=one, runtime=one, impl=_find, is_member=True
        ),
        Function(
            library="regex",
            name="findAll",
            overloads=many,
            runtime=many,
            impl=_find_all,
            is_member=True,
        ),
    )


class _Engine:
    """Three programs of the engine over a subject ``s`` and a pattern ``p``."""

    def __init__(self) -> None:
        self._env = cel.NewEnv(
            config=cel.NewEnvConfigFromYaml(_CONFIG),
            variables={"s": cel.Type.STRING, "p": cel.Type.STRING},
        )
        self.one = self._env.compile("regex.extract(s, p).orValue('')")
        self.all = self._env.compile("regex.extractAll(s, p)")
        self.matches = self._env.compile("s.matches(p)")

    def run(self, program: cel.Expression, subject: str, pattern: str) -> Any:
        value = program.eval(self._env.Activation({"s": subject, "p": pattern}))
        if value.type() == cel.Type.ERROR:
            raise ValueError(plain(str(value.value())))
        return value.value()


@lru_cache(maxsize=1)
def _engine() -> _Engine:
    return _Engine()


def _find(subject: str, pattern: str) -> str:
    engine = _engine()
    return str(engine.run(engine.one, subject, silent(pattern)))


def _find_all(subject: str, pattern: str, most: int = -1) -> list[str]:
    engine = _engine()
    found = [str(one.value()) for one in engine.run(engine.all, subject, silent(pattern))]
    return found if most < 0 else found[:most]


def problem(pattern: str) -> str:
    """What RE2 says against a pattern; empty where it takes it."""
    engine = _engine()
    try:
        engine.run(engine.matches, "", pattern)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=256)
def silent(pattern: str) -> str:
    r"""The pattern with every capturing group made a plain one; ``\(``, ``[(]`` and ``\Q(\E`` stay as they are."""
    out: list[str] = []
    i = 0
    in_class = False
    while i < len(pattern):
        c = pattern[i]
        if pattern.startswith(r"\Q", i) and not in_class:
            end = pattern.find(r"\E", i)
            end = len(pattern) if end < 0 else end + 2
            out.append(pattern[i:end])
            i = end
        elif c == "\\":
            out.append(pattern[i : i + 2])
            i += 2
        elif in_class:
            in_class = c != "]"
            if pattern.startswith("[:", i):
                end = pattern.find(":]", i)
                end = i + 1 if end < 0 else end + 2
                out.append(pattern[i:end])
                i = end
            else:
                out.append(c)
                i += 1
        elif c == "[":
            in_class = True
            # A bracket that closes stands for itself where it comes first.
            size = 1 + pattern.startswith("[^", i)
            size += pattern.startswith("]", i + size)
            out.append(pattern[i : i + size])
            i += size
        elif c == "(":
            text, i = _group(pattern, i)
            out.append(text)
        else:
            out.append(c)
            i += 1
    return "".join(out)


def _group(pattern: str, i: int) -> tuple[str, int]:
    if not pattern.startswith("(?", i):
        return "(?:", i + 1
    for opening in ("(?P<", "(?<"):
        end = pattern.find(">", i)
        if pattern.startswith(opening, i) and end > 0:
            return "(?:", end + 1
    return "(?", i + 2
