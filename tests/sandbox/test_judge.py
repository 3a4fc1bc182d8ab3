"""The judge: what counts as right, how programs fail, and that cheats gain nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge import values
from selfplay.sandbox.judge.cases import AssertTest, CallTest, StdioTest
from selfplay.sandbox.judge.compare import same_output, same_value
from selfplay.sandbox.judge.harness import MARK
from selfplay.sandbox.judge.judge import Job, Judge, JudgeError, Outcome

ADD = [StdioTest("1 2\n", "3\n"), StdioTest("5 -7\n", "-2\n"), StdioTest("10 20\n", "30\n")]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(JudgeConfig(wall_s=1.0))
    yield judge
    judge.close()


# ---------------------------------------------------------------- comparison


@pytest.mark.parametrize(
    ("got", "expected", "strict", "paper"),
    [
        ("3\n", "3", True, True),
        ("3  \n\n\n", "3\n", True, True),
        ("1 2\r\n3\r\n", "1 2\n3\n", True, True),
        ("1  2", "1 2", True, True),
        ("0.3333333", "0.33333334", True, True),
        ("0.3333", "0.33333334", False, False),
        ("1.0000000000", "1", True, True),
        ("1000000008", "1000000007", False, True),  # a count that is off by one
        ("1000000008.0", "1000000007", False, True),
        ("1\n2", "1 2", False, True),  # lines say something
        ("2 1", "1 2", False, True),  # the paper's rule takes any order for right
        ("olleh", "hello", False, False),
        ("", "", True, True),
        ("", "0", False, False),
        ("nan", "1.0", False, False),
        ("inf", "1e400", False, False),
        ("YES", "yes", False, False),
        ("3 4", "3", False, False),
        ("1_000", "1000", False, False),
        ("٣", "3", False, False),
    ],
)
def test_outputs(got: str, expected: str, strict: bool, paper: bool) -> None:
    assert same_output(got, expected) is strict
    assert same_output(got, expected, comparison="paper") is paper


def test_lines_in_any_order_only_where_the_task_says_so() -> None:
    assert not same_output("b 2\na 1", "a 1\nb 2")
    assert same_output("b 2\na 1", "a 1\nb 2", unordered=True)
    assert not same_output("b 1\na 2", "a 1\nb 2", unordered=True)  # tokens do not wander between lines


@pytest.mark.parametrize(
    ("got", "expected", "right"),
    [
        (3, 3, True),
        ([1, [2, 3]], (1, (2, 3)), True),
        (0.1 + 0.2, 0.3, True),
        (3, 3.0, True),
        (3.0, 3, True),
        (2.9999999, 3, False),
        (True, 1, False),
        (1, True, False),
        ("3", 3, False),
        (None, 0, False),
        (math.nan, math.nan, True),
        ({"a": 1.0}, {"a": 1.0 + 1e-9}, True),
        ({"a": 1}, {"b": 1}, False),
        ({1, 2}, {2, 1}, True),
        ([2, 1], [1, 2], False),
    ],
)
def test_values(got: object, expected: object, right: bool) -> None:
    assert same_value(got, expected) is right


def test_items_in_any_order_only_where_the_task_says_so() -> None:
    assert same_value([[2], [1]], [[1], [2]], unordered=True)
    assert not same_value([[2, 1]], [[1, 2]], unordered=True)  # of the outer list, not within
    assert not same_value([1, 1, 2], [1, 2, 2], unordered=True)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(plain)
@settings(deadline=None)
def test_values_cross_the_border_unchanged(value: object) -> None:
    back = values.loads(values.dumps(value))
    assert back == value
    assert type(back) is type(value)


def test_arrays_cross_the_border_and_objects_do_not() -> None:
    import numpy as np

    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    back = values.loads(values.dumps({"a": array, "b": np.float32(0.1)}))
    assert back["a"].dtype == array.dtype
    assert (back["a"] == array).all()
    assert back["b"] == np.float32(0.1)

    class Always(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    for value in (Always(3), object(), lambda: 3, np.array([object()])):
        with pytest.raises(TypeError):
            values.dumps(value)


# ---------------------------------------------------------------- verdicts


def test_a_right_program_passes(judge: Judge) -> None:
    assert judge.judge("print(sum(map(int, input().split())))", ADD).passed
    assert judge.judge("import sys\na, b = map(int, sys.stdin.read().split())\nprint(a + b)\nexit()", ADD).passed


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("print(3)", Outcome.WRONG),
        ("while True: pass", Outcome.TIMEOUT),
        ("import time; time.sleep(60)", Outcome.TIMEOUT),
        ("print(1 / 0)", Outcome.ERROR),
        ("this is no program", Outcome.ERROR),
        ("", Outcome.WRONG),
        ("\x00\xff\x01", Outcome.ERROR),
        ("print(sum(map(int, input().split()))); raise SystemExit(1)", Outcome.ERROR),
        ("x = bytearray(4 << 30)", Outcome.ERROR),
        ("import sys\nfor _ in range(50): sys.stdout.write('3\\n' * (1 << 19))", Outcome.ERROR),  # 50 MB
        ("import os; os.write(1, bytes(range(256)) * 10)", Outcome.WRONG),
        ("def f(): f()\nf()", Outcome.ERROR),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Outcome.ERROR),
    ],
)
def test_how_programs_fail(judge: Judge, program: str, outcome: Outcome) -> None:
    verdict = judge.judge(program, ADD)
    assert not verdict.passed
    assert verdict.outcome in ({outcome, Outcome.TIMEOUT} if outcome is Outcome.ERROR else {outcome})


def test_after_a_failure_the_rest_is_skipped(judge: Judge) -> None:
    many = [*ADD, *[StdioTest("1 1", "2")] * 20]
    verdict = judge.judge("print(3)", many)
    assert verdict.first_failure == 1
    assert [r.outcome for r in verdict.results[6:]] == [Outcome.SKIPPED] * 17
    whole = judge.judge("print(3)", many, stop=False)
    assert [r.outcome for r in whole.results[:3]] == [Outcome.OK, Outcome.WRONG, Outcome.WRONG]
    assert Outcome.SKIPPED not in [r.outcome for r in whole.results]


def test_no_tests_are_not_passed(judge: Judge) -> None:
    assert not judge.judge("print(3)", []).passed


def test_many_programs_at_once_keep_their_places(judge: Judge) -> None:
    jobs = [Job(f"print(int(input()) * {k})", [StdioTest(str(i), str(i * k)) for i in range(3)]) for k in range(8)]
    jobs[5] = Job("print(7)", jobs[5].tests)
    assert [v.passed for v in judge.judge_all(jobs)] == [k != 5 for k in range(8)]


def test_a_program_s_own_seconds_count(judge: Judge) -> None:
    """Waiting for the processor is not the program's fault: it may take longer than it may compute."""
    assert judge.judge("import time; time.sleep(1.5); print(1)", [StdioTest("", "1")]).passed
    started = time.monotonic()
    assert judge.judge("i = 0\nwhile True: i += 1", [StdioTest("", "1")]).outcome is Outcome.TIMEOUT
    assert time.monotonic() - started < 10


# ---------------------------------------------------------------- functions

SQUARE = [CallTest("square", (3,), 9), CallTest("square", (-2,), 4)]


@pytest.mark.parametrize(
    "program",
    [
        "def square(x): return x * x",
        "class Solution:\n    def square(self, x): return x * x",
        "from __future__ import annotations\ndef square(x: 'int') -> 'int':\n    print('noise')\n    return x * x",
        "square = lambda x: x ** 2",
    ],
)
def test_functions_and_methods_are_called(judge: Judge, program: str) -> None:
    assert judge.judge(program, SQUARE).passed


def test_values_of_all_kinds_come_back(judge: Judge) -> None:
    same = "def f(x): return x"
    for value in (1, "π", [1, [2.5, None]], (1, 2), {"a": {1: 2}}, {1, 2}, b"\x00", 10**50, 1e300, True):
        assert judge.judge(same, [CallTest("f", (value,), value)]).passed, value


# Each would talk a careless harness into a pass.
CHEATS = {
    "equals everything": """
class A:
    def __eq__(self, o): return True
def square(x): return A()
""",
    "an int that equals everything": """
class A(int):
    def __eq__(self, o): return True
    __hash__ = int.__hash__
def square(x): return A(0)
""",
    "leaves early": "def square(x): raise SystemExit(0)",
    "leaves at once": "import os; os._exit(0)",
    "leaves at exit": """
import atexit, os
atexit.register(lambda: os._exit(0))
def square(x): return 0
""",
    "forges a line": f"""
import os
def square(x):
    os.write(1, b'{MARK}9\\n')
    os._exit(0)
""",
    "writes to every descriptor": f"""
import os
for fd in range(4, 20):
    try: os.write(fd, b'{MARK}9\\n')
    except OSError: pass
def square(x): return 0
""",
    "patches the harness": """
import json
json.dumps = lambda v, **k: '9'
def square(x): return 0
""",
    "patches assertions": """
import builtins
builtins.AssertionError = type('A', (Exception,), {})
def square(x): return 0
""",
    "reads the caller's constants": """
import sys
def square(x):
    f = sys._getframe(1)
    while f:
        for c in f.f_code.co_consts:
            if c == 9 or c == 9.5: return c
        f = f.f_back
    return 0
""",
    "reads the caller's variables": """
import sys
def square(x):
    names = sys._getframe(1).f_globals
    return names.get('target', names.get('expected', 0))
""",
    "looks through memory": """
import gc
def square(x):
    for o in gc.get_objects():
        if isinstance(o, dict) and o.get('target') in (9.5, 9): return o['target']
    return 0
""",
    "a patched isclose": """
import math
math.isclose = lambda *a, **k: True
def square(x): return 0
""",
    "nan": "def square(x): return float('nan')",
    "nothing": "",
}
ASSERTIONS = [
    AssertTest("square", "expected = 9\nassert square(3) == expected"),
    AssertTest("square", "for x, y in [(3, 9), (4, 16)]:\n    assert square(x) == y"),
    AssertTest("square", "import math\nassert math.isclose(square(3) + 0.5, target)", target="9.5"),
]


# These say 9 whatever they are asked: returning a constant in a roundabout way. They fail as a constant does.
SAY_NINE = ("forges a line", "patches the harness", "writes to every descriptor")


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_gain_nothing(judge: Judge, cheat: str) -> None:
    for test in [*SQUARE, *ASSERTIONS]:
        says_nine = cheat in SAY_NINE and test in (SQUARE[0], ASSERTIONS[0], ASSERTIONS[2])
        assert not judge.judge(CHEATS[cheat], [test]).passed or says_nine, test
    assert not judge.judge(CHEATS[cheat], [*SQUARE, *ASSERTIONS]).passed


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", '{"tuple": 5}', '{"set": [[1]]}', '{"odd": 1}', '{"a": 1, "b": 2}', "[" * 100_000, "9" * 5000, "{}"),
        *('{"scalar": ["S2000000000", [], ["a"]]}', '{"array": ["<f8", [999999999999], []]}', '{"bytes": [300]}'),
    ],
)
def test_forged_values_break_nothing(judge: Judge, line: str) -> None:
    program = f"import os\nos.write(1, {(MARK + line)!r}.encode() + b'\\n')\nos._exit(0)"
    for test in (SQUARE[0], ASSERTIONS[0], ASSERTIONS[2]):
        assert judge.judge(program, [test]).outcome in (Outcome.ERROR, Outcome.WRONG)


def test_long_lists_in_any_order_are_compared_quickly() -> None:
    started = time.monotonic()
    assert same_value(list(range(100_000)), list(range(99_999, -1, -1)), unordered=True)
    assert not same_value(list(range(100_000)), [0, *range(99_999)], unordered=True)
    assert time.monotonic() - started < 5


def test_assertions_decide(judge: Judge) -> None:
    right = "def square(x): return x * x"
    assert judge.judge(right, ASSERTIONS).passed
    wrong = judge.judge("def square(x): return x + x", ASSERTIONS, stop=False)
    assert [r.outcome for r in wrong.results] == [Outcome.WRONG] * 3
    assert judge.judge("def square(x): raise ValueError('no')", ASSERTIONS).results[0].detail == "ValueError: no"


def test_a_broken_test_is_not_the_program_s_fault(judge: Judge) -> None:
    with pytest.raises(JudgeError, match="before it calls square: NameError"):
        judge.judge("def square(x): return x * x", [AssertTest("square", "assert square(undefined) == 1")])
    with pytest.raises(JudgeError, match="before it calls square: TypeError: a value of type object"):
        judge.judge("def square(x): return 1", [AssertTest("square", "assert square(object()) == 1")])


def test_bad_settings_name_the_key() -> None:
    with pytest.raises(ValueError, match=r"^compare: 'loose' is not allowed"):
        JudgeConfig(compare="loose").check()
