"""Builds the wheel: `ui` and `figures` move into `headlight`.

Beside the app they are packages of their own. Installed, names so common would collide with other
projects, so the build moves both into `headlight` and rewrites the imports that name them.
"""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_IMPORT = re.compile(r"\b(from|import) (?=(?:ui|figures)(?:\.\w+)*(?: import |\n| as ))")


class BuildPackages(build_py):
    """Copy the packages, then move those of the app into `headlight`."""

    def run(self) -> None:
        """Build into an empty folder, so that no file of an earlier build is left in the wheel."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        built = Path(self.build_lib)
        if self.editable_mode or not (built / "ui").is_dir():
            return
        for name in ("ui", "figures"):
            (built / name).rename(built / "headlight" / name)
        for path in built.rglob("*.py"):
            text = path.read_text("utf-8")
            path.write_text(_IMPORT.sub(r"\1 headlight.", text), "utf-8")


setup(cmdclass={"build_py": BuildPackages})
