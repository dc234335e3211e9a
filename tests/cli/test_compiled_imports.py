"""The finder of compiled modules takes what Python's own would take, and leaves it the rest."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys

import pytest

from torchvet.cli.compiled import Compiled


@pytest.fixture
def finder() -> Compiled:
    return Compiled(importlib.util.MAGIC_NUMBER, sys.implementation.cache_tag, importlib.machinery.ModuleSpec)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "one.py"
    path.write_text("value = 1\n")
    py_compile.compile(str(path), doraise=True)
    return path


def test_a_compiled_module_is_loaded_as_usual(finder, source):
    spec = finder.find_spec("torchvet.one", [str(source.parent)])
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.value == 1
    assert module.__file__ == str(source)
    assert module.__cached__ == importlib.util.cache_from_source(str(source))
    assert module.__package__ == "torchvet"


def test_a_changed_source_is_left_to_others(finder, source):
    source.write_text("value = 22\n")
    assert finder.find_spec("torchvet.one", [str(source.parent)]) is None


def test_a_source_of_another_time_is_left_to_others(finder, source):
    os.utime(source, (1, 1))
    assert finder.find_spec("torchvet.one", [str(source.parent)]) is None


def test_files_checked_by_hash_are_left_to_others(finder, source):
    py_compile.compile(str(source), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    assert finder.find_spec("torchvet.one", [str(source.parent)]) is None


def test_what_is_not_ours_is_left_to_others(finder, source):
    assert finder.find_spec("other.one", [str(source.parent)]) is None
    assert finder.find_spec("torchvet.two", [str(source.parent)]) is None
    assert finder.find_spec("torchvet", None) is None
