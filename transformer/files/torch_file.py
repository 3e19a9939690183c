"""Reads torch files as data: never mapped, never run as code.

Overwriting a mapped file in place kills the process (SIGBUS), so tensors are read by plain copies,
and a file that changes meanwhile is refused.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from transformer.errors import CheckpointError
from transformer.files.pickles import ALLOWED, check_pickles
from transformer.files.safe import check_unchanged, open_file


def read_torch(
    path: Path,
    *,
    allowed: re.Pattern[str] = ALLOWED,
    safe_globals: Sequence[Callable[..., Any] | type] = (),
    hint: str = "",
    shapes_only: bool = False,
) -> Any:
    """Return a torch file's content, with tensors on the CPU.

    Args:
        allowed: names its pickles may use, see `transformer.files.pickles`.
        safe_globals: classes that torch may build besides its own.
        hint: added to the message if the file holds more than weights.
        shapes_only: read no numbers; tensors are on the meta device.

    Raises: `CheckpointError`, one line that names the file.
    """
    with open_file(path) as (file, status):
        check_pickles(path, file, allowed, hint)
        file.seek(0)
        try:
            # Safe globals apply to all threads meanwhile, which is harmless.
            with torch.serialization.safe_globals(list(safe_globals)), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about pickles that torch did not write
                content = torch.load(
                    file, map_location="meta" if shapes_only else "cpu", weights_only=True
                )
        except pickle.UnpicklingError as error:
            found = re.search(r"GLOBAL ([\w.]+)", str(error))
            what = f" ({found[1]})" if found else ""
            raise CheckpointError(
                f"{path}: holds more than weights{what}, or is damaged; "
                f"it is not loaded, since it could run code{hint}"
            ) from None
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CheckpointError(f"{path}: not a whole torch file ({reason})") from None
        check_unchanged(path, file, status)
    return content
