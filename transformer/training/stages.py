"""Recipes with several stages, each a run from the weights of the one before or a mixture of two.

A staged recipe is a TOML file with the tables of a recipe, shared by all stages, and `[[stages]]`:
each has a `name` and tables of its own that override the shared ones, or `mix`, the names of two
earlier stages whose weights are interpolated.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.config import ConfigError
from transformer.training.recipe import Recipe

_TABLES = ("model", "tokenizer", "data", "training", "stack")


@dataclass(frozen=True)
class Stage:
    """One stage. `recipe` trains it; without one, the weights of `mix` are interpolated."""

    name: str  # folder of its result inside the run's; "" for the only stage of a plain recipe
    recipe: Recipe | None
    mix: tuple[str, str] | None = None  # names of the two stages, the trained one first
    #: of the second stage's weights, 0 to 1; None picks the best on validation text
    share: float | None = None

    def started_from(self, out: Path) -> Recipe | None:
        """Return the recipe with `init` as the folder of an earlier stage, where it names one."""
        if self.recipe is None or not self.recipe.training.init.startswith("stage "):
            return self.recipe
        folder = out / self.recipe.training.init.removeprefix("stage ")
        training = dataclasses.replace(self.recipe.training, init=str(folder))
        return dataclasses.replace(self.recipe, training=training)


def load_stages(preset_or_toml: str) -> tuple[Stage, ...]:
    """Read a recipe as its stages; a preset and a plain recipe have one.

    Raises: `ConfigError` naming the file, the stage and the setting.
    """
    path = Path(preset_or_toml)
    try:
        values = tomllib.loads(path.read_text("utf-8")) if path.suffix == ".toml" else {}
    except (OSError, ValueError):
        values = {}
    if "stages" not in values:
        return (Stage("", Recipe.load(preset_or_toml)),)  # which names what is wrong with a file
    shared, listed = dict(values), values["stages"]
    del shared["stages"]
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise ConfigError(f"{path}: stages={listed!r} should be tables, [[stages]]")
    found: list[Stage] = []
    for number, each in enumerate(listed, 1):
        try:
            found.append(_stage(dict(each), shared, [stage.name for stage in found]))
        except ConfigError as error:
            raise ConfigError(f"{path}: stage {number}: {error}") from None
    return tuple(found)


def _stage(values: dict[str, Any], shared: Mapping[str, Any], earlier: list[str]) -> Stage:
    name, mix, share = (values.pop(key, None) for key in ("name", "mix", "share"))
    if not isinstance(name, str) or not name.replace("-", "").isalnum() or name in earlier:
        raise ConfigError(f"name={name!r} should be letters, digits and hyphens, and its own")
    if mix is not None:
        if not isinstance(mix, list) or len(mix) != 2 or not set(mix) <= set(earlier) or values:
            raise ConfigError(f"mix={mix!r} should be two of: {', '.join(earlier)}; alone")
        if share is not None and not (isinstance(share, float) and 0 <= share <= 1):
            raise ConfigError(f"share={share!r} should be a number from 0 to 1, such as 0.5")
        return Stage(name, None, (mix[0], mix[1]), share)
    tables = {**shared, **values}
    for table in set(_TABLES) & shared.keys() & values.keys():
        if isinstance(values[table], Mapping) and isinstance(shared[table], Mapping):
            tables[table] = {**shared[table], **values[table]}
    recipe = Recipe.from_dict(tables)
    start = recipe.training.init
    if start.startswith("stage ") and start.removeprefix("stage ") not in earlier:
        raise ConfigError(f"[training] init={start!r}: the stages before are {', '.join(earlier)}")
    return Stage(name, recipe)
