"""Shipped checkpoints by task."""

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "checkpoints"

_CONFIGS = {
    path.parent.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*/config.json"))
}

#: Encoder and decoder.
TRANSLATORS = [name for name, config in _CONFIGS.items() if "task" not in json.loads(config)]

#: One stack.
STACKS = [name for name in _CONFIGS if name not in TRANSLATORS]

#: Of encoder and decoder, one for every config: those of one shape differ in their languages.
SHAPES = list({_CONFIGS[name]: name for name in reversed(TRANSLATORS)}.values())
