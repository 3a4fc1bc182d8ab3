"""The formats in which benchmarks are published, read and written."""
