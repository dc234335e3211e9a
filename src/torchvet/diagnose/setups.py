"""Faults of a set-up that name themselves in one line: (sub, words, what helps) by `what` of a `config` fact."""

from __future__ import annotations

from torchvet.findings import Text

_DRIVER = Text(
    "install a driver for this CUDA, or a torch build for this driver",
    "安装匹配该 CUDA 的驱动，或匹配该驱动的 torch 版本",
)

SETUPS: dict[str, tuple[str, Text, Text]] = {
    "driver-library": (
        "driver/library version mismatch",
        Text("driver libraries and kernel module do not fit", "驱动库与内核模块版本不一致"),
        Text(
            "reboot, or reload the kernel module (modprobe -r nvidia_uvm nvidia; modprobe nvidia)",
            "重启，或重新加载内核模块（modprobe -r nvidia_uvm nvidia；modprobe nvidia）",
        ),
    ),
    "driver-old": (
        "driver too old",
        Text("the NVIDIA driver is older than this CUDA needs", "NVIDIA 驱动低于该 CUDA 的要求"),
        _DRIVER,
    ),
    "no-kernel-image": (
        "no kernel image",
        Text("this build holds no code for the GPU at hand", "该版本不包含此 GPU 架构的代码"),
        Text(
            "torch.cuda.get_arch_list() against the capability of the GPU; rebuild extensions (TORCH_CUDA_ARCH_LIST)",
            "对照 torch.cuda.get_arch_list() 与 GPU 计算能力；重新编译扩展（TORCH_CUDA_ARCH_LIST）",
        ),
    ),
    "device-ordinal": (
        "device ordinal",
        Text("a GPU number that does not exist", "使用了不存在的 GPU 编号"),
        Text(
            "CUDA_VISIBLE_DEVICES and --nproc-per-node must fit; set_device(LOCAL_RANK)",
            "CUDA_VISIBLE_DEVICES 与 --nproc-per-node 必须一致；使用 set_device(LOCAL_RANK)",
        ),
    ),
    "duplicate-gpu": (
        "one GPU for several ranks",
        Text("two ranks use the same GPU", "两个 rank 使用同一块 GPU"),
        Text(
            "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before init_process_group",
            "在 init_process_group 之前调用 torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        ),
    ),
    "no-gpu": (
        "no GPU",
        Text("no GPU is visible", "看不到 GPU"),
        Text(
            "CUDA_VISIBLE_DEVICES; --gpus all; the device plugin of the cluster",
            "检查 CUDA_VISIBLE_DEVICES、--gpus all、集群的设备插件",
        ),
    ),
    "no-driver": (
        "no driver",
        Text("no NVIDIA driver is found", "未找到 NVIDIA 驱动"),
        Text("--gpus all; nvidia-smi on that node", "--gpus all；在该节点执行 nvidia-smi"),
    ),
    "cpu-build": (
        "CPU build",
        Text("this torch is built without CUDA", "该 torch 未启用 CUDA"),
        Text("install the CUDA build of torch", "安装 CUDA 版 torch"),
    ),
    "nccl-version": (
        "NCCL versions differ",
        Text("ranks load different versions of NCCL", "各 rank 加载的 NCCL 版本不同"),
        Text("the same image on all nodes; LD_LIBRARY_PATH", "所有节点使用相同镜像；检查 LD_LIBRARY_PATH"),
    ),
    "library": (
        "library",
        Text("a shared library does not fit or is missing", "共享库不匹配或缺失"),
        Text(
            "ldd on the library named; rebuild the extension for this torch",
            "对所列库执行 ldd；为该 torch 重新编译扩展",
        ),
    ),
    "fabric-manager": (
        "fabric manager",
        Text("the GPUs are not ready: the fabric manager does not run", "GPU 未就绪：fabric manager 未运行"),
        Text("systemctl status nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
    ),
    "process-limit": (
        "process limit",
        Text("no more threads or processes can be started", "无法再创建线程或进程"),
        Text(
            "ulimit -u and pids.max of the cgroup; fewer DataLoader workers, OMP_NUM_THREADS=1",
            "检查 ulimit -u 与 cgroup 的 pids.max；减少 DataLoader worker，设 OMP_NUM_THREADS=1",
        ),
    ),
    "arguments": (
        "arguments",
        Text("the program does not take the arguments it was started with", "程序不接受其启动参数"),
        Text(
            "torchrun passes LOCAL_RANK in the environment; torch.distributed.launch since 2.0 passes --local-rank",
            "torchrun 通过环境变量传递 LOCAL_RANK；torch 2.0 起 torch.distributed.launch 传递 --local-rank",
        ),
    ),
    "env-missing": (
        "environment",
        Text("a variable of the launcher is missing", "缺少启动器变量"),
        Text(
            "start with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
            "用 torchrun 启动，或设置 RANK、WORLD_SIZE、MASTER_ADDR、MASTER_PORT",
        ),
    ),
    "no-init": (
        "no process group",
        Text("a collective before init_process_group", "在 init_process_group 之前调用集合通信"),
        Text("call init_process_group first", "先调用 init_process_group"),
    ),
    "bridge-address": (
        "network interface",
        Text(
            "NCCL offers the address of docker's bridge, which other nodes cannot reach",
            "NCCL 使用了 docker 网桥的地址，其他节点无法访问",
        ),
        Text(
            "NCCL_SOCKET_IFNAME=^docker0,lo or the name of the right interface (ip -br addr)",
            "设置 NCCL_SOCKET_IFNAME=^docker0,lo 或正确的接口名（ip -br addr）",
        ),
    ),
    "interface": (
        "network interface",
        Text("the network interface named does not exist or has no address", "指定的网络接口不存在或没有地址"),
        Text(
            "ip -br addr; NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME",
            "ip -br addr；检查 NCCL_SOCKET_IFNAME、GLOO_SOCKET_IFNAME",
        ),
    ),
}
