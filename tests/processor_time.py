"""Run a command and print the processor time that it and all its descendants used.

    python tests/processor_time.py --aim 600 -- make suite

A parent is charged for the children it has waited for. On Linux, descendants whose parent ends
first (browsers, servers) become children of this process, so their time is counted as well.
"""

import argparse
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36

#: Seconds to wait for descendants that outlive the command.
PATIENCE = 20


def run(command: list[str]) -> tuple[int, float, float]:
    """Run a command to its end and wait for the descendants that it left.

    Returns: exit status, and seconds of user and system time.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command handles Ctrl-C
    process = subprocess.Popen(command, preexec_fn=_default_interrupt)
    status = None
    while status is None:
        pid, code = os.wait()
        if pid == process.pid:
            status = os.waitstatus_to_exitcode(code)
    process.returncode = status
    _wait_for_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, used.ru_utime, used.ru_stime


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait_for_orphans() -> None:
    deadline = time.monotonic() + PATIENCE
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
        print("Processes of the command still run; their time is not counted.", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--aim", type=float, help="seconds to print beside the figure")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    status, user, system = run(arguments.command)
    aim = f"; aim: at most {arguments.aim:.0f} s" if arguments.aim else ""
    print(f"Processor time: {user + system:.0f} s ({user:.0f} user + {system:.0f} system){aim}")
    sys.exit(128 - status if status < 0 else status)


if __name__ == "__main__":
    main()
