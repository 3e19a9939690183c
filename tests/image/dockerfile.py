"""Reads a Dockerfile, as far as this project's goes: anything else is an error, never skipped."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Template

#: Instructions that `tests.image.build` follows, or knows that there is nothing to do for.
KNOWN = (
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER",
    "WORKDIR",
)  # fmt: skip


class DockerfileError(ValueError):
    """The file says something that is not understood here."""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        name: in capitals.
        flags: `--name=value` before its arguments.
        rest: its arguments as they are written, lines joined.
    """

    name: str
    flags: Mapping[str, str]
    rest: str

    def __str__(self) -> str:
        flags = "".join(f"--{name}={value} " for name, value in self.flags.items())
        return " ".join(f"{self.name} {flags}{self.rest}".split())

    def words(self) -> list[str]:
        """Return its arguments: of a JSON list, or separated as a shell does."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)

    def command(self) -> list[str]:
        """Return what it runs: a JSON list as it is, anything else by a shell."""
        return self.words() if self.rest.startswith("[") else ["/bin/sh", "-c", self.rest]

    def pairs(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the assignments of ENV or ARG, with the values of `known` put in."""
        parted = (word.partition("=") for word in self.words())
        return {name: expand(value, known) for name, _, value in parted}


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return `text` with `$NAME` replaced; what is not known is empty, as in Docker."""
    named = re.findall(r"\$\{?(\w+)", text)
    return Template(text).substitute(dict.fromkeys(named, ""), **known)


def read(text: str) -> list[Instruction]:
    """Return the instructions in order. Raises: `DockerfileError`."""
    return [_instruction(line) for line in _lines(text)]


def _lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        held += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield held.strip()
            held = ""
    if held:
        raise DockerfileError(f"the last line goes on: {held}")


def _instruction(line: str) -> Instruction:
    name, _, rest = line.partition(" ")
    if name not in KNOWN:
        raise DockerfileError(f"not understood: {line}")
    flags = {}
    while found := re.match(r"\s*--([a-z-]+)=(\S+)\s+", rest):
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    allowed = {"COPY": {"from"}, "HEALTHCHECK": {"interval", "timeout", "start-period", "retries"}}
    if set(flags) - allowed.get(name, set()):
        raise DockerfileError(f"a flag is not understood: {line}")
    return Instruction(name, flags, rest.strip())
