from __future__ import annotations

from fleet.scenarios import played, playing, pytest_collection_finish

__all__ = ["played", "playing", "pytest_collection_finish"]
