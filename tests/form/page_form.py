"""The sections of a page."""

from __future__ import annotations

import re


def sections(page: str) -> dict[str, str]:
    """{heading of the second level: text below it}; a `##` inside a fence is no heading."""
    out: dict[str, str] = {}
    heading, fence = "", ""
    for line in page.split("\n"):
        mark = re.match(r"^(```+|~~~+)", line)
        if mark and (not fence or line.rstrip() == fence):
            fence = "" if fence else mark[1]
        if not fence and line.startswith("## "):
            heading = line[3:].strip()
            out[heading] = ""
        elif heading:
            out[heading] += line + "\n"
    return out
