"""What the roles of the evolution are asked. Each sees only what it may: the brute-force solver and the oracle the
statement alone, so that they can be witnesses against the reference.

This is the wording for instruction models; `compact` has that of models which are warmed up on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from selfplay.algos.benchevolver.candidate import Mutation
from selfplay.benchmarks.code_task import CodeTask
from selfplay.engine.episode import Message
from selfplay.sandbox.judge.cases import StdioTest


class Wording(Protocol):
    """How every role is asked. `memory` is what the search remembers, as text; `used` the families of this lineage."""

    def mutate(self, statement: str, reference: str, memory: str, used: Sequence[str]) -> list[Message]: ...

    def problem_first(self, statement: str, memory: str, used: Sequence[str]) -> list[Message]:
        """The problem-centric ablation: a new statement from the old one, and no program."""
        ...

    def reference(self, statement: str) -> list[Message]:
        """The problem-centric ablation: the program, from the statement."""
        ...

    def write(self, mutation: Mutation) -> list[Message]: ...

    def inputs(self, statement: str, reference: str) -> list[Message]:
        """The problem-centric ablation: test inputs of a statement that is there."""
        ...

    def brute_force(self, statement: str) -> list[Message]: ...

    def oracle(self, statement: str, inputs: Sequence[str]) -> list[Message]: ...

    def solve(self, statement: str, examples: Sequence[tuple[str, str]], seconds: float) -> list[Message]: ...

    def mutate_function(self, statement: str, reference: str, memory: str, used: Sequence[str]) -> list[Message]: ...

    def write_function(self, mutation: Mutation, header: str) -> list[Message]: ...

    def solve_function(self, statement: str, header: str, seconds: float) -> list[Message]: ...

    def repair_reference(self, statement: str, program: str, counterexample: str) -> list[Message]: ...

    def repair_brute_force(self, statement: str, program: str, counterexample: str) -> list[Message]: ...

    def repair_statement(self, statement: str, reference: str, counterexample: str) -> list[Message]: ...

    def quality(self, statement: str) -> list[Message]: ...


def asked(wording: Wording, task: CodeTask, seconds: float) -> list[Message]:
    """What a solver gets to see of a task: its statement, and its public examples or its function's header."""
    if task.function:
        return wording.solve_function(task.statement, task.starter_code or f"def {task.function}(...):", seconds)
    examples = [(test.stdin, test.stdout) for test in task.public if isinstance(test, StdioTest)]
    return wording.solve(task.statement, examples, seconds)


_MUTATE = """You make programming problems harder by changing their solution first.

This problem is solved every time. Its statement:
<problem>
{statement}
</problem>
Its solution:
```python
{reference}
```
What is known of earlier attempts:
{memory}

Change the solution into one that needs a substantially stronger idea: a better complexity, a richer data structure, \
another mathematical view. The old solution must give wrong answers or take far too long on the new problem. Longer \
statements, odd formats and rare corner cases are not ideas. The program reads standard input and prints to standard \
output, is deterministic and handles every input it admits within a few seconds.

Reply with
<family>the kind of change, in a few words</family>
<idea>the new idea, in two or three sentences</idea>
<why>why the old solution fails</why>
and the whole new program in one ```python block."""

_WRITE = """Write the problem that this program solves, for people who do not see the program.

```python
{reference}
```
The idea behind it: {idea}

State everything a solver needs: what is given in which format and order, every constraint with its bounds, what is to \
be printed, ties and special cases. Then give inputs; the outputs will be computed. Where an input would be long, give \
a ```python block that prints one instead (seed its random numbers).

Reply with
<statement>the statement, without examples</statement>
<public><input>a short example</input> two or three of them</public>
<small><input>...</input> about five</small>
<medium>about four inputs or programs</medium>
<large>about three</large>
<stress>about two at the limits of the constraints</stress>"""

_PROBLEM_FIRST = """You make programming problems harder.

This problem is solved every time:
<problem>
{statement}
</problem>
What is known of earlier attempts:
{memory}

Write a new, substantially harder problem in its spirit, for programs that read standard input and print to standard \
output. State everything a solver needs: what is given in which format and order, every constraint with its bounds, \
what is to be printed, ties and special cases.

Reply with
<family>the kind of change, in a few words</family>
<idea>what makes it harder</idea>
<why>why a solution of the old problem fails</why>
<statement>the statement, without examples</statement>"""

_REFERENCE = """Solve this problem. The program reads standard input, prints to standard output, is deterministic and \
handles every input that the statement admits within a few seconds.

<problem>
{statement}
</problem>

End with the whole program in one ```python block."""

_INPUTS = """Give test inputs for this problem; the outputs will be computed by its solution.

<problem>
{statement}
</problem>
```python
{reference}
```

Where an input would be long, give a ```python block that prints one instead (seed its random numbers). Reply with
<public><input>a short example</input> two or three of them</public>
<small><input>...</input> about five</small>
<medium>about four inputs or programs</medium>
<large>about three</large>
<stress>about two at the limits of the constraints</stress>"""

_BRUTE_FORCE = """Solve this problem by the most obvious method, however slow: its answers must be right beyond doubt.

<problem>
{statement}
</problem>

Reply with one ```python block: a program that reads standard input and prints to standard output."""

_ORACLE = """Work out by hand what is to be printed for each of these inputs.

<problem>
{statement}
</problem>
{inputs}

Think step by step; then reply with one <output>...</output> for every input, in their order."""

_SOLVE = """Solve this problem in Python. The program reads standard input and prints to standard output, within \
{seconds:g} seconds for every input that the statement admits.

<problem>
{statement}
</problem>
{examples}

End with the whole program in one ```python block."""

_MUTATE_FUNCTION = """You make scientific programming tasks harder by changing their solution first.

This task is solved every time. Its statement:
<problem>
{statement}
</problem>
Its solution:
```python
{reference}
```
What is known of earlier attempts:
{memory}

Change the solution into one that needs a substantially stronger idea: a better method, another model, a further \
coupled effect. The old solution must give wrong results for the new task. The last function of the program is the \
one that is asked for; it returns numbers, arrays, or containers of them, is deterministic and takes seconds at most.

Reply with
<family>the kind of change, in a few words</family>
<idea>the new idea, in two or three sentences</idea>
<why>why the old solution fails</why>
and the whole new program, imports included, in one ```python block."""

_WRITE_FUNCTION = """Write the task that this function solves, for people who do not see its body.

```python
{reference}
```
The idea behind it: {idea}
Its header, which they will see:
```python
{header}
```

State everything a solver needs: what is computed and how, every formula, convention, unit, default and special case. \
Then write about eight tests. Each is a ```python block of its own that sets up its arguments and ends with one \
assertion that compares the function's result with the name `target`, whose value will be computed, as in \
`assert np.allclose(f(x, 3), target)`.

Reply with
<statement>the statement</statement>
<tests>
the blocks
</tests>"""

_SOLVE_FUNCTION = """Implement this function in Python. A call takes {seconds:g} seconds at most.

<problem>
{statement}
</problem>
```python
{header}
```

End with the whole program, imports included, in one ```python block."""

_REPAIR_PROGRAM = """This program {what}

<problem>
{statement}
</problem>
```python
{program}
```
The case:
{counterexample}

Find out what is wrong and reply with the whole corrected program in one ```python block."""

_REPAIR_STATEMENT = """Solvers understand this statement differently from the program that it is about.

<statement>
{statement}
</statement>
```python
{reference}
```
The case:
{counterexample}

Rewrite the statement so that it says without doubt what the program does. Reply with
<statement>the whole new statement, without examples</statement>"""

_QUALITY = """Judge this programming problem as a setter of olympiads would: is it sound, clear, natural and new? \
Ambiguous wording, misleading formats, missing constraints and artificial corner cases count against it.

<problem>
{statement}
</problem>

Reply with a few sentences, and then <score>an integer from 1 (useless) to 5 (excellent)</score>"""


def _ask(template: str, **parts: object) -> list[Message]:
    return [{"role": "user", "content": template.format(**parts)}]


class Full:
    """For instruction models."""

    def mutate(self, statement: str, reference: str, memory: str, used: Sequence[str]) -> list[Message]:
        return _ask(_MUTATE, statement=statement, reference=reference, memory=memory)

    def problem_first(self, statement: str, memory: str, used: Sequence[str]) -> list[Message]:
        return _ask(_PROBLEM_FIRST, statement=statement, memory=memory)

    def reference(self, statement: str) -> list[Message]:
        return _ask(_REFERENCE, statement=statement)

    def write(self, mutation: Mutation) -> list[Message]:
        return _ask(_WRITE, reference=mutation.reference, idea=mutation.idea)

    def inputs(self, statement: str, reference: str) -> list[Message]:
        return _ask(_INPUTS, statement=statement, reference=reference)

    def brute_force(self, statement: str) -> list[Message]:
        return _ask(_BRUTE_FORCE, statement=statement)

    def oracle(self, statement: str, inputs: Sequence[str]) -> list[Message]:
        return _ask(_ORACLE, statement=statement, inputs="\n".join(f"<input>\n{given}</input>" for given in inputs))

    def solve(self, statement: str, examples: Sequence[tuple[str, str]], seconds: float) -> list[Message]:
        shown = "\n".join(f"Input:\n{given}Output:\n{out}" for given, out in examples)
        return _ask(_SOLVE, statement=statement, examples=shown, seconds=seconds)

    def mutate_function(self, statement: str, reference: str, memory: str, used: Sequence[str]) -> list[Message]:
        return _ask(_MUTATE_FUNCTION, statement=statement, reference=reference, memory=memory)

    def write_function(self, mutation: Mutation, header: str) -> list[Message]:
        return _ask(_WRITE_FUNCTION, reference=mutation.reference, idea=mutation.idea, header=header)

    def solve_function(self, statement: str, header: str, seconds: float) -> list[Message]:
        return _ask(_SOLVE_FUNCTION, statement=statement, header=header, seconds=seconds)

    def repair_reference(self, statement: str, program: str, counterexample: str) -> list[Message]:
        what = "should solve the problem below, and others who read the statement get another result:"
        return _ask(_REPAIR_PROGRAM, what=what, statement=statement, program=program, counterexample=counterexample)

    def repair_brute_force(self, statement: str, program: str, counterexample: str) -> list[Message]:
        what = "should solve the problem below by brute force, and gets a case wrong:"
        return _ask(_REPAIR_PROGRAM, what=what, statement=statement, program=program, counterexample=counterexample)

    def repair_statement(self, statement: str, reference: str, counterexample: str) -> list[Message]:
        return _ask(_REPAIR_STATEMENT, statement=statement, reference=reference, counterexample=counterexample)

    def quality(self, statement: str) -> list[Message]:
        return _ask(_QUALITY, statement=statement)
