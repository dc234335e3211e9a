"""The entry: verbs, version, interruption, pipes that close."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet import __version__, cli
from torchvet.cli import VERBS

SOURCE = Path(cli.__file__).parents[2]


def start(*words: str, python: tuple[str, ...] = (), **kwargs) -> subprocess.Popen:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8", **kwargs.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, *python, "-m", "torchvet", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, encoding="utf-8", **kwargs,
    )  # fmt: skip


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version(torchvet, word):
    outcome = torchvet(word)
    assert (outcome.code, outcome.out) == (0, f"torchvet {__version__}\n")


def test_version_imports_next_to_nothing():
    process = start("--version", python=("-S", "-X", "importtime"))
    _, err = process.communicate(timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert process.returncode == 0
    assert "torchvet.cli" in imported
    assert not imported & {"argparse", "json", "re", "typing", "ast", "torchvet.findings", "dataclasses"}


def test_check_imports_no_argument_parser_and_no_json():
    process = start("check", "--help", python=("-S", "-X", "importtime"))
    _, err = process.communicate(timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "torchvet.cli.check" in imported
    assert not imported & {"argparse", "json", "typing", "ast", "dataclasses", "inspect", "pathlib", "tomllib"}


def test_the_help_lists_every_verb_that_exists(torchvet):
    outcome = torchvet("--help")
    assert outcome.code == 0
    modules = {p.stem for p in Path(cli.__file__).parent.glob("*.py")}
    for verb in cli.VERBS:
        assert f"  {verb}" in outcome.out
        assert verb in modules
    assert "用法" in torchvet("help", "--lang", "zh").out


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_every_verb_has_help_in_both_languages(torchvet, verb):
    assert f"Usage: torchvet {verb}" in torchvet(verb, "--help").out
    assert f"用法：torchvet {verb}" in torchvet(verb, "--help", "--lang", "zh").out


def test_no_verb_shows_the_help_and_is_wrong_use(torchvet):
    outcome = torchvet()
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: torchvet" in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "torchvet: unknown verb chekc (did you mean check?)\n"),
        (["train.py"], "torchvet: unknown verb train.py (torchvet check train.py)\n"),
        (["--fix"], "torchvet: unknown option --fix (options come after the verb: torchvet check --fix)\n"),
        (["qqqq"], f"torchvet: unknown verb qqqq (one of: {', '.join(VERBS)})\n"),
        (["qqqq", "--lang", "zh"], f"torchvet: 未知的命令 qqqq (可用命令：{', '.join(VERBS)})\n"),
    ],
)
def test_unknown_verbs(torchvet, fake, words, said):
    (fake / "train.py").write_text("")
    outcome = torchvet(*words)
    assert (outcome.code, outcome.err) == (2, said)


def test_ctrl_c_has_no_traceback(torchvet, monkeypatch):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr("torchvet.cli.check.run", interrupted)
    outcome = torchvet("check")
    assert (outcome.code, outcome.err) == (130, "torchvet: interrupted\n")


def test_a_crash_is_exit_2_and_shows_where(torchvet, monkeypatch):
    def broken(argv):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("torchvet.cli.check.run", broken)
    outcome = torchvet("check")
    assert outcome.code == 2
    assert "ZeroDivisionError: boom" in outcome.err
    assert outcome.err.endswith("please report it with the lines above\n")


def test_a_reader_that_goes_away_is_no_error():
    process = start("rules")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


def test_a_terminal_without_unicode_gets_readable_output():
    process = start("check", "--help", "--lang", "zh", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--select" in out
    assert err == ""
