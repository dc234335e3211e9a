"""Which releases of a framework a project allows."""

from __future__ import annotations

from textwrap import dedent

import pytest

from torchvet.check.flow.ranks import Ranks
from torchvet.check.flow.releases import Releases
from torchvet.check.program.collect import lower
from torchvet.check.program.program import Program

OLDER = {
    "pinned": {"requirements.txt": "torch\npytorch-lightning==1.4.2\n"},
    "in conda's pip part": {"environment.yaml": "dependencies:\n  - pip:\n    - pytorch-lightning==2.0.1\n"},
    "bounded": {"setup.py": "setup(install_requires=[\n    'lightning[extra] >=1.9,<2.1',\n])\n"},
    "compatible": {"requirements.txt": "pytorch_lightning~=2.0.3  # not 2.1\n"},
    "in a folder": {"setup.py": "", "requirements/base.txt": "Lightning<=2.0.9\n"},
}
NOT_OLDER = {
    "nothing said": {"requirements.txt": "torch\n"},
    "open": {"requirements.txt": "pytorch-lightning>=1.4\n"},
    "newer": {"requirements.txt": "lightning==2.1\n"},
    "open in one of two": {"requirements.txt": "lightning==1.9\n", "setup.py": "x = [\n  'lightning',\n]\n"},
    "another package": {"requirements.txt": "lightning-bolts==0.7\npytorch-lightning\n"},
    "compatible with what follows": {"requirements.txt": "lightning~=2.0\n"},
}


def older(tmp_path, files: dict[str, str]) -> bool:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    program = Program(str(tmp_path), list(files), files.get)
    return Releases(program).before("lightning", "2.1", "src/train.py")


@pytest.mark.parametrize("name", OLDER)
def test_older(tmp_path, name):
    assert older(tmp_path, OLDER[name])


@pytest.mark.parametrize("name", NOT_OLDER)
def test_not_older(tmp_path, name):
    assert not older(tmp_path, NOT_OLDER[name])


SAVES = """
    from pytorch_lightning import Callback
    class Last(Callback):
        def on_exception(self, trainer, module, error):
            if trainer.global_rank == 0:
                trainer.save_checkpoint("last.ckpt")
"""


@pytest.mark.parametrize(
    ("release", "strategy", "said"), [("2.0.9", "ddp", 0), ("2.0.9", "deepspeed_stage_3", 1), ("2.1.4", "ddp", 1)]
)
def test_a_checkpoint_by_rank_0_waits_for_nobody_before_2_1(tmp_path, release, strategy, said):
    pinned = f"pytorch-lightning=={release}\n"
    (tmp_path / "requirements.txt").write_text(pinned)
    texts = {"train.py": dedent(SAVES) + f"STRATEGY = '{strategy}'\n", "requirements.txt": pinned}
    program = Program(str(tmp_path), ["train.py"], texts.get)
    program.add("train.py", lower(texts["train.py"]))
    assert len(Ranks(program).divergences()) == said
