"""What ``stationmaster doctor`` does: reads an installation, and says what is wrong and what to do.

::

    facts.py         what was read, and what could not be
    reading.py       reads it, by GETs, lists, access reviews and one dry run: nothing is changed
    installed.py     how it was installed, as far as that can be seen
    finding.py       one line of the report
    registration.py  podgroups.py  policies.py  trust.py  workload.py  cluster.py    the checks: pure functions of the facts
    checks.py        all of them, in the order of the report
"""
