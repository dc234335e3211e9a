#!/usr/bin/env python3
"""Labelled lines of real public code: faults found, harmless lines flagged, clean files with a report.

    python bench/real.py --root FOLDER               all label files of bench/labels
    python bench/real.py --root FOLDER graphs ranks  only these
    python bench/real.py --root FOLDER -v            lists what was missed and flagged

FOLDER holds one folder for each code base: `<package>` (dashes as underscores) for an unpacked wheel of the version
that the labels name (`pip download --no-deps PACKAGE==VERSION`), `gh_<repository>` for the commit of a repository that
they name. Code bases that are absent are listed and left out. torchvet runs once on each whole code base.

A fault is found when an error or warning of the label file's families stands on its line or on a place that the
label accepts; it is named when a finding on another line shows it (the condition above a `break`); a harmless line
is flagged when one stands on that very line; every error or warning of the family in a clean file is a false alarm.
The samples were chosen by hand: compare tools and versions on them, read no rates
from them.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import yaml
from results import ROOT, torchvet, version_of, write

LABELS = ROOT / "bench" / "labels"
FAMILIES = {"graphs": ("TV1",), "ranks": ("TV4", "TV2", "TV3"), "loaders": ("TV2",), "wrap": ("TV3",)}
FAULTS = ("leak", "fault")


def home(root: Path, entry: dict) -> Path | None:
    """The folder of an entry's code base below `root`, or None."""
    name = entry["repo"].split("/")[-1]
    options = [f"gh_{name}", name.replace("-", "_"), entry["repo"].replace("-", "_")]
    if "PyPI" in str(entry["version"]) or "/" not in entry["repo"]:
        options = options[1:] + options[:1]
    return next((root / o for o in options if (root / o / entry["path"]).is_file()), None)


class Runs:
    """torchvet on whole code bases, each once for all label files; CPU seconds of the children are added up."""

    def __init__(self) -> None:
        self.known: dict[tuple[Path, str], dict[str, set[int]]] = {}
        self.cpu: dict[tuple[Path, str], float] = {}
        self.named: dict[tuple[Path, str], dict[str, set[int]]] = {}
        """The places that findings name beside their own: where ranks part, what is called."""

    def blocking(self, folder: Path, families: tuple[str, ...]) -> dict[str, set[int]]:
        """{path: lines with an error or warning of these families}"""
        key = (folder, ",".join(families))
        if key not in self.known:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [
                *torchvet(),
                "check",
                ".",
                "--no-cache",
                "--isolated",
                "--output-format",
                "json",
                "--select",
                key[1],
            ]
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.cpu[key] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if run.returncode not in (0, 1):
                print(f"{folder.name}: exit {run.returncode} {run.stderr[-200:]}", file=sys.stderr)
            at: dict[str, set[int]] = collections.defaultdict(set)
            named: dict[str, set[int]] = collections.defaultdict(set)
            for f in json.loads(run.stdout)["findings"]:
                if f["severity"] != "note" and f["code"].startswith(families):
                    at[os.path.normpath(f["path"])].add(f["line"])
                    for other in f["related"]:
                        named[os.path.normpath(other["path"])].add(other["line"])
            self.known[key], self.named[key] = at, named
        return self.known[key]


def places(entry: dict) -> set[tuple[str, int]]:
    out = {(entry["path"], entry["line"])}
    for other in (entry.get("accept") or []) + (entry.get("related") or []):
        path, _, line = str(other).rpartition(":")
        if line.isdigit():
            out.add((path, int(line)))
    return out


def score(name: str, root: Path, runs: Runs) -> dict:
    """Figures of one label file."""
    entries = [e for e in yaml.safe_load((LABELS / f"{name}.yaml").read_text("utf-8")) if e["label"] != "unclear"]
    families = FAMILIES[name]
    n: collections.Counter = collections.Counter()
    missed, flagged, absent = [], [], set()
    used: set[tuple[Path, str]] = set()
    for e in entries:
        folder = home(root, e)
        if folder is None:
            absent.add(e["repo"])
            continue
        at = runs.blocking(folder, families)
        used.add((folder, ",".join(families)))
        if e["label"] in FAULTS:
            hit = any(line in at.get(path, ()) for path, line in places(e))
            n["faults"] += 1
            n["found"] += hit
            named = runs.named[(folder, ",".join(families))]
            n["named"] += hit or e["line"] in named.get(e["path"], ())
            if not hit:
                missed.append(e["id"])
        else:
            hit = e["line"] in at.get(e["path"], ())
            n["harmless"] += 1
            n["flagged"] += hit
            if hit:
                flagged.append(e["id"])
    clean = LABELS / f"{name}_clean_files.yaml"
    for e in yaml.safe_load(clean.read_text("utf-8"))["files"] if clean.exists() else ():
        folder = home(root, e)
        if folder is None:
            absent.add(e["repo"])
            continue
        n["files"] += 1
        used.add((folder, ",".join(families)))
        if runs.blocking(folder, families).get(e["path"]):
            n["files_flagged"] += 1
            flagged.append(e["path"])
    cpu = sum(runs.cpu[key] for key in used)
    return {"name": name, **n, "missed": missed, "flagged_ids": flagged, "absent": sorted(absent), "cpu": cpu}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", help="label files (default: all)")
    p.add_argument("--root", required=True, type=Path)
    p.add_argument("--dry-run", action="store_true", help="do not write RESULTS.md")
    p.add_argument("-v", "--verbose", action="store_true")
    a = p.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    started, runs, rows = time.time(), Runs(), []
    for name in a.names or FAMILIES:
        row = score(name, a.root, runs)
        rows.append(row)
        if a.verbose:
            print(f"{name}: missed {row['missed']}, flagged {row['flagged_ids']}, absent {row['absent']}")
    text = "## Labelled lines of real code\n\n`python bench/real.py --root FOLDER`, "
    text += f"{version_of(torchvet()[0])}; whole code bases, CPU seconds of all runs.\n\n"
    text += "| labels | faults found | found or named | harmless lines flagged | clean files with a report "
    text += "| CPU s | absent |\n"
    text += "|---|---|---|---|---|---|---|\n"
    for r in rows:
        c = collections.Counter({k: v for k, v in r.items() if isinstance(v, int)})
        files = f"{c['files_flagged']} of {c['files']}" if c["files"] else "-"
        text += f"| {r['name']} | {c['found']} of {c['faults']} | {c['named']} | {c['flagged']} of {c['harmless']} "
        text += f"| {files} | {r['cpu']:.0f} | {', '.join(r['absent']) or '-'} |\n"
    print(text, f"{time.time() - started:.0f} s")
    if not a.dry_run and not a.names:
        write("real", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
