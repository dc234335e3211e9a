"""Shared memory: what deployment files give, what loaders need."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

from torchvet.check.flow.settings_deployment import UNLIMITED, amount, in_compose, in_manifest, in_shell
from torchvet.check.flow.settings_yaml import documents

GIB = 1 << 30


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("8g", 8 * GIB),
        ("1.5Gi", 3 * GIB // 2),
        ("512mb", GIB // 2),
        (67108864, 1 << 26),
        ("16", 16),
        ("$X", None),
        (None, None),
    ],
)
def test_amount(value, expected):
    assert amount(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("docker run --gpus all --shm-size=2g img", [(1, 2 * GIB)]),
        ("docker run \\\n  --shm-size 1g \\\n  img\n", [(2, GIB)]),
        ("docker run --ipc=host img", [(1, UNLIMITED)]),
        ("# docker run --shm-size=2g img", []),
        ("docker build --shm-size=2g .", []),
        ('docker run --shm-size="$SHM" img', []),
    ],
)
def test_shell(text, expected):
    assert [(pos >> 44, size) for pos, size in in_shell(text)] == expected


def test_compose():
    text = (
        "services:\n  a:\n    shm_size: 2gb\n    build:\n      shm_size: 1gb\n  b:\n    ipc: host\n  c:\n    image: x\n"
    )
    assert [(p >> 44, s) for p, s in in_compose(documents(text)[0])] == [(3, 2 * GIB), (7, UNLIMITED)]


POD = """\
kind: Job
spec:
  template:
    spec:
      containers:
        - name: train
          volumeMounts:
            - name: shm
              mountPath: {path}
      volumes:
        - name: shm
          emptyDir:
            medium: Memory
{limit}"""


@pytest.mark.parametrize(
    ("path", "limit", "expected"),
    [
        ("/dev/shm", "            sizeLimit: 4Gi\n", [4 * GIB]),
        ("/dev/shm", "", [UNLIMITED]),
        ("/cache", "            sizeLimit: 4Gi\n", []),
    ],
)
def test_manifest(path, limit, expected):
    assert [s for _, s in in_manifest(documents(POD.format(path=path, limit=limit))[0])] == expected


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
