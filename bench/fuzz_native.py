#!/usr/bin/env python3
"""Mutated native sources, for as long as you like.

    python bench/fuzz_native.py FOLDER --seconds 300      seeds: the native sources below FOLDER, cut into pieces

Each turn takes a source, changes it in up to eight places (pieces of other sources, single brackets, deleted and
doubled parts, `#if` lines) and checks it in this process. Reported: exceptions, checks that take longer than `--limit`
seconds, and their inputs, written to the folder `--keep` for a test.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

from results import ROOT

sys.path.insert(0, str(ROOT / "src"))

from torchvet.check.flow.native import Native

PIECES = (
    "{", "}", "(", ")", "[", "]", "<<<", ">>>", ";", ",", "::", '"', "'", "/*", "*/", "\\\n", "#if 1\n", "#else\n",
    "#endif\n", "#define Q(x) Q(x)\n", "return;", "goto out;", "out:", "else", "case 1:", "static ", "template <",
    "cudaMalloc(&p, n);", "cudaFree(p);",
)  # fmt: skip
BALANCED = (
    "if (n < 4) return;\n", "float *p; cudaMalloc(&p, n);\n", "cudaFree(p);\n", "TORCH_CHECK(p, n);\n", "throw 1;\n",
    "for (auto &e : p) { cudaFree(e); }\n", "goto out;\n", "out:\n", "{ cudaEvent_t e; cudaEventCreate(&e); }\n",
    "switch (n) { case 1: cudaMalloc(&p, n); break; default: return; }\n", "k<<<1, 1>>>(p);\n",
    "try { cudaMalloc(&p, 1); } catch (...) { cudaFree(p); throw; }\n", "std::unique_ptr<float[]> u(p);\n",
    "#if X\ncudaFree(p);\n#else\nreturn;\n#endif\n", "auto f = [&](int x) { cudaMalloc(&p, x); return p; };\n",
    "struct L { void *p; L() { cudaMalloc(&p, 1); } ~L() { cudaFree(p); } };\n", "do { cudaFree(p); } while (0);\n",
)  # fmt: skip
ENDINGS = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp")
WORDS = ("cudaMalloc", "<<<", "Create", "cudaFree", "Destroy")


class Program:
    """What the native analysis needs of a program: one source."""

    def __init__(self, text: str) -> None:
        self.texts = {"a.cu": text}
        self.others = {"a.cu": "native"}
        self.modules: dict[str, object] = {}
        self.given_up: list[tuple[str, str]] = []

    def text(self, path: str) -> str | None:
        return self.texts.get(path)


def seeds(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in ENDINGS and path.is_file() and path.stat().st_size < 200_000:
            text = path.read_text("utf-8", "replace")
            if any(w in text for w in WORDS):
                found.append(text)
    return found


def whole(text: str, r: random.Random, most: int) -> str:
    """Some functions of a source, from one `}` at the begin of a line to another: braces match."""
    ends = [0, *(m.end() for m in re.finditer(r"\n}\n", text)), len(text)]
    begin = r.choice(ends[:-1])
    after = [e for e in ends if begin < e <= begin + most] or [len(text)]
    return text[begin : r.choice(after)]


def statements_of(text: str, r: random.Random) -> str:
    lines = text.split("\n")
    begin = r.randrange(len(lines))
    picked = [line for line in lines[begin : begin + r.randrange(1, 12)] if line.rstrip().endswith(";")]
    return "\n".join(picked) + "\n"


def mutate(text: str, other: str, r: random.Random) -> str:
    text = whole(text, r, 20_000)
    for _ in range(r.randrange(1, 9)):
        kind = r.randrange(8)
        lines = [m.start() for m in re.finditer("\n", text)] or [0]
        at = r.choice(lines) + 1 if kind > 2 else r.randrange(len(text) + 1)
        end = min((i for i in lines if i >= at), default=len(text)) + 1
        if kind == 0:
            text = text[:at] + r.choice(PIECES) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + r.randrange(1, 8) :]
        elif kind == 2:
            text = text[:at] + chr(r.choice((0, 1, 2, 3, 9, 13, 92, 233, 0x4E2D, 0xFFFD))) + text[at:]
        elif kind == 3 and text[at:end].rstrip().endswith(";"):
            text = text[:at] + text[end:]
        elif kind == 4:
            text = text[:at] + text[at:end] * 2 + text[end:]
        elif kind == 5:
            text = text[:at] + r.choice(BALANCED) + text[at:]
        elif kind == 6:
            text = text[:at] + statements_of(other, r) + text[at:]
        else:
            text += whole(other, r, 3000)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--limit", type=float, default=5.0, help="CPU seconds for one source")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzz_native")
    args = parser.parse_args()
    texts = seeds(args.folder)
    if not texts:
        parser.error(f"no native sources below {args.folder}")
    sys.setrecursionlimit(6000)  # as a check does
    r = random.Random(args.seed)
    begun = time.monotonic()
    turns = bad = found = broken = 0
    slowest = 0.0
    while time.monotonic() - begun < args.seconds:
        text = mutate(r.choice(texts), r.choice(texts), r)
        turns += 1
        start = time.process_time()
        what = ""
        try:
            native = Native(Program(text), None)  # type: ignore[arg-type]
            native.of("")
            found += len(native._faults or ())
            broken += any(s.unit.broken for s in native.sources.all)
        except Exception:
            what = traceback.format_exc()
        took = time.process_time() - start
        slowest = max(slowest, took)
        if what or took > args.limit:
            bad += 1
            args.keep.mkdir(parents=True, exist_ok=True)
            path = args.keep / f"{args.seed}-{turns}.cu"
            path.write_text(text, "utf-8", "replace")
            print(f"{path}: {what or f'{took:.1f} s'}")
    print(
        f"{turns} sources in {time.monotonic() - begun:.0f} s, {bad} bad, {broken} with braces that do not "
        f"match, slowest {slowest:.2f} s, findings {found}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
