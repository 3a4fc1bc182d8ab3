"""The engine: the only place that imports verl, vLLM and Ray. See `selfplay.engine.session` for its one door."""
