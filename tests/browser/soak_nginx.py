"""Two public servers behind a real nginx, with the configuration that `deploy/` ships."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from tests.servers import APP, ROOT, Server, free_port, serving
from tests.waiting import wait_until

NAME = "headlight.example.org"

#: What stands around the configuration in /etc/nginx/nginx.conf, without root's folders.
AROUND = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {ours}
}}
"""


class Site(NamedTuple):
    """The proxy's address, and the servers behind it."""

    address: str
    servers: tuple[Server, ...]


def find_nginx() -> str:
    """Return the program, installed if that is possible."""
    if shutil.which("nginx") is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-q"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-q", "nginx-light"], check=False)
        subprocess.run(["service", "nginx", "stop"], check=False)
    found = shutil.which("nginx")
    if found is None:
        pytest.fail("nginx is needed: on Debian, apt-get install nginx-light")
    return found


@pytest.fixture
def site(tmp_path: Path, tiny_checkpoint: Path) -> Iterator[Site]:
    root = tmp_path / "checkpoints"
    shutil.copytree(tiny_checkpoint, root / "tiny")
    ports, port = (free_port(), free_port()), free_port()
    ours = (ROOT / "deploy/nginx.conf").read_text()
    for old, new in zip((8501, 8502), ports, strict=True):
        assert f"127.0.0.1:{old}" in ours
        ours = ours.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    ours = ours.replace("listen 80;", f"listen 127.0.0.1:{port};").replace(NAME, "localhost")
    conf = tmp_path / "nginx.conf"
    conf.write_text(AROUND.format(folder=tmp_path, ours=ours))
    environment = {"HEADLIGHT_PUBLIC": "1", "HEADLIGHT_IMPORT": ""}
    with ExitStack() as stack:
        servers = tuple(
            stack.enter_context(
                serving(
                    tmp_path / f"log{each}.txt",
                    [*APP, "--server.allowedHosts", "localhost"],
                    checkpoints=root, importing=False, environment=environment, port=each,
                )
            )
            for each in ports
        )  # fmt: skip
        proxy = subprocess.Popen([find_nginx(), "-c", str(conf), "-p", str(tmp_path)])
        try:
            address = f"http://localhost:{port}"
            assert wait_until(lambda: status(f"{address}/_headlight/ready") == 200)
            yield Site(address, servers)
        finally:
            proxy.terminate()
            proxy.wait()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def visitors(server: Server) -> int:
    with urllib.request.urlopen(f"{server.address}/_headlight/ready") as answer:
        return int(json.load(answer)["visitors"])


def test_a_class_is_spread_over_two_servers_and_each_visitor_stays_with_one(
    browser: Browser, site: Site
) -> None:
    windows = [browser.new_context() for _ in range(8)]
    pages = [each.new_page() for each in windows]
    for page in pages:
        page.goto(f"{site.address}/attention?sentence=A+dog+runs.")
        expect(page.locator("button.map").first).to_be_visible(timeout=60_000)
    counts = [visitors(each) for each in site.servers]
    assert sum(counts) == 8 and min(counts) > 0
    for page in pages:  # a reload finds the same server, whose caches know the sentence
        page.reload()
        expect(page.locator("button.map").first).to_be_visible(timeout=60_000)
    assert wait_until(lambda: [visitors(each) for each in site.servers] == counts)
    for window in windows:
        window.close()
    assert status(f"{site.address}/_stcore/metrics") == 404


def test_when_a_server_ends_its_visitors_go_on_at_the_other(browser: Browser, site: Site) -> None:
    window = browser.new_context()
    page = window.new_page()
    page.goto(f"{site.address}/attention?sentence=A+dog+runs.")
    expect(page.locator("button.map").first).to_be_visible(timeout=60_000)
    (mine,) = [each for each in site.servers if visitors(each)]
    os.kill(mine.pid, signal.SIGKILL)
    address = page.url
    page.goto(address)
    expect(page.locator("button.map").first).to_be_visible(timeout=60_000)
    assert "dog" in page.url
    window.close()
