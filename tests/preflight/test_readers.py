"""The readers behind the GPU, network and NCCL probes: rules of the field, and whatever else may come."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchvet.preflight import kernel_log, network, nvidia
from torchvet.preflight.command import Ran
from torchvet.preflight.fleet_store import StoreError, where
from torchvet.preflight.fleet_words import blocks_of
from torchvet.preflight.host import Host
from torchvet.preflight.ranks import launch, node_names
from torchvet.preflight.sniff import named, number_text
from torchvet.preflight.variables import Setting, integer, misspelt, table


class Says(Host):
    """A host whose every command and file gives one text."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__("/nonexistent", {})
        self.text, self.code = text, code

    def run(self, argv, seconds=8):
        return Ran(self.code, self.text, "")

    def read(self, path):
        return self.text

    def list(self, path):
        return ["a", self.text[:20].replace("/", "")]


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(["0", "GPU-1", "[N/A]", ", ", "\n", "GPU 0: ", " Link 0: ", "X", "GPU0\t", "0x8"])).map(
        "".join
    ),
    st.sampled_from([0, 2, 6, 9, 255]),
)
def test_no_output_breaks_a_reader(text, code):
    host = Says(text, code)
    smi = nvidia.ask(host)
    assert smi.state in ("failed", "strange", "none", "ok")
    nvidia.visible(host, smi)
    nvidia.nvlinks(host), nvidia.topology(host), nvidia.cuda_version(host)
    nvidia.table(host, "query-compute-apps", ("gpu_uuid", "pid", "process_name", "used_memory"))
    network.interfaces(host), network.rdma_ports(host)
    kernel_log.lines(host)


def test_a_field_that_a_driver_does_not_know_is_asked_for_by_its_old_name():
    asked = []

    class Old(Host):
        def run(self, argv, seconds=8):
            asked.append(argv[1])
            if "clocks_event_reasons" in argv[1]:
                return Ran(2, 'Field "clocks_event_reasons.active" is not a valid field to query.\n', "")
            n = argv[1].count(",") + 1
            return Ran(0, ", ".join(["0", *["0x0000000000000040"] * (n - 1)]) + "\n", "")

    smi = nvidia.ask(Old("/nonexistent", {}))
    assert len(asked) == 2 and "clocks_throttle_reasons.active" in asked[1]
    assert smi.gpus[0].number("clocks_event_reasons.active") == 0x40


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("0,1", ["0", "1"]),
        ("1", ["1"]),
        ("", []),
        ("-1", []),
        ("0,9,1", ["0"]),
        ("GPU-bb", ["1"]),
        ("0,0", ["0"]),
        ("MIG-x", None),
    ],
)
def test_cuda_visible_devices(value, seen):
    gpus = [nvidia.Gpu({"index": str(i), "uuid": u}) for i, u in enumerate(("GPU-aa1", "GPU-bb2"))]
    host = Host("/nonexistent", {"CUDA_VISIBLE_DEVICES": value})
    found = nvidia.visible(host, nvidia.Smi("ok", gpus=gpus))
    assert (None if found is None else [g.index for g in found]) == seen


@pytest.mark.parametrize(
    ("value", "names", "chosen"),
    [
        ("eth", ["lo", "eth0", "eth1"], ["eth0", "eth1"]),
        ("=eth0", ["eth0", "eth01"], ["eth0"]),
        ("^docker", ["docker0", "eth0", "lo"], ["eth0", "lo"]),
        ("^=docker0", ["docker0", "docker01"], ["docker01"]),
        ("=mlx5_0:1,mlx5_1:1", ["mlx5_0", "mlx5_1", "mlx5_2"], ["mlx5_0", "mlx5_1"]),
        ("mlx5_1", ["mlx5_1", "mlx5_10"], ["mlx5_1", "mlx5_10"]),
    ],
)
def test_selection_by_name(value, names, chosen):
    assert network.selected(value, names) == chosen


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_IB_DISABLED", "NCCL_IB_DISABLE"), ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"), ("NCCL_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCLL_DEBUG", "NCCL_DEBUG"), ("nccl_debug", "NCCL_DEBUG"), ("NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        ("TORCH_NCCL_DEBUG", "NCCL_DEBUG"), ("TORCH_NCCL_ASYNC_ERROR_HANDLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("NCCL_P2P_DISALBE", "NCCL_P2P_DISABLE"), ("GLOO_SOCKET_IFNAMES", "GLOO_SOCKET_IFNAME"),
    ],
)  # fmt: skip
def test_names_that_are_slips(name, meant):
    assert misspelt([name]) == [(name, meant)]


def test_names_that_are_none():
    """Other libraries, plugins, build systems, and every known name itself."""
    others = [
        "RCCL_DEBUG",
        "HCCL_DEBUG",
        "MCCL_DEBUG",
        "NCCL_HOME",
        "NCCL_VERSION",
        "NCCL_TIMEOUT",
        "NCCL_FASTRAK_IFNAME",
        "NCCL_TESTS_DEVICE",
        "NCCL",
        "TORCH_HOME",
        "TORCH_LOGS",
        "NCCL_MY_OWN_SWITCH_OF_THE_JOB",
    ]
    assert misspelt(others) == []
    known = table("names")
    assert misspelt([*known["nccl"], *known["nccl_older"], *known["torch"], *known["gloo"]]) == []


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="NCLTORH_IBPSADEX012", max_size=30))
def test_any_name_is_judged(name):
    assert len(misspelt([name])) <= 1


@pytest.mark.parametrize(
    ("value", "number"),
    [("1", 1), ("0x10", 16), ("010", 8), (" 7", 7), ("-1", -1), ("yes", 0), ("", None), ("22abc", 22)],
)
def test_numbers_as_nccl_reads_them(value, number):
    assert integer(Setting("X", value)) == number


@given(st.text(alphabet="ab01-[],", max_size=30))
def test_any_node_list_ends(text):
    assert len(node_names(text)) <= 200_000


def test_node_lists():
    assert node_names("gpu-[01-03,7],login") == ["gpu-01", "gpu-02", "gpu-03", "gpu-7", "login"]
    assert node_names("r[1-2]n[08-09]") == ["r1n08", "r1n09", "r2n08", "r2n09"]


@given(st.sets(st.integers(0, 60)))
def test_blocks_name_every_number(numbers):
    seen = set()
    for block in [b for b in blocks_of(sorted(numbers)).split(", ") if b]:
        first, _, last = block.partition("-")
        seen |= set(range(int(first), int(last or first) + 1))
    assert seen == numbers


def test_servers_by_their_first_bytes():
    assert "HTTP" in str(named(b"HTTP/1.1 400 Bad Request"))
    assert "SSH" in str(named(b"SSH-2.0-OpenSSH_9.6"))
    assert "no answer" in str(named(b""))
    assert number_text(1347703880) == "HTTP"  # "Ping failed, ... Got: 1347703880" of torch 2.13


TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "29400",
    "TORCHELASTIC_RUN_ID": "j",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
SRUN = {
    "SLURM_JOB_ID": "31",
    "SLURM_PROCID": "0",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "4,2",
    "SLURM_STEP_NODELIST": "n[3-4]",
}


def test_where_the_store_is():
    place = launch(TORCHRUN)
    at = where(place, TORCHRUN)
    assert (at.address, at.port, at.hosts, at.prefix) == ("a", 29400, False, "torchvet/j/2")
    place = launch(SRUN)
    at = where(place, SRUN)
    assert (place.rank, place.world, place.local_world) == (0, 6, 4)
    assert (at.address, at.port, at.hosts) == ("n3", 20031, True)
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    with pytest.raises(StoreError) as error:
        where(launch(mpi), mpi)
    assert "MASTER_ADDR" in str(error.value.reason) and "--out DIR" in str(error.value.fix)


def test_srun_that_started_torchrun_is_torchrun():
    assert launch({**SRUN, **TORCHRUN}).rank == 5
