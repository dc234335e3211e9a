"""Ready-made starts: `torchvet preflight --print-entrypoint KIND`."""

from __future__ import annotations

ENTRYPOINTS = {
    "docker": """\
#!/bin/sh
# entrypoint.sh: the job starts only when this container can run it.
#   Dockerfile:  RUN pip install torchvet
#                COPY --chmod=755 entrypoint.sh /entrypoint.sh
#                ENTRYPOINT ["/entrypoint.sh"]
# TORCHVET_PREFLIGHT=off skips it; TORCHVET_PREFLIGHT_OPTIONS="--workers 4 --batch-bytes 31MB" describes the job.
if [ "${TORCHVET_PREFLIGHT:-on}" != off ]; then
    # shellcheck disable=SC2086  # several options
    torchvet preflight --this-node --timeout 30 ${TORCHVET_PREFLIGHT_OPTIONS:-} >&2 || exit $?
fi
exec "$@"
""",
    "kubernetes": """\
# Pod template: the probes run with the image, the limits and the /dev/shm of the training container, before it starts.
spec:
  volumes:
    - name: dshm
      emptyDir:
        medium: Memory
        sizeLimit: 8Gi # counts in the memory limit
  initContainers:
    - name: preflight
      image: TRAINING_IMAGE # the same as below
      command: [torchvet, preflight, --this-node, --timeout, "30"]
      # args: [--workers, "4", --batch-bytes, 31MB, --ranks-per-node, "8"]
      resources: &resources
        limits:
          nvidia.com/gpu: 8
          memory: 256Gi
          cpu: "64"
      volumeMounts: &mounts
        - name: dshm
          mountPath: /dev/shm
  containers:
    - name: train
      image: TRAINING_IMAGE
      resources: *resources
      volumeMounts: *mounts
""",
    "slurm": """\
#!/bin/bash
# In the job script, before the training starts; one process on each node, all nodes are compared:
#
#   srun --ntasks-per-node=1 torchvet preflight --timeout 60 || exit 1
#   srun torchrun ... train.py
#
# Or as TaskProlog of a cluster (slurm.conf: TaskProlog=/etc/slurm/torchvet_prolog.sh). It sees the limits and the
# container of the task. What it prints after "print " reaches the job's output; a failure ends the task. As Prolog (on
# the node, before the job) a failure drains the node: use it there only with --only gpu.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
out=$(torchvet preflight --this-node --timeout 30 2>&1)
code=$?
printf '%s\\n' "$out" | sed 's/^/print /'
exit "$code"
""",
    "github": """\
# A step of a job on a self-hosted runner with GPUs, before the one that trains:
- name: Can this runner train?
  run: |
    pip install torchvet
    torchvet preflight --this-node --output-format github --timeout 60
""",
}
