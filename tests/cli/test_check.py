"""`torchvet check`: every option, and the exit codes."""

from __future__ import annotations

import io
import json
import os
import stat
import sys

import pytest

from torchvet.check.config import FORMATS, SETTINGS
from torchvet.cli import check as check_module

LEAK = "for x in data:\n    total += loss\n"
CLEAN = "x = 1\n"


@pytest.fixture
def leak(fake):
    (fake / "train.py").write_text(LEAK)
    return fake


def names(outcome) -> list[str]:
    return [f["name"] for f in json.loads(outcome.out)["findings"]]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("text", "extra", "code"),
    [
        (LEAK, [], 1),
        (CLEAN, [], 0),
        ("hint()\n", [], 0),
        ("hint()\n", ["--strict"], 1),
        (LEAK, ["--exit-zero"], 0),
        (LEAK, ["-e"], 0),
        ("crash()\n", [], 2),
        ("crash()\n", ["--exit-zero"], 2),
    ],
)
def test_exit_codes_are_the_same_in_every_format(fake, torchvet, form, text, extra, code):
    (fake / "train.py").write_text(text)
    assert torchvet("check", "--output-format", form, *extra).code == code


def test_the_formats_of_the_table_are_those_of_the_reports():
    from torchvet.report import FORMATS as known

    assert tuple(known) == FORMATS


def test_json_is_the_contract(leak, torchvet):
    report = json.loads(torchvet("check", "--output-format", "json", "train.py").out)
    assert report["schema"] == 1
    assert report["summary"] == {"files": 1, "parsed": 1, "errors": 1, "warnings": 0, "notes": 0}
    (finding,) = report["findings"]
    assert finding["path"] == "train.py"
    assert finding["line"] == 2
    assert finding["fingerprint"]


def test_concise_names_the_place(leak, torchvet):
    assert torchvet("check", "--output-format=concise").out.startswith("train.py:2:5: error[accumulated-graph]")


def test_full_shows_the_source_line(leak, torchvet):
    out = torchvet("check", "--color", "never").out
    assert "total += loss" in out
    assert "\x1b[" not in out


@pytest.mark.parametrize(("asked", "colored"), [("always", True), ("never", False), ("auto", False)])
def test_color(leak, torchvet, asked, colored):
    assert ("\x1b[" in torchvet("check", "--color", asked).out) == colored


def test_color_follows_the_environment(leak, torchvet, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in torchvet("check").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in torchvet("check").out


def test_chinese(leak, torchvet, monkeypatch):
    assert "total 保留了计算图" in torchvet("check", "--lang", "zh").out
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "total 保留了计算图" in torchvet("check").out
    assert "total keeps the graph" in torchvet("check", "--lang=en").out


# ------------------------------------------------------------------------------------------------------------ selection
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["accumulated-graph", "rank-guarded-collective", "stored-graph"]),
        (["--select", "TV1"], ["accumulated-graph", "stored-graph"]),
        (["--select", "TV101,collective"], ["accumulated-graph", "rank-guarded-collective"]),
        (["--select", "TV101", "--select", "TV401"], ["accumulated-graph", "rank-guarded-collective"]),
        (["--select", "collective", "--extend-select", "stored_graph"], ["rank-guarded-collective", "stored-graph"]),
        (["--ignore", "graph"], ["rank-guarded-collective"]),
        (["--ignore", "tv1,accumulated-graph"], ["rank-guarded-collective"]),
        (["--select", "TV101", "--ignore", "TV1"], ["accumulated-graph"]),
        (["--select", "all", "--ignore", "all"], []),
        (["--per-file-ignores", "train.py:graph"], ["rank-guarded-collective"]),
        (["--per-file-ignores", "tests/*:graph"], ["accumulated-graph", "rank-guarded-collective", "stored-graph"]),
        (["--severity", "error"], ["accumulated-graph", "rank-guarded-collective"]),
        (["--confidence", "certain"], []),
    ],
)
def test_which_rules(fake, torchvet, options, expected):
    (fake / "train.py").write_text("total += loss\nguarded()\nrisky()\n")
    assert sorted(names(torchvet("check", "--output-format", "json", *options))) == expected


def test_possible_findings_are_shown_on_demand(fake, torchvet):
    (fake / "train.py").write_text("maybe()\n")
    assert torchvet("check").code == 0
    outcome = torchvet("check", "--confidence", "possible", "--output-format", "json")
    assert (outcome.code, names(outcome)) == (1, ["stored-graph"])


@pytest.mark.parametrize("option", ["--select", "--ignore", "--extend-select"])
def test_an_unknown_rule_suggests_the_near_one(leak, torchvet, option):
    outcome = torchvet("check", option, "acumulated-graph")
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err == f"torchvet: unknown rule acumulated-graph in {option} (did you mean accumulated-graph?)\n"


def test_an_unknown_rule_in_per_file_ignores(leak, torchvet):
    assert "did you mean TV401?" in torchvet("check", "--per-file-ignores", "x.py:TV411").err
    assert "needs PATTERN:RULE" in torchvet("check", "--per-file-ignores", "x.py").err


def test_an_unknown_rule_of_a_file_names_its_line(leak, torchvet):
    (leak / "torchvet.toml").write_text('strict = true\nignore = [\n  "TV101",\n  "nonsense-rule",\n]\n')
    outcome = torchvet("check")
    assert outcome.code == 2
    assert "nonsense-rule in torchvet.toml:4" in outcome.err


# ---------------------------------------------------------------------------------------------------------------- wrong
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--selct", "TV1"], "unknown option --selct (did you mean --select?)"),
        (["--select"], "--select needs a value (--select RULE)"),
        (["--select", "--fix"], "--select needs a value"),
        (["--jobs", "many"], "--jobs needs a whole number, not many"),
        (["--max-workers", "0"], "--max-workers must be a whole number from 1, not 0"),
        (["--severity", "fatal"], "--severity must be one of note, warning, error, not fatal"),
        (["--output-format", "sarf"], "did you mean sarif?"),
        (["--fix=yes"], "--fix takes no value"),
        (["-x"], "unknown option -x (--help lists all options)"),
        (["missing.py"], "missing.py does not exist"),
        (["--output", "sarf=x"], "unknown output format sarf in --output (did you mean sarif?)"),
        (["--output", "nowhere/report.json"], "cannot write nowhere/report.json: there is no folder nowhere"),
        (["--config", "none.toml"], "there is no configuration file none.toml"),
        (["--baseline", "none.json"], "cannot read the baseline none.json"),
        (["--files-from", "none.txt"], "cannot read none.txt"),
        (["-", "train.py"], "goes with no other path"),
        (["--stdin-filename", "x.py"], "--stdin-filename goes with the path -"),
        (["--write-baseline", "x", "--fix"], "--write-baseline and repairs are two runs"),
        (["--prune-baseline"], "--prune-baseline needs --baseline FILE"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(leak, torchvet, words, said):
    outcome = torchvet("check", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert outcome.err.startswith("torchvet: ")
    assert outcome.err.count("\n") == 1


def test_wrong_use_in_chinese(leak, torchvet):
    assert torchvet("check", "--lang", "zh", "--selct").err == "torchvet: 未知的选项 --selct (是否想写 --select？)\n"
    assert "未知的选项" in torchvet("check", "--selct", "--lang=zh").err


def test_every_option_is_in_the_help_of_both_languages(fake, torchvet):
    english, chinese = torchvet("check", "--help").out, torchvet("check", "-h", "--lang", "zh").out
    for argument in check_module.arguments():
        assert argument.name in english
        assert argument.name in chinese
        assert argument.help.en != argument.help.zh
    assert all(len(line) <= 100 for line in english.splitlines())
    assert "用法" in chinese


def test_every_setting_is_an_option():
    known = {a.name for a in check_module.arguments()}
    assert {s.name for s in SETTINGS} <= known


# -------------------------------------------------------------------------------------------------------------- reports
def test_several_reports_in_one_run(leak, torchvet):
    outcome = torchvet(
        "check", "--output", "sarif=out.sarif", "--output", "json=out.json", "--output-format", "concise"
    )
    assert outcome.code == 1
    assert outcome.out.startswith("train.py:2:5")
    assert json.loads((leak / "out.sarif").read_text())["version"] == "2.1.0"
    assert json.loads((leak / "out.json").read_text())["schema"] == 1
    assert sorted(p.name for p in leak.iterdir()) == ["out.json", "out.sarif", "train.py"]


def test_a_plain_output_takes_the_place_of_standard_output(leak, torchvet):
    outcome = torchvet("check", "-o", "report.txt", "--output-format", "concise")
    assert (outcome.code, outcome.out) == (1, "")
    assert (leak / "report.txt").read_text().startswith("train.py:2:5")


@pytest.mark.parametrize(
    ("name", "start"), [("r.sarif", "{"), ("r.json", "{"), ("r.md", "#"), ("r.html", "<"), ("r.xml", "<")]
)
def test_the_ending_of_an_output_tells_its_format(leak, torchvet, name, start):
    torchvet("check", "-o", name)
    assert (leak / name).read_text().lstrip().startswith(start)


def test_two_formats_on_standard_output(leak, torchvet):
    out = torchvet("check", "--output-format", "json", "--output-format", "concise").out
    assert out.startswith("{")
    assert "\ntrain.py:2:5" in out


def test_an_output_keeps_the_permissions_of_the_file(leak, torchvet):
    path = leak / "out.json"
    path.write_text("old")
    path.chmod(0o600)
    torchvet("check", "--output", f"json={path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["schema"] == 1


def test_ctrl_c_while_writing_leaves_no_half_file(leak, torchvet, monkeypatch):
    path = leak / "out.json"
    path.write_text("old")

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    outcome = torchvet("check", "--output", f"json={path}")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert path.read_text() == "old"
    assert sorted(p.name for p in leak.iterdir()) == ["out.json", "train.py"]


def test_statistics(fake, torchvet):
    (fake / "train.py").write_text("total += loss\ntotal += loss\nrisky()\n")
    outcome = torchvet("check", "--statistics")
    assert outcome.out == "     2  TV101  error    accumulated-graph\n     1  TV102  warning  stored-graph\n"
    assert outcome.code == 1
    outcome = torchvet("check", "--statistics", "--output-format", "json")
    assert len(names(outcome)) == 3
    assert "     2  TV101" in outcome.err


def test_timing_lists_stages_and_rules(leak, torchvet):
    err = torchvet("check", "--timing").err
    assert "walk" in err
    assert "accumulated-graph" in err
    assert "100.0%  total" in err


def test_quiet(leak, torchvet):
    assert torchvet("check").out.count("\n") > 1
    (leak / "train.py").write_text(CLEAN)
    assert torchvet("check").out.count("\n") == 1
    assert torchvet("check", "-q").out == ""


def test_short_flags_join(leak, torchvet):
    assert torchvet("check", "-qe").code == 0
    assert torchvet("check", "-nj1").code == 1


def test_step_summary(leak, torchvet, monkeypatch):
    summary = leak / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    torchvet("check", "--output-format", "github", "train.py")
    assert summary.read_text() == "before\n"  # somebody's variable, not GitHub's run
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    outcome = torchvet("check", "--output-format", "github", "train.py")
    assert outcome.out.startswith("::error file=train.py,line=2")
    text = summary.read_text()
    assert text.startswith("before\n")
    assert "accumulated-graph" in text
    torchvet("check", "train.py")
    assert summary.read_text() == text


def test_reports_count_paths_from_the_top_of_the_repository(leak, torchvet, monkeypatch):
    (leak / ".git").mkdir()
    sub = leak / "sub"
    sub.mkdir()
    (sub / "train.py").write_text(LEAK)
    monkeypatch.chdir(sub)
    assert "file=sub/train.py" in torchvet("check", "--output-format", "github").out


# ---------------------------------------------------------------------------------------------------------------- files
def test_standard_input(leak, torchvet, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(LEAK.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    outcome = torchvet("check", "-", "--stdin-filename", "sub/piped.py", "--output-format", "json")
    assert outcome.code == 1
    assert [f["path"] for f in json.loads(outcome.out)["findings"]] == ["sub/piped.py"]


@pytest.mark.parametrize("separator", ["\n", "\0"])
def test_files_from(fake, torchvet, separator):
    for name in ("a.py", "b c.py", "d.py"):
        (fake / name).write_text(LEAK)
    (fake / "list").write_text(separator.join(["a.py", "b c.py", ""]))
    found = json.loads(torchvet("check", "--files-from", "list", "--output-format", "json").out)["findings"]
    assert [f["path"] for f in found] == ["a.py", "b c.py"]


def test_an_empty_list_of_files_is_not_the_whole_folder(leak, torchvet):
    (leak / "list").write_text("deleted.py\n\n")
    outcome = torchvet("check", "--files-from", "list", "--output-format", "json")
    assert (outcome.code, outcome.err) == (0, "torchvet: deleted.py does not exist\n")
    assert json.loads(outcome.out)["summary"]["files"] == 0
    assert torchvet("check", "--files-from", "list", "--project").code == 0


def test_excludes(fake, torchvet):
    for name in ("a.py", "b.py", "build/c.py", "gen/d.py"):
        (fake / name).parent.mkdir(exist_ok=True)
        (fake / name).write_text(LEAK)

    def paths(*options):
        report = json.loads(torchvet("check", "--output-format", "json", *options).out)
        return [f["path"] for f in report["findings"]]

    assert paths() == ["a.py", "b.py", "gen/d.py"]
    assert paths("--extend-exclude", "gen,b.py") == ["a.py"]
    assert paths("--exclude", "gen") == ["a.py", "b.py", "build/c.py"]
    assert paths("gen/d.py", "--extend-exclude", "gen") == ["gen/d.py"]
    assert paths("gen/d.py", "--extend-exclude", "gen", "--force-exclude") == []


def test_gitignore(fake, torchvet):
    (fake / ".git").mkdir()
    (fake / ".gitignore").write_text("b.py\n")
    for name in ("a.py", "b.py"):
        (fake / name).write_text(LEAK)
    assert "b.py" not in torchvet("check", "--show-files").out
    assert "b.py" in torchvet("check", "--show-files", "--no-respect-gitignore").out


def test_show_files(fake, torchvet):
    (fake / "a.py").write_text(LEAK)
    (fake / "b.txt").write_text("x")
    outcome = torchvet("check", "--show-files")
    assert (outcome.code, outcome.out) == (0, "a.py\n")


def test_show_settings_is_toml_that_gives_the_same_settings(fake, torchvet, tmp_path):
    (fake / "pyproject.toml").write_text(
        '[tool.torchvet]\nmax-workers = 4\n[tool.torchvet.per-file-ignores]\n"tests/*" = ["TV1"]\n'
    )
    shown = torchvet("check", "--show-settings", "--select", "TV101").out
    assert "max-workers = 4  # pyproject.toml:2" in shown
    assert 'select = ["TV101"]  # --select' in shown
    (fake / "pyproject.toml").unlink()
    (fake / "torchvet.toml").write_text(shown)
    again = torchvet("check", "--show-settings").out

    def plain(text):
        return [line.partition("  #")[0] for line in text.splitlines()[1:]]

    assert plain(again) == plain(shown)


@pytest.mark.parametrize("how", ["--project", "pre-commit"])
def test_given_files_choose_what_is_reported_not_what_is_analysed(fake, torchvet, monkeypatch, how):
    (fake / ".git").mkdir()
    (fake / "helper.py").write_text("barrier()\n")
    (fake / "train.py").write_text("guarded()\n")
    (fake / "other.py").write_text(LEAK)
    options = ["--output-format", "json"]
    if how == "--project":
        options.append("--project")
    else:
        monkeypatch.setenv("PRE_COMMIT", "1")
    outcome = torchvet("check", *options, "helper.py")  # the finding's related place is there
    assert names(outcome) == ["rank-guarded-collective"]
    assert json.loads(outcome.out)["summary"]["files"] == 3
    assert names(torchvet("check", *options, "other.py")) == ["accumulated-graph"]
    assert json.loads(torchvet("check", *options, "--no-project", "helper.py").out)["summary"]["files"] == 1


def test_a_hook_uses_the_settings_of_the_project(fake, torchvet):
    (fake / ".git").mkdir()
    (fake / "sub").mkdir()
    (fake / "sub" / "train.py").write_text("hint()\n")
    (fake / "sub" / "torchvet.toml").write_text("strict = true\n")
    assert torchvet("check", "sub/train.py").code == 1
    assert torchvet("check", "--project", "sub/train.py").code == torchvet("check").code == 0


def test_settings_of_a_file(leak, torchvet):
    (leak / "pyproject.toml").write_text('[tool.torchvet]\nignore = ["TV101"]\n')
    assert torchvet("check").code == 0
    assert torchvet("check", "--isolated").code == 1
    assert torchvet("check", "--select", "TV101").code == 1
    (leak / "other.toml").write_text('select = ["TV1"]\n')
    assert torchvet("check", "--config", "other.toml").code == 1


def test_progress_is_for_terminals_only(leak, torchvet, monkeypatch):
    assert torchvet("check").err == ""
    monkeypatch.setattr("torchvet.cli.terminal.is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("os.get_terminal_size", lambda fd=0: os.terminal_size((90, 30)))
    err = torchvet("check", "--color", "never").err
    assert "torchvet: reading" in err or "torchvet: following" in err
    assert err.endswith("\r\x1b[K")
    monkeypatch.setenv("CI", "true")
    assert torchvet("check", "--color", "never").err == ""


def test_file_names_that_are_not_utf8_do_not_stop_a_report(fake, torchvet, tmp_path):
    name = os.fsencode(str(fake)) + b"/tr\xe9.py"
    try:
        with open(name, "wb") as f:
            f.write(LEAK.encode())
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for form in FORMATS:
        assert torchvet("check", "--output-format", "json", "--output", f"{form}={tmp_path}/out.txt").code == 1
        assert "tr" in (tmp_path / "out.txt").read_text("utf-8")
