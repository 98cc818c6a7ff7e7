"""The command line as in a pod whose service account is mounted elsewhere.

``python -m tests.e2e.in_pod FOLDER serve --in-cluster ...``: FOLDER holds ``token`` and ``ca.crt``. Where they are
is fixed in every pod, and one machine has one such place for all that run on it.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from unittest import mock

from webhook import cli
from webhook.kube import client


def main() -> int:
    """Run the rest of the arguments."""
    account, *arguments = sys.argv[1:]
    login = partial(client.in_cluster, Path(account))
    with mock.patch.object(client, "in_cluster", login):
        return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
