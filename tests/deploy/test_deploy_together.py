"""Several files of one deployment: sourced scripts, patches of kustomizations, variables of pipelines."""

from __future__ import annotations

import pytest

from torchvet.check.flow.deploy import Deploy
from torchvet.check.program.program import Program
from torchvet.check.source.shell_values import script
from torchvet.check.source.traced import Traced
from torchvet.check.source.walk import DEPLOYMENT

STEP = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
srun torchrun --nnodes=2 --nproc_per_node=8 train.py
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: fit}
spec:
  template:
    spec:
      containers:
        - name: fit
          image: lab/fit:1
          command: [torchrun, --standalone, --nproc_per_node=4, train.py]
          resources: {limits: {nvidia.com/gpu: 4}}
"""
PATCH = """\
apiVersion: batch/v1
kind: Job
metadata: {name: fit}
spec:
  template:
    spec:
      containers:
        - name: fit
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""


@pytest.fixture
def on_disk(tmp_path):
    """on_disk({name: text}): the reader of these files, which stand in a folder."""

    def make(files: dict[str, str]) -> Deploy:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")

        def read(name: str) -> str | None:
            path = tmp_path / name
            return path.read_text("utf-8") if path.is_file() else None

        program = Program(str(tmp_path), [], read)
        program.others = dict.fromkeys((n for n in files if "kustomization" not in n), DEPLOYMENT)
        return Deploy(program)

    return make


def test_the_same_line_of_two_files_is_two_findings(deploy):
    found = deploy({"a/run.sbatch": STEP, "b/run.sbatch": STEP}).steps.multiplied()
    assert sorted(x.file.path for x in found) == ["a/run.sbatch", "b/run.sbatch"]


@pytest.mark.parametrize("how", ["source env.sh", ". ./env.sh", 'source "$(dirname "$0")/env.sh"'])
def test_variables_of_a_sourced_script(on_disk, how):
    run = f"#!/bin/bash\n{how}\ndocker run $OPTS lab/fit:1 torchrun --standalone --nproc_per_node=4 train.py\n"
    found = on_disk({"tools/env.sh": 'OPTS="--rm --gpus all"\n', "tools/run.sh": run})
    assert [x.container.file.path for x in found.shm.engines()] == ["tools/run.sh"]
    found = on_disk({"tools/env.sh": 'OPTS="--rm --gpus all --ipc=host"\n', "tools/run.sh": run})
    assert found.shm.engines() == []
    found = on_disk({"tools/env.sh": 'OPTS="--rm --gpus all --shm-size=64m"\n', "tools/run.sh": run})
    assert [x.pos >> 44 for x in found.shm.small()] == [2]  # said where it is read in


def test_a_script_that_reads_itself_in(on_disk):
    loop = "source b.sh\nX=1\n"
    assert on_disk({"a.sh": loop, "b.sh": "source a.sh\nsource b.sh\n"}).jobs()


@pytest.mark.parametrize(
    "patches", ["patches:\n  - path: shm.yaml\n", "patchesStrategicMerge: [shm.yaml]\n", "patches:\n  - target: {kind: Job}\n    patch: |-\n      - {op: add, path: /spec, value: {mountPath: /dev/shm}}\n"]
)  # fmt: skip
def test_a_patch_of_another_folder_mounts_memory(on_disk, patches):
    files = {
        "base/job.yaml": JOB,
        "base/kustomization.yaml": "resources: [job.yaml]\n",
        "overlays/a/shm.yaml": PATCH,
        "overlays/a/kustomization.yaml": "resources:\n  - ../../base\n" + patches,
    }
    assert on_disk(files).shm.pods() == []


def test_a_kustomization_without_a_patch_changes_nothing(on_disk):
    files = {
        "base/job.yaml": JOB,
        "base/kustomization.yaml": "resources: [job.yaml]\n",
        "overlays/a/kustomization.yaml": "resources:\n  - ../../base\nnamePrefix: a-\n",
    }
    assert [x.container.file.path for x in on_disk(files).shm.pods()] == ["base/job.yaml"]


@pytest.mark.parametrize(
    "text", ["read -r -d '' C <<EOF\na b\nEOF\nbash -c \"$C\"", 'C=$(cat <<EOF\na b\nEOF\n)\nbash -c "$C"']
)
def test_a_here_document_in_a_variable(text):
    words = [[w.text.strip() for w in c.words] for c in script(Traced.at(text, 0)).commands]
    assert ["bash", "-c", "a b"] in words


def test_variables_of_a_pipeline_reach_its_commands(deploy):
    text = """\
        variables:
          OPTS: "--rm --gpus all"
        fit:
          variables: {IMG: lab/fit:1}
          script:
            - docker run $OPTS $IMG torchrun --standalone --nproc_per_node=2 train.py
        """
    assert len(deploy({".gitlab-ci.yml": text}).shm.engines()) == 1
    assert deploy({".gitlab-ci.yml": text.replace("all", "all --shm-size=8g")}).shm.engines() == []
