"""The page: one HTML file that needs nothing but itself, no script and no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import pandas as pd

from selfplay.reporting.figures import Figure

CSS = """
:root { color-scheme: light; --ink: #1d232b; --soft: #5c6672; --line: #dde2e8; --card: #fff; --ground: #f5f6f8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.5rem; margin: 0 0 4px; } h2 { font-size: 1.15rem; margin: 36px 0 10px; } h3 { font-size: 1rem; margin: 0; }
nav { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 10px 0 4px; font-size: 0.9rem; }
a { color: #2c5fa8; text-decoration: none; } a:hover { text-decoration: underline; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); gap: 14px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; min-width: 0; }
figure.wide { grid-column: 1 / -1; }
figure svg { width: 100%; height: auto; display: block; } figcaption p { margin: 2px 0 8px; color: var(--soft); font-size: 0.86rem; }
.files { font-size: 0.8rem; color: var(--soft); margin-top: 6px; }
.scroll + .figures { margin-top: 14px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; } th, td { padding: 5px 10px; text-align: left; }
th { border-bottom: 1px solid var(--line); font-weight: 600; white-space: nowrap; } tr + tr td { border-top: 1px solid #eef1f4; }
td { font-variant-numeric: tabular-nums; vertical-align: top; }
details { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 6px 12px; margin: 6px 0; }
summary { cursor: pointer; overflow-wrap: anywhere; } details:target { border-color: #2c5fa8; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--ground); padding: 8px 10px; border-radius: 6px; margin: 6px 0; font-size: 0.82rem; }
h5 { margin: 8px 0 2px; font-size: 0.82rem; color: var(--soft); } p.note { color: var(--soft); margin: 4px 0 12px; }
svg.dag { width: 100%; min-width: 640px; height: auto; } svg.dag path { fill: none; stroke: #b8c0ca; stroke-width: 1; }
svg.dag circle { stroke: #fff; stroke-width: 1; } svg.dag a:hover circle { stroke: #1d232b; }
"""  # noqa: E501


@dataclass
class Section:
    """A part of the page: `body` is HTML, figures follow it."""

    title: str
    body: str = ""
    figures: Sequence[Figure] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return "-".join(self.title.lower().split())


def page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The whole file; sections without content are left out."""
    shown = [section for section in sections if section.body or section.figures]
    links = "".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in shown)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{CSS}</style></head><body><main>',
        f"<h1>{escape(title)}</h1><p class=note>{escape(subtitle)}</p><nav>{links}</nav>",
    ]
    for section in shown:
        parts.append(f'<section><h2 id="{section.anchor}">{escape(section.title)}</h2>{section.body}')
        if section.figures:
            parts.append('<div class="figures">' + "".join(map(_figure, section.figures)) + "</div>")
        parts.append("</section>")
    return "\n".join([*parts, "</main></body></html>\n"])


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.data.to_csv(index=False).encode()).decode("ascii")
    picture = base64.b64encode(figure.png).decode("ascii")
    kind = " class=wide" if figure.wide else ""
    return (
        f'<figure id="figure-{figure.name}"{kind}><figcaption><h3>{escape(figure.title)}</h3>'
        f"<p>{escape(figure.caption)}</p></figcaption>{figure.svg}"
        f'<div class="files"><a download="{figure.name}.csv" href="data:text/csv;base64,{data}">CSV</a> &middot; '
        f'<a download="{figure.name}.png" href="data:image/png;base64,{picture}">PNG</a></div></figure>'
    )


def table(data: pd.DataFrame, index: bool = False) -> str:
    """A table that scrolls by itself on a narrow screen; "" for an empty one."""
    if data.empty:
        return ""
    html = data.to_html(index=index, border=0, escape=True, na_rep="")
    return f'<div class="scroll">{html}</div>'


def folded(summary: str, parts: Sequence[tuple[str, Any]]) -> str:
    """An entry that opens: headed texts."""
    inner = "".join(f"<h5>{escape(head)}</h5><pre>{escape(str(text))}</pre>" for head, text in parts)
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"
