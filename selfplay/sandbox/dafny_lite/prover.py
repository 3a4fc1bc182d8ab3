"""`DafnyLite`: the embedded verifier behind the `Prover` interface."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from selfplay.sandbox.base import Judgement, Verdict
from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason, line_column
from selfplay.sandbox.dafny_lite.lexer import Lexeme, tokenise
from selfplay.sandbox.dafny_lite.normal import alpha_normal_form
from selfplay.sandbox.dafny_lite.parser import parse_block, parse_header
from selfplay.sandbox.dafny_lite.resolve import resolve_body, resolve_header
from selfplay.sandbox.dafny_lite.solve import Proof, prove
from selfplay.sandbox.dafny_lite.specification import find_flaw
from selfplay.sandbox.dafny_lite.syntax import Header
from selfplay.sandbox.dafny_lite.vcgen import conditions

DEFAULT_RLIMIT = 100_000
_MAX_SPECS = 4096


@dataclass(frozen=True, slots=True)
class _CheckedSpec:
    """A specification's verdict and, when answers to it can be judged, its resolved header; never changed."""

    judgement: Judgement
    header: Header | None
    lexemes: list[Lexeme]


class DafnyLite:
    """Verifies one method in the subset. Thread-safe; a verdict depends on the two texts and `rlimit` alone."""

    name = "dafny_lite"

    def __init__(self, rlimit: int = DEFAULT_RLIMIT) -> None:
        """`rlimit` bounds each z3 query, in z3's resource units."""
        if rlimit <= 0:
            raise ValueError(f"rlimit must be positive, got {rlimit}")
        self.rlimit = rlimit
        self._checked = lru_cache(maxsize=_MAX_SPECS)(self._check)

    def check_spec(self, spec: str) -> Judgement:
        """VERIFIED for a well-formed, non-vacuous specification; the detail starts with a `Reason` otherwise."""
        return self._checked(spec).judgement

    def normal_form(self, spec: str) -> str:
        """Names, redundant brackets, digit separators and comments make no difference."""
        return alpha_normal_form(spec)

    def verify(self, spec: str, answer: str) -> Judgement:
        """VERIFIED when `spec` passes `check_spec`, `answer` alone is one block, and every obligation is proved."""
        checked = self._checked(spec)
        if checked.header is None:
            return checked.judgement
        try:
            lexemes = tokenise(answer)
            body = parse_block(lexemes)
            _check_prefix(spec, answer, checked.lexemes, lexemes)
            resolve_body(checked.header, body)
            proof = prove(conditions(checked.header, body), self.rlimit)
        except MalformedError as error:
            return Judgement(Verdict.MALFORMED, error.describe("answer", answer))
        return _judge(proof, {"spec": spec, "answer": answer})

    def _check(self, spec: str) -> _CheckedSpec:
        try:
            lexemes = tokenise(spec)
            header = parse_header(lexemes)
            resolve_header(header)
            flaw = find_flaw(header, self.rlimit)
        except MalformedError as error:
            return _CheckedSpec(Judgement(Verdict.MALFORMED, error.describe("spec", spec)), None, [])
        if flaw is None:
            return _CheckedSpec(Judgement(Verdict.VERIFIED), header, lexemes)
        if flaw.proof is not None:
            return _CheckedSpec(_judge(flaw.proof, {"spec": spec}, flaw.reason), None, [])
        verdicts = {Reason.NO_ENSURES: Verdict.MALFORMED, Reason.UNDECIDED: Verdict.UNKNOWN}
        verdict = verdicts.get(flaw.reason, Verdict.REFUTED)
        judgement = Judgement(verdict, f"{flaw.reason}: {flaw.message}")
        if flaw.reason is Reason.IDLE_CLAUSE:  # not worth proposing, and nothing wrong with proving it
            return _CheckedSpec(judgement, header, lexemes)
        return _CheckedSpec(judgement, None, [])


def _check_prefix(spec: str, answer: str, spec_lexemes: list[Lexeme], answer_lexemes: list[Lexeme]) -> None:
    """The two texts joined have to be the same tokens as the two apart: neither reaches into the other."""
    joined = [(lexeme.kind, lexeme.text) for lexeme in tokenise(f"{spec}\n{answer}")]
    if joined != [(lexeme.kind, lexeme.text) for lexeme in [*spec_lexemes, *answer_lexemes]]:
        raise MalformedError(Reason.LEXICAL, "the answer changes how the specification reads")


def _judge(proof: Proof, texts: dict[str, str], reason: Reason = Reason.OBLIGATION) -> Judgement:
    if proof.proved:
        return Judgement(Verdict.VERIFIED)
    assert proof.failed is not None
    where = f"{proof.failed.part} {line_column(texts[proof.failed.part], proof.failed.offset)}"
    if proof.proved is None:
        return Judgement(Verdict.UNKNOWN, f"{Reason.UNDECIDED}: {where}: {proof.failed.message}")
    return Judgement(Verdict.REFUTED, f"{reason}: {where}: {proof.failed.message}", proof.inputs)
