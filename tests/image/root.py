"""Commands in a folder as if it were the whole system, in namespaces of their own.

Everything that is mounted for a command is gone when it ends, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds for one step; a mirror that is slower is not waited for.
PATIENCE = 500

#: Packages beside Debian's smallest system: what the image of Python has that is used here.
PACKAGES = ("ca-certificates", "python3", "python3-venv", "python-is-python3")

#: KiB of free memory, three times what a build takes.
_PLENTY = 9 * 2**20

#: CLONE_NEWNS of sched.h; `os.unshare` came with Python 3.12.
_NEW_MOUNTS = 0x20000

_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")


class OutOfReachError(RuntimeError):
    """This machine lacks something, or what it asks for answers too slowly; says so in one line."""


@dataclass(frozen=True)
class As:
    """Who a command is run as, where, and with what.

    Attributes:
        user: `uid:gid` or names, as in USER; root may do everything, others nothing special.
        variables: the whole environment.
        files: of this machine, seen at the same path in the root, if they are there.
        tmpfs: folders in memory, each with its mount options.
        read_only: everything but those.
        network: this machine's; otherwise one of its own with nothing but a loopback.
        descriptors: most open files; 0 for this machine's limit.
        groups: folders of control groups (`tests.image.limits`), which limit it and what it starts.
    """

    user: str = "0:0"
    folder: str = "/"
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[Path] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    network: bool = True
    descriptors: int = 0
    groups: Sequence[Path] = ()


def keep_in_memory(folder: Path) -> bool:
    """Mount memory on a folder if there is plenty: it holds 100,000 small files for minutes.

    Only this process and those that it starts see it, and it ends with them.

    Returns: whether it did; `umount` then gives the memory back.
    """
    found = re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())
    if not found or int(found[1]) < _PLENTY or ctypes.CDLL(None).unshare(_NEW_MOUNTS):
        return False
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6g", "tmpfs", str(folder)], check=True)
    return True


def fresh_root(folder: Path, release: str) -> None:
    """Make a system of Debian's in `folder`. Raises: `OutOfReachError`."""
    if os.geteuid() != 0:
        raise OutOfReachError("only root may make a fresh root")
    if shutil.which("debootstrap") is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-q"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-q", "debootstrap"], check=False)
    for tool in ("debootstrap", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            raise OutOfReachError(
                f"{tool} is needed: on Debian, apt-get install debootstrap util-linux"
            )
    command = [
        "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", release, str(folder),
    ]  # fmt: skip
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    try:
        done = subprocess.run(
            [*spaces, *command], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise OutOfReachError(f"debootstrap took over {PATIENCE} seconds") from None
    if done.returncode:
        raise OutOfReachError(
            "debootstrap: " + " ".join((done.stdout + done.stderr).split())[-200:]
        )


def start(root: Path, command: Sequence[str], how: As, log: Path) -> subprocess.Popen[bytes]:
    """Start a command; its process ends with everything that it started. `log` is added to."""
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    if not how.network:
        spaces.append("--net")
    limits = "".join(
        f"echo $$ > {shlex.quote(str(each / 'cgroup.procs'))}\n" for each in how.groups
    )
    script = f"{limits}{_mounts(root, how)}\nexec {shlex.join(_inside(root, command, how))}"
    with log.open("ab") as file:
        return subprocess.Popen(
            [*spaces, "sh", "-eu", "-c", script], stdout=file, stderr=subprocess.STDOUT
        )


def run(root: Path, command: Sequence[str], how: As, log: Path) -> int:
    """Run a command to its end and return its status. Raises: `OutOfReachError` if it is slow."""
    process = start(root, command, how, log)
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise OutOfReachError(f"{' '.join(command)[-60:]} took over {PATIENCE} seconds") from None
    finally:
        process.kill()
        process.wait()


def join(process: subprocess.Popen[bytes], root: Path, command: Sequence[str], how: As) -> int:
    """Run a command beside one that was started in `root`, and return its status."""
    enter = ["nsenter", "--target", str(first_of(process)), "--mount", "--pid", "--net", "--"]
    return subprocess.run([*enter, *_inside(root, command, how)], check=False).returncode


def first_of(process: subprocess.Popen[bytes]) -> int:
    """Return the number, out here, of the process that is number 1 in there; 0 if it has ended."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def _inside(root: Path, command: Sequence[str], how: As) -> list[str]:
    user, _, group = how.user.partition(":")
    rights = [
        "setpriv", f"--reuid={user}", f"--regid={group or user}", "--clear-groups",
        "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all",
    ]  # fmt: skip
    variables = [f"{name}={value}" for name, value in how.variables.items()]
    return [
        "chroot", str(root), *([] if user == "0" else rights),
        "env", "-i", f"--chdir={how.folder}", *variables, *command,
    ]  # fmt: skip


def _mounts(root: Path, how: As) -> str:
    """Return a shell script that mounts what a container has: a root, devices, and folders."""
    at = shlex.quote(str(root))
    lines = [
        f"mount --bind {at} {at}",
        f"mount -t proc proc {at}/proc",
        f"mount -t sysfs -o ro sysfs {at}/sys",
        f"mount -t tmpfs -o mode=755 tmpfs {at}/dev",
        f"mkdir {at}/dev/shm",
        f"mount -t tmpfs -o mode=1777,size=64m tmpfs {at}/dev/shm",
        f"ln -s /proc/self/fd {at}/dev/fd",
    ]
    for device in _DEVICES:
        lines += [f": > {at}/dev/{device}", f"mount --bind /dev/{device} {at}/dev/{device}"]
    for file in how.files:
        inside = root / file.relative_to("/")
        if file.is_file():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
            lines.append(f"mount --bind {shlex.quote(str(file))} {shlex.quote(str(inside))}")
    for folder, options in how.tmpfs.items():
        place = shlex.quote(f"{root}{folder}")
        lines.append(f"mount -t tmpfs -o {shlex.quote(options)} tmpfs {place}")
    if how.read_only:
        lines.append(f"mount -o remount,bind,ro {at}")
    if not how.network:
        lines.append("ip link set lo up")
    if how.descriptors:
        lines.append(f"ulimit -n {how.descriptors}")
    return "\n".join(lines)
