"""What rules ask: the program, and the flow questions, each made when the first rule asks it."""

from __future__ import annotations

from ..source.walk import DEPLOYMENT, NATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..config import Options
    from ..flow.deploy import Deploy
    from ..flow.deploy_steps import GivenWorkers
    from ..flow.graphs import Graphs
    from ..flow.native import Native
    from ..flow.ranks import Ranks
    from ..flow.settings import Place, Settings
    from ..flow.settings_use import Unsharded
    from ..flow.steps import Steps
    from ..flow.wrapping import Wrapping
    from ..program.program import Program

    Words = tuple[str | tuple[str, ...], ...]


SEVERAL_RANKS = (
    "dist", "rank", "RANK", "arallel", "DDP", "FSDP", "barrier", "reduce", "gather", "broadcast", "main_process",
    "master", "Trainer", "ccelerat", "ightning", "orovod", "hvd", "xla", "eepspeed", "egatron", "abric", "shard",
    "olossalai", "omposer", "metrics", "fairscale", "ignite", "mmengine", "import ray", "from ray", "ransformers",
    "timm", "Sync", "c10d", "between_proc", "SLURM", "WORLD",
)  # fmt: skip
"""Parts of the names of whatever has ranks. Where none stands in any file, nothing can part them."""

LOADING = ("oader", "ampler", "Training", "Config", "by_node", "TfmdDL")
"""Parts of the names of all loaders, samplers, and of what hands settings to them."""

OF_FILES = (
    ("barrier", "not "), ("barrier", " == "), "torch.save(", "save_", "savez", "exists", "isfile", "is_file", "dir",
    "remove", "rename", "rmtree", "unlink", "touch", "write_", "copy2", "copyfile", "copytree", "download",
    "extractall", "from_pretrained", "urlretrieve",
)  # fmt: skip
"""Parts of the names of what writes or deletes files that ranks share, and of the barriers whose tests are read."""

NEEDS: dict[str, Words] = {
    "ranks.partial_forwards": ("def forward", "synced_gpus"),
    "ranks.races": OF_FILES,
    "ranks.stranded": ("except",),
    "settings.conflicts.exclusive": ("ampler", "Iter", "WebDataset"),
    "settings.conflicts.needs_workers": ("persistent_workers", "prefetch_factor"),
    "settings.generators.carried": ("__getitem", "__iter__", "worker_init_fn"),
    "settings.handles.carried": ("__getitem", "__iter__"),
    "settings.in_workers.growing": ("__getitem",),
    "settings.in_workers.on_gpu": ("__getitem", "__iter__", "collate", "transform"),
    "settings.life.respawned": ("epoch",),
    "settings.life.waits": ("collate", "batch_size=None"),
    "settings.samplers.stale": ("ampler",),
    "settings.over_shared_memory": (
        "torch.zeros",
        "torch.ones",
        "torch.empty",
        "torch.rand",
        "TensorDataset",
        "ToTensor",
    ),
    "settings.storage.lists": ("__getitem__",),
    "settings.storage.views": ("collate_fn", "batch_size=None"),
    "steps.generators.found": (("backward(", "backward("), "update_params("),
    "wrapping.parameters.late": (".requires_grad", ".module."),
    "wrapping.parameters.needless": ("find_unused_parameters",),
}
"""Words without which a question has no answer: one of them has to stand somewhere, several in brackets in one file."""

SMALL = 300_000
"""Characters of all texts together up to which they are joined to be searched."""

EMBEDDED = (
    "load_inline(",
    "cpp_extension.load",
    "cpp_extension import load",
    "RawKernel(",
    "RawModule(",
    "SourceModule(",
)
"""Names with which Python holds native sources."""

RUNTIME = (".cu", ".hip", ".nccl", ".nvrtc")
"""How the names begin with which Python calls the runtime of CUDA and HIP itself."""

RUNTIME_NAMES = (
    ".cudaMalloc", ".cudaHost", ".cudaStreamCreate", ".cudaEventCreate", ".cudaGraph", ".cudaIpc", ".cudaCreate",
    ".cuMem", ".cuStreamCreate", ".cuEventCreate", ".cuModule", ".cuCtx", ".cuGraph", ".hipMalloc", ".hipHost",
    ".hipStreamCreate", ".hipEventCreate", ".cublas", ".cudnnCreate", ".cusolver", ".cusparse", ".curandCreate",
    ".cufft", ".ncclComm", ".nvrtcCreate", ".hiprtcCreate",
)  # fmt: skip
"""Those of its names that matter."""

EAGER = ("Adagrad",)
"""Optimizers that make their state at once: the order matters on one GPU too."""


class Project:
    """One check's worth of code. `options` are the user's."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program = program
        self.options = options
        self._flows: dict[str, object] = {}
        self._answers: dict[str, list[Any]] = {}
        self._named: dict[Words, bool] = {}
        self._texts: list[str] = []

    def answers(self, asks: tuple[str, str, tuple[str, ...]]) -> list[Any]:
        """The answers to a rule's question (see `_api.Rule`): `("graphs.kept", "how", ("append",))`."""
        question, attribute, values = asks
        found = self._answers.get(question)
        if found is None:
            found = []
            if self.may_have(question):
                answer: Any = self
                for name in question.split("."):
                    answer = getattr(answer, name)
                found += answer()
            self._answers[question] = found
        return [x for x in found if getattr(x, attribute) in values] if attribute else found

    def may_have(self, question: str) -> bool:
        """Whether a question can have answers, by the words in the program: a script for one GPU names nothing that
        has ranks, and a third of all imports is for those that do."""
        flow = question.partition(".")[0]
        if flow == "ranks":
            may = self.has_ranks()
        elif flow == "wrapping":
            may = self.has_ranks() or self.names(EAGER)
        elif flow == "native":
            may = NATIVE in self.program.others.values() or self.names(EMBEDDED) or self.calls_runtime()
        elif flow == "deploy":
            may = DEPLOYMENT in self.program.others.values()
        elif flow == "settings":
            may = self.names(LOADING)
        elif flow == "unsharded":
            may = self.names(LOADING) and self.has_ranks()
        else:
            may = True
        return may and (question not in NEEDS or self.names(NEEDS[question]))

    def calls_runtime(self) -> bool:
        """Whether the program may allocate by the runtime of CUDA or HIP."""
        return self.names(RUNTIME) and self.names(RUNTIME_NAMES)

    def has_ranks(self) -> bool:
        """Whether the program can run on several ranks at once."""
        options = self.options
        own = options.collectives or options.rank_predicates or options.wrappers
        return bool(own) or self.names(SEVERAL_RANKS)

    def names(self, words: Words) -> bool:
        """Whether one of the words (or all that are given together) stands in a file that is parsed."""
        if words not in self._named:
            files = self.texts()
            # one search through a small project's joined texts costs less than one for each of its files
            whole = ["\n".join(files)] if sum(map(len, files)) < SMALL else files
            self._named[words] = any(
                any(word in text for text in whole) if isinstance(word, str) else any(stand(word, t) for t in files)
                for word in words
            )
        return self._named[words]

    def texts(self) -> list[str]:
        """The texts of the files that are parsed."""
        if len(self._texts) != len(self.program.modules):
            self._texts = [self.program.text(path) or "" for path in list(self.program.modules)]
        return self._texts

    def unsharded(self) -> list[Unsharded]:
        """Loaders that train a DDP model and give every rank the whole dataset."""
        return self.settings.use.unsharded(self.wrapping)

    def workers_over_limit(self) -> list[Place | GivenWorkers]:
        """Where code, or the line that launches it, gives one rank more loader workers than the user's limit."""
        out: list[Place | GivenWorkers] = []
        if self.may_have("settings.over_limit"):
            out += self.settings.over_limit()
        if self.may_have("deploy.steps"):
            out += self.deploy.steps.over_limit(self.options.max_workers)
        return out

    @property
    def graphs(self) -> Graphs:
        if "graphs" not in self._flows:
            from ..flow.graphs import Graphs

            self._flows["graphs"] = Graphs(self.program, self.options)
        return self._flows["graphs"]  # type: ignore[return-value]

    @property
    def ranks(self) -> Ranks:
        if "ranks" not in self._flows:
            from ..flow.ranks import Ranks

            self._flows["ranks"] = Ranks(self.program, self.options)
        return self._flows["ranks"]  # type: ignore[return-value]

    @property
    def settings(self) -> Settings:
        if "settings" not in self._flows:
            from ..flow.settings import Settings

            settings = self._flows["settings"] = Settings(self.program, self.options)
            settings.deploy = lambda: self.deploy
        return self._flows["settings"]  # type: ignore[return-value]

    @property
    def steps(self) -> Steps:
        if "steps" not in self._flows:
            from ..flow.steps import Steps

            self._flows["steps"] = Steps(self.program, self.options)
        return self._flows["steps"]  # type: ignore[return-value]

    @property
    def wrapping(self) -> Wrapping:
        if "wrapping" not in self._flows:
            from ..flow.wrapping import Wrapping

            self._flows["wrapping"] = Wrapping(self.program, self.options)
        return self._flows["wrapping"]  # type: ignore[return-value]

    @property
    def native(self) -> Native:
        if "native" not in self._flows:
            from ..flow.native import Native

            self._flows["native"] = Native(self.program, self.options)
        return self._flows["native"]  # type: ignore[return-value]

    @property
    def deploy(self) -> Deploy:
        if "deploy" not in self._flows:
            from ..flow.deploy import Deploy, Loaders

            loaders = Loaders(lambda: self.settings if self.program.modules and self.names(LOADING) else None)
            self._flows["deploy"] = Deploy(self.program, self.options, loaders)
        return self._flows["deploy"]  # type: ignore[return-value]


def stand(words: tuple[str, ...], text: str) -> bool:
    """Are all of the words in the text, one that is given twice at two places?"""
    return all(w in text if words.count(w) == 1 else text.count(w) >= words.count(w) for w in words)
