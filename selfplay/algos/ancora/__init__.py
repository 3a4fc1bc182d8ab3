"""ANCORA (arXiv 2604.27644): one policy proposes specifications and proves them; see `selfplay/algos/ancora/prompts.py`."""
