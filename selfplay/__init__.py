"""Train language models by self-play: a model writes its tasks, solves them, and a verifier turns that into reward."""

__version__ = "0.1.0"
