"""The caches: what they give back, and everything that makes them silently empty."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchvet.check.program import cache as module
from torchvet.check.program.cache import GATED, FactsCache, RunCache, digest, folder, fresh

posix = pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
OLD = time.time_ns() - 3_600_000_000_000
ROW = ("module", (("expr", 5, ("name", 5, "x")),), frozenset(("backward",)), None, 1.5, b"x", True)


def filled(where: Path, root: Path) -> FactsCache:
    cache = FactsCache(str(root), str(where))
    cache.store("a.py", 10, OLD, digest(b"0123456789"), ROW)
    cache.store("b.py", 20, OLD, b"", GATED)
    cache.save()
    return FactsCache(str(root), str(where))


def files_in(where: Path, kind: str) -> list[Path]:
    return sorted(p for p in where.rglob(kind + "-*") if p.is_file())


def test_rows_come_back(tmp_path: Path) -> None:
    cache = filled(tmp_path / "c", tmp_path)
    assert cache.lookup("a.py", 10, OLD) == ROW
    assert cache.lookup("b.py", 20, OLD) is GATED
    assert cache.lookup("a.py", 11, OLD) is None
    assert cache.lookup("a.py", 10, OLD + 1) is None
    assert cache.lookup("c.py", 10, OLD) is None


def test_content_counts_when_only_the_time_differs(tmp_path: Path) -> None:
    cache = filled(tmp_path / "c", tmp_path)
    assert cache.lookup_content("a.py", b"0123456789") == ROW
    assert cache.lookup_content("a.py", b"012345678x") is None
    assert cache.lookup_content("b.py", b"x" * 20) is None
    cache.touch("a.py", 10, OLD + 7)
    cache.save()
    again = FactsCache(str(tmp_path), str(tmp_path / "c"))
    assert again.lookup("a.py", 10, OLD + 7) == ROW
    assert again.lookup("a.py", 10, OLD) is None


def test_roots_do_not_share(tmp_path: Path) -> None:
    filled(tmp_path / "c", tmp_path / "one")
    assert FactsCache(str(tmp_path / "two"), str(tmp_path / "c")).lookup("a.py", 10, OLD) is None


def test_a_file_that_changed_just_now_counts_by_content_only(tmp_path: Path) -> None:
    now = time.time_ns()
    assert fresh(now) and fresh(now - now % 1_000_000_000) and not fresh(OLD)
    cache = FactsCache(str(tmp_path), str(tmp_path / "c"))
    cache.store("a.py", 1, now, digest(b"x"), ROW)
    cache.store("b.py", 1, now, b"", GATED)
    cache.save()
    again = FactsCache(str(tmp_path), str(tmp_path / "c"))
    assert again.lookup("a.py", 1, now) is None
    assert again.lookup_content("a.py", b"x") == ROW
    assert again.lookup("b.py", 1, now) is None


def test_rows_that_nobody_asks_for_are_dropped(tmp_path: Path) -> None:
    filled(tmp_path / "c", tmp_path)
    for n in range(module.OLD + 2):
        cache = FactsCache(str(tmp_path), str(tmp_path / "c"))
        assert cache.lookup("a.py", 10, OLD) == ROW
        cache.store(f"n{n}.py", 1, OLD, b"", GATED)
        cache.save()
    cache = FactsCache(str(tmp_path), str(tmp_path / "c"))
    assert cache.lookup("b.py", 20, OLD) is None and cache.lookup("a.py", 10, OLD) == ROW


def test_disabled_writes_nothing(tmp_path: Path) -> None:
    cache = FactsCache(str(tmp_path), str(tmp_path / "c"), enabled=False)
    cache.store("a.py", 10, OLD, b"", ROW)
    cache.save()
    runs = RunCache(str(tmp_path), str(tmp_path / "c"), enabled=False)
    runs.store("o", [("a.py", 1, OLD)], (1,))
    assert cache.lookup("a.py", 10, OLD) is None and runs.lookup("o", [("a.py", 1, OLD)]) is None
    assert not (tmp_path / "c").exists()


def test_what_marshal_cannot_hold_is_not_kept(tmp_path: Path) -> None:
    cache = FactsCache(str(tmp_path), str(tmp_path / "c"))
    cache.store("a.py", 10, OLD, b"", object())
    assert cache.lookup("a.py", 10, OLD) is None


def test_runs(tmp_path: Path) -> None:
    files = [("a.py", 1, OLD), ("caf\udce9.py", 2, OLD)]
    runs = RunCache(str(tmp_path), str(tmp_path / "c"))
    assert runs.lookup("options", files) is None
    runs.store("options", files, (1, ("x", None)))
    again = RunCache(str(tmp_path), str(tmp_path / "c"))
    assert again.lookup("options", tuple(files)) == (1, ("x", None))
    assert again.lookup("other options", files) is None
    assert again.lookup("options", files[:1]) is None
    assert again.lookup("options", [("a.py", 1, OLD + 1), files[1]]) is None
    again.store("options", files[:1], (2,))
    assert again.lookup("options", files) is None and again.lookup("options", files[:1]) == (2,)
    again.store("new", [("a.py", 1, time.time_ns())], (3,))
    assert again.lookup("new", [("a.py", 1, time.time_ns())]) is None
    for n in range(20):
        again.store(f"o{n}", files, (n,))
    assert [again.lookup(f"o{n}", files) for n in (0, 19)] == [None, (19,)]


@pytest.mark.parametrize("how", ["cut", "flip", "empty", "text", "version", "own files", "shape", "row shape", "root"])
def test_anything_odd_is_an_empty_cache(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path
    filled(tmp_path / "c", root)
    (path,) = files_in(tmp_path / "c", "facts")
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[:-3])
    elif how == "flip":
        path.write_bytes(data[:-3] + bytes((data[-3] ^ 255,)) + data[-2:])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_bytes(b"hello\n" * 100)
    elif how == "version":
        path.write_bytes(data.replace(module.__version__.encode(), b"9.9.9"))
    elif how == "own files":
        monkeypatch.setattr(module, "own_state", lambda parts: "other")
    elif how == "shape":
        module._Store(str(root), str(tmp_path / "c"), "facts", module.FACTS_COME_FROM).save(marshal.dumps([1, 2]))
    elif how == "row shape":
        module._Store(str(root), str(tmp_path / "c"), "facts", module.FACTS_COME_FROM).save(
            marshal.dumps({"a.py": [10, OLD]})
        )
    else:
        path.rename(path.with_name("facts-" + "0" * 32))
    cache = FactsCache(str(root), str(tmp_path / "c"))
    assert cache.lookup("a.py", 10, OLD) is None
    cache.store("a.py", 10, OLD, b"", ROW)
    cache.save()
    assert FactsCache(str(root), str(tmp_path / "c")).lookup("a.py", 10, OLD) == ROW


def test_a_row_that_is_broken_inside_costs_only_itself(tmp_path: Path) -> None:
    store = module._Store(str(tmp_path), str(tmp_path / "c"), "facts", module.FACTS_COME_FROM)
    store.save(marshal.dumps({"a.py": [10, OLD, b"", b"\xff\xff", 0], "b.py": [1, OLD, b"", b"", 0]}))
    cache = FactsCache(str(tmp_path), str(tmp_path / "c"))
    assert cache.lookup("a.py", 10, OLD) is None
    assert cache.lookup("b.py", 1, OLD) is GATED


@posix
@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_is_never_unmarshalled(
    tmp_path: Path, what: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "c", tmp_path)
    (path,) = files_in(tmp_path / "c", "facts")
    target = path if what == "file" else path.parent
    target.chmod(target.stat().st_mode | mode)
    monkeypatch.setattr(module, "_unmarshal", lambda data: pytest.fail("unmarshalled"))
    assert FactsCache(str(tmp_path), str(tmp_path / "c")).lookup("a.py", 10, OLD) is None
    target.chmod(0o700)


@posix
def test_a_foreign_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "c", tmp_path)
    monkeypatch.setattr(module, "_unmarshal", lambda data: pytest.fail("unmarshalled"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert FactsCache(str(tmp_path), str(tmp_path / "c")).lookup("a.py", 10, OLD) is None


@posix
def test_links_and_fifos_in_the_place_of_the_file(tmp_path: Path) -> None:
    filled(tmp_path / "c", tmp_path)
    (path,) = files_in(tmp_path / "c", "facts")
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert FactsCache(str(tmp_path), str(tmp_path / "c")).lookup("a.py", 10, OLD) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert FactsCache(str(tmp_path), str(tmp_path / "c")).lookup("a.py", 10, OLD) is None


@posix
def test_only_the_user_can_read_what_is_written(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        filled(tmp_path / "c", tmp_path)
    finally:
        os.umask(before)
    (path,) = files_in(tmp_path / "c", "facts")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_asked_for_folder_hides_itself_from_git(tmp_path: Path) -> None:
    filled(tmp_path / "c", tmp_path)
    assert (tmp_path / "c" / ".gitignore").read_text() == "*\n"
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine").write_text("")
    filled(tmp_path / "kept", tmp_path)
    assert not (tmp_path / "kept" / ".gitignore").exists()


def test_no_place_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    cache = filled(tmp_path / "file", tmp_path)
    assert cache.lookup("a.py", 10, OLD) is None
    assert (tmp_path / "file").read_text() == ""

    def read_only(*args: object, **options: object) -> int:
        raise OSError(30, "Read-only file system")

    filled(tmp_path / "c", tmp_path)
    monkeypatch.setattr(os, "replace", read_only)
    cache = FactsCache(str(tmp_path), str(tmp_path / "c"))
    cache.store("new.py", 1, OLD, b"", ROW)
    cache.save()
    assert len([p for p in (tmp_path / "c").rglob("*") if p.is_file()]) == 2  # no temporary file is left behind
    assert FactsCache(str(tmp_path), str(tmp_path / "c")).lookup("a.py", 10, OLD) == ROW


def test_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert folder() == str(tmp_path / "torchvet")
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification: to be ignored
        monkeypatch.setenv("HOME", str(tmp_path))
        assert folder() == str(tmp_path / ".cache" / "torchvet")
        monkeypatch.setenv("HOME", "")
        monkeypatch.delenv("XDG_CACHE_HOME")
        cache = FactsCache(str(tmp_path))
        cache.save()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert folder() == os.path.join(str(tmp_path), "torchvet", "Cache")
    monkeypatch.delenv("LOCALAPPDATA")
    assert folder() == ""


def test_two_runs_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from torchvet.check.program.cache import FactsCache, RunCache\n"
        "for n in range(30):\n"
        f"    c = FactsCache({str(tmp_path)!r}, {str(tmp_path / 'c')!r})\n"
        f"    got = c.lookup('a.py', 10, {OLD})\n"
        "    assert got is None or got == ('row', 'x' * 10000), got\n"
        f"    c.store('a.py', 10, {OLD}, b'', ('row', 'x' * 10000))\n"
        f"    c.store(sys.argv[1] + str(n), 10, {OLD}, b'', ('row', n))\n"
        "    c.save()\n"
        f"    r = RunCache({str(tmp_path)!r}, {str(tmp_path / 'c')!r})\n"
        f"    r.store(sys.argv[1], [('a.py', 1, {OLD})], (n,))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    running = [subprocess.Popen([sys.executable, "-c", code, name], env=env) for name in ("one", "two")]
    assert [p.wait(60) for p in running] == [0, 0]
    assert FactsCache(str(tmp_path), str(tmp_path / "c")).lookup("a.py", 10, OLD) == ("row", "x" * 10000)
    assert all("." not in p.name for p in (tmp_path / "c").rglob("*-*") if p.is_file())


def test_an_import_of_the_cache_is_cheap() -> None:
    code = "import sys; import torchvet.check.program.cache; print(*sorted(sys.modules))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    loaded = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert not {"hashlib", "typing", "json", "pathlib", "tempfile", "_ssl"} & set(loaded.stdout.split())
