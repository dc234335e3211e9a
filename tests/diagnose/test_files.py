"""Files and archives of an incident: everything readable is read once, everything else is one line, nothing is written."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import time
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.diagnose import archives
from torchvet.diagnose.files import Item, Unreadable, items, spoken_size
from torchvet.findings import UserError

LOG = b"step 1\nstep 2\n"


def read(*paths):
    """({name: content}, {name: why not}) of what `items` gives, each item opened while it is at hand."""
    found, refused = {}, {}
    for entry in items([str(p) for p in paths]):
        if isinstance(entry, Item):
            with entry.open() as f:
                content = f.read() if entry.size < 1_000_000 else b""
            assert len(content) in (entry.size, 0) and content[:4096] in (entry.head, b"")
            assert entry.name not in found
            found[entry.name] = content
        else:
            refused.setdefault(entry[0], str(entry[1]))
    return found, refused


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    (folder / "logs" / "0").mkdir(parents=True)
    (folder / "logs" / "0" / "stderr.log").write_bytes(LOG)
    (folder / "launcher.log").write_bytes(b"x\n")
    return folder


def test_a_folder(job):
    found, refused = read(job)
    assert found == {"launcher.log": b"x\n", "logs/0/stderr.log": LOG}
    assert not refused


def test_several_paths_count_from_their_common_folder(tmp_path):
    for node in ("node0", "node1"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "launcher.log").write_bytes(node.encode())
    assert set(read(tmp_path / "node0", tmp_path / "node1")[0]) == {"node0/launcher.log", "node1/launcher.log"}
    assert set(read(tmp_path / "node0" / "launcher.log")[0]) == {"launcher.log"}


def test_the_same_file_once(job):
    os.link(job / "launcher.log", job / "same.log")
    os.symlink("launcher.log", job / "link.log")
    assert len(read(job, job / "launcher.log", job / "logs")[0]) == 2


def test_patterns_that_no_shell_expanded(job):
    assert set(read(job / "**" / "*.log")[0]) == {"launcher.log", "logs/0/stderr.log"}
    with pytest.raises(UserError, match="nothing fits"):
        items([str(job / "*.nope")])
    with pytest.raises(UserError, match="does not exist"):
        items([str(job / "nope")])


def test_what_is_no_file(job):
    os.mkfifo(job / "pipe")
    os.symlink("nowhere", job / "dead")
    os.symlink("circle", job / "circle")
    os.symlink(".", job / "self")
    os.symlink("/etc", job / "outside")
    (job / "dir").mkdir(mode=0o000)
    found, refused = read(job)
    assert set(found) == {"launcher.log", "logs/0/stderr.log"}
    assert refused.pop("pipe") == "is not a regular file"
    assert refused.pop("dead") == refused.pop("circle") == "is a link to nothing"
    assert "outside" in refused.pop("outside")
    os.chmod(job / "dir", 0o700)
    if os.getuid():
        assert "Permission" in refused.pop("dir")
    assert not refused


def test_sparse_file_of_ten_gigabytes(job):
    with open(job / "rank_3", "wb") as f:
        f.truncate(10 * 1024**3)
    start = time.perf_counter()
    big = next(e for e in items([str(job)]) if isinstance(e, Item) and e.name == "rank_3")
    assert big.size == 10 * 1024**3 and len(big.head) == 4096
    with pytest.raises(Unreadable, match=r"10\.7 GB"):
        big.whole(200_000_000)
    assert time.perf_counter() - start < 5


def tar_of(path, mode, members):
    with tarfile.open(path, mode) as t:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"])
def test_tar(tmp_path, ending):
    path = tmp_path / ("evidence" + ending)
    way = {"gz": "gz", "tgz": "gz", "xz": "xz", "bz2": "bz2"}.get(ending.rpartition(".")[2], "")
    tar_of(path, f"w:{way}", [("./logs/0/stderr.log", LOG), ("fr/rank_0", b"\x80\x02}."), ("empty", b"")])
    found, refused = read(tmp_path)
    name = "evidence" + ending
    assert found == {f"{name}!logs/0/stderr.log": LOG, f"{name}!fr/rank_0": b"\x80\x02}.", f"{name}!empty": b""}
    assert not refused
    assert not set(os.listdir(tmp_path)) - {name}, "something was written"


@pytest.mark.parametrize("way", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_zip(tmp_path, way):
    with zipfile.ZipFile(tmp_path / "e.zip", "w", way) as z:
        z.writestr("logs/0/stderr.log", LOG)
    assert read(tmp_path)[0] == {"e.zip!logs/0/stderr.log": LOG}


@pytest.mark.parametrize("module, ending", [(gzip, ".gz"), (lzma, ".xz"), (bz2, ".bz2")])
def test_one_compressed_file(job, module, ending):
    with module.open(str(job / "old.log") + ending, "wb") as f:
        f.write(LOG * 1000)
    assert read(job)[0]["old.log"] == LOG * 1000


def test_names_that_lie_about_the_content(job):
    (job / "plain.log.gz").write_bytes(LOG)  # some log rotators forget to compress
    (job / "model.zip").write_bytes(LOG)
    found, refused = read(job)
    assert found["plain.log.gz"] == LOG and found["model.zip"] == LOG and not refused


def test_a_checkpoint_is_no_archive(job):
    with zipfile.ZipFile(job / "model.pt", "w") as z:
        z.writestr("model/data.pkl", b"x")
    assert "model.pt" in read(job)[0]


def test_archives_in_archives(tmp_path):
    inner, middle = io.BytesIO(), io.BytesIO()
    for target, members in ((inner, [("a.log", LOG)]), (middle, [("inner.tgz", inner), ("b.log", LOG)])):
        with tarfile.open(fileobj=target, mode="w:gz") as t:
            for name, data in members:
                data = data if isinstance(data, bytes) else data.getvalue()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as z:
        z.writestr("middle.tgz", middle.getvalue())
    found, refused = read(tmp_path)
    assert found == {"outer.zip!middle.tgz!b.log": LOG}
    assert list(refused) == ["outer.zip!middle.tgz!inner.tgz"]


def test_members_that_are_refused(tmp_path):
    def of_type(name, kind):
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = "/etc/passwd"
        return info

    tar_of(
        tmp_path / "bad.tar.gz", "w:gz",
        [("../../evil", b"1"), ("/abs", b"2"), ("C:\\x\\y", b"3"), (of_type("sym", tarfile.SYMTYPE), b""),
         (of_type("hard", tarfile.LNKTYPE), b""), (of_type("dev", tarfile.CHRTYPE), b""),
         (of_type("pipe", tarfile.FIFOTYPE), b""), ("good.log", LOG)],
    )  # fmt: skip
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as z:
        z.writestr("../up", b"1")
        link = zipfile.ZipInfo("sym")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        z.writestr(link, b"/etc/passwd")
        z.writestr("good.log", LOG)
    found, refused = read(tmp_path)
    assert found == {"bad.tar.gz!good.log": LOG, "bad.zip!good.log": LOG}
    assert sorted(refused.values()) == [
        "has a name that leads out of the archive: not read",
        "has a name that leads out of the archive: not read (and 2 more)",
        "is a device or pipe inside an archive: not read (and 1 more)",
        "is a link inside an archive: not followed",
        "is a link inside an archive: not followed (and 1 more)",
    ]


def test_encrypted_members(tmp_path):
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as z:
        z.writestr("secret.log", LOG)
    data = bytearray((tmp_path / "e.zip").read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + at] |= 1
    (tmp_path / "e.zip").write_bytes(data)
    assert read(tmp_path) == ({}, {"e.zip!secret.log": "is encrypted: not read"})


def zeros(f, size):
    piece = bytes(1 << 20)
    for _ in range(size >> 20):
        f.write(piece)


def test_bombs(tmp_path):
    with gzip.open(tmp_path / "bomb.log.gz", "wb") as f:
        zeros(f, 300 << 20)
    os.rename(tmp_path / "bomb.log.gz", tmp_path / "in.gz")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as z, z.open("a", "w") as f:
        zeros(f, 300 << 20)
    start = time.perf_counter()
    found, refused = read(tmp_path)
    assert time.perf_counter() - start < 15
    assert not found
    assert {n: "far more" in why for n, why in refused.items()} == {"in.gz": True, "bomb.zip": True}


def test_overlapping_members(tmp_path):
    """A quine of a zip: a thousand entries for the same bytes (bamsoftware's construction, without its escapes)."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as z, z.open("a", "w") as f:
        zeros(f, 8 << 20)
    data = body.getvalue()
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[start:end]
    tail = bytearray(data[end:])
    struct.pack_into("<HHI", tail, 8, 1000, 1000, len(entry) * 1000)
    (tmp_path / "overlap.zip").write_bytes(data[:start] + entry * 1000 + bytes(tail))
    began = time.perf_counter()
    refused = [e for e in items([str(tmp_path)]) if not isinstance(e, Item)]
    assert time.perf_counter() - began < 15
    assert any("far more" in str(why) or "broken" in str(why) for _, why in refused)


def test_a_header_that_wants_memory(tmp_path):
    """An extended header of 4 GB in a sparse tar: tarfile would take the memory for it."""
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 4 << 30
    with open(tmp_path / "h.tar", "wb") as f:
        f.write(info.tobuf(tarfile.USTAR_FORMAT))
        f.truncate((4 << 30) + 2048)
    assert read(tmp_path)[1] == {"h.tar": "decompresses to far more than any log: the rest is not read"}


def test_long_content_keeps_both_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "HELD", 64_000)
    lines = b"".join(b"line %d\n" % i for i in range(200_000))
    with gzip.open(tmp_path / "long.log.gz", "wb") as f:
        f.write(lines)
    found, refused = read(tmp_path)
    kept = found["long.log"].split(b"\n")
    assert kept[0] == b"line 0" and kept[-2] == b"line 199999" and all(k.startswith(b"line ") for k in kept[:-1])
    assert "2.3 MB" in refused["long.log"]


def test_cut_off_streams_give_what_they_hold(tmp_path):
    whole = gzip.compress(os.urandom(100_000).hex().encode())
    (tmp_path / "a.log.gz").write_bytes(whole[: len(whole) // 2])
    found, refused = read(tmp_path)
    assert len(found["a.log"]) > 50_000
    assert "cut off" in refused["a.log"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_archives_never_raise(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    kind = data.draw(st.sampled_from(["a.tar", "a.tar.gz", "a.zip", "a.log.gz", "a.tar.xz"]))
    content = io.BytesIO()
    if kind == "a.zip":
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("x/y.log", LOG * 50)
    elif kind == "a.log.gz":
        content.write(gzip.compress(LOG * 50))
    else:
        mode = "w:" + kind.partition(".tar")[2].lstrip(".")
        with tarfile.open(fileobj=content, mode=mode) as t:
            info = tarfile.TarInfo("x/y.log")
            info.size = len(LOG) * 50
            t.addfile(info, io.BytesIO(LOG * 50))
    raw = bytearray(content.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(1, len(raw)))]
    (folder / kind).write_bytes(raw)
    for entry in items([str(folder)]):
        if isinstance(entry, Item):
            with entry.open() as f:
                f.read(1_000_000)
        else:
            assert str(entry[1])


def test_sizes_are_said():
    assert [spoken_size(n) for n in (5, 1500, 118_000, 2_400_000_000, 9e12)] == [
        "5 bytes", "1.5 kB", "118 kB", "2.4 GB", "9.0 TB",
    ]  # fmt: skip
