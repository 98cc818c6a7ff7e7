"""YAML and JSON in and out, as kubectl reads and prints them.

::

    document.py   Document: a value, its file and line; the bounds of all input
    reader.py     read, read_each, load: texts to documents, cut as kubectl cuts them
    yamltext.py   one YAML document, from PyYAML's events (imported when there is YAML to read)
    jsontext.py   JSON, by orjson
    scalars.py    what a plain scalar means: goyaml's resolve, and Go's way to print floats
    writer.py     dump, dump_all: block style, sorted keys, quoted where the reader would err
"""

from __future__ import annotations

from webhook.yamlio.document import MAX_BYTES, MAX_DEPTH, Document
from webhook.yamlio.reader import load, read, read_each
from webhook.yamlio.writer import dump, dump_all

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Document",
    "dump",
    "dump_all",
    "load",
    "read",
    "read_each",
]
