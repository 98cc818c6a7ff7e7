"""Runs ``stationmaster serve --in-cluster`` beside the cluster.

``python -m tests.e2e.pod FOLDER FLAG...``: the program is the shipped one. What only a pod has is taken from the folder instead: the token and CA of the
service account (``account/``), which a pod has under a path that only root may write, and the clock of
its node, ahead by the seconds in ``ahead``. With ``lives`` (``authority_life`` and ``leaf_life``, in seconds)
certificates live that long, so that the clock need not leave the API server's behind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

from certs.rotation import Settings
from webhook import cli, wiring
from webhook.kube import client, shared


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop."""
    folder, *flags = arguments
    home = Path(folder)

    def now() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float((home / "ahead").read_text()))

    lives = json.loads((home / "lives").read_text())

    def settings(names: tuple[str, ...]) -> Settings:
        usual = Settings(names=names)
        if not lives:
            return usual
        authority, leaf = (timedelta(seconds=lives[key]) for key in ("authority_life", "leaf_life"))
        return replace(usual, authority_life=authority, leaf_life=leaf)

    login = partial(client.in_cluster, account=home / "account")
    with ExitStack() as stack:
        stack.enter_context(patch.object(wiring, "_now", now))
        stack.enter_context(patch.object(shared, "Settings", settings))
        stack.enter_context(patch.object(client, "in_cluster", login))
        return cli.main(["serve", "--in-cluster", *flags])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
