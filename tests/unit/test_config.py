"""Settings: where they come from, which file wins, and what is said of mistakes."""

from __future__ import annotations

import os

import pytest

from torchvet.check import config
from torchvet.check.config import SETTINGS, Options, find, load, nearest, parse_per_file_ignores
from torchvet.findings import UserError


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(folder, text, name="pyproject.toml") -> Options:
    (folder / name).write_text(text, encoding="utf-8")
    return load(str(folder), environment={})


def mistake(folder, text, name="pyproject.toml") -> UserError:
    with pytest.raises(UserError) as caught:
        settings(folder, text, name)
    return caught.value


def test_defaults(project):
    options = load(str(project), environment={})
    assert options.config_file == ""
    for s in SETTINGS:
        assert getattr(options, s.attribute) == s.default
    assert (options.max_workers, options.confidence, options.severity) == (8, "likely", "note")


def test_the_class_declares_every_setting():
    assert {s.attribute for s in SETTINGS} == set(Options.__annotations__)


@pytest.mark.parametrize("name", ["pyproject.toml", "torchvet.toml", ".torchvet.toml"])
def test_all_keys_in_each_kind_of_file(project, name):
    head = "[tool.torchvet]\n" if name == "pyproject.toml" else ""
    rows = {
        "list": '["a", "b"]', "bool": "true", "int": "3", "string": '"2.9"', "path": '"x/y"', "table": '{"t/*" = ["TV1"]}',
    }  # fmt: skip
    known = [s for s in SETTINGS if s.where == "both"]
    text = head + "".join(f"{s.name} = {rows.get(s.kind) or chr(34) + s.choices[-1] + chr(34)}\n" for s in known)
    options = settings(project, text, name)
    for s in known:
        value = getattr(options, s.attribute)
        if s.kind == "path":
            assert value == str(project / "x/y")
        elif s.kind == "list":
            assert value == ("a", "b")
        elif s.kind == "table":
            assert value == {"t/*": ("TV1",)}
        else:
            assert value == (s.choices[-1] if s.choices else {"bool": True, "int": 3, "string": "2.9"}[s.kind])


@pytest.mark.parametrize(
    "text",
    [
        "[tool.torchvet]\nmax-workers = 3\n",
        "[ tool . torchvet ]\nmax-workers = 3\n",
        '[tool."torchvet"]\nmax-workers = 3\n',
        "tool.torchvet.max-workers = 3\n",
        "[tool]\ntorchvet.max-workers = 3\n",
        "[tool]\ntorchvet = {max-workers = 3}\n",
        "\ufeff[tool.torchvet]\r\nmax-workers = 3\r\n",
    ],
)
def test_every_way_to_write_the_table(project, text):
    assert settings(project, text).max_workers == 3


def test_the_nearest_file_wins_and_files_are_not_merged(project):
    (project / "pyproject.toml").write_text("[tool.torchvet]\nmax-workers = 3\nstrict = true\n")
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "a" / "pyproject.toml").write_text('[project]\nname = "torchvet-user"\n')  # has no table of ours
    assert load(str(inner), environment={}).max_workers == 3
    (project / "a" / "torchvet.toml").write_text("max-workers = 4\n")
    options = load(str(inner), environment={})
    assert (options.max_workers, options.strict) == (4, False)
    (project / "a" / ".torchvet.toml").write_text("max-workers = 5\n")
    assert load(str(inner / "train.py"), environment={}).max_workers == 5
    assert load(str(inner), environment={}, isolated=True).max_workers == 8
    assert load(str(inner), environment={}, config=str(project / "pyproject.toml")).max_workers == 3


def test_no_toml_parser_is_loaded_for_a_pyproject_without_our_table(project, monkeypatch):
    (project / "pyproject.toml").write_text(
        '[project]\ndependencies = ["torchvet>=0.1"]\n# [tool.torchvet] is not used\n'
        '[project.scripts]\ntorchvet = "a:b"\n[tool.ruff]\n'
    )
    monkeypatch.setattr(config, "_parse", lambda *a: pytest.fail("parsed"))
    monkeypatch.setattr(config, "find", lambda start: find(start) if str(project) in start else None)
    assert load(str(project), environment={}).config_file == ""


def test_a_named_file_must_have_settings(project):
    (project / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(UserError, match="has no table"):
        load(str(project), environment={}, config="pyproject.toml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_is_no_settings_file(project):
    os.mkfifo(project / "torchvet.toml")
    assert load(str(project), environment={}).config_file == ""


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("[a]\nb = 1\n[tool.torchvet]\nselct = ['TV1']\n", "pyproject.toml:4: unknown setting selct", "select"),
        ("[tool.torchvet]\n\nmax_workers = 3\n", "pyproject.toml:3: unknown setting max_workers", "max-workers"),
        ("[tool.torchvet]\nformat = 'json'\n", "pyproject.toml:2: unknown setting format", "output-format"),
        ("[tool.torchvet]\noutput = ['x']\n", "pyproject.toml:2: unknown setting output", "output-format"),
        ("[tool.torchvet.lint]\nx = 1\n", "pyproject.toml:1: unknown setting lint", ""),
        ("[tool.torchvet]\nselect = 'TV1'\n", 'pyproject.toml:2: select must be a list of strings, not "TV1"', ""),
        ("[tool.torchvet]\nselect = [\n1]\n", "pyproject.toml:2: select must be a list of strings, not [1]", ""),
        ("[tool.torchvet]\nstrict = 1\n", "pyproject.toml:2: strict must be true or false, not 1", ""),
        ("[tool.torchvet]\nmax-workers = true\n", "max-workers must be a whole number from 1, not true", ""),
        ("[tool.torchvet]\nmax-workers = 0\n", "max-workers must be a whole number from 1, not 0", ""),
        ("[tool.torchvet]\njobs = '4'\n", 'jobs must be a whole number from 0, not "4"', ""),
        ("[tool.torchvet]\nseverity = 'warn'\n", "pyproject.toml:2: severity must be one of note, warning, error", "warning"),
        ("[tool.torchvet]\nbaseline = 3\n", "baseline must be a string, not 3", ""),
        ("[tool.torchvet]\nper-file-ignores = ['a']\n", "per-file-ignores must be a table", ""),
        ("[tool.torchvet.per-file-ignores]\na = ['x']\n'b/*' = 'x'\n", "pyproject.toml:3: per-file-ignores", ""),
        ("[tool]\n\ntorchvet = 3\n", "pyproject.toml:3: tool.torchvet must be a table", ""),
        ("[tool]\n\ntorchvet = {strict = 1}\n", "pyproject.toml:3: strict must be", ""),
        ("tool.torchvet.strict = 1\n", "pyproject.toml:1: strict must be", ""),
        ("[tool.torchvet]\nstrict = \n", "pyproject.toml:2: this is not valid TOML", ""),
        ("[tool.torchvet]\nstrict = true\nstrict = true\n", "pyproject.toml:3: this is not valid TOML", ""),
        ("[tool.torchvet]\nselect = ['a'\n", "pyproject.toml:", ""),
    ],
)  # fmt: skip
def test_mistakes_name_the_key_the_line_and_the_near_key(project, text, said, hint):
    error = mistake(project, text)
    assert said in str(error.message)
    assert str(error.hint) == (f"did you mean {hint}?" if hint else "")
    assert "\n" not in str(error.message)
    assert error.message.render("zh") != str(error.message)


def test_mistakes_in_a_file_of_our_own(project):
    error = mistake(project, "# comment\nstrict = true\n\nselct = []\n", "torchvet.toml")
    assert str(error.message) == "torchvet.toml:4: unknown setting selct"


def test_the_command_line_overrides_the_file(project):
    (project / "torchvet.toml").write_text(
        'select = ["TV1"]\nignore = ["TV102"]\nextend-select = ["TV401"]\nmax-workers = 3\n'
    )

    def given(**command):
        return load(str(project), {k.replace("_", "-"): v for k, v in command.items()}, environment={})

    assert given(max_workers=5).max_workers == 5
    options = given(select=["TV2"])
    assert (options.select, options.ignore, options.extend_select) == (("TV2",), (), ())
    options = given(ignore=["TV101"])
    assert (options.select, options.ignore) == (("TV1",), ("TV102", "TV101"))
    assert given(extend_select=["TV301"]).extend_select == ("TV401", "TV301")
    assert given(select=["TV2"], extend_select=["TV301"]).extend_select == ("TV401", "TV301")


def test_the_environment_stands_between_file_and_command_line(project):
    (project / "torchvet.toml").write_text('output-format = "json"\n')
    environment = {"TORCHVET_OUTPUT_FORMAT": "sarif", "TORCHVET_NO_CACHE": "1", "TORCHVET_CACHE_DIR": "/c"}
    options = load(str(project), environment=environment)
    assert (options.output_format, options.no_cache, options.cache_dir) == ("sarif", True, "/c")
    assert load(str(project), {"output-format": "full"}, environment=environment).output_format == "full"
    assert load(str(project), environment={"TORCHVET_NO_CACHE": "0"}).no_cache is False
    with pytest.raises(UserError, match="TORCHVET_OUTPUT_FORMAT must be one of"):
        load(str(project), environment={"TORCHVET_OUTPUT_FORMAT": "sarf"})


def test_where_a_setting_was_given(project):
    (project / "torchvet.toml").write_text('select = [\n  "TV1",\n  "TV2",\n]\n')
    assert load(str(project), environment={}).where("select", "TV2") == "torchvet.toml:3"
    assert load(str(project), {"select": ["TV3"]}, environment={}).where("select", "TV3") == "--select"
    environment = {"TORCHVET_NO_CACHE": "1"}
    assert load(str(project), environment=environment).where("no-cache") == "TORCHVET_NO_CACHE"


def test_the_fingerprint_tells_what_changes_the_findings():
    base = Options().fingerprint()
    assert Options(output_format="json", severity="error", baseline="x", jobs=4).fingerprint() == base
    for change in ({"max_workers": 4}, {"select": ["TV1"]}, {"rank_predicates": ["a.b"]}, {"require_reason": True}):
        assert Options(**change).fingerprint() != base


def test_options_know_their_names():
    assert Options(select=["TV1"]).select == ("TV1",)
    with pytest.raises(TypeError, match="selct"):
        Options(selct=["TV1"])


def test_per_file_ignores_of_the_command_line():
    assert parse_per_file_ignores(["a/*:TV1", "C:/x.py:graph", "a/*:TV2"]) == {
        "a/*": ("TV1", "TV2"),
        "C:/x.py": ("graph",),
    }
    for wrong in ("a", ":TV1", "a:"):
        with pytest.raises(UserError, match="needs PATTERN:RULE"):
            parse_per_file_ignores([wrong])


@pytest.mark.parametrize(
    ("word", "near"), [("selct", "select"), ("Max_Workers", "max-workers"), ("format", "output-format"), ("zzz", "")]
)
def test_nearest(word, near):
    assert nearest(word, [s.name for s in SETTINGS]) == near
