"""Judges programs by their tests: standard input and output, calls with expected values, and assertions."""
