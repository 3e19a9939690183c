"""The browser's translators beside Python's, and texts to try on both."""

import json
import random
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page

from tests.browser.chromium import FLAGS, find_or_install
from transformer.translator import Translator
from ui.export.html import worker_script
from ui.export.live import live_model

ROOT = Path(__file__).resolve().parents[2]
LIVE = ("everyday-en-de", "everyday-de-en", "everyday-en-fr", "multi30k-en-de", "reverse-toy")

#: Opens the model once, and returns what one sentence gives.
SETUP = """async (path) => {
    window.turns = new Map();
    window.postMessage = (answer) => turns.get(answer.turn)?.(answer);
    window.ask = (question) => new Promise((resolve) => {
        const turn = turns.size + 1;
        turns.set(turn, resolve);
        onmessage({ data: { ...question, turn } });
    });
    await new Promise((resolve) => {
        window.headlightModel = (name, size, text) => ask({
            bytes: Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)),
        }).then(resolve);
        document.head.append(Object.assign(document.createElement("script"), { src: path }));
    });
}"""
TRANSLATE = """async (question) => {
    const { trace, error } = await ask(question);
    if (error) return JSON.stringify({ error });
    const { maps, inside, stages, split, ...rest } = trace;
    return JSON.stringify({ ...rest, maps: Object.values(maps).map(({ data }) => [...data]) });
}"""

SEGMENT = """(texts) => JSON.stringify(texts.map((text) => {
    const cut = opened.words.tokenize(text);
    return { ...cut, back: opened.words.decode(cut.ids) };
}))"""


@cache
def translator(name: str) -> Translator:
    return Translator.load(ROOT / "checkpoints" / name, "cpu")


def live_pages(browser: Browser, folder: Path) -> Iterator[dict[str, Page]]:
    """Yield a dictionary that fills with a page for each model, whose scripts run in the page.

    The browser has its compilers, unlike the others of the tests.
    """
    fast = browser.browser_type.launch(executable_path=find_or_install(), args=FLAGS)
    (folder / "worker.js").write_text(worker_script())
    (folder / "page.html").write_text('<script src="worker.js"></script>')

    class Pages(dict[str, Page]):
        def __missing__(self, name: str) -> Page:
            (folder / f"{name}.js").write_bytes(live_model(translator(name)))
            page = self[name] = fast.new_page()
            page.goto((folder / "page.html").as_uri())
            page.evaluate(SETUP, f"{name}.js")
            return page

    yield Pages()
    fast.close()


def translated(page: Page, sentence: str, **options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(page.evaluate(TRANSLATE, {"sentence": sentence, **options}))
    return answer


def compare(page: Page, name: str, sentence: str, beam: int, edit: str = "") -> None:
    """Assert that both translate alike: ids, numbers and maps within 1e-3, and the tree."""
    off = []
    if edit:
        where, layer, head = edit.split(".")
        kind = {"encoder": "encoder_self", "decoder": "decoder_self", "cross": "cross"}[where]
        off = [[kind, int(layer) - 1, int(head) - 1]]
    ours = translator(name).trace(sentence, beam_size=beam, edits=f"off {edit}" if edit else ())
    theirs = translated(page, sentence, beam=beam, off=off)
    assert theirs.get("error") is None
    for field in ("src_ids", "src_tokens", "src_unknown", "tgt_tokens", "predicted_ids"):
        assert tuple(theirs[field]) == getattr(ours, field), (field, sentence)
    assert (theirs["text"], theirs["complete"]) == (ours.text, ours.complete)
    for field in ("log_probs", "entropy", "top_log_probs", "score", "penalties"):
        assert np.allclose(theirs[field], getattr(ours, field), rtol=0, atol=1e-3), field
    for theirs_map, kind in zip(theirs["maps"], (ours.encoder_self, ours.decoder_self, ours.cross),
                                strict=True):  # fmt: skip
        assert np.abs(np.array(theirs_map) - kind.ravel()).max() <= 1e-3


def typed(name: str, count: int, seed: int = 0) -> list[str]:
    """Return sentences as visitors type them, from the phrasebook without its slots."""
    if name == "reverse-toy":
        pick = random.Random(seed)
        return ["".join(pick.choices("abcdefghijklmnopqrstuvwxyz ", k=pick.randint(2, 14))).strip()
                or "ab" for _ in range(count)]  # fmt: skip
    column = 1 if name == "everyday-de-en" else 0
    rows = [
        line.split("\t")[column]
        for path in sorted((ROOT / "recipes/phrasebook").glob("*.tsv"))
        for line in path.read_text("utf-8").splitlines() if "{" not in line and "\t" in line
    ]  # fmt: skip
    return random.Random(seed).sample(rows, count)


#: Letters that text is made of, by likeness; the last two break segmentations most.
_LETTERS = (
    "abcdefghijklmnopqrstuvwxyz" * 3, "ABC XYZ 0123456789.,!?'\"-()", "äöüßéèçœñøåÄÖÜ",
    "e\u0301a\u0308o\u0302n\u0303ﬁﬂ½²™ⅣＡｂ㍿ﷺ", "日本語中文한국어ᄀ\u1161\u11a8", "שלוםمرحباनमस्ते",
    "😀👩\u200d👩\u200d👧🇩🇪👍🏽\ufe0f",
    "\u2581\u2047\u00a0\u3000\u200b\u200e\u00ad\ufeff\t\n\x00\x1c\x85\u2028",
)  # fmt: skip


def odd_texts(count: int, seed: int = 0) -> list[str]:
    """Return texts of 0 to 300 words of every kind of character that Python's Unicode assigns."""
    pick = random.Random(seed)
    every = [chr(code) for code in range(0x30000)
             if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]  # fmt: skip
    texts = []
    for index in range(count):
        letters: Sequence[str] = pick.choice((*_LETTERS, every))
        words = 300 if index % 100 == 7 else pick.randint(0, 9)
        mixed = ["".join(pick.choices(pick.choice((letters, _LETTERS[0])), k=pick.randint(1, 9)))
                 for _ in range(words)]  # fmt: skip
        texts.append(pick.choice((" ", " ", "  ", "")).join(mixed)[:9_000])
    return texts


def compare_segmentation(page: Page, name: str, texts: Sequence[str]) -> None:
    theirs = json.loads(page.evaluate(SEGMENT, texts))
    reader, tokenizer = translator(name)._reader, translator(name).tokenizer
    for text, cut in zip(texts, theirs, strict=True):
        ours = reader.tokenizer.tokenize(text)
        assert (tuple(cut["ids"]), tuple(cut["unknown"])) == (ours.ids, ours.unknown), repr(text)
        assert tuple(cut["pieces"]) == reader._pieces(ours), repr(text)
        assert cut["back"] == tokenizer.decode(ours.ids), repr(text)
