"""Record the part of cel-spec's conformance tests that is about JSON, for ``tests/policies/cel/test_conformance.py``.

    go mod download -json cel.dev/expr@v0.26.0      # prints Dir
    pip install grpcio-tools                        # brings protoc
    python -m scripts.facts.cel_conformance DIR

Left out: what has messages, enums or types in its values, what is only checked or not parsed as usual, numbers that
JSON lacks, and what is expected to be unknown.
"""

from __future__ import annotations

import base64
import json
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

OUT: Final = Path(__file__).parents[2] / "tests/data/cel/conformance.jsonl"
TEST: Final = "cel.expr.conformance.test.SimpleTestFile"
PROTOS: Final = (
    "cel/expr/conformance/test/simple.proto",
    "cel/expr/conformance/proto2/test_all_types.proto",
    "cel/expr/conformance/proto2/test_all_types_extensions.proto",
    "cel/expr/conformance/proto3/test_all_types.proto",
)


class NotJson(Exception):
    """A test that is about something else."""


def main() -> int:
    """Write the file; print what was left out, and why."""
    root = Path(sys.argv[1])
    pool = compiled(root / "proto")
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName(TEST))
    rows: list[str] = []
    left_out: Counter[str] = Counter()
    for path in sorted((root / "tests/simple/testdata").glob("*.textproto")):
        file = text_format.Parse(path.read_text(encoding="utf-8"), make(), descriptor_pool=pool)
        for name, test in tests(file, path.stem):
            try:
                rows.append(json.dumps(recorded(name, test), ensure_ascii=False, sort_keys=True))
            except NotJson as reason:
                left_out[str(reason)] += 1
    OUT.write_text("\n".join(rows) + "\n", encoding="utf-8")
    for why, count in left_out.most_common():
        print(f"{count:5}  {why}")
    print(f"{len(rows):5}  recorded")
    return 0


def compiled(protos: Path) -> descriptor_pool.DescriptorPool:
    """The messages of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.pb"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{protos}", "--include_imports"]
        subprocess.run([*command, f"--descriptor_set_out={out}", *PROTOS], check=True)
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in found.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def tests(file: Any, stem: str) -> Iterator[tuple[str, Any]]:
    """Every test, with its name."""
    for section in file.section:
        for test in section.test:
            yield f"{stem}/{section.name}/{test.name}", test


def recorded(name: str, test: Any) -> dict[str, Any]:
    """One row: ``{name, expr, bindings, value}``, or ``error: true`` in place of a value. Raises NotJson."""
    if name.startswith("block_ext"):
        raise NotJson("cel.block")
    if test.check_only or test.disable_macros:
        raise NotJson("only checked, or without macros")
    if test.container:
        raise NotJson("a container")
    if re.search(r"TestAllTypes|google\.protobuf\.|GlobalEnum|proto\.(?:get|has)Ext", test.expr):
        raise NotJson("messages or enums")
    row: dict[str, Any] = {"name": name, "expr": test.expr}
    bindings = {key: bound(value) for key, value in sorted(test.bindings.items())}
    if bindings:
        row["bindings"] = bindings
    match test.WhichOneof("result_matcher"):
        case "eval_error" | "any_eval_errors":
            row["error"] = True
        case "value":
            row["value"] = plain(test.value)
        case "typed_result":
            row["value"] = plain(test.typed_result.result)
        case None:
            row["value"] = True
        case other:
            raise NotJson(str(other))
    return row


def bound(value: Any) -> Any:
    """What a variable holds."""
    if value.WhichOneof("kind") != "value":
        raise NotJson("unknown or an error in a variable")
    if value.value.WhichOneof("kind") in ("uint64_value", "bytes_value"):
        raise NotJson("a variable that JSON lacks")
    return plain(value.value)


def plain(value: Any) -> Any:
    """A value as the shim gives it."""
    kind = value.WhichOneof("kind")
    match kind:
        case "null_value":
            return None
        case "bool_value" | "int64_value" | "uint64_value" | "string_value":
            return getattr(value, kind)
        case "double_value":
            if not math.isfinite(value.double_value):
                raise NotJson("a number that JSON lacks")
            return value.double_value
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case "list_value":
            return [plain(item) for item in value.list_value.values]
        case "map_value":
            return {key(entry.key): plain(entry.value) for entry in value.map_value.entries}
        case _:
            raise NotJson(f"a value of kind {kind}")


def key(value: Any) -> str:
    """A key as JSON has it."""
    found = plain(value)
    return str(found).lower() if isinstance(found, bool) else str(found)


if __name__ == "__main__":
    sys.exit(main())
