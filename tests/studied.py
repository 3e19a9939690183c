"""A small annotated corpus, and studied models."""

from pathlib import Path

#: Form, part of speech, head and relation of each word.
_SENTENCES = (
    "The/DET/2/det cat/NOUN/3/nsubj sat/VERB/0/root on/ADP/6/case the/DET/6/det mat/NOUN/3/obl",
    "A/DET/2/det dog/NOUN/3/nsubj runs/VERB/0/root across/ADP/7/case the/DET/7/det "
    "green/ADJ/7/amod grass/NOUN/3/obl",
    "The/DET/2/det man/NOUN/3/nsubj plays/VERB/0/root a/DET/5/det guitar/NOUN/3/obj "
    "now/ADV/3/advmod",
)


def conllu(path: Path, n: int = 60) -> Path:
    lines = []
    for number in range(n):
        if number % 2 == 0:
            lines.append(f"# newdoc id = doc{number}")
        for at, word in enumerate(_SENTENCES[number % 3].split(), 1):
            form, tag, head, relation = word.split("/")
            lines.append(f"{at}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    path.write_text("\n".join([*lines, ""]), "utf-8")
    return path
