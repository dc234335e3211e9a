"""What is found in the files of every platform: (line, code) of errors and warnings; a name stands for a note."""

from __future__ import annotations

import pytest

from torchvet.check.rules._index import INDEX

CASES: list[tuple[str, list, dict[str, str]]] = []


def c(name, expect, **files):
    CASES.append((name, expect, files))


def s(name, expect, text, file="run.sh"):
    CASES.append((name, expect, {file: text}))


# --- docker
s("small", [(1, "TV602")], "docker run --gpus all --shm-size 64m img torchrun --nproc_per_node=8 train.py\n")
s(
    "default var",
    [(3, "TV602")],
    "SHM=${SHM:-256m}\nIMG=x\ndocker run --gpus all --shm-size=$SHM $IMG torchrun --nproc_per_node=8 train.py\n",
)
s(
    "array",
    [(6, "TV601")],
    'ARGS=(\n  --rm\n  --gpus all\n)\nARGS+=(-v /data:/data)\ndocker run "${ARGS[@]}" img python train.py --workers 8\n',
)
s(
    "array ok",
    [],
    'ARGS=(--rm --gpus all)\n[[ $X ]] && ARGS+=(--ipc=host)\ndocker run "${ARGS[@]}" img python train.py --workers 8\n',
)
s(
    "function",
    [(3, "TV601")],
    "start() {\n  local img=$1\n  docker run --gpus '\"device=0,1\"' $img torchrun --nproc_per_node=2 train.py\n}\nstart foo\n",
)
s(
    "bash c",
    [(1, "TV601")],
    "sudo docker run --gpus all -it foo bash -lc 'cd /w && torchrun --nproc_per_node=4 train.py'\n",
)
s("podman gpu", [(1, "TV601")], "podman run --device nvidia.com/gpu=all img torchrun --nproc_per_node=4 train.py\n")
s("nerdctl", [(1, "TV601")], "nerdctl run --gpus all img torchrun --nproc_per_node=4 train.py\n")
s("create", [(1, "TV601")], "cid=$(docker create --gpus all img torchrun --nproc_per_node=4 train.py)\n")
s("container run", [(1, "TV601")], "docker container run --gpus all img torchrun --nproc_per_node=4 train.py\n")
s(
    "nvidia-docker",
    [(1, "TV601")],
    "nvidia-docker run --rm img python -m torch.distributed.launch --nproc_per_node=4 train.py\n",
)
s(
    "heredoc ssh",
    [(2, "TV601")],
    "ssh host <<EOF\ndocker run --gpus all img torchrun --nproc_per_node=4 train.py\nEOF\n",
)
s(
    "heredoc sbatch",
    [(8, "TV615")],
    "cat > job.sbatch <<'EOF'\n#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n\nexport X=1\nsrun torchrun --nnodes 2 --nproc_per_node 8 train.py\nEOF\nsbatch job.sbatch\n",
)
s("ipc none", [(1, "TV601")], "docker run --gpus all --ipc=private img torchrun --nproc_per_node=8 train.py\n")
s("ipc container", [], "docker run --gpus all --ipc=container:base img torchrun --nproc_per_node=8 train.py\n")
s("tmpfs", [], "docker run --gpus all --tmpfs /dev/shm:rw,size=16g img torchrun --nproc_per_node=8 train.py\n")
s(
    "mount",
    [],
    "docker run --gpus all --mount type=tmpfs,destination=/dev/shm,tmpfs-size=17179869184 img torchrun --nproc_per_node=8 train.py\n",
)
s(
    "mount small",
    [(1, "TV602")],
    "docker run --gpus all --mount type=tmpfs,destination=/dev/shm,tmpfs-size=134217728 img torchrun --nproc_per_node=8 train.py\n",
)
s(
    "two-cmd",
    [(2, "TV601")],
    "docker run --gpus all --shm-size=8g img torchrun train.py --num-workers=4\ndocker run --gpus all img torchrun --nproc_per_node=8 train.py\n",
)
s("echo", [], "echo docker run --gpus all img torchrun --nproc_per_node=8 train.py\n")
s("exec", [], "docker exec -it c torchrun --nproc_per_node=8 train.py\n")
s("cpu train", [(1, "TV601")], "docker run img python train.py --num-workers 8\n")
s("vllm", [("note", "TV601")], "docker run --gpus all -p 8000:8000 vllm/vllm-openai:latest --model foo\n")
s("mem", [(1, "TV609")], "docker run --gpus all --shm-size=64g -m 32g img torchrun --nproc_per_node=8 train.py\n")
s("unit none g", [(1, "TV603")], "docker run --gpus all --shm-size 8 img torchrun --nproc_per_node=8 train.py\n")
s("kb", [(1, "TV602")], "docker run --gpus all --shm-size=65536k img torchrun --nproc_per_node=8 train.py\n")
s(
    "if gpu",
    [(6, "TV601")],
    'if [ $1 = gpu ]; then\n  GPU_ARGS="--gpus all"\nelse\n  GPU_ARGS=""\nfi\ndocker run $GPU_ARGS img torchrun --nproc_per_node=8 train.py\n',
)
s(
    "docker env debug",
    [(1, "TV611")],
    "docker run --gpus all --ipc=host -e NCCL_P2P_DISABLE=1 img torchrun --nproc_per_node=8 train.py\n",
)
s("env prefix", [(1, "TV611")], "NCCL_IB_DISABLE=1 NCCL_DEBUG=TRACE torchrun --nproc_per_node=8 train.py\n")
s("mpirun x", [(1, "TV611")], "mpirun -np 16 -H a:8,b:8 -x NCCL_P2P_DISABLE=1 python train.py\n")
s("mpirun lo", [(1, "TV612")], "mpirun -np 16 -H a:8,b:8 -x NCCL_SOCKET_IFNAME=lo python train.py\n")
s(
    "accelerate master",
    [(1, "TV613")],
    "accelerate launch --num_machines 2 --num_processes 16 --machine_rank $R --main_process_ip localhost --main_process_port 1 train.py\n",
)
s(
    "rdzv",
    [(2, "TV613")],
    "torchrun --nnodes 4 --nproc-per-node 8 \\\n  --rdzv-endpoint localhost:29500 --rdzv-backend c10d train.py\n",
)
s(
    "masteraddr nnodes env",
    [(2, "TV613")],
    "NNODES=2\nexport MASTER_ADDR=127.0.0.1\ntorchrun --nnodes=$NNODES --nproc_per_node=8 --node_rank=$1 --master_addr=$MASTER_ADDR train.py\n",
)
s(
    "sbatch master",
    [(4, "TV613")],
    "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node 8\nexport MASTER_ADDR=localhost\nexport OMP_NUM_THREADS=4\nsrun python train.py\n",
)
s(
    "sbatch acc",
    [(5, "TV615")],
    "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -n 16\n\nsrun accelerate launch --num_processes 16 --num_machines 2 --machine_rank $SLURM_NODEID train.py\n",
)
s(
    "srun own",
    [(4, "TV615")],
    "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gpus-per-node=8\nsrun --ntasks-per-node=8 torchrun --nnodes=2 --nproc-per-node=gpu train.py\n",
)
s(
    "srun bash c",
    [(3, "TV615")],
    "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4\nsrun bash -c 'torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID train.py'\n",
)
s(
    "srun ok N",
    [],
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun -N $SLURM_NNODES -n $SLURM_NNODES torchrun --nnodes=2 --nproc_per_node=8 train.py\n",
)
s(
    "cpus per task",
    [(3, "TV614")],
    "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=8\n#SBATCH --ntasks-per-node=1\nsrun torchrun --standalone --nproc_per_node=8 train.py --num_workers=4\n",
)
s("apptainer c", [(1, "TV618")], "apptainer exec --nv -c img.sif torchrun --nproc_per_node=4 train.py\n")
s("singularity", [(1, "TV618")], "singularity run --nv --contain img.sif python train.py --workers 8\n")
s("singularity ok", [], "singularity run --nv -B /dev/shm --contain img.sif python train.py --workers 8\n")
s(
    "rdma",
    [(1, "TV610")],
    "docker run --gpus all --shm-size=16g -e NCCL_IB_HCA=mlx5_0 --device /dev/infiniband/uverbs0 img torchrun --nproc_per_node=8 train.py\n",
)
# --- dockerfile
s(
    "df multi",
    [(3, "TV611"), (4, "TV611")],
    'FROM x\nENV A=1 \\\n    NCCL_P2P_DISABLE=1 \\\n    CUDA_LAUNCH_BLOCKING=1\nCMD ["torchrun", "train.py"]\n',
    "Dockerfile",
)
s("df heredoc", [(3, "TV617")], "FROM x\nRUN <<EOF\nmount -o remount,size=8G /dev/shm\nEOF\n", "Dockerfile")
s(
    "df entry",
    [(2, "TV617")],
    'FROM x\nENTRYPOINT ["sh", "-c", "mount -o remount,size=8G /dev/shm && torchrun train.py"]\n',
    "Dockerfile",
)
s("df escape", [(3, "TV611")], "# escape=`\nFROM x\nENV NCCL_IB_DISABLE=1 `\n  B=2\n", "Dockerfile")
c(
    "entry script",
    [("note?", "TV617")],
    **{
        "Dockerfile": 'FROM x\nCOPY entrypoint.sh /\nENTRYPOINT ["/entrypoint.sh"]\n',
        "entrypoint.sh": '#!/bin/sh\nmount -o remount,size=8G /dev/shm\nexec "$@"\n',
    },
)
# --- compose
s(
    "gpus all",
    [(2, "TV605")],
    "services:\n  t:\n    image: x\n    gpus: all\n    command: [torchrun, --nproc_per_node=4, train.py]\n",
    "compose.yaml",
)
s(
    "build args only",
    [],
    "services:\n  t:\n    image: x\n    gpus: all\n    ipc: 'host'\n    command: [torchrun, --nproc_per_node=4, train.py]\n",
    "compose.yaml",
)
s(
    "tmpfs long",
    [],
    "services:\n  t:\n    image: x\n    gpus: all\n    volumes:\n      - type: tmpfs\n        target: /dev/shm\n        tmpfs: {size: 8000000000}\n    command: [torchrun, --nproc_per_node=4, train.py]\n",
    "compose.yaml",
)
c(
    "override",
    [],
    **{
        "docker-compose.yml": "services:\n  t:\n    image: x\n    shm_size: 8gb\n    command: torchrun train.py\n",
        "docker-compose.gpu.yml": "services:\n  t:\n    runtime: nvidia\n",
    },
)
c(
    "extends file",
    [],
    **{
        "docker-compose.yml": "services:\n  t:\n    extends:\n      file: base.yml\n      service: b\n    command: torchrun train.py --num-workers 4\n",
        "base.yml": "services:\n  b:\n    image: x\n    gpus: all\n    shm_size: 8gb\n",
    },
)
s(
    "extends bad",
    [(7, "TV605")],
    "services:\n  base:\n    image: x\n    runtime: nvidia\n    profiles: [no]\n    command: nvidia-smi\n  t:\n    extends: base\n    command: torchrun --nproc_per_node 4 train.py\n",
    "compose.yaml",
)
s(
    "env compose",
    [(6, "TV611")],
    "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: 16gb\n    environment: {NCCL_P2P_DISABLE: 1}\n    command: torchrun --nproc_per_node 4 train.py\n",
    "compose.yaml",
)
s(
    "compose str size small",
    [(5, "TV602")],
    "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: '256m'\n    command: torchrun --nproc_per_node 4 train.py\n",
    "compose.yaml",
)
s(
    "compose cpus",
    [(6, "TV614")],
    "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: 16gb\n    cpus: 4\n    command: torchrun --nproc_per_node 4 train.py --workers 8\n",
    "compose.yaml",
)
s(
    "compose ib",
    [(9, "TV610")],
    "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: 16gb\n    command: torchrun --nproc_per_node 4 train.py\n    network_mode: host\n    devices:\n      - /dev/infiniband\n",
    "compose.yaml",
)
# --- k8s
POD = """apiVersion: v1
kind: Pod
metadata: {name: t}
spec:
  containers:
    - name: t
      image: x
      command: [torchrun, --nproc_per_node=8, train.py]
      resources:
        limits: {nvidia.com/gpu: 8%s}
%s"""
s("pod", [(6, "TV606")], POD % ("", ""), "p.yaml")
s(
    "pod pvc",
    [(12, "TV607")],
    POD
    % (
        "",
        "      volumeMounts:\n        - {name: d, mountPath: /dev/shm/}\n  volumes:\n    - name: d\n      persistentVolumeClaim: {claimName: x}\n",
    ),
    "p.yaml",
)
s(
    "pod size over",
    [(17, "TV609")],
    POD
    % (
        ", memory: 32Gi",
        "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n  volumes:\n    - name: d\n      emptyDir:\n        medium: Memory\n        sizeLimit: 64Gi\n",
    ),
    "p.yaml",
)
s(
    "pod small",
    [(17, "TV602")],
    POD
    % (
        "",
        "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n  volumes:\n    - name: d\n      emptyDir:\n        medium: Memory\n        sizeLimit: 128Mi\n",
    ),
    "p.yaml",
)
s(
    "pod name mismatch",
    [(12, "TV608")],
    POD
    % (
        "",
        "      volumeMounts:\n        - {name: shm, mountPath: /dev/shm}\n  volumes:\n    - name: dshm\n      emptyDir: {medium: Memory}\n",
    ),
    "p.yaml",
)
s(
    "pod unused",
    [(6, "TV608")],
    POD % ("", "  volumes:\n    - name: dshm\n      emptyDir: {medium: Memory}\n"),
    "p.yaml",
)
s("pod hostipc", [("note", "TV619")], POD % ("", "  hostIPC: true\n"), "p.yaml")
s(
    "pod rdma",
    [(10, "TV610")],
    POD
    % (
        ", rdma/hca_shared_devices_a: 1",
        "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n  volumes:\n    - name: d\n      emptyDir: {medium: Memory}\n",
    ),
    "p.yaml",
)
s(
    "pod cpu",
    [(10, "TV614")],
    (
        POD
        % (
            ", cpu: 16",
            "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n  volumes:\n    - name: d\n      emptyDir: {medium: Memory}\n",
        )
    ).replace("train.py", 'train.py, --num-workers, "8"'),
    "p.yaml",
)
s(
    "pod env lo",
    [(17, "TV612")],
    (
        POD
        % (
            "",
            "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n      env:\n        - name: A\n          value: x\n        - name: NCCL_SOCKET_IFNAME\n          value: lo\n  volumes:\n    - name: d\n      emptyDir: {medium: Memory}\n",
        )
    )
    .replace("kind: Pod", "kind: PyTorchJob")
    .replace("spec:\n", "spec:\n  numNodes: 2\n", 1),
    "p.yaml",
)
s(
    "pod master",
    [(17, "TV613")],
    (
        POD
        % (
            "",
            "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n      env:\n        - name: A\n          value: x\n        - name: MASTER_ADDR\n          value: 127.0.0.1\n  volumes:\n    - name: d\n      emptyDir: {medium: Memory}\n",
        )
    )
    .replace("kind: Pod", "kind: StatefulSet")
    .replace("spec:\n", "spec:\n  replicas: 4\n", 1),
    "p.yaml",
)
s(
    "list",
    [(8, "TV606")],
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec:\n    containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      resources: {limits: {nvidia.com/gpu: 2}}\n",
    "p.yaml",
)
s(
    "trainjob",
    [],
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  runtimeRef: {name: torch-distributed}\n  trainer:\n    numNodes: 2\n    image: x\n    command: [torchrun, train.py]\n    resourcesPerNode: {limits: {nvidia.com/gpu: 8}}\n",
    "p.yaml",
)
s(
    "jobset",
    [(16, "TV606")],
    "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\nspec:\n  replicatedJobs:\n    - name: w\n      replicas: 2\n      template:\n        spec:\n          parallelism: 2\n          template:\n            spec:\n              nodeSelector:\n                a: b\n              containers:\n                - name: t\n                  image: x\n                  command: [torchrun, --nproc_per_node=8, train.py]\n                  resources: {limits: {nvidia.com/gpu: 8}}\n",
    "p.yaml",
)
s(
    "initc",
    [],
    POD
    % (
        "",
        "      volumeMounts:\n        - {name: d, mountPath: /dev/shm}\n  initContainers:\n    - name: i\n      image: y\n      resources: {limits: {nvidia.com/gpu: 1}}\n  volumes:\n    - name: d\n      emptyDir: {medium: Memory}\n",
    ),
    "p.yaml",
)
c(
    "helm missing",
    [(13, "TV606")],
    **{
        "chart/templates/job.yaml": '{{- if .Values.enabled }}\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  template:\n    metadata:\n      labels:\n        {{- include "x.labels" . | nindent 8 }}\n    spec:\n      containers:\n        - name: t\n          image: {{ .Values.image }}\n          command: [torchrun, --nproc_per_node=8, train.py]\n          resources:\n            {{- toYaml .Values.resources | nindent 12 }}\n            limits:\n              nvidia.com/gpu: {{ .Values.gpus }}\n{{- end }}\n'
    },
)
c(
    "helm volumes insert",
    [],
    **{
        "chart/templates/job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  template:\n    spec:\n      containers:\n        - name: t\n          image: {{ .Values.image }}\n          command: [torchrun, --nproc_per_node=8, train.py]\n          resources:\n            limits:\n              nvidia.com/gpu: {{ .Values.gpus }}\n          volumeMounts:\n            {{- toYaml .Values.mounts | nindent 12 }}\n      volumes:\n        {{- toYaml .Values.volumes | nindent 8 }}\n"
    },
)
c(
    "helm small values",
    [(19, "TV602")],
    **{
        "chart/templates/job.yaml": 'apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n        - name: t\n          image: {{ .Values.image }}\n          command: [torchrun, --nproc_per_node=8, train.py]\n          resources:\n            limits:\n              nvidia.com/gpu: {{ .Values.gpus }}\n          volumeMounts:\n            - {name: d, mountPath: /dev/shm}\n      volumes:\n        - name: d\n          emptyDir:\n            medium: Memory\n            sizeLimit: {{ .Values.shm | default "128Mi" }}\n'
    },
)
s(
    "argo script",
    [(5, "TV606")],
    "apiVersion: argoproj.io/v1alpha1\nkind: WorkflowTemplate\nspec:\n  templates:\n    - name: train\n      script:\n        image: x\n        command: [bash]\n        source: |\n          torchrun --nproc_per_node=4 train.py\n        resources: {limits: {nvidia.com/gpu: 4}}\n",
    "w.yaml",
)
# --- services
s(
    "ecs small",
    [(2, "TV603")],
    '{"containerDefinitions":[{"name":"t","image":"x","command":["torchrun","--nproc_per_node=4","t.py"],"resourceRequirements":[{"type":"GPU","value":"4"}],\n"linuxParameters":{"sharedMemorySize":8}}]}',
    "taskdef.json",
)
s(
    "ecs ok",
    [],
    '{"containerDefinitions":[{"name":"t","image":"x","command":["torchrun","--nproc_per_node=4","t.py"],"resourceRequirements":[{"type":"GPU","value":"4"}],\n"linuxParameters":{"sharedMemorySize":8192}}]}',
    "taskdef.json",
)
s(
    "batch none",
    [(3, "TV601")],
    '{"jobDefinitionName":"t",\n"containerProperties":{\n"image":"x","command":["torchrun","--nproc_per_node=4","t.py"],"resourceRequirements":[{"type":"GPU","value":"4"}]}}',
    "job-definition.json",
)
s(
    "cfn yaml",
    [(8, "TV601")],
    "Resources:\n  J:\n    Type: AWS::Batch::JobDefinition\n    Properties:\n      Type: container\n      PlatformCapabilities: [EC2]\n      ContainerProperties:\n        Image: !Ref Img\n        Command: [torchrun, --nproc_per_node=8, train.py]\n        ResourceRequirements:\n          - {Type: GPU, Value: 8}\n",
    "cfn.yaml",
)
s(
    "azure ok",
    [],
    "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ncommand: python train.py --num-workers 8\ncompute: azureml:x\ndistribution: {type: pytorch, process_count_per_instance: 8}\nresources: {instance_count: 2}\n",
    "j.yml",
)
s(
    "azure pipeline",
    [(9, "TV602")],
    "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\ntype: pipeline\njobs:\n  a:\n    type: command\n    command: torchrun --nproc_per_node 4 train.py\n    compute: azureml:x\n    resources:\n      shm_size: 64m\n",
    "j.yml",
)
s(
    "dstack",
    [(5, "TV601")],
    "type: task\nname: t\ncommands:\n  - torchrun --nproc_per_node=4 train.py\nresources:\n  gpu: 80GB:4\n",
    "t.dstack.yml",
)
s(
    "dstack ok",
    [],
    "type: task\nname: t\ncommands:\n  - torchrun --nproc_per_node=4 train.py\nresources:\n  gpu: 80GB:4\n  shm_size: 24GB\n",
    "t.dstack.yml",
)
s(
    "determined small",
    [(4, "TV602")],
    "name: x\nresources:\n  slots_per_trial: 8\n  shm_size: 134217728\nsearcher: {name: single, metric: x}\nentrypoint: python3 -m determined.launch.torch_distributed python3 train.py\n",
    "det.yaml",
)
s(
    "determined ok",
    [],
    "name: x\nresources:\n  slots_per_trial: 8\nsearcher: {name: single, metric: x}\nentrypoint: python3 -m determined.launch.torch_distributed python3 train.py\n",
    "det.yaml",
)
s(
    "sky debug",
    [(5, "TV611")],
    "resources: {accelerators: H100:8}\nnum_nodes: 2\nrun: |\n  pip list\n  export NCCL_P2P_DISABLE=1\n  torchrun --nnodes=2 --nproc_per_node=8 train.py\n",
    "t.yaml",
)
s(
    "circle",
    [(8, "TV601")],
    "version: 2.1\njobs:\n  t:\n    machine: {image: gpu}\n    steps:\n      - run:\n          name: x\n          command: docker run --gpus all img torchrun --nproc_per_node=2 train.py\n",
    ".circleci/config.yml",
)
s(
    "gitlab multi",
    [(5, "TV601")],
    "t:\n  script:\n    - echo hi\n    - |\n      docker run --gpus all \\\n        img torchrun --nproc_per_node=2 train.py\n",
    ".gitlab-ci.yml",
)
s(
    "gh services",
    [],
    "on: push\njobs:\n  a:\n    runs-on: x\n    services:\n      redis: {image: redis, options: --health-cmd x}\n    steps:\n      - run: docker run --gpus all --shm-size=8g img torchrun train.py\n",
    ".github/workflows/a.yml",
)
s(
    "gh bad size",
    [(7, "TV602")],
    "on: push\njobs:\n  a:\n    runs-on: x\n    container:\n      image: x\n      options: --gpus all --shm-size=64mb\n    steps:\n      - run: torchrun --nproc_per_node 4 train.py\n",
    ".github/workflows/a.yml",
)
s(
    "devc small",
    [(2, "TV602")],
    '{"image":"pytorch/pytorch",\n"runArgs":["--gpus","all","--shm-size","128m"]}',
    ".devcontainer/devcontainer.json",
)
s(
    "devc ok compose",
    [],
    '{"dockerComposeFile":"x.yml","service":"a","runArgs":["--gpus","all"]}',
    ".devcontainer/devcontainer.json",
)
s(
    "make define",
    [(7, "TV601")],
    "define OPTS\n--rm --gpus all\nendef\nIMG = x\nNP ?= 4\nrun:\n\tdocker run $(OPTS) $(IMG) torchrun --nproc_per_node=$(NP) train.py\n",
    "Makefile",
)
s(
    "make +=",
    [],
    "OPTS = --gpus all\nOPTS += --shm-size=8g\nrun:\n\t@docker run $(OPTS) img torchrun --nproc_per_node=4 train.py\n",
    "Makefile",
)
s(
    "make ifeq",
    [],
    "OPTS = --rm\nifeq ($(GPU),1)\nOPTS += --gpus all --ipc=host\nendif\nrun:\n\t@docker run $(OPTS) img torchrun --nproc_per_node=4 train.py\n",
    "Makefile",
)
s(
    "make shell",
    [(3, "TV601")],
    "all: a\na:\n\tssh host 'docker run --gpus all img torchrun --nproc_per_node=4 train.py'\n",
    "Makefile",
)
s("after image", [(1, "TV601")], "docker run --gpus all img --shm-size=8g torchrun --nproc_per_node=4 train.py\n")
s("eval", [(1, "TV601")], 'CMD="docker run --gpus all img torchrun --nproc_per_node=4 train.py"\neval "$CMD"\n')
s("cmd", [(1, "TV601")], 'CMD="docker run --gpus all img torchrun --nproc_per_node=4 train.py"\n$CMD\n')
s("eval noq", [(1, "TV601")], 'CMD="docker run --gpus all img torchrun --nproc_per_node=4 train.py"\neval $CMD\n')
s(
    "comment in continuation",
    [(1, "TV601")],
    "docker run --gpus all \\\n  # --shm-size=16g \\\n  img torchrun --nproc_per_node=4 train.py\n",
)
s(
    "loop",
    [(3, "TV601")],
    "for i in 0 1; do\n  cfg=$i\n  docker run -d --gpus device=$i -e X=$cfg img python train.py --cfg $cfg --num-workers 4\ndone\n",
)
s(
    "compose interp",
    [(5, "TV602")],
    "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: ${SHM_SIZE:-64m}\n    command: torchrun --nproc_per_node 4 train.py\n",
    "compose.yaml",
)
c(
    "compose .env",
    [(5, "TV602")],
    **{
        "compose.yaml": "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: ${SHM_SIZE}\n    command: torchrun --nproc_per_node 4 train.py\n",
        ".env": "SHM_SIZE=128m\n",
    },
)
s(
    "compose interp unknown",
    [],
    "services:\n  t:\n    image: x\n    gpus: all\n    shm_size: ${SHM_SIZE}\n    command: torchrun --nproc_per_node 4 train.py\n",
    "compose.yaml",
)
s(
    "swarm",
    [(2, "TV605")],
    "services:\n  t:\n    image: x\n    command: torchrun --nproc_per_node 4 train.py\n    deploy:\n      resources:\n        reservations:\n          generic_resources:\n            - discrete_resource_spec: {kind: 'NVIDIA-GPU', value: 4}\n",
    "compose.yaml",
)
s(
    "claims",
    [(5, "TV606")],
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      resources: {claims: [{name: gpu}]}\n  resourceClaims: [{name: gpu, resourceClaimTemplateName: x}]\n",
    "p.yaml",
)
s(
    "argo set",
    [],
    "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n    - name: t\n      volumes: [{name: d, emptyDir: {medium: Memory}}]\n      containerSet:\n        volumeMounts: [{name: d, mountPath: /x}]\n        containers:\n          - name: t\n            image: x\n            command: [torchrun, --nproc_per_node=2, train.py]\n            resources: {limits: {nvidia.com/gpu: 2}}\n            volumeMounts: [{name: d, mountPath: /dev/shm}]\n",
    "p.yaml",
)
s(
    "df serve",
    [("note", "TV611")],
    'FROM vllm/vllm-openai\nENV NCCL_P2P_DISABLE=1\nENTRYPOINT ["vllm","serve"]\n',
    "Dockerfile",
)
s(
    "df arg",
    [(3, "TV611")],
    'FROM x\nARG LEVEL=DETAIL\nENV TORCH_DISTRIBUTED_DEBUG=$LEVEL\nCMD ["torchrun","train.py"]\n',
    "Dockerfile",
)
s(
    "export header",
    [(3, "TV612")],
    "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --export=ALL,NCCL_SOCKET_IFNAME=lo\n#SBATCH --ntasks-per-node=1\nsrun torchrun --nnodes=2 --nproc_per_node=8 train.py\n",
    "j.sbatch",
)
s(
    "cpus no srun",
    [(4, "TV614")],
    "#!/bin/bash\n#SBATCH -N 1\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=8\ntorchrun --standalone --nproc_per_node=8 train.py --num-workers 4\n",
    "j.sbatch",
)
s(
    "pod mount",
    [(8, "TV617")],
    "apiVersion: v1\nkind: Pod\nspec:\n  hostIPC: true\n  containers:\n    - name: t\n      image: x\n      command: [sh, -c, 'mount -o remount,size=8G /dev/shm && torchrun --nproc_per_node=2 train.py']\n      resources: {limits: {nvidia.com/gpu: 2}}\n",
    "p.yaml",
)
s(
    "docker mount",
    [(1, "TV617")],
    "docker run --gpus all --ipc=host img bash -c 'mount -o remount,size=8G /dev/shm; torchrun train.py --num-workers 4'\n",
)
s(
    "docker mount priv",
    [],
    "docker run --gpus all --privileged --ipc=host img bash -c 'mount -o remount,size=8G /dev/shm; torchrun train.py --num-workers 4'\n",
)
s(
    "gh folded",
    [(6, "TV601")],
    "on: push\njobs:\n  a:\n    runs-on: x\n    container:\n      options: >-\n        --gpus all\n        --rm\n      image: x\n    steps:\n      - run: torchrun --nproc_per_node 4 train.py\n",
    ".github/workflows/a.yml",
)
s(
    "gh matrix",
    [(9, "TV601")],
    "on: push\njobs:\n  a:\n    runs-on: ${{ matrix.os }}\n    strategy: {matrix: {os: [a]}}\n    steps:\n      - uses: actions/checkout@v4\n      - run: |\n          docker run --gpus all ${{ env.IMG }} torchrun --nproc_per_node 4 train.py\n",
    ".github/workflows/a.yml",
)
s(
    "sizeLimit bytes",
    [(13, "TV603")],
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      resources: {limits: {nvidia.com/gpu: 2}}\n      volumeMounts: [{name: d, mountPath: /dev/shm}]\n  volumes:\n    - name: d\n      emptyDir:\n        sizeLimit: 16\n        medium: Memory\n",
    "p.yaml",
)
s("acc config", [(1, "TV601")], "docker run --gpus 4 img accelerate launch --config_file x.yaml train.py\n")
s("lower python", [(1, "TV601")], "docker run --gpus all img python3 -m lightning_train fit\n")
s("shm env", [], "docker run --gpus all ${SHM:+--shm-size=$SHM} img torchrun --nproc_per_node=4 train.py\n")
s(
    "opts file",
    [],
    "source ./common.sh\ndocker run --gpus all ${DOCKER_ARGS[@]} img torchrun --nproc_per_node=4 train.py\n",
)
s("params", [], 'docker run --gpus all "$@" img torchrun --nproc_per_node=4 train.py\n')
s(
    "srun docker",
    [(4, "TV601")],
    "#!/bin/bash\n#SBATCH -N 1\n#SBATCH --ntasks-per-node=1\nsrun docker run --gpus all img torchrun --nproc_per_node=4 train.py\n",
    "j.sbatch",
)
s(
    "two srun",
    [(6, "TV615")],
    '#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --tasks-per-node=8\n#SBATCH --gpus-per-node=8\nLAUNCHER="torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8"\nsrun --jobid $SLURM_JOBID bash -c "$LAUNCHER train.py"\n',
    "j.sbatch",
)
s("zsh", [(1, "TV601")], 'zsh -c "docker run --gpus all img torchrun --nproc_per_node=4 train.py"\n')
s(
    "make cond",
    [(2, "TV601")],
    "GPUS?=all\nRUN=docker run --rm --gpus $(GPUS) -v $(CURDIR):/w\n\ntrain: ; $(RUN) img torchrun --nproc_per_node=4 train.py\n",
    "Makefile",
)
s(
    "make pod",
    [(5, "TV601")],
    "ifeq ($(X),)\nFLAGS := --gpus all\nendif\ntrain:\n\t$(ENGINE) run $(FLAGS) img torchrun --nproc_per_node=4 train.py\nENGINE ?= podman\n",
    "Makefile",
)
s(
    "bashrc",
    [(1, "TV611")],
    "export TORCH_DISTRIBUTED_DEBUG=DETAIL CUDA_LAUNCH_BLOCKING=0\naccelerate launch train.py\n",
)
s(
    "later unset",
    [],
    "export NCCL_P2P_DISABLE=1\nnccl-tests/all_reduce_perf\nunset NCCL_P2P_DISABLE\ntorchrun --nproc_per_node=8 train.py\n",
)
s("subshell", [], "( export NCCL_P2P_DISABLE=1; ./bench )\ntorchrun --nproc_per_node=8 train.py\n")
s(
    "if debug",
    [],
    'if [ -n "$DEBUG" ]; then\n  export NCCL_DEBUG=INFO CUDA_LAUNCH_BLOCKING=1\nfi\ntorchrun --nproc_per_node=8 train.py\n',
)
s(
    "tf",
    [(9, "TV603")],
    'resource "aws_batch_job_definition" "t" {\n  type = "container"\n  container_properties = jsonencode({\n    image = "x"\n    command = ["torchrun", "train.py"]\n    resourceRequirements = [{ type = "GPU", value = "8" }]\n\n    linuxParameters = {\n      sharedMemorySize = 64\n    }\n  })\n}\n',
    "main.tf",
)
c(
    "configmap",
    [(5, "TV611")],
    **{
        "cm.yaml": 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nccl}\ndata:\n  NCCL_P2P_DISABLE: "1"\n',
        "p.yaml": "apiVersion: v1\nkind: Pod\nspec:\n  hostIPC: true\n  containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      envFrom: [{configMapRef: {name: nccl}}]\n      resources: {limits: {nvidia.com/gpu: 2}}\n",
    },
)
s("clean python -c", [], "docker run --rm --gpus all img python -c 'import torch; print(torch.cuda.is_available())'\n")
s("clean pip", [], "docker run --rm --gpus all img python -m pip list\n")
s("clean tests", [("note", "TV601")], "docker run --rm --gpus all img bash -c 'pip install -e . && pytest tests'\n")
s("clean nvidia-smi", [], "docker run --rm --gpus all nvidia/cuda:12.4.0-base-ubuntu22.04 nvidia-smi\n")
s("script train", [(1, "TV601")], "docker run --rm --gpus all img bash scripts/train.sh\n")
s(
    "clean replicas",
    [],
    "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 4\n  template:\n    spec:\n      hostIPC: true\n      containers:\n        - name: t\n          image: x\n          command: [torchrun, --nproc_per_node=2, train.py]\n          env: [{name: MASTER_ADDR, value: localhost}]\n          resources: {limits: {nvidia.com/gpu: 2}}\n",
    "p.yaml",
)
s(
    "clean one host",
    [],
    "for R in 0 1; do\n  torchrun --nnodes=2 --node_rank=$R --nproc_per_node=2 --master_addr=localhost train.py &\ndone\nwait\n",
)
s(
    "clean two lines",
    [],
    "torchrun --nnodes=2 --node_rank=0 --master_addr=localhost train.py &\ntorchrun --nnodes=2 --node_rank=1 --master_addr=localhost train.py\n",
)
s(
    "clean hca env",
    [],
    "apiVersion: v1\nkind: Pod\nspec:\n  hostIPC: true\n  containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      env: [{name: NCCL_IB_HCA, value: mlx5}]\n      resources: {limits: {nvidia.com/gpu: 2}}\n",
    "p.yaml",
)
s(
    "clean unknown each",
    [],
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun torchrun --nnodes=2 --nproc_per_node=$N train.py\n",
    "j.sbatch",
)
s(
    "each of header",
    [(5, "TV615")],
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:8\n#SBATCH --ntasks-per-node=8\nsrun torchrun --nnodes=2 --nproc_per_node=$SLURM_GPUS_ON_NODE train.py\n",
    "j.sbatch",
)
s("clean elastic", [], "torchrun --nnodes=1:4 --nproc_per_node=2 --rdzv_endpoint=localhost:0 train.py\n")
s(
    "clean helm if",
    [],
    "{{- if .Values.on }}\napiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      resources: {limits: {nvidia.com/gpu: 2}}\n      volumeMounts:\n        {{- if .Values.shm }}\n        - name: dshm\n          mountPath: /dev/shm\n        {{- end }}\n  volumes:\n    {{- if .Values.shm }}\n    - name: dshm\n      emptyDir:\n        medium: Memory\n    {{- end }}\n{{- end }}\n",
    "chart/templates/p.yaml",
)
s(
    "clean patch",
    [],
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: t}\nspec:\n  template:\n    spec:\n      containers:\n        - name: t\n          resources: {limits: {nvidia.com/gpu: 8}}\n",
    "patch.yaml",
)
s(
    "clean vectoradd",
    [],
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: cuda-vectoradd\n      image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04\n      resources: {limits: {nvidia.com/gpu: 1}}\n",
    "p.yaml",
)
s(
    "clean exporter",
    [],
    "apiVersion: apps/v1\nkind: DaemonSet\nspec:\n  template:\n    spec:\n      containers:\n        - name: dcgm-exporter\n          image: nvcr.io/nvidia/k8s/dcgm-exporter:3\n          securityContext: {privileged: true}\n          resources: {limits: {nvidia.com/gpu: 1}}\n",
    "p.yaml",
)
s(
    "clean triton",
    [("note", "TV606")],
    "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: triton\n          image: nvcr.io/nvidia/tritonserver:24.01-py3\n          command: [tritonserver, --model-repository=/m]\n          resources: {limits: {nvidia.com/gpu: 1}}\n",
    "p.yaml",
)
s(
    "clean vllm compose",
    [("note", "TV605")],
    "services:\n  llm:\n    image: vllm/vllm-openai:latest\n    runtime: nvidia\n    command: --model foo --tensor-parallel-size 2\n",
    "compose.yaml",
)
s("clean workers 0", [("note", "TV601")], "docker run --gpus device=0 img python train.py --num-workers 0\n")
s(
    "clean cap",
    [],
    "docker run --gpus all --ipc=host --cap-add=IPC_LOCK --device=/dev/infiniband img torchrun --nproc_per_node=8 train.py\n",
)
s(
    "clean sbatch env",
    [],
    "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\nexport NCCL_SOCKET_IFNAME=^lo,docker0\nexport NCCL_DEBUG=WARN\nexport MASTER_ADDR=$(scontrol show hostnames | head -1)\nsrun --container-image=x.sqsh torchrun --nnodes=4 --nproc_per_node=8 --master_addr=$MASTER_ADDR train.py\n",
    "j.sbatch",
)
s(
    "clean sweep",
    [],
    "program: train.py\nmethod: bayes\ncommand:\n  - ${env}\n  - python\n  - ${program}\n  - --gpus=8\n",
    "sweep.yaml",
)
s(
    "clean hydra",
    [],
    "defaults: [_self_]\nrun:\n  gpus: 8\n  docker: false\ntrainer: {devices: 8, num_nodes: 2}\nshm_size: 64\n",
    "conf.yaml",
)
s(
    "clean act",
    [],
    "name: x\ninputs: {a: {description: gpu}}\nruns:\n  using: composite\n  steps:\n    - run: docker run --gpus all --shm-size=8g img torchrun train.py\n      shell: bash\n",
    "action.yml",
)
s(
    "action",
    [(5, "TV601")],
    "name: x\nruns:\n  using: composite\n  steps:\n    - run: docker run --gpus all img torchrun --nproc_per_node=2 train.py\n      shell: bash\n",
    "action.yml",
)
s(
    "srun K",
    [(4, "TV615")],
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun -K1 -l -u torchrun --nnodes=2 --nproc_per_node=8 train.py\n",
    "j.sbatch",
)
s(
    "dump default",
    [("note", "TV621")],
    "docker run --rm --gpus all --shm-size=8g -e TORCH_NCCL_DUMP_ON_TIMEOUT=1 -v /a:/out img torchrun --nproc_per_node=8 train.py\n",
)
s(
    "docker run cmd list multi",
    [(3, "TV601")],
    "#!/bin/bash\nNAME=train_$(date +%s)\ndocker run -d --name $NAME --gpus '\"device=0,1\"' \\\n  --env-file .env -p 6006:6006 \\\n  my/train:latest \\\n  accelerate launch --num_processes 2 train.py\n",
)
s(
    "options tail",
    [(4, "TV601")],
    'DOCKER_FLAGS="--rm -it"\nDOCKER_FLAGS="$DOCKER_FLAGS --gpus all"\nIMG=${1:?}\ndocker run $DOCKER_FLAGS $IMG torchrun --nproc_per_node 2 train.py\n',
)
s("shift args", [], "docker run --gpus all ${@:2} img torchrun --nproc_per_node 2 train.py\n")
s("quoted flag", [], "docker run \"--gpus=all\" '--shm-size=16g' img torchrun --nproc_per_node 2 train.py\n")
s("tab", [(1, "TV601")], "docker\trun\t--gpus\tall\timg\ttorchrun --nproc_per_node 2 train.py\n")
s("crlf", [(2, "TV601")], "#!/bin/sh\r\ndocker run --gpus all \\\r\n  img torchrun --nproc_per_node 2 train.py\r\n")
s(
    "crlf yaml",
    [(2, "TV605")],
    "services:\r\n  t:\r\n    gpus: all\r\n    command: torchrun --nproc_per_node 2 train.py\r\n",
    "compose.yaml",
)
s(
    "bom",
    [(2, "TV605")],
    "\ufeffservices:\n  t:\n    gpus: all\n    command: torchrun --nproc_per_node 2 train.py\n",
    "compose.yaml",
)
s(
    "podman host",
    [(1, "TV620")],
    "podman run --gpus all --ipc host --shm-size 8g img torchrun --nproc_per_node 2 train.py\n",
)
s(
    "gres job",
    [(5, "TV614")],
    "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=4\nexport OMP_NUM_THREADS=1\nsrun python train.py --num-workers 8\n",
    "j.sbatch",
)
s("mpi master", [(1, "TV613")], "mpirun -np 16 -H a:8,b:8 -x MASTER_ADDR=localhost -x MASTER_PORT=1 python train.py\n")
s(
    "mpi npernode torchrun",
    [(1, "TV615")],
    "mpirun -np 16 -npernode 8 -H a,b torchrun --nnodes 2 --nproc_per_node 8 train.py\n",
)
s(
    "mpijob env",
    [(17, "TV611")],
    'apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: t}\nspec:\n  slotsPerWorker: 8\n  mpiReplicaSpecs:\n    Launcher:\n      template:\n        spec:\n          containers:\n            - name: l\n              image: x\n              command:\n                - mpirun\n                - -np\n                - "16"\n                - -x\n                - NCCL_P2P_DISABLE=1\n                - python\n                - train.py\n    Worker:\n      replicas: 2\n      template:\n        spec:\n          hostIPC: true\n          containers:\n            - name: w\n              image: x\n              resources: {limits: {nvidia.com/gpu: 8}}\n',
    "m.yaml",
)
s(
    "rayjob",
    [],
    "apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: python train.py\n  rayClusterSpec:\n    workerGroupSpecs:\n      - groupName: g\n        rayStartParams: {}\n        template:\n          spec:\n            containers:\n              - name: w\n                image: x\n                resources: {limits: {nvidia.com/gpu: 8}}\n",
    "r.yaml",
)
s(
    "rayservice plasma",
    [(11, "TV606")],
    "apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: python train.py\n  rayClusterSpec:\n    workerGroupSpecs:\n      - groupName: g\n        rayStartParams: {plasma-directory: /tmp}\n        template:\n          spec:\n            containers: [{name: w, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]\n",
    "r.yaml",
)
s(
    "notebook",
    [(7, "TV606")],
    "apiVersion: kubeflow.org/v1\nkind: Notebook\nspec:\n  template:\n    spec:\n      containers:\n        - name: nb\n          image: kubeflownotebookswg/jupyter-pytorch-cuda\n          resources: {limits: {nvidia.com/gpu: 1}}\n",
    "n.yaml",
)
s(
    "tmpl jinja",
    [(8, "TV606")],
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ name }}\nspec:\n  {% if x %}\n  containers:\n    - name: t\n      image: {{ image }}\n      command: [torchrun, --nproc_per_node=2, train.py]\n      resources: {limits: {nvidia.com/gpu: {{ gpus }}}}\n  {% endif %}\n",
    "p.yaml",
)
s(
    "emptydir null",
    [(14, "TV607")],
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: x\n      command: [torchrun, --nproc_per_node=2, train.py]\n      resources: {limits: {nvidia.com/gpu: 2}}\n      volumeMounts:\n        - name: d\n          mountPath: /dev/shm\n  volumes:\n    - name: d\n      emptyDir:\n",
    "p.yaml",
)
s(
    "compose anchors env",
    [(4, "TV611")],
    "x-env: &env\n  NCCL_DEBUG: WARN\n  A: b\n  NCCL_P2P_DISABLE: '1'\nservices:\n  t:\n    gpus: all\n    ipc: host\n    environment:\n      <<: *env\n    command: torchrun --nproc_per_node 2 train.py\n",
    "compose.yaml",
)
s(
    "ulimit limited",
    [(1, "TV610")],
    "docker run --gpus all --shm-size=8g --ulimit memlock=65536 --device=/dev/infiniband img torchrun --nproc_per_node 2 train.py\n",
)
s(
    "batch eks",
    [(1, "TV606")],
    '{"jobDefinitionName":"t","eksProperties":{"podProperties":{"containers":[{"name":"t","image":"x","command":["torchrun","--nproc_per_node=2","train.py"],"resources":{"limits":{"nvidia.com/gpu":"2"}}}]}}}',
    "job-definition.json",
)
c(
    "env_file",
    [(4, "TV611")],
    **{
        "compose.yaml": "services:\n  t:\n    gpus: all\n    env_file: [nccl.env]\n    ipc: host\n    command: torchrun --nproc_per_node 2 train.py\n",
        "nccl.env": "# x\nNCCL_P2P_DISABLE=1\n",
    },
)


def answers(deploy):
    """(line, code, severity) of all answers; a rule without severities of its own gives "note" or "warning"."""
    for code, _, asks in INDEX.values():
        if code.startswith("TV6"):
            question = deploy
            for part in asks[0].split(".")[1:]:
                question = getattr(question, part)
            for x in question():
                default = "note" if code == "TV616" else "warning"
                yield x.pos >> 44, code, getattr(x, "severity", default)


@pytest.mark.parametrize(("expect", "files"), [x[1:] for x in CASES], ids=[x[0] for x in CASES])
def test_platform(deploy, expect, files):
    found = sorted(set(answers(deploy(files))))
    loud = [(line, code) for line, code, severity in found if severity != "note"]
    if expect and isinstance(expect[0][0], str):
        assert expect[0][1] in [code for _, code, _ in found]
    else:
        assert loud == sorted(expect), found
