"""A run's directory on disk and what people see of it. A process killed at any point leaves a directory that opens."""
