"""The three libraries of `translate.py`, each in its own process, doing tasks on request.

{"task": NAME} does the task once and returns its time and ids (see `turns.py`).
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.turns import answer

Ids = list[list[int]]
Task = Callable[[], Ids]


def searches(search: Callable[[int, int], Ids], count: int) -> dict[str, Task]:
    """Return the plain tasks of a search, which takes a number of sentences and a beam size."""
    return {
        "greedy": lambda: search(1, 1),
        "beam 4": lambda: search(1, 4),
        "batch, greedy": lambda: search(count, 1),
        "batch, beam 4": lambda: search(count, 4),
    }


def recorded(search: Callable[[int, int, bool], Ids], count: int) -> dict[str, Task]:
    """Return the tasks that return all attention too, which a third argument asks for."""
    return {
        "greedy, recorded": lambda: search(1, 1, True),
        "beam 4, recorded": lambda: search(1, 4, True),
        "batch, beam 4, recorded": lambda: search(count, 4, True),
    }


def headlight(folder: Path, sentences: Ids, steps: int, threads: int) -> dict[str, Task]:
    import torch

    from transformer.search.rules import hugging_face
    from transformer.translator import Translator

    torch.set_num_threads(threads)
    translator = Translator.load(folder / "imported", device="cpu")
    how: dict[str, Any] = {
        "alpha": 1.0, "rule": hugging_face(), "max_length": steps, "allow_unknown": True,
    }  # fmt: skip
    # The translator appends `</s>`.
    given = [sentence[:-1] for sentence in sentences]

    def search(count: int, beam: int, recorded: bool = False) -> Ids:
        if not recorded:
            return [list(each.ids) for each in translator.translate(given[:count], beam, **how)]
        if count > 1:
            return [list(trace.predicted_ids) for trace in translator.traces(given, beam, **how)]
        trace = translator.trace(given[0], None, beam, **how)
        assert trace.search is not None
        return [list(trace.predicted_ids)]

    target: list[int] = []

    def forced() -> Ids:
        if not target:
            target.extend(search(1, 4)[0][:-1])
        trace = translator.trace(given[0], target)
        return [list(trace.predicted_ids)]

    return {"trace": forced, **searches(search, len(given)), **recorded(search, len(given))}


def transformers(folder: Path, sentences: Ids, steps: int, threads: int) -> dict[str, Task]:
    """Hugging Face's library: fused attention, and eager attention that returns its weights."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(threads)
    models: dict[bool, Any] = {
        weights: MarianMTModel.from_pretrained(
            folder / "marian",
            dtype=torch.float32,
            attn_implementation="eager" if weights else "sdpa",
        ).eval()
        for weights in (False, True)
    }
    pad = models[True].config.pad_token_id

    def inputs(count: int) -> dict[str, Any]:
        width = max(map(len, sentences[:count]))
        rows = [[*each, *[pad] * (width - len(each))] for each in sentences[:count]]
        ids = torch.tensor(rows)
        return {"input_ids": ids, "attention_mask": (ids != pad).long()}

    def generate(count: int, beam: int, weights: bool = False) -> Ids:
        found = models[weights].generate(
            **inputs(count), num_beams=beam, do_sample=False, max_new_tokens=steps,
            length_penalty=1.0, early_stopping=False, output_attentions=weights,
            return_dict_in_generate=True,
        )  # fmt: skip
        return [row[1:] for row in found.sequences.tolist()]  # without the start token

    target: list[int] = []

    def forced() -> Ids:
        if not target:
            target.extend([pad, *generate(1, 4)[0][:-1]])
        with torch.inference_mode():
            output = models[True](
                **inputs(1), decoder_input_ids=torch.tensor([target]), output_attentions=True
            )
        assert len(output.cross_attentions) and len(output.encoder_attentions)
        return [target[1:]]

    count = len(sentences)
    return {"trace": forced, **searches(generate, count), **recorded(generate, count)}


def ctranslate2(folder: Path, sentences: Ids, steps: int, threads: int) -> dict[str, Task]:
    """CTranslate2 in float32, which does not return attention by head."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder / "converted"), device="cpu", compute_type="float32",
        inter_threads=1, intra_threads=threads,
    )  # fmt: skip
    numbers = json.loads((folder / "marian" / "vocab.json").read_text())
    pieces = sorted(numbers, key=lambda piece: numbers[piece])
    rows = [[pieces[index] for index in sentence] for sentence in sentences]

    def translate(count: int, beam: int) -> Ids:
        found = translator.translate_batch(
            rows[:count], beam_size=beam, max_decoding_length=steps, length_penalty=1.0
        )
        return [[numbers[piece] for piece in each.hypotheses[0]] for each in found]

    return searches(translate, len(rows))


def bandwidth(n_bytes: int) -> Task:
    """A task that reads as many bytes as a step reads weights; it returns no ids."""
    import torch

    # Ones: untouched zeros would be one page of memory, mapped many times.
    held = torch.ones(n_bytes // 4)

    def read() -> Ids:
        held.sum()
        return []

    return read


CONTESTANTS = {"headlight": headlight, "transformers": transformers, "ctranslate2": ctranslate2}


def serve(name: str, folder: Path, steps: int, threads: int, step_bytes: int) -> None:
    """Do the tasks that lines on stdin ask for, until stdin ends."""
    sentences = json.loads((folder / "sentences.json").read_text())
    tasks = CONTESTANTS[name](folder, sentences, steps, threads)
    if name == "headlight":
        tasks["read memory"] = bandwidth(step_bytes)

    def do(task: str) -> Any:
        began = time.perf_counter()
        ids = tasks[task]()
        return {"seconds": time.perf_counter() - began, "ids": ids}

    answer(tasks, do)
