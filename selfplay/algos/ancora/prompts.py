"""What the two roles are asked and how their responses are read.

Two styles ask for the same output formats. `full` explains the task to an instruction model (in the paper's Appendix E
it is a long system prompt; the wording here is ours); `compact` is a few tokens, for the embedded model that is warmed
up on demonstrations of exactly these formats.

Proposer: one `<think>` block that holds the seven labels in order, then one fenced block with a specification and no
body. Solver: at most one `<think>` block, then one fenced block with the body; a whole method is accepted if its text
before the body is the specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from selfplay.sandbox.source_text import UnreadableError, blanked
from selfplay.sandbox.split import executable_items

Message = dict[str, str]

LABELS = (
    "Parent core:",
    "Direction target:",
    "Solver-skill focus:",
    "Minimal decomposition:",
    "Stepping-stone rationale:",
    "Next-step child choice:",
    "Check:",
)
STYLES = ("compact", "full")
DIRECTIONS = ("up", "down")
FENCES = {"Dafny": "dafny", "Verus": "rust"}


class Rejection(StrEnum):
    """Why a response cannot be read. The values are stable: they name metrics."""

    NO_THINK = "no_think"  # not exactly one closed think block at the start
    LABELS = "labels"  # the seven labels are not there, each once, in order, each with a text
    NO_FENCE = "no_fence"  # no closed fenced block
    EXTRA_FENCE = "extra_fence"  # more than one
    TRAILING_TEXT = "trailing_text"  # text outside of the two blocks
    EMPTY = "empty"  # the fenced block holds nothing
    COMMENT = "comment"  # the specification holds a comment: a word to the Solver that no verifier reads
    HAS_BODY = "has_body"  # the proposer wrote an implementation
    NOT_ONE_ITEM = "not_one_item"  # not exactly one method (function, in Verus) header
    NO_BODY = "no_body"  # the solver wrote no body
    CHANGED_SPEC = "changed_spec"  # the solver's method has another specification than the one to prove


@dataclass(frozen=True)
class Parsed:
    """The text that was asked for, or why there is none: exactly one of the two is set."""

    text: str = ""
    rejection: Rejection | None = None


_FULL_PROPOSER = """You write exercises for a student of program verification in {language}. You never solve them.

Form of the answer, with nothing before, between or after the two blocks:
1. one <think>...</think> block;
2. one ```{fence} block that holds exactly one {item}: its header and its clauses, without a body.

In the <think> block write seven lines, each opened by its label, in this order:
Parent core: what the seed asks for, in plain words.
Direction target: up or down, as requested, and what that means here.
Solver-skill focus: the one reusable proof skill that the new exercise trains.
Minimal decomposition: for up, why no smaller step is needed; for down, the smallest part that blocks the student.
Stepping-stone rationale: why this exercise is the right next one.
Next-step child choice: which change you make, and nothing more than it.
Check: that the exercise can be met, is not met already by the seed's solution, and is not trivially true.

Refused: a seed with other names; an extra clause that the seed's clauses imply; a postcondition that is always true or
does not speak of the results; a precondition that nothing satisfies; a harder task that no proof skill explains."""

_FULL_PROPOSER_TASK = """Seed:
```{fence}
{seed}
```{second}
Direction: {direction}
Write one new exercise by one focused change of meaning. {hint}"""

_HINTS = {
    "up": "Stay in the seed's family and add one small extension.",
    "down": "Stay in the seed's family and isolate one smaller step towards it.",
}

_FULL_SOLVER = """You prove programs in {language}. Given the specification of a {item}, write a body that verifies
without any assumption, axiom or other way around the proof. You may reason in one <think>...</think> block first; then
give exactly one ```{fence} block that holds the body alone, from its opening to its closing brace."""

_ITEMS = {"Dafny": "method", "Verus": "function"}


def proposer_messages(
    seed: str, direction: str, second: str | None = None, *, style: str = "compact", language: str = "Dafny"
) -> list[Message]:
    """Chat messages that ask for one specification, harder (`up`) or simpler (`down`) than `seed`.

    `second` is the other parent of a crossover. Raises ValueError on an unknown style, direction or language.
    """
    _known("direction", direction, DIRECTIONS)
    if _known("style", style, STYLES) == "compact":
        return [{"role": "user", "content": "\n".join([direction, seed, *(["with", second] if second else [])])}]
    names = _names(language)
    extra = "\nSecond parent, to borrow one idea from:\n```{fence}\n{second}\n```".format(second=second, **names)
    task = _FULL_PROPOSER_TASK.format(
        seed=seed, direction=direction, hint=_HINTS[direction], second=extra if second else "", **names
    )
    return [{"role": "system", "content": _FULL_PROPOSER.format(**names)}, {"role": "user", "content": task}]


def solver_messages(spec: str, *, style: str = "compact", language: str = "Dafny") -> list[Message]:
    """Chat messages that ask for a body of `spec`. Raises ValueError on an unknown style or language."""
    if _known("style", style, STYLES) == "compact":
        return [{"role": "user", "content": "solve\n" + spec}]
    names = _names(language)
    task = "```{fence}\n{spec}\n```\nWrite the body.".format(spec=spec, **names)
    return [{"role": "system", "content": _FULL_SOLVER.format(**names)}, {"role": "user", "content": task}]


def longest_prompt(
    spec: str, render: Callable[[list[Message]], list[int]], *, style: str = "compact", language: str = "Dafny"
) -> int:
    """Tokens of the longest prompt in which `spec` stands alone: to be solved, or as the seed of a proposal."""
    asked = [solver_messages(spec, style=style, language=language)]
    asked += [proposer_messages(spec, direction, style=style, language=language) for direction in DIRECTIONS]
    return max(len(render(messages)) for messages in asked)


def proposer_response(thoughts: tuple[str, ...], spec: str, *, language: str = "Dafny") -> str:
    """A well-formed response of the Proposer: one thought per label, then the specification."""
    lines = [f"{label} {thought}" for label, thought in zip(LABELS, thoughts, strict=True)]
    return "<think>\n" + "\n".join(lines) + f"\n</think>\n```{FENCES[language]}\n{spec}\n```"


def solver_response(answer: str, *, language: str = "Dafny") -> str:
    """A well-formed response of the Solver."""
    return f"```{FENCES[language]}\n{answer}\n```"


_THINK = re.compile(r"\s*<think>(?P<thought>.*?)</think>", re.DOTALL)
_FENCE = re.compile(r"^```[A-Za-z]*[ \t]*\n(?P<code>.*?)\n?```[ \t]*$", re.DOTALL | re.MULTILINE)


def parse_proposal(response: str, *, language: str = "Dafny") -> Parsed:
    """The specification that a Proposer's response holds. Only its form is judged here (stage `format` of the gate)."""
    think = _THINK.match(response)
    if not think or response.count("<think>") != 1 or response.count("</think>") != 1:
        return Parsed(rejection=Rejection.NO_THINK)
    if not _labels_in_order(think["thought"]):
        return Parsed(rejection=Rejection.LABELS)
    block = _only_fence(response[think.end() :])
    if block.rejection:
        return block
    if "//" in block.text or "/*" in block.text:
        return Parsed(rejection=Rejection.COMMENT)
    return _one_bodyless_item(block, language)


def _one_bodyless_item(block: Parsed, language: str) -> Parsed:
    """The block, if its only executable item is a header at its end; ghost helpers with bodies may come before."""
    try:
        items = executable_items(blanked(block.text, language), language)
    except UnreadableError:
        return Parsed(rejection=Rejection.NOT_ONE_ITEM)
    if len(items) != 1 or block.text[items[0].end :].strip():
        return Parsed(rejection=Rejection.NOT_ONE_ITEM)
    return block if items[0].body is None else Parsed(rejection=Rejection.HAS_BODY)


def parse_answer(response: str, spec: str) -> Parsed:
    """The body that a Solver's response holds, from `{` to `}`. What the body says is the verifier's to judge."""
    think = _THINK.match(response)
    if response.count("<think>") + response.count("</think>") != (2 if think else 0):
        return Parsed(rejection=Rejection.NO_THINK)
    block = _only_fence(response[think.end() :] if think else response)
    if block.rejection:
        return block
    if block.text.startswith("{"):
        return block
    locked = spec.split()
    head, body = _split_after(block.text, len(locked))
    if head != locked:
        return Parsed(rejection=Rejection.CHANGED_SPEC if "{" in block.text else Rejection.NO_BODY)
    return Parsed(body) if body.startswith("{") else Parsed(rejection=Rejection.NO_BODY)


def _labels_in_order(thought: str) -> bool:
    """Each label opens exactly one line, in the right order, and is followed by a text."""
    position = 0
    spans = []
    for label in LABELS:
        if thought.count(label) != 1:
            return False
        found = thought.find(label, position)
        if found < 0 or thought[:found].rstrip(" \t")[-1:] not in ("", "\n"):
            return False
        position = found + len(label)
        spans.append((found, position))
    ends = [start for start, _ in spans[1:]] + [len(thought)]
    return not thought[: spans[0][0]].strip() and all(
        thought[start:end].strip() for (_, start), end in zip(spans, ends, strict=True)
    )


def _only_fence(text: str) -> Parsed:
    blocks = list(_FENCE.finditer(text))
    if not blocks:
        return Parsed(rejection=Rejection.NO_FENCE)
    if len(blocks) > 1 or text.count("```") != 2:
        return Parsed(rejection=Rejection.EXTRA_FENCE)
    if text[: blocks[0].start()].strip() or text[blocks[0].end() :].strip():
        return Parsed(rejection=Rejection.TRAILING_TEXT)
    code = blocks[0]["code"].strip()
    return Parsed(code) if code else Parsed(rejection=Rejection.EMPTY)


def _split_after(text: str, words: int) -> tuple[list[str], str]:
    """The first `words` blank-separated words of `text`, and the rest with leading blanks dropped."""
    parts = text.split(maxsplit=words)
    return parts[:words], parts[words] if len(parts) > words else ""


def _known(key: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{key}: {value!r} is not allowed; it is one of {', '.join(allowed)}")
    return value


def _names(language: str) -> dict[str, str]:
    _known("language", language, tuple(FENCES))
    return {"language": language, "fence": FENCES[language], "item": _ITEMS[language]}
