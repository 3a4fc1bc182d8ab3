from __future__ import annotations

import sys
from pathlib import Path

# Helpers that other folders' tests have: a run of the command, an endpoint, a run's directory without a run.
for folder in ("security", "benchevolver", "end_to_end", "reporting"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
