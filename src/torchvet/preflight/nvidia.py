"""What nvidia-smi says, asked once for all probes.

A field that a driver does not know makes nvidia-smi refuse the whole question (exit 2), so the question is asked again
with the field's old name, or without it. Return codes are those of its manual page: 6 nothing found, 9 driver not
loaded, 12 library missing, 15 a GPU fell off the bus, 18 driver and library differ, 255 internal error.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command import Ran
    from .host import Host

SECONDS = 8
"""Patience with nvidia-smi: it hangs for ever on a GPU that is wedged (Xid 79, 119)."""

FIELDS = (
    "index", "uuid", "name", "pci.bus_id", "driver_version", "persistence_mode", "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total", "mig.mode.current", "compute_mode", "temperature.gpu", "power.limit",
    "clocks_event_reasons.active", "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current",
    "pcie.link.width.max", "memory.total", "memory.used",
)  # fmt: skip
OLD_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
"""Renamed with driver 535 (Azure azurehpc-health-checks, azure_gpu_clock_throttling.nhc)."""

_UNKNOWN_FIELD = re.compile(r'[Ff]ield "([^"]+)" is not a valid field')
_CUDA = re.compile(r"CUDA(?: UMD| Driver)? Version\s*:\s*(\d+)\.(\d+)")
_LOST = re.compile(r"Unable to determine the device handle for (?:GPU|gpu)\s*\d*:?\s*([0-9A-Fa-f:.]+\b)[^\n]*")
_LISTED = re.compile(r"^GPU (\d+): (.+?) \(UUID: ([^)\s]+)\)", re.MULTILINE)
_LINK = re.compile(r"Link\s+(\d+)\s*:\s*(.+)")
_GPU = re.compile(r"GPU\s+(\d+)\s*:")


class Gpu:
    """One row of the answer; `fields` holds the words as printed, `text` and `number` give None for "[N/A]"."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields

    def text(self, name: str) -> str | None:
        word = self.fields.get(name, self.fields.get(OLD_NAMES.get(name, "")))
        if not word or word.startswith("[") or word in ("N/A", "Not Supported", "Unknown Error"):
            return None
        return word

    def number(self, name: str) -> float | None:
        word = self.text(name)
        try:
            found = float(int(word, 16)) if word and word.startswith("0x") else float(word or "")
        except (ValueError, OverflowError):
            return None
        return found if abs(found) < 1e300 else None  # "inf" and "nan" are numbers to float()

    @property
    def index(self) -> str:
        return self.text("index") or "?"

    @property
    def name(self) -> str:
        return self.text("name") or ""

    @property
    def uuid(self) -> str:
        return self.text("uuid") or ""

    @property
    def bus(self) -> str:
        return (self.text("pci.bus_id") or "").lower()

    @property
    def broken(self) -> str:
        """ "GPU requires reset", "Unknown Error": what stands in place of the memory; "" when it answers."""
        word = self.fields.get("memory.total", "")
        return word.strip("[]") if any(w in word for w in ("reset", "Unknown Error", "lost")) else ""


class Smi:
    """The answer as a whole. `state`: "absent" (no such command), "hangs", "failed" (`code`, `words`), "strange" (exit
    0 with words that are no answer), "none" (no GPU), "ok". `lost`: lines about GPUs that no longer answer. `driver`:
    "570.86.15" or ""."""

    __slots__ = ("code", "gpus", "lost", "state", "words")

    def __init__(
        self, state: str, code: int = 0, words: str = "", gpus: list[Gpu] | None = None, lost: list[str] | None = None
    ) -> None:
        self.state = state
        self.code = code
        self.words = words
        self.gpus = gpus or []
        self.lost = lost or []

    @property
    def driver(self) -> str:
        return next((d for g in self.gpus if (d := g.text("driver_version"))), "")


def ask(host: Host) -> Smi:
    """All GPUs with `FIELDS`. The commands are remembered by the host, so every probe may ask."""
    fields = list(FIELDS)
    ran = None
    for _ in range(len(FIELDS)):
        ran = host.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"], SECONDS)
        unknown = _UNKNOWN_FIELD.search(ran.out + ran.err) if ran and not ran.timed_out and ran.code else None
        if unknown is None or unknown[1] not in fields:
            break
        at = fields.index(unknown[1])
        fields[at : at + 1] = [OLD_NAMES[unknown[1]]] if unknown[1] in OLD_NAMES else []
    return _smi(ran, fields)


def _smi(ran: Ran | None, fields: list[str]) -> Smi:
    if ran is None:
        return Smi("absent")
    if ran.timed_out:
        return Smi("hangs")
    said = (ran.out + "\n" + ran.err).strip()
    lost = [m[0].strip() for m in _LOST.finditer(said)]
    gpus = []
    for line in ran.out.splitlines():
        words = [w.strip() for w in line.split(",")]
        if len(words) == len(fields) and words[0].isdigit():
            gpus.append(Gpu(dict(zip(fields, words))))
    if gpus:
        return Smi("ok", ran.code, "", gpus, lost)
    listed = (
        [Gpu({"index": m[1], "name": m[2], "uuid": m[3]}) for m in _LISTED.finditer(ran.out)] if not ran.code else []
    )
    if listed:  # a stand-in for nvidia-smi, of a vendor's container or an emulator, that answers every question so
        return Smi("ok", 0, "", listed, lost)
    first = next((line.strip() for line in said.splitlines() if line.strip()), "")
    if "No devices were found" in said or ran.code == 6:
        return Smi("none", ran.code, first, [], lost)
    if ran.code == 0 and not said:
        return Smi("none", 0, "")
    if ran.code == 0:
        return Smi("strange", 0, first)
    return Smi("failed", ran.code, first, [], lost)


def visible(host: Host, smi: Smi) -> list[Gpu] | None:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; None when its value says nothing about them (MIG instances). Like the
    driver, everything from the first invalid entry on is left out (CUDA C++ Programming Guide, environment variables).
    """
    value = host.env.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return smi.gpus
    out: list[Gpu] = []
    for word in (w.strip() for w in value.split(",")):
        if word.startswith("MIG"):
            return None
        found = [g for g in smi.gpus if word == g.index or (word.startswith("GPU-") and g.uuid.startswith(word))]
        if len(found) != 1 or found[0] in out:
            break
        out.append(found[0])
    return out


def cuda_version(host: Host) -> tuple[int, int] | None:
    """The newest CUDA that the driver library serves, from the head of the plain screen."""
    ran = host.run(["nvidia-smi"], SECONDS)
    found = _CUDA.search(ran.out) if ran and not ran.timed_out else None
    return (int(found[1]), int(found[2])) if found else None


def table(host: Host, question: str, fields: tuple[str, ...]) -> list[dict[str, str]] | None:
    """Rows of another question: `--query-remapped-rows`, `--query-compute-apps`. None: no answer."""
    ran = host.run(["nvidia-smi", f"--{question}=" + ",".join(fields), "--format=csv,noheader,nounits"], SECONDS)
    if ran is None or not ran.ok:
        return None
    out = []
    for line in ran.out.splitlines():
        words = [w.strip() for w in line.split(",")]
        if len(words) > len(fields) and "process_name" in fields:  # a command line may hold commas
            at = fields.index("process_name")
            extra = len(words) - len(fields) + 1
            words[at : at + extra] = [", ".join(words[at : at + extra])]
        if len(words) == len(fields):
            out.append(dict(zip(fields, words)))
    return out


def nvlinks(host: Host) -> dict[str, list[str]] | None:
    """GPU index -> state of each link as printed ("26.562 GB/s", "<inactive>"); empty where there is no NVLink. None:
    no answer."""
    ran = host.run(["nvidia-smi", "nvlink", "-s"], SECONDS)
    if ran is None or ran.timed_out or (ran.code and not ran.out.strip()):
        return None
    out: dict[str, list[str]] = {}
    gpu = ""
    for line in ran.out.splitlines():
        head = _GPU.match(line.strip())
        if head:
            gpu = head[1]
        found = _LINK.search(line)
        if found and gpu and not head:
            out.setdefault(gpu, []).append(found[2].strip())
    return out


def topology(host: Host) -> tuple[list[str], list[list[str]], dict[str, str]] | None:
    """`nvidia-smi topo -m`: column names (GPU0 ... NIC0 ...), rows of GPUs, and the legend NIC0 -> mlx5_0. None: no
    answer or no GPU row."""
    ran = host.run(["nvidia-smi", "topo", "-m"], SECONDS)
    if ran is None or not ran.ok:
        return None
    names: list[str] = []
    rows: list[list[str]] = []
    legend: dict[str, str] = {}
    for line in re.sub(r"\x1b\[[0-9;]*m", "", ran.out).splitlines():
        words = line.split()
        if not names and words[:1] == ["GPU0"] and len(words) > 1 and words[1] not in ("X",):
            names = [w for w in words if re.fullmatch(r"(GPU|NIC)\d+|mlx\d_\w+", w)]
        elif not names and words == ["GPU0"]:
            names = ["GPU0"]
        elif words and re.fullmatch(r"GPU\d+", words[0]) and names:
            rows.append([words[0], *words[1 : len(names) + 1]])
        else:
            found = re.fullmatch(r"\s*(NIC\d+):\s*(\S+)\s*", line)
            if found:
                legend[found[1]] = found[2]
    return (names, rows, legend) if rows else None
