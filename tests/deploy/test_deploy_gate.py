"""What deployment files cost, how findings in them are suppressed, and that broken ones stop nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet.cli import main

RUN = "docker run --gpus all \\\n  --shm-size=16 \\\n  img torchrun --nproc_per_node=4 train.py\n"
POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
    {above}- name: train{trailing}
      image: x
      command: [torchrun, --nproc_per_node=8, train.py]
      resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """check({name: text}): (findings, summary) of a folder with these files."""
    monkeypatch.chdir(tmp_path)

    def run(files, *options):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        main(["check", "--no-cache", "--output-format", "json", *options, "."])
        return json.loads(capsys.readouterr().out)["findings"]

    return run


def names(findings):
    return [f["name"] for f in findings]


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("a.sh", f"# torchvet: ignore[shm-unit-missing] tested\n{RUN}", "shm-unit-missing"),
        ("b.sh", RUN.rstrip() + "  # torchvet: ignore[shm-unit-missing] tested\n", "shm-unit-missing"),
        ("p.yaml", POD.format(above="# torchvet: ignore[pod-shm-unset] small\n    ", trailing=""), "pod-shm-unset"),
        ("q.yaml", POD.format(above="", trailing="  # torchvet: ignore[pod-shm-unset] small"), "pod-shm-unset"),
        ("Dockerfile", "FROM x\n# torchvet: ignore[debug-settings-left] no NVLink\nENV NCCL_P2P_DISABLE=1\nCMD torchrun t.py\n",
         "debug-settings-left"),
        (".devcontainer/devcontainer.json",
         '{\n"image": "pytorch/pytorch",\n// torchvet: ignore[container-shm-unset] no loaders\n"runArgs": ["--gpus=all"]\n}\n',
         "container-shm-unset"),
    ],
)  # fmt: skip
def test_suppressed(check, name, text, rule):
    bare = text.replace("torchvet: ignore", "no such mark")
    assert rule in names(check({name: bare}))
    assert rule not in names(check({name: text}))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", b"apiVersion: v1\nkind: Pod\nshm: [gpu\n"),
        ("b.yaml", b"services:\n  a: *nothing\n  gpu: 1\n"),
        ("c.yaml", "services: {gpu: \ud800}\n".encode("utf-8", "surrogatepass")),
        ("d.yaml", b"services:\n gpu: \xff\xfe\x00\n"),
        ("Dockerfile", b"FROM nvidia\nENV\nENV =\nENV A\nRUN <<\nRUN <<EOF\nnvidia gpu"),
        ("Makefile", b"a:\n\t$(\n\tdocker run --gpus all $(A\nA = $(A) nvidia\n"),
        ("x.sh", b"docker run --gpus 'all \x00 $(((((\n"),
        ("taskdef.json", b'{"containerDefinitions": [{"gpu"'),
        ("e.yaml", b"services:\n" + b"".join(b"  s%d: &a%d {gpu: [%s]}\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9 if i else [b"1"])) for i in range(30))),
        ("f.yaml", b"services: &a\n  <<: *a\n  x:\n    <<: *a\n    extends: x\n    gpus: all\n"),
        ("g.yaml", b"kind: Pod\napiVersion: v1\nspec: " + b"[" * 5000 + b" gpu"),
        ("h.yaml", b"services:\n" + b"  - " * 3000 + b" gpu"),
        ("i.yaml", b"".join(b" " * i + b"a:\n" for i in range(700)) + b"services:\n gpu: 1"),
    ],
)  # fmt: skip
def test_broken_files_stop_nothing(check, name, content):
    found = check({name: content, "good.sh": RUN})
    assert "internal-error" not in names(found)
    assert "shm-unit-missing" in names(found)


def loaded(folder: Path) -> set[str]:
    script = (
        "import sys\nfrom torchvet.cli import main\n"
        "main(['check', '--no-cache', '.'])\nprint('\\n' + ' '.join(sys.modules))"
    )
    r = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60)
    return set(r.stdout.rsplit("\n", 2)[-2].split())


def test_settings_files_cost_their_bytes_only(tmp_path):
    """A project without a file that starts anything reads no YAML, whatever its settings say of GPUs."""
    (tmp_path / "train.py").write_text("import torch\nloss = torch.zeros(1)\nloss.backward()\n")
    for i in range(20):
        (tmp_path / f"c{i}.yaml").write_text(
            f"gpus: {i}\nnum_workers: 4\ntrainer:\n  accelerator: gpu\n  services: [1]\n"
        )
    modules = loaded(tmp_path)
    assert not [m for m in modules if m == "yaml" or m.startswith("torchvet.check.flow.deploy")]
    (tmp_path / "run.sh").write_text(RUN)
    modules = loaded(tmp_path)
    assert "torchvet.check.flow.deploy" in modules and "yaml" not in modules


def test_without_pyyaml_files_are_named_and_the_rest_is_checked(check, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    pod = POD.format(above="", trailing="")
    found = names(check({"p.yaml": pod, "run.sh": RUN}))
    assert "shm-unit-missing" in found and "pod-shm-unset" not in found


def test_timing_names_what_was_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("kind: Pod\napiVersion: v1\nspec: {gpu: [}\n")
    main(["check", "--no-cache", "--timing", "."])
    said = capsys.readouterr()
    assert "p.yaml:3" in said.out + said.err


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("run.sh", "docker run --gpus all img torchrun --nproc_per_node=4 train.py\n",
         "docker run --shm-size=8g --gpus all img torchrun --nproc_per_node=4 train.py\n"),
        ("compose.yaml", "services:\n  t:\n    image: x\n    gpus: all\n    command: torchrun --nproc_per_node=4 t.py\n",
         'services:\n  t:\n    shm_size: "8gb"\n    image: x\n    gpus: all\n    command: torchrun --nproc_per_node=4 t.py\n'),
    ],
)  # fmt: skip
def test_fix_adds_the_size(check, tmp_path, name, text, expected):
    check({name: text}, "--fix")
    assert (tmp_path / name).read_text() == expected


HOSTILE = {
    "Makefile": "".join(f"A{i} = " + f"$(A{i + 1})" * 20 + "\n" for i in range(9)) + "A9 =\nt:\n\tdocker run $(A0) x\n",
    "compose.yaml": "services:\n  s0: &s0 {image: x, gpus: all}\n"
    + "".join(f"  s{i}:\n    <<: *s{i - 1}\n    k{i}: 1\n" .replace(":\n    <<", f": &s{i}\n    <<", 1) for i in range(1, 3000)),
    ".gitlab-ci.yml": 't:\n  script:\n    - "docker run --gpus all ' + 'a\\\\tb\\n ' * 20000 + '"\n',
    "run.sh": "docker run --gpus all " + "${A:-${B:-${C:-x}}} " * 3000 + "\n",
    "Dockerfile": "FROM nvidia\n" + "RUN a \\\n" * 20000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end(check, name):
    import time

    before = time.process_time()
    found = check({name: HOSTILE[name], "good.sh": RUN})
    assert "internal-error" not in names(found) and "shm-unit-missing" in names(found)
    assert time.process_time() - before < 20


def test_workers_of_the_code_count_against_the_quota(check):
    code = (
        "from torch.utils.data import DataLoader\nfor x in DataLoader(list(range(9)), num_workers=6):\n    print(x)\n"
    )
    run = "docker run --gpus all --shm-size=16g --cpus=8 img torchrun --nproc_per_node=4 train.py\n"
    assert "workers-over-cpu-quota" in names(check({"train.py": code, "run.sh": run}))
    assert "workers-over-cpu-quota" not in names(check({"train.py": code, "run.sh": run.replace("cpus=8", "cpus=32")}))
