import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tiny_models import SMALL, random_model
from tests.transformer.conftest import Command
from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.evaluation import complexity, complexity_records
from transformer.evaluation import complexity_records as records
from transformer.evaluation.complexity import Plan, build, held_bytes, measure, processor_name
from transformer.evaluation.complexity_maps import map_bytes, time_maps
from transformer.measures.layer_costs import LAYER_COSTS
from transformer.types import InputError

TINY = Plan(lengths=(8, 12, 20), widths=(8, 16), window=4, seconds=0)


@pytest.fixture(scope="module")
def tiny() -> complexity_records.Measurement:
    return measure(TINY)


@pytest.mark.parametrize("n", [5, 12, 17])
def test_restricted_attention_is_attention_under_a_band(n: int) -> None:
    torch.manual_seed(n)
    layer = complexity.RestrictedAttention(ModelConfig(d_model=24, n_heads=3, d_ff=1), window=6)
    x, places = torch.randn(2, n, 24), torch.arange(n)
    band = (places[:, None] - places).abs() <= 3
    with torch.no_grad():
        assert torch.allclose(layer(x), MultiHeadAttention.forward(layer, x, x, band), atol=1e-6)


def test_held_bytes_are_counted_while_they_live() -> None:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(5):
                x = x.view(-1).exp().view(3, 7)  # two live at once; views hold nothing
            return x

    assert held_bytes(Chain(), torch.zeros(3, 7)) == 2 * 3 * 7 * 4
    assert held_bytes(torch.nn.Identity(), torch.zeros(3, 7)) == 0
    x = torch.zeros(1, 256, 16)  # kept maps hold two of them more than fused ones need
    kept, fused = (
        held_bytes(build(kind, 16, kernel=3, window=4), x) for kind in ("explicit", "attention")
    )
    assert fused < 256**2 * 4 < 2 * 256**2 * 4 <= kept


def test_a_measurement_has_every_cell_and_alone_survives_its_file(
    tiny: complexity_records.Measurement,
) -> None:
    assert {(each.kind, each.n, each.d) for each in tiny.cells} == {
        (kind, n, d) for kind in LAYER_COSTS for n in TINY.lengths for d in TINY.widths
    }
    assert tiny.made.load >= 0
    assert {len(each.seconds) for each in tiny.cells} == {complexity.LEAST_ROUNDS}
    assert all(
        0 < each.bytes <= complexity.expected_bytes(each.kind, each.n, each.d)
        for each in tiny.cells
    )
    assert complexity_records.Measurement.from_json(tiny.to_json()) == tiny
    assert tiny.made.threads == 1 and tiny.made.torch == torch.__version__
    whole = json.loads(tiny.to_json())
    torn = {**whole, "cells": whole["cells"][1:]}
    other = {**whole, "format": 99}
    for text in ("", "[]", "{}", json.dumps(torn), json.dumps(other), "[" * 10_000):
        with pytest.raises(InputError, match="not a measurement"):
            complexity_records.Measurement.from_json(text)


def test_a_limit_leaves_layers_out_before_they_are_run() -> None:
    plan = Plan(lengths=(8, 600), widths=(8, 16), seconds=0, held=2**20)
    made = measure(plan)
    assert {(each.kind, each.n) for each in made.cells if not each.seconds} == {("explicit", 600)}
    assert plan.most_held <= 2**20 < made.cell("explicit", 600, 8).bytes
    assert made.times("explicit", 8)[0].tolist() == [8]
    rows = {row.kind: row for row in complexity_records.exponents(made, 8)}
    assert rows["explicit"].in_n is None and rows["attention"].in_n is not None
    assert (rows["explicit"].lengths, rows["attention"].lengths) == ((8,), (8, 600))
    assert (rows["explicit"].widths, rows["attention"].widths) == ((), (8, 16))
    for first, second in complexity_records.COMPARED:
        assert complexity_records.crossings(made, first, second).keys() == {8, 16}


@pytest.mark.parametrize(
    ("change", "said"),
    [({"lengths": (8,)}, "lengths"), ({"lengths": (8, 4)}, "rising"), ({"widths": (64, 100)},
     "multiple"), ({"kernel": 4}, "odd"), ({"window": 3}, "even"), ({"threads": 0}, "threads"),
     ({"held": 5}, "memory limit"), ({"seconds": -1.0}, "seconds"),
     ({"widths": (8, 10**6)}, "widths")],
)  # fmt: skip
def test_a_plan_that_cannot_be_measured_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dataclasses.replace(TINY, **change)


@pytest.mark.parametrize(
    ("others", "waited", "load"), [(0.1, 0.0, 0.1), (3.4, 0.0, 3.4), (0.0, 0.5, 1.0), (-0.2, 0, 0)]
)
def test_load_is_other_work_or_waiting_whichever_is_more(
    others: float, waited: float, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measuring takes 10 seconds, with `others` processors busy and a share of waiting."""
    own = 10 * (1 - waited)
    clocks = iter([(5.0, 1.0, 2.0, 700.0), (15.0, 1 + own, 2 + own, 700 + own + 10 * others)])
    monkeypatch.setattr(complexity, "_clocks", lambda: next(clocks))
    made = measure(TINY).made
    assert made.load == pytest.approx(load)
    assert f"at a load of {made.load:g}" in made.said and made.date[:10] in made.said


def test_the_system_counts_busy_seconds_of_all_processors() -> None:
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    *_, own, busy = complexity._clocks()
    assert 0 < own < busy < uptime * (os.cpu_count() or 1)


def test_without_the_systems_count_waiting_alone_is_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    wall, thread, own, busy = complexity._clocks()
    assert busy == 0 and wall > 0 and own >= thread > 0


@pytest.mark.parametrize(
    ("load", "cores", "kept"), [(0.2, 2, True), (0.21, 2, False), (0.21, 8, True), (6, 8, False)]
)
def test_what_is_made_under_load_is_not_stored(
    load: float, cores: int, kept: bool, tiny: complexity_records.Measurement, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, command: Command,
) -> None:  # fmt: skip
    made = dataclasses.replace(tiny, made=dataclasses.replace(tiny.made, load=load, cores=cores))
    monkeypatch.setattr(complexity, "measure", lambda *_: made)
    file = tmp_path / "made.json"
    status, out, err = command("complexity", "--out", file)
    assert (status, file.exists()) == ((0, True) if kept else (2, False))
    assert f"here, at a load of {load:g}, attention is slower from" in out
    if not kept:
        said = f"other work kept {load:g} processors busy, at most {cores / 10:g} of {cores} is"
        assert made.refusal == f"{said} allowed" and said in err.splitlines()[-1]


def test_cli_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    file = tmp_path / "made.json"
    options = ["--quick", "--lengths", "8", "12", "--widths", "8", "16", "--json"]
    monkeypatch.setattr(records, "MOST_LOAD", 1e9)
    status, out, err = command("complexity", *options, "--out", file)
    assert (status, out) == (0, file.read_text("utf-8"))
    made = complexity_records.Measurement.from_json(out)
    assert made.made.command.endswith("complexity --quick --lengths 8 12 --widths 8 16")
    assert "MiB of tensors" in err.splitlines()[0]
    assert "threads 0" in command("complexity", "--quick", "--threads", 0).refused


def test_the_shipped_file_is_of_these_layers() -> None:
    made = complexity_records.shipped()
    n, d = made.lengths[0], made.widths[0]
    x = torch.zeros(1, n, d)
    for kind in LAYER_COSTS:
        layer = build(kind, d, kernel=made.kernel, window=made.window)
        assert held_bytes(layer, x) == pytest.approx(made.cell(kind, n, d).bytes, rel=0.1), kind
    assert made.rounds >= complexity.LEAST_ROUNDS and made.made.processor and made.made.command
    for row in complexity_records.exponents(made, made.widths[-1]):
        assert row.in_n is not None and np.isfinite(row.in_n.value)


def test_bytes_of_maps_are_those_of_recorded_maps() -> None:
    model, ids = random_model(SMALL), torch.randint(4, 30, (1, 9))
    with torch.no_grad():
        encoded = model.encode(ids, need_weights=True)
        decoded = model.decode(ids, encoded, need_weights=True)
    maps = (encoded.attention, decoded.self_attention, decoded.cross_attention)
    assert tuple(map_bytes(SMALL, 9).values()) == tuple(
        each.nbytes for each in maps if each is not None
    )
    recorded, fused = time_maps(model, (5, 9), rounds=2)
    assert recorded.shape == fused.shape == (2, 2) and (recorded > 0).all() and (fused > 0).all()


def test_a_processor_has_a_name(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nmodel name\t: Some CPU @ 2\n")
    assert processor_name(file) == "Some CPU @ 2"
    assert processor_name(tmp_path / "missing")
