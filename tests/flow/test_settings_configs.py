"""Settings that stand in configuration files of the project."""

from __future__ import annotations

import pytest
from test_settings_values import settings_of

MAKE = "\n    return DataLoader([], num_workers=cfg.data.workers)\n"
HEAD = (
    "import os\nimport yaml\nimport hydra\nfrom omegaconf import OmegaConf\nfrom torch.utils.data import DataLoader\n"
)


def found(tmp_path, source: str, **files: str) -> list[tuple[object, str]]:
    """[(value, file:line)] of the one loader's workers. Files: `conf__a` is conf/a.yaml."""
    for name, text in files.items():
        path = tmp_path / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    settings = settings_of(tmp_path, train=HEAD + source)
    return [(v.value, v.in_file) for x in settings.loaders() for v in x.workers()]


HYDRA = '@hydra.main(config_path="conf", config_name="main")\ndef run(cfg):' + MAKE


@pytest.mark.parametrize(
    "source",
    [
        HYDRA,
        HYDRA.replace("config_path", "version_base=None, config_path"),
        'def run():\n    cfg = OmegaConf.load("conf/main.yaml")' + MAKE,
        'def run():\n    cfg = OmegaConf.merge(OmegaConf.load("conf/main.yaml"), OmegaConf.from_cli())' + MAKE,
        "def run():\n    here = os.path.dirname(__file__)\n"
        '    cfg = OmegaConf.load(os.path.join(here, "conf", "main.yaml"))' + MAKE,
        'def run():\n    with open("conf/main.yaml") as f:\n        cfg = yaml.safe_load(f)\n'
        '    return DataLoader([], num_workers=cfg["data"]["workers"])\n',
        'def run():\n    cfg = yaml.safe_load(open("conf/main.yaml"))\n'
        '    return DataLoader([], num_workers=cfg["data"].get("workers", 0))\n',
        "class T:\n    def __init__(self, cfg):\n        self.cfg = cfg\n    def make(self):\n"
        "        return DataLoader([], num_workers=self.cfg.data.workers)\n"
        'def run():\n    T(OmegaConf.load("conf/main.yaml")).make()\n',
    ],
)
def test_value_of_a_file(tmp_path, source):
    assert found(tmp_path, source, conf__main="a: 1\ndata:\n  workers: 6\n") == [(6, "conf/main.yaml:3")]


def test_keywords_of_a_file(tmp_path):
    source = 'def run():\n    cfg = OmegaConf.load("conf/main.yaml")\n    return DataLoader([], **cfg.loader)\n'
    files = {"conf__main": "loader:\n  num_workers: 3\n  shuffle: true\n"}
    assert found(tmp_path, source, **files) == [(3, "conf/main.yaml:2")]


def test_groups_of_hydra(tmp_path):
    files = {"conf__main": "defaults:\n  - data: big\n  - _self_\n", "conf__data__big": "workers: 5\n"}
    assert found(tmp_path, HYDRA, **files) == [(5, "conf/data/big.yaml:1")]
    files["conf__data__big"] = "# @package _global_\ndata:\n  workers: 7\n"
    assert found(tmp_path, HYDRA, **files) == [(7, "conf/data/big.yaml:3")]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"conf__main": "data:\n  workers: ???\n"},
        {"conf__main": "data:\n  workers: ${oc.env:N}\n"},
        {"conf__main": "data:\n  other: 1\n"},
        {"conf__main": "defaults:\n  - data: a\ndata:\n  workers: 2\n", "conf__data__a": "workers: 5\n"},
    ],
)
def test_not_known(tmp_path, files):
    assert found(tmp_path, HYDRA, **files)[0][0] is None


def test_both_set_by_one_file(tmp_path):
    source = (
        'def run():\n    cfg = OmegaConf.load("main.yaml")\n'
        "    return DataLoader([], num_workers=cfg.workers, persistent_workers=cfg.keep)\n"
    )
    (tmp_path / "main.yaml").write_text("workers: 0\nkeep: true\n", "utf-8")
    (conflict,) = settings_of(tmp_path, train=HEAD + source).conflicts.needs_workers()
    assert conflict.sure and conflict.place.in_file == "main.yaml:1"


def test_configuration_merged_with_itself(tmp_path):
    source = (
        'def run(parts):\n    cfg = OmegaConf.load("conf/main.yaml")\n    while parts:\n'
        "        cfg = OmegaConf.merge(cfg, parts.pop())" + MAKE
    )
    assert (6, "conf/main.yaml:2") in found(tmp_path, source, conf__main="data:\n  workers: 6\n")
