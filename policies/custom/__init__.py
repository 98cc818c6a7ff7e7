"""Options of outside packages: Python callables in the SDK's own protocol, named by policies.

A package publishes a ``CustomOption`` under the entry-point group ``stationmaster.options``; a policy names it under
``defaults`` or ``overrides`` as ``options: [{name: deadline, args: {seconds: 3600}}]``. ::

    declaration.py  what a package publishes
    loading.py      imports one, in a process of its own: what it declares, or why it cannot be used
    catalogue.py    what is installed, as the server knows it without importing any of it
    arguments.py    the schema of arguments
    protocol.py     calls and what came of them, between the server and its workers
    worker.py       the killable process that calls options
    standins.py     the trainer and the backend that options are given

Nothing here but ``catalogue`` and ``arguments`` may import more than the standard library: ``declaration``, ``loading``,
``worker`` and ``standins`` run in the interpreter that has the options, which may be another than the server's.
"""

from __future__ import annotations

from policies.custom.declaration import CustomOption

__all__ = ["CustomOption"]
