"""Memory of the app on a small host: after its start, ten sentences, and every page once.

    python benchmarks/cloud.py [--gigabytes 2.5]

Starts `deploy/cloud/streamlit_app.py`, which takes all work in one process. The process may take no
more memory than the limit; beyond it, an allocation fails. Linux only.
"""

import argparse
import random
import resource
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.load import resident, sentence  # noqa: E402
from tests.pages.session import Session  # noqa: E402
from tests.servers import serving  # noqa: E402
from ui.frame.page import all_pages  # noqa: E402

COMMAND = (
    "-m", "streamlit", "run", "deploy/cloud/streamlit_app.py", "--server.allowedHosts", "127.0.0.1"
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.5, help="limit of the process")
    most, random_numbers = int(parser.parse_args().gigabytes * 2**30), random.Random(1)
    # Ten sentences and all pages are more work than one visit is given.
    environment = {"HEADLIGHT_BUDGET_SECONDS": "0", "HEADLIGHT_IMPORT": ""}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder, "log"), COMMAND, fresh=True, environment=environment) as server,
        Session(server.address) as visitor,
    ):
        resource.prlimit(server.pid, resource.RLIMIT_DATA, (most, most))

        def tell(when: str, what: str = "VmRSS") -> None:
            print(f"{resident(server.pid, what):8,.0f} MB  {when}", flush=True)

        visitor.open()
        tell("after its start, with the first page")
        for _ in range(10):
            visitor.open(sentence=sentence(random_numbers))
        tell("after ten sentences")
        for page in all_pages():
            visitor.open(page.path)
        tell(f"after {len(all_pages())} pages")
        tell("at most", "VmHWM")


if __name__ == "__main__":
    main()
