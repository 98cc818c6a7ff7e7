"""What hypothesis may take here: any time, since the cores are shared and a deadline would be a wall clock."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("plugins", deadline=None)
settings.load_profile("plugins")
