"""Builds the wheel: `ui` and `figures` move into `headlight`.

In the app they are separate packages. Once installed, such common names would collide with other
projects, so the build moves both into `headlight` and rewrites the imports that name them.
"""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

_IMPORT = re.compile(r"\b(from|import) (?=(?:ui|figures)(?:\.\w+)*(?: import |\n| as ))")


class BuildPackages(build_py):
    """Copy the packages, then move those of the app into `headlight`."""

    def run(self) -> None:
        """Build into an empty folder, so that no file of an earlier build is left in the wheel."""
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        built = Path(self.build_lib)
        for name in ("ui", "figures"):
            (built / name).rename(built / "headlight" / name)
        for path in built.rglob("*.py"):
            text = path.read_text("utf-8")
            path.write_text(_IMPORT.sub(r"\1 headlight.", text), "utf-8")


class NameTop(egg_info):
    """Name the wheel's top-level packages in its metadata."""

    def run(self) -> None:
        """Write the metadata."""
        super().run()
        (Path(self.egg_info) / "top_level.txt").write_text("headlight\ntransformer\n", "utf-8")


setup(cmdclass={"build_py": BuildPackages, "egg_info": NameTop})
