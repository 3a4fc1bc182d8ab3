"""The one thing pyproject.toml cannot say: the top-level folder `conf/` is the package data of `selfplay.conf`."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["selfplay", "selfplay.*"]), "selfplay.conf"],
    package_dir={"selfplay.conf": "conf"},
    package_data={"": ["*.json", "*.jsonl", "*.lark", "py.typed"], "selfplay.conf": ["*.yaml", "**/*.yaml"]},
)
