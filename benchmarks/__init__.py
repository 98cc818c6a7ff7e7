"""Measurements: ``make bench``.

::

    __main__.py   runs all and prints ratios
    review.py     the reviews that are sent, and the runtimes that they name
    bare.py       the yardstick: the same pair on a bare aiohttp handler
    load.py       the client, a process of its own
    inside.py     the same pair without a server
    process.py    starting servers, and the CPU time of a process
"""
