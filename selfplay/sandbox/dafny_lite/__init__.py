"""A sound verifier for a documented subset of Dafny: one method over int, nat and bool, proved with z3 in process.

`lexer` and `parser` (grammar in `grammar`) read a text, `resolve` ties names and checks types, `vcgen` turns the method
into facts and obligations (`translate`, `termination`, `terms`), `solve` asks z3, `specification` judges a header
alone, `prover` puts them behind `selfplay.sandbox.base.Prover`. See docs/dafny_lite.md.
"""

from selfplay.sandbox.dafny_lite.errors import MalformedError, Reason
from selfplay.sandbox.dafny_lite.normal import alpha_normal_form, structure
from selfplay.sandbox.dafny_lite.prover import DEFAULT_RLIMIT, DafnyLite

# Part of every cached verdict's key: raise it with any change that can change a verdict.
VERSION = 1

__all__ = ["DEFAULT_RLIMIT", "VERSION", "DafnyLite", "MalformedError", "Reason", "alpha_normal_form", "structure"]
