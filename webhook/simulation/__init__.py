"""What other policies, or another runtime, would do to the TrainJobs that exist: both are tried, and compared.

::

    asked.py       a stored TrainJob as its user once asked for it
    judged.py      what admission makes of one TrainJob, flattened so that two answers can be compared
    compare.py     what differs between the answers of two clusters
    simulator.py   the two clusters, and one TrainJob after another
    replacing.py   the cluster as it would be
    listing.py     lists of an API server, page by page, at a pace that nobody minds
    live.py        a cluster as it is now, read once

Everything is judged by the engine that ``admit`` uses, which is the server's. Nothing is written anywhere.
"""
