#!/usr/bin/env python3
"""Check pinned packages and hold the findings against those that people have read.

    python bench/corpus.py                        all packages; writes its section of RESULTS.md
    python bench/corpus.py flair timm             these only
    python bench/corpus.py --source DIR ...       folders of your own
    python bench/corpus.py --root DIR             every reviewed package and repository that is unpacked below DIR
    python bench/corpus.py --root DIR flair dgl   these of them; a repository answers to its name without the owner
    python bench/corpus.py --select graph,loader  only these rules or families
    python bench/corpus.py --unread               show only findings that nobody has read, with the lines around them
    python bench/corpus.py --rule accumulated-graph

bench/corpus_reviewed.yaml holds one entry for each error and warning that was read: package, rule, path, the text of
the line, whether it is true, and why. An entry fits when package, rule, path and text are the same, so it survives
moved lines. Packages are downloaded with pip into a cache folder (TORCHVET_BENCH_CACHE) and neither installed nor run.
Repositories (owner/name, with the commit that was read) are not downloaded: check them out below one folder and name
it with --root. A repository's folder is owner+name, owner__name, gh_name, owner/name or name.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import time
from pathlib import Path

import yaml
from packages import PINS, unpacked
from results import ORDER, ROOT, torchvet, write

REVIEWED = ROOT / "bench" / "corpus_reviewed.yaml"
Key = tuple[str, str, str, str]


def check(folder: Path, select: str | None = None) -> tuple[list[dict], float, int]:
    """(findings, seconds, exit code) of one package."""
    chosen = ["--select", select] if select else []
    command = [*torchvet(), "check", "--no-cache", "--isolated", *chosen, "--output-format", "json", "."]
    start = time.perf_counter()
    r = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    seconds = time.perf_counter() - start
    try:
        return json.loads(r.stdout)["findings"], seconds, r.returncode
    except (ValueError, KeyError):
        print(f"corpus: {folder.name}: exit {r.returncode}, no report\n{r.stderr[-2000:]}", file=sys.stderr)
        return [], seconds, r.returncode or 2


def reviewed() -> dict[Key, dict]:
    rows = yaml.safe_load(REVIEWED.read_text("utf-8")) or [] if REVIEWED.exists() else []
    return {(r["package"], r["rule"], r["path"], r["text"].strip()): r for r in rows}


def below(root: Path, names: list[str]) -> list[tuple[str, Path]]:
    """(package or owner/name, folder) of each reviewed code base that lies below `root`; `names` narrow it down."""
    packages = list(dict.fromkeys([p.partition("==")[0] for p in PINS] + [key[0] for key in reviewed()]))
    found = []
    for package in packages:
        owner, _, name = package.rpartition("/")
        if names and package not in names and (not owner or name not in names):
            continue
        places = [f"{owner}+{name}", f"{owner}__{name}", f"gh_{name}"] if owner else [name]
        if owner and name not in packages:  # else the folder of the package, or one inside it
            places += [f"{owner}/{name}", name]
        taken = {folder for _, folder in found}  # two owners may have a repository of one name
        folder = next((root / p for p in places if (root / p).is_dir() and (root / p).resolve() not in taken), None)
        if folder is None:
            print(f"corpus: {package} is not below {root}", file=sys.stderr)
        else:
            found.append((package, folder.resolve()))
    answered = {part for package, _ in found for part in (package, package.rpartition("/")[2])}
    for name in (n for n in names if n not in answered):  # nothing was ever reported there
        folder = next((root / p for p in (name, f"gh_{name}") if (root / p).is_dir()), None)
        if folder is not None:
            found.append((name, folder.resolve()))
    return found


def excerpt(folder: Path, finding: dict, around: int) -> str:
    """The lines around a finding, numbered; the finding's own line is marked."""
    try:
        lines = (folder / finding["path"]).read_text("utf-8", "replace").split("\n")
    except OSError:
        return ""
    at = finding["line"]
    first, last = max(1, at - around), min(len(lines), at + around)
    return "\n".join(f"  {'>' if n == at else ' '}{n:5} {lines[n - 1]}" for n in range(first, last + 1))


def line_of(folder: Path, finding: dict) -> str:
    try:
        return (folder / finding["path"]).read_text("utf-8", "replace").split("\n")[finding["line"] - 1].strip()
    except (OSError, IndexError):
        return ""


def precision(right: int, wrong: int) -> str:
    return f"{100 * right / (right + wrong):.0f} %" if right + wrong else "-"


def show(name: str, folder: Path, finding: dict, said: dict | None, around: int) -> None:
    verdict = "NOT READ" if said is None else "true" if said["true"] else "FALSE"
    rule = f"{finding['severity']}[{finding['name']}] ({finding['confidence']})"
    print(f"\n{name} {finding['path']}:{finding['line']} {rule}")
    print(f"  {finding['message']}   [{verdict}{': ' + said['why'] if said and said.get('why') else ''}]")
    print(excerpt(folder, finding, around))
    for other in finding["related"]:
        print(f"    {other['path']}:{other['line']}: {other['message']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", default=[], help="a folder in place of a package")
    parser.add_argument("--root", type=Path, help="a folder with code bases that are unpacked already")
    parser.add_argument("--select", help="rules or families to run, as for torchvet check; default: all")
    parser.add_argument("--rule", help="show only this rule (name or code)")
    parser.add_argument("--unread", action="store_true", help="show only what nobody has read")
    parser.add_argument("--false", action="store_true", help="show only what was read and is false")
    parser.add_argument("--quiet", "-q", action="store_true", help="show no findings, only the tables")
    parser.add_argument("--context", type=int, default=6, help="lines before and after a finding")
    parser.add_argument(
        "--entries", action="store_true", help="print what is not read as entries for corpus_reviewed.yaml"
    )
    parser.add_argument("package", nargs="*", help="names of pinned packages; default: all")
    args = parser.parse_args()
    targets: list[tuple[str, Path]] = [(f.resolve().name, f.resolve()) for f in args.source]
    if args.root:
        targets += below(args.root, args.package)
    elif not targets or args.package:
        pins = [p for p in PINS if not args.package or p.partition("==")[0] in args.package]
        if args.package and len(pins) < len(args.package):
            parser.error(f"pinned are: {', '.join(p.partition('==')[0] for p in PINS)}")
        for pin in pins:
            folder = unpacked(pin)
            if folder is None:
                print(f"corpus: {pin} is left out", file=sys.stderr)
            else:
                targets.append((pin.partition("==")[0], folder))
    known = reviewed()
    used: set[Key] = set()
    rules: dict[str, collections.Counter] = {}
    lines = ["| package | seconds | exit | errors and warnings | true | false | not read | notes |", "|---" * 8 + "|"]
    total: collections.Counter = collections.Counter()
    entries = []
    for name, folder in targets:
        findings, seconds, code = check(folder, args.select)
        counts: collections.Counter = collections.Counter()
        for f in findings:
            if f["severity"] == "note":
                counts["note"] += 1
                rules.setdefault(f["name"], collections.Counter())["note"] += 1
                continue
            key = (name, f["name"], f["path"], line_of(folder, f))
            said = known.get(key)
            if said:
                used.add(key)
            verdict = "not read" if said is None else "true" if said["true"] else "false"
            counts[verdict] += 1
            rules.setdefault(f["name"], collections.Counter())[verdict] += 1
            if said is None:
                entry = {"package": name, "rule": f["name"], "path": f["path"], "line": f["line"], "text": key[3]}
                entries.append({**entry, "true": None, "why": ""})
            wanted = not args.rule or args.rule in (f["name"], f["code"])
            wanted = wanted and (not args.unread or said is None) and (not args.false or verdict == "false")
            if wanted and not (args.quiet or args.entries):
                show(name, folder, f, said, args.context)
        counts["bad exit"] += code not in (0, 1)
        total.update(counts)
        loud = counts["true"] + counts["false"] + counts["not read"]
        lines.append(
            f"| {name} | {seconds:.1f} | {code} | {loud} | {counts['true']} | {counts['false']} | {counts['not read']} "
            f"| {counts['note']} |"
        )
    if args.entries:
        print(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=120))
        return 0
    lines += ["", "| rule | true | false | precision | not read | notes |", "|---" * 6 + "|"]
    for rule, c in sorted(rules.items()):
        right = precision(c["true"], c["false"])
        lines.append(f"| {rule} | {c['true']} | {c['false']} | {right} | {c['not read']} | {c['note']} |")
    read = total["true"] + total["false"]
    right = precision(total["true"], total["false"])
    names = {name for name, _ in targets}
    # rules that did not run have no findings: nothing can be said about their entries
    stale = [k for k in known if not args.select and k[0] in names and k not in used]
    lines += [
        "",
        f"- errors and warnings read: {read}, true: {total['true']}, false: {total['false']}, precision: {right}; "
        f"not read: {total['not read']}",
        f"- entries that fit no finding any more: {len(stale)}",
        f"- runs that did not end with 0 or 1: {total['bad exit']}",
    ]
    text = "\n".join(lines)
    print("\n" + text)
    for key in stale:
        print(f"stale entry: {' '.join(key)}")
    if not (args.source or args.root or args.package or args.rule or args.select):
        about = "Released packages, as pinned in bench/packages.py; verdicts: bench/corpus_reviewed.yaml."
        write("corpus", f"## Real packages\n\n{about}\n\n{text}")
    elif args.root and (section := f"read {args.select or 'all rules'}") in ORDER:
        count = sum(f.read_bytes().count(b"\n") for _, folder in targets for f in folder.rglob("*.py") if f.is_file())
        chosen = f"--select {args.select} " if args.select else ""
        about = f"`python bench/corpus.py --root FOLDER {chosen}{' '.join(args.package)}`: "
        about += f"{count / 1e6:.2f} million lines of Python; verdicts: bench/corpus_reviewed.yaml."
        write(section, f"## Code that was read: {section[5:]}\n\n{about}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
