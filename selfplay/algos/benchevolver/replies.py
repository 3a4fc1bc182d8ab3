"""Replies taken apart: code in fences, sections in tags. What is missing or broken is said, never guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from selfplay.algos.benchevolver.candidate import REGIMES, Mutation

MAX_STATEMENT = 20_000  # characters
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_TAGS = ("family", "idea", "why", "statement", "public", "input", "output", "tests", *REGIMES)
_MARKS = re.compile(rf"</?({'|'.join(_TAGS)})>|<\||\|>", re.IGNORECASE)


class Unreadable(ValueError):
    """A reply without what was asked for; the message is a few words."""


def code_blocks(text: str) -> list[str]:
    """The contents of all fenced blocks; a last one that is never closed goes to the end."""
    return [block.strip("\n") for block in _FENCE.findall(text.replace("\r\n", "\n")) if block.strip()]


def last_code(text: str) -> str | None:
    """The program that a reply ends up with: its last block."""
    blocks = code_blocks(text)
    return blocks[-1] if blocks else None


def section(text: str, tag: str) -> str:
    """The content of the one `<tag>` section. Raises Unreadable if there is none, or more than one."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    if len(found) != 1:
        raise Unreadable(f"{'no' if not found else 'more than one'} <{tag}>")
    return str(found[0]).strip("\n")


def mutation(text: str) -> Mutation:
    """C' and its explanation. Raises Unreadable."""
    code = last_code(text)
    if code is None:
        raise Unreadable("no code")
    return Mutation(*explanation(text), code)


def explanation(text: str) -> tuple[str, str, str]:
    """Family, idea, and why the parent's solution fails. Raises Unreadable."""
    family, idea, why = (section(text, tag).strip() for tag in ("family", "idea", "why"))
    if not family:
        raise Unreadable("an empty <family>")
    return family[:80], idea[:2000], why[:2000]


@dataclass(frozen=True)
class Inputs:
    """Test inputs by regime; a generator is a program that prints one."""

    public: tuple[str, ...]
    hidden: dict[str, tuple[str, ...]]
    generators: dict[str, tuple[str, ...]]


def written(text: str) -> tuple[str, Inputs]:
    """A statement with its inputs. Raises Unreadable."""
    return read_statement(text), read_inputs(text)


def read_inputs(text: str) -> Inputs:
    """The inputs of a reply. Raises Unreadable."""
    text = text.replace("\r\n", "\n")
    hidden, generators = {}, {}
    for regime in REGIMES:
        part = "\n".join(re.findall(rf"<{regime}>(.*?)</{regime}>", text, re.DOTALL))
        hidden[regime], generators[regime] = _inputs(part), tuple(code_blocks(part))
    return Inputs(_inputs(section(text, "public")), hidden, generators)


def read_statement(text: str) -> str:
    """The statement of a reply: no tag of ours and no chat mark may stand in it. Raises Unreadable."""
    statement = section(text.replace("\r\n", "\n"), "statement").strip()
    if not statement:
        raise Unreadable("an empty <statement>")
    if len(statement) > MAX_STATEMENT:
        raise Unreadable("a statement that is too long")
    if _MARKS.search(statement):
        raise Unreadable("tags inside the statement")
    return statement


def outputs(text: str, count: int) -> tuple[str, ...]:
    """What an oracle says the outputs are. Raises Unreadable unless there are `count`."""
    found = re.findall(r"<output>(.*?)</output>", text, re.DOTALL)
    if len(found) != count:
        raise Unreadable(f"{len(found)} outputs for {count} inputs")
    return tuple(one.strip("\n") for one in found)


def _inputs(text: str) -> tuple[str, ...]:
    return tuple(one.strip("\n") + "\n" for one in re.findall(r"<input>(.*?)</input>", text, re.DOTALL))
