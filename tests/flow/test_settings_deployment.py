"""Shared memory: what deployment files give, what loaders need."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

from torchvet.check.flow.settings_deployment import UNLIMITED, Deployment
from torchvet.check.program.program import Program

GIB = 1 << 30
COMPOSE = """\
services:
  a:
    shm_size: 2gb
    build:
      shm_size: 1gb
  b:
    image: x
    ipc: host
  c:
    image: x
"""
POD = """\
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
        - name: train
          image: x
          volumeMounts:
            - name: shm
              mountPath: {path}
      volumes:
        - name: shm
          emptyDir:
            medium: Memory
{limit}"""
LIMIT = "            sizeLimit: 4Gi\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.sh", "docker run --gpus all --shm-size=2g img", [(1, 2 * GIB)]),
        ("a.sh", "docker run \\\n  --shm-size 1g \\\n  img\n", [(2, GIB)]),
        ("a.sh", "docker run --ipc=host img", [(1, UNLIMITED)]),
        ("a.sh", "# docker run --shm-size=2g img", []),
        ("a.sh", "docker build --shm-size=2g .", []),
        ("a.sh", 'docker run --shm-size="$SHM" img', []),
        ("compose.yaml", COMPOSE, [(3, 2 * GIB), (8, UNLIMITED)]),
        ("a.yaml", POD.format(path="/dev/shm", limit=LIMIT), [(16, 4 * GIB)]),
        ("a.yaml", POD.format(path="/dev/shm", limit=""), [(14, UNLIMITED)]),
        ("a.yaml", POD.format(path="/cache", limit=LIMIT), []),
    ],
)
def test_limits_of_a_file(name, text, expected):
    program = Program("/nowhere", [], lambda path: text)
    assert [(x.pos >> 44, x.size) for x in Deployment(program).read(name)] == expected
    assert name in program.consulted


HEAD = "import torch\nfrom torch.utils.data import DataLoader, Dataset, TensorDataset\nfrom torchvision import datasets, transforms\n"
ITEM = "class D(Dataset):\n    def __getitem__(self, i):\n        return {}\n\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (ITEM.format("torch.zeros(3, 16, 16)") + "DataLoader(D(), batch_size=2, num_workers=1)", 3072),
        (ITEM.format("torch.zeros((3, 16, 16), dtype=torch.uint8), 1") + "DataLoader(D(), 4, num_workers=1)", 776),
        (ITEM.format("self.load(i)") + "DataLoader(D(), batch_size=2, num_workers=1)", None),
        ("DataLoader(TensorDataset(torch.randn(1000, 8), torch.zeros(1000)), num_workers=1)", 36),
        ("t = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])\n"
         "DataLoader(datasets.ImageFolder('x', transform=t), batch_size=2, num_workers=1)", 224 * 224 * 12),
        ("t = transforms.Compose([transforms.Resize(256), transforms.ToTensor()])\n"
         "DataLoader(datasets.ImageFolder('x', transform=t), batch_size=2, num_workers=1)", None),
        ("t = transforms.Compose([transforms.CenterCrop(224), Mine(), transforms.ToTensor()])\n"
         "DataLoader(datasets.ImageFolder('x', transform=t), batch_size=2, num_workers=1)", None),
    ],
)  # fmt: skip
def test_bytes_of_an_item(tmp_path, source, expected):
    settings = settings_of(tmp_path, train=HEAD + source)
    assert [settings.demand.item_bytes(x) for x in settings.loaders()] == [expected]


def test_largest_limit_counts(tmp_path):
    (tmp_path / "run.sh").write_text("docker run --shm-size=1m img\n", "utf-8")
    source = HEAD + ITEM.format("torch.zeros(1024)") + "DataLoader(D(), batch_size=256, num_workers=2)\n"
    (over,) = settings_of(tmp_path, train=source).over_shared_memory()
    assert (over.need, over.shm.size, over.shm.module.path) == (6 * (1 << 20), 1 << 20, "run.sh")
    (tmp_path / "compose.yaml").write_text("services:\n  t:\n    shm_size: 8m\n", "utf-8")
    assert settings_of(tmp_path, train=source).over_shared_memory() == []
