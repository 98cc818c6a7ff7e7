"""How hypothesis searches: the same examples for the same code, so that a run is right or wrong by the code alone.

``pytest --hypothesis-profile=search`` draws new ones each time; what it finds becomes an ``@example`` or a test.
"""

from __future__ import annotations

from hypothesis import settings

# No deadlines: they are wall clocks, and cores are shared.
settings.register_profile("search", deadline=None, print_blob=True)
settings.register_profile("same", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("same")
