"""What `verus --output-json --error-format=json` prints, after its documentation and source; none was recorded here.

Verus's own results come as one JSON object on stdout, the compiler's diagnostics as one JSON object a line on stderr.
"""

from __future__ import annotations

import json
from typing import Any


def results(verified: int = 2, errors: int = 0, *, success: bool | None = None) -> str:
    """The object of a run that got as far as proving."""
    numbers: dict[str, Any] = {
        "encountered-error": errors > 0,
        "encountered-vir-error": False,
        "success": errors == 0 if success is None else success,
        "verified": verified,
        "errors": errors,
        "is-verifying-entire-crate": True,
    }
    return json.dumps({"times-ms": {"total": 812}, "verification-results": numbers}, indent=2)


# A program that Verus could not translate: the last three numbers are not there.
VIR_ERROR = json.dumps(
    {"verification-results": {"encountered-error": True, "encountered-vir-error": True, "success": False}}
)


def error(message: str, line: int = 7) -> str:
    """One diagnostic of the compiler."""
    span = {"file_name": "program.rs", "line_start": line, "line_end": line, "column_start": 5, "column_end": 20}
    return json.dumps({"$message_type": "diagnostic", "level": "error", "message": message, "spans": [span]})


ABORTING = error("aborting due to 1 previous error")
POSTCONDITION = error("postcondition not satisfied")
RLIMIT = error("function body check: Resource limit (rlimit) exceeded")
BORROW = error("cannot borrow `v` as mutable more than once at a time")
SYNTAX = error("expected one of `;` or `}`, found `let`")
NO_CHEATING = error("assume/admit not allowed with --no-cheating")
WARNING = json.dumps({"level": "warning", "message": "unused variable: `x`"})
