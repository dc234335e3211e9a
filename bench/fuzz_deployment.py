#!/usr/bin/env python3
"""Feed mutated deployment files to every reader and rule question, looking for failures and for inputs that take long.

    python bench/fuzz_deployment.py --minutes 5
    python bench/fuzz_deployment.py --minutes 5 --root DIR     seeds from the deployment files below DIR as well
    python bench/fuzz_deployment.py --seed 7 --out found       writes each failing input there

Seeds are the deployment cases of tests/cases/data. An input fails when a reader raises (its guard is switched off) or
takes more than --limit seconds. Exit 1 when one did.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from cases import load, texts  # noqa: E402
from torchvet.check.flow.deploy import Deploy  # noqa: E402
from torchvet.check.program.program import Program  # noqa: E402
from torchvet.check.rules._index import INDEX  # noqa: E402
from torchvet.check.source.walk import DEPLOYMENT, walk  # noqa: E402

TOKENS = [
    "$(", "${", "}", ")", "`", '"', "'", "\\", "\\\n", "\n", "\t", " ", "<<EOF\n", "EOF\n",
    "{{", "}}", "{%", "*a", "&a ",

    "<<: *a", "---\n", "- ", ": ", "[", "]", "{", "}", "|\n", ">-\n",
    "#", ";;", "esac", "case x in ", "if ", "fi ", "done ",

    "for x in ", "() {", "=(", "+=", "$@", "$$", "$(X)",
    "define X\n", "endef\n", "!Ref ", "\x00", "\ue000", "\ue001", "é", "𝄞",

    "\r\n", "\u2028", "\ufeff", "docker run ", "--shm-size=", "srun ", "torchrun ", "0",
    "9" * 30, "1e999", "nan", "-", ",", "//", "/*", "*/",
]  # fmt: skip


def seeds(root: str | None) -> list[tuple[str, str]]:
    faulty, clean = load(("deployment",))
    found = [x for case in faulty + clean for x in texts(case).items()]
    found += [x for case in faulty for x in texts(case, True).items()]
    if root:
        for path, full, size, _, kind in walk([root]).others:
            if kind == DEPLOYMENT and size < 20_000:
                found.append((path.rpartition("/")[2], Path(full).read_text("utf-8", "replace")))
    return found


def mutated(text: str, rng: random.Random, others: list[tuple[str, str]]) -> str:
    for _ in range(rng.randint(1, 6)):
        kind = rng.randrange(8)
        at = rng.randint(0, len(text))
        if kind == 0:
            text = text[:at] + rng.choice(TOKENS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 20) :]
        elif kind == 2:
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
        elif kind == 3:
            lines = text.split("\n")
            i = rng.randrange(len(lines))
            lines[i : i + 1] = [lines[i]] * rng.randint(0, 4)
            text = "\n".join(lines)
        elif kind == 4:
            other = rng.choice(others)[1]
            start = rng.randint(0, len(other))
            text = text[:at] + other[start : start + rng.randint(1, 300)] + text[at:]
        elif kind == 5:
            text = text[:at] + rng.choice(TOKENS) * rng.randint(2, 400) + text[at:]
        elif kind == 6:
            text = text[:at]
        else:
            i = text.find("\n", at)
            text = text[: i + 1] + " " * rng.randint(1, 8) + text[i + 1 :]
    return text[:60_000]


def ask(name: str, text: str) -> int:
    """The number of answers of all questions about one file."""
    program = Program("/nowhere", [], {name: text}.get)
    program.others = {name: DEPLOYMENT}
    deploy = Deploy(program)
    count = 0
    for code, _, asks in INDEX.values():
        if code.startswith("TV6") and asks:
            question = deploy
            for part in asks[0].split(".")[1:]:
                question = getattr(question, part)
            for x in question():
                count += 1
                lines = text.count("\n") + text.count("\r") + 1
                if not 0 < x.pos >> 44 <= lines:
                    raise AssertionError(f"{code} at line {x.pos >> 44} of {lines}")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=3, help="seconds that one input may take")
    parser.add_argument("--root", help="folder with more seeds")
    parser.add_argument("--out", help="folder for failing inputs")
    args = parser.parse_args()
    os.environ["TORCHVET_DEBUG"] = "1"
    sys.setrecursionlimit(6000)
    rng = random.Random(args.seed)
    known = seeds(args.root)
    end = time.perf_counter() + args.minutes * 60
    runs = answers = failures = 0
    slowest = 0.0
    while time.perf_counter() < end:
        name, text = rng.choice(known)
        text = mutated(text, rng, known)
        before = time.perf_counter()
        problem = ""
        try:
            answers += ask(name, text)
        except Exception:
            problem = traceback.format_exc()
        took = time.perf_counter() - before
        slowest = max(slowest, took)
        if took > args.limit:
            problem = problem or f"took {took:.1f} s"
        if problem:
            failures += 1
            print(f"--- {name}\n{problem}", flush=True)
            if args.out:
                folder = Path(args.out)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{failures}-{name.replace('/', '+')}").write_text(text, "utf-8", errors="surrogatepass")
            if failures >= 50:
                break
        runs += 1
    print(f"{runs} inputs from {len(known)} seeds, {answers} answers, slowest {slowest:.2f} s, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
