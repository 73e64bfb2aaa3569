from __future__ import annotations

from hypothesis import settings

# The first example of a run reads the contract; a deadline would measure that and the machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
