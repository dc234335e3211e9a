"""C++ and CUDA sources in strings of Python: `load_inline(cuda_sources=SRC)`, `cupy.RawKernel(r'''…''')`.

A source is handed on as the text of its Python file with everything blanked but the contents of such strings: lines and
columns stay those of the file.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.program import Program

HOLDERS = (
    "load_inline(",
    "RawKernel(",
    "RawModule(",
    "SourceModule(",
    "cpp_extension.load",
    "cpp_extension import load",
)
"""A text about extensions that loads none is not taken apart."""
NATIVE_TEXT = re.compile(r"__global__|<<<|#\s*include\s*[<\"]|\bcuda[A-Z]\w+\s*\(|\b(?:torch|at)::Tensor\b")
LONGEST = 2 << 20


def masks(program: Program) -> list[tuple[str, str]]:
    """[(path, text with all else blanked)] of the Python files that hold native sources."""
    out = []
    for path in sorted(program.modules):
        text = program.text(path)
        if (
            text is not None
            and len(text) < LONGEST
            and any(word in text for word in HOLDERS)
            and NATIVE_TEXT.search(text)
        ):
            found = mask(text)
            if found:
                out.append((path, found))
    return out


def mask(text: str) -> str:
    """The text with all but the contents of native strings blanked; "" when there are none."""
    import io
    import tokenize

    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    kept: list[tuple[int, int]] = []
    before = tokenize.NEWLINE
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = token.type
            if kind == tokenize.STRING:
                string = token.string
                quote = re.match(r"[A-Za-z]*(\"\"\"|'''|\"|')", string)
                statement = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
                if quote is not None and not statement and "f" not in quote[0].lower():
                    begin = starts[token.start[0] - 1] + token.start[1]
                    inside = (begin + quote.end(), begin + len(string) - len(quote[1]))
                    if NATIVE_TEXT.search(text, *inside):
                        kept.append(inside)
            if kind not in (tokenize.NL, tokenize.COMMENT):
                before = kind
    except (tokenize.TokenError, SyntaxError, IndexError):
        return ""
    if not kept:
        return ""
    out, last = [], 0
    for begin, end in kept:
        out.append(re.sub(r"[^\n]", " ", text[last:begin]))
        out.append(text[begin:end])
        last = end
    out.append(re.sub(r"[^\n]", " ", text[last:]))
    return "".join(out)
