"""Follows a Dockerfile's instructions in fresh roots, and says what it did for each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.image.context import Context
from tests.image.dockerfile import DockerfileError, Instruction, expand
from tests.image.root import As, OutOfReachError, run

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: How this machine reaches its package index, for a step that needs one: files, and variables.
_FILES = ("/etc/resolv.conf", "/etc/hosts")
_VARIABLES = re.compile(r"(https?|all|no)_proxy|PIP_(CERT|INDEX_URL|PROXY|DEFAULT_TIMEOUT)", re.I)


#: What pip says when it is not answered.
_UNANSWERED = "after connection broken by"


class StepError(RuntimeError):
    """A step failed; its output is in the log."""


@dataclass
class Image:
    """A stage of the Dockerfile as far as it has been built."""

    root: Path
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    health: Instruction | None = None
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """Return the variables of a container, the user's home among them."""
        user = self.user.partition(":")[0]
        homes = {"HOME": "/"}
        for line in (self.root / "etc/passwd").read_text("utf-8").splitlines():
            name, _, number, *_, home, _ = line.split(":")
            if user in (name, number):
                homes["HOME"] = home
        return {**homes, **self.variables}


@dataclass(frozen=True)
class Step:
    """What was done for an instruction, in words, and the seconds that it took."""

    instruction: str
    done: str
    seconds: float


class Build:
    """A build of every stage. `steps` tells what was done so far, whether or not it succeeds."""

    def __init__(
        self, context: Context, base: Path, folder: Path, arguments: Mapping[str, str], log: Path
    ) -> None:
        """Make a build.

        Args:
            base: the root that every FROM of an image begins with.
            folder: where the stages' roots are made.
            arguments: values of ARG.
            log: file to which output of steps is added.
        """
        self.steps: list[Step] = []
        self._context, self._base, self._folder = context, base, folder
        self._arguments, self._log = arguments, log
        self._stages: dict[str, Image] = {}

    def follow(self, instructions: list[Instruction]) -> Image:
        """Follow the instructions and return the last stage.

        Raises: `DockerfileError` if they say something unknown, `StepError` if a command failed,
            `OutOfReachError` if it could not do its work here.
        """
        image: Image | None = None
        for each in instructions:
            began = time.monotonic()
            if each.name == "FROM":
                image, done = self._begin(each)
            elif image is None:
                raise DockerfileError(f"before the first FROM: {each}")
            else:
                done = self._do(each, image)
            self.steps.append(Step(str(each), done, time.monotonic() - began))
        if image is None:
            raise DockerfileError("there is no FROM")
        return image

    def _begin(self, each: Instruction) -> tuple[Image, str]:
        name, *rest = each.words()
        image = Image(self._folder / f"stage{len(self._stages)}")
        subprocess.run(["cp", "-a", "--reflink=auto", str(self._base), str(image.root)], check=True)
        self._stages[rest[1] if rest else name] = image
        return image, f"not run: a fresh root of Debian's own packages stands for {name}"

    def _do(self, each: Instruction, image: Image) -> str:
        match each.name:
            case "ARG":
                image.arguments |= each.pairs(image.variables)
                given = {name: self._arguments.get(name, "") for name in image.arguments}
                image.arguments |= {name: value for name, value in given.items() if value}
                return f"set, {len([value for value in given.values() if value])} given"
            case "ENV":
                image.variables |= each.pairs(image.arguments | image.variables)
                return "set"
            case "WORKDIR":
                image.folder = os.path.join(image.folder, expand(each.rest, image.variables))
                (image.root / image.folder[1:]).mkdir(parents=True, exist_ok=True)
                return "made"
            case "USER":
                image.user = each.rest
                return "set"
            case "COPY":
                return f"{self._copy(each, image):,} files"
            case "RUN":
                self._run(each, image)
                return "run"
            case "ENTRYPOINT":
                image.entrypoint = each.command()
                return "run below"
            case "CMD":
                image.command = each.words()
                return "replaced by the command of deploy/compose.yaml"
            case "HEALTHCHECK":
                image.health = Instruction("CMD", {}, each.rest.removeprefix("CMD").strip())
                return "run below, without its intervals"
        return "nothing to do: it declares"

    def _run(self, each: Instruction, image: Image) -> None:
        network = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
        files = [Path(name) for name in (*_FILES, network.get("PIP_CERT")) if name]
        variables = {**network, **image.environment(), **image.arguments}
        how = As(image.user, image.folder, variables, files)
        if run(image.root, each.command(), how, self._log):
            said = self._log.read_text(errors="replace")
            if _UNANSWERED in said:
                raise OutOfReachError("the package index does not answer")
            raise StepError(f"{each}\n{said[-3000:]}")

    def _copy(self, each: Instruction, image: Image) -> int:
        *sources, target = each.words()
        place = image.root / os.path.join(image.folder, target)[1:]
        into = target.endswith("/") or len(sources) > 1
        # A stage is thrown away, so its files need not be copied twice.
        put: Callable[..., object] = os.link if "from" in each.flags else shutil.copy2
        count = 0
        for source in sources:
            for origin, relative in self._files(source, each.flags.get("from", "")):
                goal = place / relative if relative.parts or not into else place / origin.name
                goal.parent.mkdir(parents=True, exist_ok=True)
                put(origin, goal, follow_symlinks=False)
                count += 1
        if not count:
            raise DockerfileError(f"there is nothing to copy: {each}")
        return count

    def _files(self, source: str, stage: str) -> Iterator[tuple[Path, Path]]:
        """Yield files to copy, each with its path below `source`, empty for `source` itself."""
        if not stage:
            top = self._context.folder / source
            for path in self._context.files(source):
                yield self._context.folder / path, (self._context.folder / path).relative_to(top)
            return
        top = self._stages[stage].root / source.lstrip("/")
        for path in sorted(top.rglob("*")):
            if path.is_symlink() or path.is_file():
                yield path, path.relative_to(top)
