"""The benchmarks by suite. To add one: a reader in `records`, and an entry here."""

from __future__ import annotations

from functools import partial

from selfplay.benchmarks import records
from selfplay.benchmarks.benchmark import Benchmark, Hub, Record

mean_at_32 = partial(Benchmark, samples=32, temperature=0.6)  # the papers give no temperature
pass_at_k = partial(Benchmark, samples=100, temperature=1.0, note="made by selfplay.algos.ancora.import_roots")


def published(record: Record) -> str:
    """The day a problem of LiveCodeBench was published."""
    return str(record.get("contest_date", ""))[:10]


MATH = [
    mean_at_32("amc23", "math", records.problem_and_answer, Hub("math-ai/amc23")),
    mean_at_32("aime24", "math", records.problem_and_answer, Hub("HuggingFaceH4/aime_2024", split="train")),
    mean_at_32("aime25", "math", records.problem_and_answer, Hub("math-ai/aime25")),
    Benchmark("math500", "math", records.problem_and_answer, Hub("HuggingFaceH4/MATH-500"), ("MATH-500.jsonl",)),
    Benchmark("gsm8k", "math", records.gsm8k, Hub("openai/gsm8k", "main"), ("gsm8k_test.jsonl",)),
    Benchmark("minerva", "math", records.problem_and_answer, Hub("math-ai/minervamath"), ("minerva_math.jsonl",)),
    Benchmark(
        "olympiadbench",
        "math",
        records.olympiad,
        Hub("Hothan/OlympiadBench", "OE_TO_maths_en_COMP", "train"),
        ("OE_TO_maths_en_COMP.json",),
        keep=records.open_ended_text,
    ),
]

GENERAL = [
    Benchmark(
        "supergpqa", "choice", records.supergpqa, Hub("m-a-p/SuperGPQA", split="train"), ("SuperGPQA-all.jsonl",)
    ),
    Benchmark("mmlu_pro", "choice", records.mmlu_pro, Hub("TIGER-Lab/MMLU-Pro")),
    Benchmark("bbeh", "text", records.bbeh, Hub("BBEH/bbeh", split="train")),
    Benchmark("gpqa_diamond", "choice", records.gpqa, Hub("Idavidrein/gpqa", "gpqa_diamond", "train")),
    Benchmark("humaneval", "code", records.humaneval, Hub("openai/openai_humaneval"), ("HumanEval.jsonl.gz",)),
    Benchmark("agieval", "choice", records.agieval, note="its English multiple-choice files joined into one"),
]

VERUS = [
    pass_at_k("dafny2verus", "proof", records.specification),
    pass_at_k("mbpp_verified", "proof", records.specification),
    pass_at_k("humaneval_verified", "proof", records.specification),
]

CODE = [
    Benchmark(
        "livecodebench",
        "code",
        records.livecodebench,
        Hub("livecodebench/code_generation_lite", files=tuple(f"test{i}.jsonl" for i in ("", 2, 3, 4, 5, 6))),
        date=published,
    ),
    Benchmark(
        "lcb_pro",
        "code",
        records.livecodebench,
        note="its tests are published apart; put them into LiveCodeBench's shape",
        date=published,
    ),
    Benchmark(
        "scicode",
        "code",
        records.scicode,
        Hub("SciCode1/SciCode", split="validation"),
        ("scicode_dev.jsonl", "problems_dev.jsonl"),
        packages=("numpy", "scipy"),
    ),
]

SUITES: dict[str, list[Benchmark]] = {"math": MATH, "general": GENERAL, "verus": VERUS, "code": CODE}
