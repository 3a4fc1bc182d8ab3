"""The scorer of mathematics on published answers: gold ones, ten notations of each, near misses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import notations
import pytest

from selfplay.benchmarks.math_answers import MathAnswers, cleaned, rational

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def answers() -> Iterator[MathAnswers]:
    made = MathAnswers(workers=2)
    yield made
    made.close()


def golds(name: str) -> Counter[str]:
    """The gold answers of a file with how many records have each."""
    path = DATA / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path.name} is not at hand")
    found = [str(json.loads(line)["answer"]) for line in path.read_text(encoding="utf-8").splitlines()]
    return Counter(answer.rpartition("####")[2].strip() for answer in found)


def confusion(answers: MathAnswers, counted: Counter[str]) -> tuple[Counter[str], list[str]]:
    """Counts over records, and every disagreement."""
    asked = [(gold, "gold", gold, True) for gold in counted]
    asked += [(gold, rule, text, True) for gold in counted for rule, text in notations.same(gold).items()]
    asked += [(gold, rule, text, False) for gold in counted for rule, text in notations.wrong(gold).items()]
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda one: answers.same(one[0], one[2]), asked))
    counts: Counter[str] = Counter()
    disagreements = []
    for (gold, rule, text, expected), found in zip(asked, said, strict=True):
        kind = {(True, True): "right, taken", (True, False): "right, refused"}
        kind |= {(False, True): "wrong, taken", (False, False): "wrong, refused"}
        counts[kind[expected, found]] += counted[gold]
        if expected is not found:
            disagreements.append(f"{rule}: {gold!r} and {text!r}")
    return counts, disagreements


@pytest.mark.parametrize("name", ["math500", "gsm8k_test"])
def test_a_sample_of_the_answers_is_scored_right(answers: MathAnswers, name: str) -> None:
    counted = golds(name)
    sample = Counter({gold: counted[gold] for gold in sorted(counted)[::8]})
    counts, disagreements = confusion(answers, sample)
    assert disagreements == []
    assert counts["right, taken"] > 200
    assert counts["wrong, refused"] > 150


@pytest.mark.slow
@pytest.mark.parametrize(("name", "records"), [("math500", 500), ("gsm8k_test", 1319)])
def test_all_answers_are_scored_right(answers: MathAnswers, name: str, records: int) -> None:
    counted = golds(name)
    assert counted.total() == records
    assert all(len(notations.same(gold)) == 10 for gold in counted)
    counts, disagreements = confusion(answers, counted)
    print(f"{name}: {dict(counts)}", *disagreements, sep="\n")
    assert disagreements == []
    assert counts["right, taken"] == 11 * records


@pytest.mark.parametrize(
    ("gold", "given", "right"),
    [
        ("1/3", "0.3333333", True),  # six digits
        ("1/3", "0.333", False),
        ("0.1", "0.1000", True),
        ("5", "x=5", True),
        ("x=5", "5", True),
        ("52_8", "52", True),  # the base is often left out
        ("52_8", "52_{7}", False),
        ("1,-2", "-2, 1", True),
        ("1,-2", "1", False),
        ("(1,2)", "(2,1)", False),
        ("(1,2]", "(1,2)", False),
        (r"\text{Evelyn}", "evelyn", True),
        (r"\text{Evelyn}", "Carla", False),
        ("6 - 5i", "-5i + 6", True),
        ("6 - 5i", "6 + 5i", False),
        ("x^2+2x", "x(x+2)", True),
        ("x^2+2x", "x(x+3)", False),
        ("12", "", False),
        ("12", "12 or 13", False),
        ("12", "9" * 2000, False),
        ("12", r"\frac{12}{0}", False),
        ("12", "12 12", False),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", True),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", False),
        (r"\begin{pmatrix} -7 \\ 16 \\ 5 \end{pmatrix}", r"\begin{pmatrix} -7 \\ 5 \\ 16 \end{pmatrix}", False),
        (r"1.6 \times 10^{-19}", r"2.2 \times 10^{-19}", False),
        (r"1.6 \times 10^{-19}", r"1.6e-19 \text{ C}", True),
        ("4e33", r"4 \times 10^{33}", True),
        ("6.6e5", "660000", True),
        ("12, 144", "12144", False),
        ("12, 144", "144, 12", True),
        ("12, 144", r"\{12, 144\}", True),
        ("3, 125", r"3 \text{ and } 125", True),
        ("6", r"\(5\), \(6\), \(7\)", False),
        ("6", r"5 \lor 6", False),
        ("6", "x = 5 = 6", False),
        ("6", "5 = 6", False),
        ("5", r"\neg 5", False),
        ("30", "> 30", False),
        ("30", r"30\text{ if } x>0", False),
        ("30", r"30\text{ is wrong}", False),
        ("16", "16_7", False),
        ("56", "5$6", False),
        ("HHT", "HTH", False),
        ("HHT", r"\text{HHT}", True),
        ("1,2", "(2,1)", False),
        ("x>2", "x > 2", True),
    ],
)
def test_pairs(answers: MathAnswers, gold: str, given: str, right: bool) -> None:
    assert answers.same(gold, given) is right


def test_an_answer_that_never_ends_is_wrong_and_the_next_is_scored(answers: MathAnswers) -> None:
    assert not answers.same("7", r"9^{9^{9^{9^{9}}}}")
    assert answers.same("7", r"\frac{14}{2}")


@pytest.mark.parametrize(
    ("text", "clean"),
    [(r"$\displaystyle 5$.", "5"), (r"\$32,\!348", "32,348"), ("{1}+{2}", "{1}+{2}"), (r"\boxed{\boxed{x}}", "x")],
)
def test_cleaned(text: str, clean: str) -> None:
    assert cleaned(text) == clean


def test_rational_reads_what_it_says() -> None:
    found = rational(r"-\frac{3}{4}")
    assert found is not None
    assert found[0] == -3 / 4
    assert rational("1/0") is None
    assert rational("x") is None
