"""The tables agree with themselves, and the generated modules with the tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchvet import knowledge

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "torchvet" / "knowledge"


@pytest.fixture(scope="module")
def rows():
    from torchvet.knowledge._apis import ROWS

    return ROWS


def test_generated_modules_are_in_step_with_the_tables():
    r = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "build_knowledge.py"), "--check"], capture_output=True, text=True
    )
    assert r.returncode == 0, r.stderr


def test_every_row_is_there(rows):
    assert len(rows) >= 672
    assert {len(r) for r in rows.values()} == {12}


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("torch.distributed.distributed_c10d.all_reduce", "torch.distributed.all_reduce"),
        ("torch.distributed._reduce_scatter_base", "torch.distributed.reduce_scatter_tensor"),
        ("pytorch_lightning.core.lightning.LightningModule.log", "lightning.pytorch.LightningModule.log"),
        ("lightning.Trainer.save_checkpoint", "lightning.pytorch.Trainer.save_checkpoint"),
        ("lightning_fabric.Fabric.all_reduce", "lightning.fabric.Fabric.all_reduce"),
        (
            "torch.nn.parallel.distributed.DistributedDataParallel.no_sync",
            "torch.nn.parallel.DistributedDataParallel.no_sync",
        ),
        ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"),
        ("accelerate.accelerator.Accelerator.gather", "accelerate.Accelerator.gather"),
        ("accelerate.state.PartialState.is_main_process", "accelerate.Accelerator.is_main_process"),
        ("megatron.mpu.get_data_parallel_rank", "megatron.core.parallel_state.get_data_parallel_rank"),
        ("numpy.random.permutation", "numpy.random.*"),
        ("ray.train.get_context.get_world_rank", "ray.train.get_context().get_world_rank"),
        ("torch.distributed._tensor.api.DTensor.full_tensor", "torch.distributed.tensor.DTensor.full_tensor"),
    ],
)
def test_aliases_lead_to_the_row(name, row):
    found = knowledge.api(name)
    assert found is not None and found.name == row


def test_an_alias_of_every_class_of_a_package_stands_for_its_method():
    row = knowledge.api("torchmetrics.classification.MulticlassF1Score.compute")
    assert row is not None and row.name == "torchmetrics.Metric.compute"
    assert knowledge.api("torchmetrics.classification.MulticlassF1Score.plot") is None
    assert knowledge.api("othermetrics.Score.compute") is None


def test_unknown_names_stay_as_they_are():
    assert knowledge.canonical("mypackage.module.barrier") == "mypackage.module.barrier"
    assert knowledge.api("mypackage.module.barrier") is None
    assert knowledge.api("barrier") is None
    assert knowledge.methods("surely_not_there") == ()


def test_canonical_names_are_fixed_points(rows):
    """Asking twice changes nothing, for rows, aliases and every prefix: no alias leads in a circle."""
    from torchvet.knowledge._apis import ALIASES
    from torchvet.knowledge._names import PREFIXES

    for name in rows:
        assert knowledge.canonical(name) == name
    for name in [*ALIASES, *PREFIXES, *(p + ".Some.thing" for p in PREFIXES)]:
        once = knowledge.canonical(name)
        assert knowledge.canonical(once) == once


def test_group_arguments_have_a_position_or_a_keyword(rows):
    for name, row in rows.items():
        group_arg, group_pos = row[3], row[4]
        assert group_pos is None or group_pos == "kw" or (isinstance(group_pos, int) and 0 <= group_pos < 12), name
        assert group_pos is None or group_arg, name


def test_what_nobody_read_says_so(rows):
    from torchvet.knowledge._notes import NOTES

    said = {n for n, (notes, source) in NOTES.items() if "inferred" in notes + source}
    assert said
    for name in said:
        row = knowledge.api(name)
        assert row is not None and row.inferred, name


def test_rows_of_a_kind_and_methods_by_name():
    assert "torch.distributed.barrier" in knowledge.names("collective")
    assert all(knowledge.api(n).kind == "rank_source" for n in knowledge.names("rank_source"))
    with pytest.raises(KeyError):
        knowledge.names("no such kind")
    barriers = {r.name for r in knowledge.methods("barrier")}
    assert {"torch.distributed.barrier", "lightning.fabric.Fabric.barrier"} <= barriers
    assert knowledge.environment("RANK").kind == "rank_source"
    assert knowledge.environment("HOME") is None


def test_identifiers_and_patterns_say_the_same():
    from torchvet.knowledge._identifiers import WORDS

    for word, (kind, confidence) in WORDS.items():
        found = [c for pattern, c in knowledge.name_patterns(kind) if pattern.search(word)]
        assert confidence in found, word
    assert knowledge.identifier("local_rank") is not None
    assert knowledge.identifier("is_main_process")[0] == "rank_predicate"
    for innocent in ("loss", "ranking", "main", "rank_bm25", "frank"):
        assert knowledge.identifier(innocent) is None


def test_graph_tables_do_not_contradict_each_other():
    for keeps, removes in (
        ("keeper_methods", "remover_methods"),
        ("keeper_functions", "remover_functions"),
        ("keeper_attributes", "remover_attributes"),
        ("keeper_builtins", "remover_builtins"),
        ("keeper_functions", "source_less_functions"),
        ("parametric_modules", "parameterless_modules"),
        ("list_state_metrics", "sum_state_metrics"),
        ("growing_methods", "clearing_methods"),
    ):
        assert not knowledge.graph(keeps) & knowledge.graph(removes), (keeps, removes)
    with pytest.raises(KeyError):
        knowledge.graph("no such table")


def test_tables_use_canonical_names():
    """A name that an alias rewrites would never be found again."""
    from torchvet.knowledge._graphs import TABLES

    methods = {t for t in TABLES if t.endswith(("_methods", "_builtins", "_attributes", "_hooks", "_registrars"))}
    for table, words in TABLES.items():
        if table in methods - {"no_grad_hooks", "training_hooks"} or table.endswith(
            ("_flags", "_metrics", "_prefixes")
        ):
            continue
        for word in words:
            assert knowledge.canonical(word) == word, (table, word)


def test_loader_tables():
    parameters = knowledge.loader("parameters")
    assert parameters[5] == "num_workers" and parameters[7] == "pin_memory"
    assert knowledge.loader("defaults")["num_workers"] == 0
    for table in ("loader_classes", "loader_factories"):
        for name in knowledge.loader(table):
            assert knowledge.canonical(name) == name
    for table in ("samplers", "datasets", "set_epoch_callers", "cpu_counts"):
        for name in knowledge.loader(table):
            assert knowledge.canonical(name) == name


def test_nothing_loads_before_it_is_asked_for():
    code = "import sys, torchvet.knowledge; print([m for m in sys.modules if m.startswith('torchvet.knowledge._')])"
    r = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert r.stdout.strip() == "[]", r.stdout + r.stderr
