"""Tests of policies: files of cases, run through the engine of the command line.

::

    places.py    values by the paths that people write
    document.py  PolicyTest: what a file says, typed
    reading.py   files to PolicyTests, with every mistake by file and line
    running.py   cases to what was wanted and what came
    coverage.py  which rules no case makes pass, or fail
    junit.py     results for CI
"""
