"""Models on benchmarks: what `python -m selfplay.evaluate` does."""
