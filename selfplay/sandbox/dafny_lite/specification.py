"""Is a specification worth proving? Well-formed, and neither vacuous nor impossible.

Each question is one satisfiability query over the parameters and results. With P the precondition and Q(r) the
postcondition, a result r matters when P and Q(r) and not Q(r') has a model (the other results equal): that one model
also shows that P can be met, that Q can be met under P, and that P does not imply Q. The other questions are asked only
to say why it has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from selfplay.sandbox.dafny_lite import terms
from selfplay.sandbox.dafny_lite.errors import Reason
from selfplay.sandbox.dafny_lite.solve import Answer, Proof, prove, satisfiable
from selfplay.sandbox.dafny_lite.syntax import Expr, Header, Symbol, occurrences
from selfplay.sandbox.dafny_lite.terms import TRUE, land, lnot
from selfplay.sandbox.dafny_lite.translate import Environment, translate
from selfplay.sandbox.dafny_lite.vcgen import Conditions, Generator


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a specification is rejected. `undecided` when a question stayed open; `proof` for an undefined clause."""

    reason: Reason
    message: str
    proof: Proof | None = None


class _Questions:
    def __init__(self, header: Header, rlimit: int) -> None:
        generator = Generator(header)
        self.env = generator.specification()
        self.declarations = generator.declarations
        self.conditions = Conditions(generator.declarations, generator.inputs, generator.steps)
        self.header, self.rlimit, self.generator = header, rlimit, generator
        self.types = land(*(self.range_of(name.symbol, self.env) for name in [*header.ins, *header.outs]))
        self.requires = self.all_of(header.requires, self.env)
        self.ensures = self.all_of(header.ensures, self.env)

    def all_of(self, clauses: list[Expr], env: Environment) -> str:
        return land(*(translate(clause, env, self.declarations).term for clause in clauses))

    @staticmethod
    def range_of(symbol: Symbol | None, env: Environment) -> str:
        assert symbol is not None
        return terms.compare("<=", "0", env[symbol]) if symbol.type == "nat" else TRUE

    def ask(self, *formulas: str) -> Answer:
        return satisfiable(self.declarations, land(self.types, *formulas), self.rlimit)[0]

    def matters(self, out: Symbol) -> Answer:
        """Does the postcondition tell two values of this result apart?"""
        other = self.env | {out: self.generator.unknown(out)}
        rejected = lnot(self.all_of(self.header.ensures, other))
        return self.ask(self.range_of(out, other), self.requires, self.ensures, rejected)


def find_flaw(header: Header, rlimit: int) -> Flaw | None:
    """The first reason to reject a resolved specification, None for a sound one."""
    if not header.ensures:
        return Flaw(Reason.NO_ENSURES, "the method has no postcondition")
    mentioned = {variable.name for clause in header.ensures for variable in occurrences(clause)}
    questions = _Questions(header, rlimit)
    proof = prove(questions.conditions, rlimit)
    if not proof.proved:
        return Flaw(Reason.UNDECIDED if proof.proved is None else Reason.UNDEFINED, "", proof)
    outs = [name.symbol for name in header.outs if name.symbol is not None]
    answers = {out.name: questions.matters(out) for out in outs}
    if all(answer is Answer.SAT for answer in answers.values()):
        return _idle_clause(questions)
    flaw = _cause(questions)
    if flaw is not None:
        return flaw
    unused = [name for name, answer in answers.items() if answer is Answer.UNSAT]
    if unused:
        how = "depend on" if unused[0] in mentioned else "mention"
        return Flaw(Reason.RESULT_UNUSED, f"the postcondition does not {how} the result `{unused[0]}`")
    return Flaw(Reason.UNDECIDED, "whether the postcondition depends on every result")


def _idle_clause(questions: _Questions) -> Flaw | None:
    """A clause that always holds: without this check a copy of a specification with one more such clause is new."""
    header = questions.header
    for kind, clauses, given in (("requires", header.requires, TRUE), ("ensures", header.ensures, questions.requires)):
        for number, clause in enumerate(clauses, 1):
            answer = questions.ask(given, lnot(questions.all_of([clause], questions.env)))
            if answer is Answer.UNSAT:
                return Flaw(Reason.IDLE_CLAUSE, f"`{kind}` clause {number} always holds")
            if answer is not Answer.SAT:
                return Flaw(Reason.UNDECIDED, f"whether `{kind}` clause {number} says anything")
    return None


def _cause(questions: _Questions) -> Flaw | None:
    """The most telling reason why no result matters, None when there is none of these."""
    if questions.ask(questions.requires) is Answer.UNSAT:
        return Flaw(Reason.UNSAT_REQUIRES, "no input satisfies the precondition")
    if questions.ask(questions.requires, questions.ensures) is Answer.UNSAT:
        return Flaw(Reason.UNSAT_ENSURES, "no result satisfies the postcondition for any input")
    if questions.ask(lnot(questions.ensures)) is Answer.UNSAT:
        trivial = questions.ensures == TRUE
        return Flaw(Reason.VACUOUS, "ensures true" if trivial else "every result satisfies the postcondition")
    if questions.ask(questions.requires, lnot(questions.ensures)) is Answer.UNSAT:
        return Flaw(Reason.IMPLIED_BY_REQUIRES, "the precondition alone implies the postcondition")
    return None
