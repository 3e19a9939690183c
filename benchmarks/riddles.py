"""Pairs of sentences for the opening: one word swapped, another pronoun in the translation.

    python benchmarks/riddles.py CHECKPOINT [--nouns cat dog bird] [--json]

Each noun leaves the house, drinks the milk and so on "because it was" hungry, thirsty and so on.
Listed are pairs whose pronouns differ, best first: by how much the head that does so best singles
out the right noun from the pronoun, in the sentence where it does so less (see
`transformer.measures.referent`). Whether the pronoun is the right one is for a reader to say.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from transformer.measures.referent import best_head, find_referent  # noqa: E402
from transformer.translator import Translator  # noqa: E402

NOUNS = ("cat", "dog", "cow", "mouse", "child", "bird", "horse", "pig", "lion", "snake", "baby")
#: What it does, with another noun at the end, and why.
DEEDS = (
    ("left the house", "hungry"), ("drank the milk", "thirsty"), ("ate the bread", "hungry"),
    ("sat on the mat", "tired"), ("didn't cross the street", "too tired"),
    ("could not cross the river", "too weak"), ("ran to the door", "hungry"),
    ("lay on the bed", "tired"), ("ate the apple", "hungry"), ("left the house", "sad"),
)  # fmt: skip


def main() -> None:
    """Print the ranking."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checkpoint")
    parser.add_argument("--nouns", nargs="+", default=NOUNS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    translator, found = Translator.load(asked.checkpoint, device="cpu"), []
    for deed, why in DEEDS:
        scenes = []
        for noun in asked.nouns:
            trace = translator.trace(f"The {noun} {deed} because it was {why}.")
            if scene := find_referent(trace, "it", (noun, deed.split()[-1])):
                scenes.append((trace, scene))
        for (one, first), (other, second) in combinations(scenes, 2):
            head = best_head([first, second])
            tokens = (one.predicted_tokens[first.step], other.predicted_tokens[second.step])
            if head is None or tokens[0] == tokens[1]:
                continue
            kind, layer, at = head
            lead = min(float(scene.lead(kind)[layer, at]) for scene in (first, second))
            found.append({
                "lead": round(lead, 3), "head": f"{kind} {layer + 1}.{at + 1}",
                "one": one.text, "other": other.text,
            })  # fmt: skip
    found.sort(key=lambda each: -float(each["lead"]))
    for each in found:
        print(json.dumps(each) if asked.json else "  ".join(map(str, each.values())))


if __name__ == "__main__":
    main()
