"""Small pools of short specifications, shared by the tests of the curriculum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.roots import Root

HEADER = "method M(x: int, y: int) returns (r: int)\n  "
CLAUSES = (
    "ensures r == 2 * x + y",
    "ensures r >= x && r >= y",
    "requires 0 <= x\n  ensures r * r <= x && x < (r + 1) * (r + 1)",
    "ensures x <= y ==> r == x\n  ensures y < x ==> r == y",
)


@pytest.fixture
def spec() -> Callable[[str], str]:
    """A specification from its clauses."""
    return lambda clauses: HEADER + clauses


@pytest.fixture
def make() -> Callable[..., Curriculum]:
    """A curriculum over the first `roots` of four roots; keyword arguments override the curriculum's settings."""

    def build(roots: int = 4, seed: int = 0, novelty: NoveltyConfig | None = None, **settings: object) -> Curriculum:
        curated = [Root(f"root{i}", HEADER + c, family=f"family{i}") for i, c in enumerate(CLAUSES[:roots])]
        config = replace(CurriculumConfig(), **settings)  # type: ignore[arg-type]
        return Curriculum(curated, config, novelty or NoveltyConfig(), seed)

    return build


@pytest.fixture
def open_gate() -> NoveltyConfig:
    """A gate that lets everything but equal text pass, for tests of the statistics alone."""
    return NoveltyConfig(max_pool_sim=1.0, max_sibling_sim=1.0, max_structural_sim=1.0)
