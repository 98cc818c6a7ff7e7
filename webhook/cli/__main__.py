"""``python -m webhook.cli``, where the console script is not installed."""

from __future__ import annotations

import sys

from webhook.cli import main

sys.exit(main())
