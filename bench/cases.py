#!/usr/bin/env python3
"""Recall and false alarms on the cases of tests/cases/data.

    python bench/cases.py                            torchvet on all cases; writes its section of RESULTS.md
    python bench/cases.py graphs_loaders hangs       only these files (with their clean ones)
    python bench/cases.py --tool 'torch-preflight check --format json' graphs_loaders
    python bench/cases.py --write-floors             also rewrites tests/cases/floors.toml

Each case is a folder of its own below a parent folder that holds some hundreds of files. The tool runs once on each
parent of faulty cases, of repaired forms and of clean cases; `--one-by-one` runs it for each folder, `--compare` does
both and lists the cases whose findings differ (a tool that does not take every folder as a program of its own shows up
there).

A hit is an error or warning on an expected or accepted line. Cases of severity note or confidence possible are optional
and counted apart. Codes are not compared, so a general tool can hit a line by chance: "hit, and silent on the repaired
form" is the fairer number.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from results import ROOT, torchvet, write

DATA = ROOT / "tests" / "cases" / "data"
FLOORS = ROOT / "tests" / "cases" / "floors.toml"
FAMILIES = ("graphs_loaders", "hangs", "native", "deployment")
NAMES = {
    "python": "train.py", "cuda": "kernel.cu", "cpp": "ext.cpp", "dockerfile": "Dockerfile", "compose": "compose.yaml",
    "k8s": "job.yaml", "helm": "chart/templates/job.yaml", "shell": "run.sh", "sbatch": "job.sbatch",
    "makefile": "Makefile", "github-actions": ".github/workflows/ci.yml", "gitlab-ci": ".gitlab-ci.yml",
    "devcontainer": ".devcontainer/devcontainer.json", "aws-batch": "job-definition.json", "ecs": "taskdef.json",
    "azureml": "azureml-job.yml", "skypilot": "task.yaml",
}  # fmt: skip
MOST_FILES = 380
LEVEL = {"note": 0, "info": 0, "warning": 1, "error": 2}


class ToolError(Exception):
    """The tool's output cannot be read."""


def read_torchvet(text: str) -> list[dict]:
    return [
        {"code": f["code"], "name": f["name"], "severity": f["severity"], "path": f["path"], "line": f["line"]}
        for f in json.loads(text)["findings"]
    ]


def read_torch_preflight(text: str) -> list[dict]:
    return [
        {"code": f["code"], "name": "", "severity": f["severity"], "path": f["path"], "line": int(f["line"] or 0)}
        for f in json.loads(text)["diagnostics"]
    ]


def read_ruff(text: str) -> list[dict]:
    return [
        {
            "code": f["code"] or "syntax",
            "name": "",
            "severity": "warning",
            "path": f["filename"],
            "line": f["location"]["row"],
        }
        for f in json.loads(text)
    ]


READERS = {"torchvet": read_torchvet, "torch-preflight": read_torch_preflight, "ruff": read_ruff}


def reader_of(command: list[str]):
    return next((READERS[n] for n in map(os.path.basename, command[:4]) if n in READERS), read_torchvet)


def load(families: tuple[str, ...] = FAMILIES) -> tuple[list[dict], list[dict]]:
    """(faulty cases, clean cases) of these files; every case knows its `family`."""
    faulty, clean = [], []
    for family in families:
        for suffix in ("", "_more", "_programs", "_clean", "_more_clean", "_programs_clean"):
            into = clean if suffix.endswith("_clean") else faulty
            path = DATA / f"{family}{suffix}.yaml"
            for case in yaml.safe_load(path.read_text("utf-8")) if path.exists() else []:
                into.append({**case, "family": family})
    return faulty, clean


def texts(case: dict, fixed: bool = False) -> dict[str, str]:
    """{file name: text} of a case or of its repaired form; empty when there is none."""
    many, one = ("fixed_files", "fixed") if fixed else ("files", "code")
    if many in case:
        return case[many]
    return {case.get("filename") or NAMES[case.get("lang", "python")]: case[one]} if one in case else {}


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ToolError(f"{folder.name}: bad file name {name!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def spots(case: dict, key: str) -> set[tuple[str, int]]:
    """{(file, line)} of `expected` or `accept_lines`."""
    only = next(iter(texts(case)))
    return {
        (os.path.normpath(only), x) if isinstance(x, int) else (os.path.normpath(x.get("file") or only), x["line"])
        for x in case.get(key) or []
    }


def optional(case: dict) -> bool:
    return case.get("severity") == "note" or case.get("confidence") == "possible"


def loud(findings: list[dict]) -> list[dict]:
    return [f for f in findings if LEVEL[f["severity"]] >= 1]


def short(f: dict) -> str:
    return f"{f['file']}:{f['line']} {f['severity']} {f['code']} {f['name']}".strip()


class Findings:
    """What a tool reports on folders of cases: `faulty`, `fixed` and `clean`, each {id: findings with their `file`}."""

    def __init__(self, command: list[str], faulty: list[dict], clean: list[dict], one_by_one: bool = False) -> None:
        self.command = command
        self.lost = 0
        with tempfile.TemporaryDirectory(prefix="cases-") as folder:
            root = Path(folder).resolve()
            self.faulty = self.run(root / "faulty", {c["id"]: texts(c) for c in faulty}, one_by_one)
            self.fixed = self.run(root / "fixed", {c["id"]: t for c in faulty if (t := texts(c, True))}, one_by_one)
            self.clean = self.run(root / "clean", {c["id"]: texts(c) for c in clean}, one_by_one)

    def run(self, parent: Path, cases: dict[str, dict[str, str]], one_by_one: bool) -> dict[str, list[dict]]:
        found: dict[str, list[dict]] = {name: [] for name in cases}
        for number, part in enumerate(parts(cases)):
            folder = parent / str(number)
            for name in part:
                put(folder / name, cases[name])
            for target in [folder / name for name in part] if one_by_one else [folder]:
                for f in self.call(target):
                    path = Path(f["path"].removeprefix("file://"))
                    path = path if path.is_absolute() else target / path
                    try:
                        name, *inner = path.resolve().relative_to(folder).parts
                        found[name].append({**f, "file": "/".join(inner)})
                    except (ValueError, KeyError):
                        self.lost += 1
        for findings in found.values():
            findings.sort(key=lambda f: (f["file"], f["line"], f["code"]))
        return found

    def call(self, target: Path) -> list[dict]:
        holder = any("{}" in w for w in self.command)
        command = [w.replace("{}", str(target)) for w in self.command] if holder else [*self.command, str(target)]
        r = subprocess.run(command, cwd=target, capture_output=True, text=True, timeout=900)
        try:
            return reader_of(self.command)(r.stdout)
        except (ValueError, KeyError, TypeError) as e:
            raise ToolError(
                f"{shlex.join(command)}: exit {r.returncode}, {type(e).__name__}: {e}\n{r.stderr[-1500:]}"
            ) from e


def parts(cases: dict[str, dict[str, str]]) -> list[list[str]]:
    """The names in groups of at most `MOST_FILES` files: a tool may look less closely into a larger project."""
    out: list[list[str]] = []
    files = MOST_FILES
    for name, texts in cases.items():
        files += len(texts)
        if files > MOST_FILES:
            out.append([])
            files = len(texts)
        out[-1].append(name)
    return out


def score(found: Findings, faulty: list[dict], clean: list[dict]) -> dict:
    """Counts per family and kind, and the ids behind them. A case's findings are those of `found`."""
    kinds: dict[tuple[str, str], collections.Counter] = {}
    total: collections.Counter = collections.Counter()
    ids: dict[str, list[str]] = {k: [] for k in ("missed", "fixed", "clean", "tolerated", "over")}
    for case in faulty:
        name = case["id"]
        here = spots(case, "expected") | spots(case, "accept_lines")
        exact = spots(case, "expected")
        findings = found.faulty[name]
        strong = [f for f in loud(findings) if (os.path.normpath(f["file"]), f["line"]) in here]
        weak = [f for f in findings if (os.path.normpath(f["file"]), f["line"]) in here]
        on_line = [f for f in strong if (os.path.normpath(f["file"]), f["line"]) in exact]
        repaired = loud(found.fixed.get(name, []))
        counter = kinds.setdefault((case["family"], case["kind"]), collections.Counter())
        for c in (counter, total):
            if optional(case):
                c["optional"] += 1
                c["optional hit"] += bool(weak)
            else:
                c["cases"] += 1
                c["hit"] += bool(strong)
                c["exact"] += bool(on_line)
                c["pair"] += bool(strong) and not repaired
            c["fixed"] += name in found.fixed
            c["fixed hit"] += bool(repaired)
        if not strong and not optional(case):
            ids["missed"].append(name)
        if repaired:
            ids["fixed"].append(name)
        total["elsewhere"] += len(loud(findings)) - len(strong)
    for case in clean:
        findings = found.clean[case["id"]]
        if case.get("strict", True):
            total["strict"] += 1
            if loud(findings):
                total["strict hit"] += 1
                ids["clean"].append(case["id"])
        else:
            total["debatable"] += 1
            limit = LEVEL[case.get("max_severity", "warning")]
            if any(LEVEL[f["severity"]] > limit for f in findings):
                ids["over"].append(case["id"])
            elif loud(findings):
                ids["tolerated"].append(case["id"])
    return {"kinds": kinds, "total": total, "ids": ids}


def share(a: int, b: int) -> str:
    return f"{a} of {b} ({100 * a / b:.0f} %)" if b else "0 of 0"


def table(result: dict) -> str:
    """The result as Markdown."""
    lines = [
        "| family | kind | found | on the line | optional | repaired, still reported |",
        "|---|---|---|---|---|---|",
    ]
    for (family, kind), c in sorted(result["kinds"].items()):
        found = f"{c['hit']} of {c['cases']}" if c["cases"] else "-"
        exact = f"{c['exact']}" if c["cases"] else "-"
        more = f"{c['optional hit']} of {c['optional']}" if c["optional"] else "-"
        lines.append(f"| {family} | {kind} | {found} | {exact} | {more} | {c['fixed hit'] or '-'} |")
    t, ids = result["total"], result["ids"]
    lines += [
        "",
        f"- found (error or warning on an expected or accepted line): {share(t['hit'], t['cases'])}",
        f"- found, and silent on the repaired form: {share(t['pair'], t['cases'])}",
        f"- optional cases found at any level: {share(t['optional hit'], t['optional'])}",
        f"- repaired forms with an error or warning: {share(t['fixed hit'], t['fixed'])}",
        f"- clean cases with an error or warning: {share(t['strict hit'], t['strict'])}",
        f"- debatable clean cases over the tolerated level: {share(len(ids['over']), t['debatable'])}",
        f"- other errors and warnings inside faulty cases: {t['elsewhere']}",
    ]
    return "\n".join(lines)


def write_floors(result: dict) -> None:
    """How many cases of each kind are found today: the tests let no number fall."""
    families: dict[str, dict[str, int]] = {}
    for (family, kind), c in sorted(result["kinds"].items()):
        if c["hit"]:
            families.setdefault(family, {})[kind] = c["hit"]
    text = "# Cases found per kind; written by `python bench/cases.py --write-floors`. No number may fall.\n"
    for family, kinds in families.items():
        text += f"\n[{family}]\n" + "".join(f'"{kind}" = {n}\n' for kind, n in kinds.items())
    FLOORS.write_text(text, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", help="command line; {} or the end takes the folder (default: torchvet of this tree)")
    parser.add_argument("--one-by-one", action="store_true", help="one process per case")
    parser.add_argument("--compare", action="store_true", help="run both ways and list the differences")
    parser.add_argument("--verbose", "-v", action="store_true", help="list ids and findings")
    parser.add_argument("--ids", help="only these cases, separated by commas")
    parser.add_argument("--write-floors", action="store_true", help="rewrite tests/cases/floors.toml")
    parser.add_argument("family", nargs="*", help=f"of {', '.join(FAMILIES)}; default: all")
    args = parser.parse_args()
    families = tuple(args.family) or FAMILIES
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"no such family: {', '.join(unknown)}")
    faulty, clean = load(families)
    if args.ids:
        wanted = set(args.ids.split(","))
        faulty, clean = [c for c in faulty if c["id"] in wanted], [c for c in clean if c["id"] in wanted]
    command = shlex.split(args.tool) if args.tool else [*torchvet(), "check", "--no-cache", "--output-format", "json"]
    if not shutil.which(command[0]):
        parser.error(f"{command[0]} is not installed")
    try:
        found = Findings(command, faulty, clean, args.one_by_one)
        other = Findings(command, faulty, clean, not args.one_by_one) if args.compare else None
    except (ToolError, subprocess.TimeoutExpired) as e:
        print(f"cases: {e}", file=sys.stderr)
        return 2
    result = score(found, faulty, clean)
    print(table(result))
    if found.lost:
        print(f"findings that belong to no case: {found.lost}")
    if other:
        for group in ("faulty", "fixed", "clean"):
            a, b = getattr(found, group), getattr(other, group)
            for name in a:
                if [short(f) for f in a[name]] != [short(f) for f in b[name]]:
                    print(f"differs {group} {name}: {[short(f) for f in a[name]]} / {[short(f) for f in b[name]]}")
    if args.verbose:
        for what, names in result["ids"].items():
            print(f"{what}: {', '.join(names) or '-'}")
        groups = (("fixed", found.fixed), ("clean", found.clean))
        for what, findings in groups:
            for name in (*result["ids"][what], *(result["ids"]["over"] if what == "clean" else ())):
                print(f"  {what} {name}: {'; '.join(short(f) for f in loud(findings[name]))}")
    whole = not (args.tool or args.ids or args.family)
    if args.write_floors and not (args.tool or args.ids):
        write_floors(result)
    if whole:
        about = "Small programs with a known fault, their repaired forms, and clean programs: tests/cases/data."
        write("cases", f"## Cases\n\n{about}\n\n{table(result)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
