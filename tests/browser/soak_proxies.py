"""Public servers behind nginx and Caddy, with the configuration in `deploy/`."""

import os
import re
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.servers import APP, ROOT, Server, free_port, readiness, serving
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


#: What stands before the Caddyfile: nothing is asked of the network, nothing put among the system's
#: certificates, and no port below 1024 is opened.
BEFORE = """{
	admin off
	skip_install_trust
	auto_https disable_redirects
}
"""


#: A server below a path, as JupyterHub's proxy has it for somebody's own server.
BELOW = """
map $http_upgrade $connection_upgrade {{ default upgrade; "" close; }}
server {{
    listen 127.0.0.1:{port};
    location {path}/ {{
        proxy_pass http://127.0.0.1:{behind};
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_set_header Host $http_host;
    }}
}}
"""


class Site(NamedTuple):
    address: str
    servers: tuple[Server, ...]


def find_program(name: str, package: str) -> str:
    return shutil.which(name) or pytest.fail(f"{name}: on Debian, apt-get install {package}")


def nginx(folder: Path, ports: Sequence[int], port: int) -> tuple[str, list[str]]:
    """Write the configuration, and return the site's address and the command."""
    ours = (ROOT / "deploy/nginx.conf").read_text()
    for old, new in zip((8501, 8502), ports, strict=True):
        assert f"127.0.0.1:{old}" in ours
        ours = ours.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    ours = ours.replace("listen 80;", f"listen 127.0.0.1:{port};").replace(NAME, "localhost")
    conf = folder / "nginx.conf"
    conf.write_text(AROUND.format(folder=folder, ours=ours))
    command = [find_program("nginx", "nginx-light"), "-c", str(conf), "-p", str(folder)]
    return f"http://localhost:{port}", command


def caddy(folder: Path, ports: Sequence[int], port: int) -> tuple[str, list[str]]:
    """Write the configuration for https with Caddy's own certificate."""
    ours = (ROOT / "deploy/Caddyfile").read_text()
    assert "reverse_proxy headlight:8501 {" in ours
    servers = " ".join(f"127.0.0.1:{each}" for each in ports)
    conf = folder / "Caddyfile"
    conf.write_text(BEFORE + ours.replace("headlight:8501", servers))
    command = [find_program("caddy", "caddy"), "run", "--config", str(conf), "--adapter"]
    variables = [f"HOST=localhost:{port}", f"XDG_DATA_HOME={folder}", f"XDG_CONFIG_HOME={folder}"]
    return f"https://localhost:{port}", ["env", *variables, *command, "caddyfile"]


@pytest.fixture(params=[nginx, caddy], ids=lambda proxy: str(proxy.__name__))
def site(request: pytest.FixtureRequest, tmp_path: Path, tiny_checkpoint: Path) -> Iterator[Site]:
    root = tmp_path / "checkpoints"
    shutil.copytree(tiny_checkpoint, root / "tiny")
    ports = (free_port(), free_port())
    address, command = request.param(tmp_path, ports, free_port())
    environment = {"HEADLIGHT_PUBLIC": "1", "HEADLIGHT_IMPORT": ""}
    with ExitStack() as stack:
        servers = tuple(
            stack.enter_context(
                serving(
                    tmp_path / f"log{each}.txt",
                    [*APP, "--server.allowedHosts", "localhost"],
                    checkpoints=root, environment=environment, port=each,
                )
            )
            for each in ports
        )  # fmt: skip
        addresses = [f"{each.address}/_headlight/ready" for each in servers]
        assert wait_until(lambda: [status(each) for each in addresses] == [200, 200])
        log = stack.enter_context((tmp_path / "proxy.log").open("w"))
        proxy = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            assert wait_until(lambda: status(f"{address}/_headlight/ready") == 200)
            yield Site(address, servers)
        finally:
            proxy.terminate()
            proxy.wait()


def asked(url: str, data: bytes | None = None) -> tuple[int, Message]:
    """Return an answer's status and headers, or 0 and {} if there is no answer."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, data, timeout=10, context=anyone) as answer:
            return int(answer.status), answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers
    except OSError:
        return 0, Message()


def status(url: str) -> int:
    return asked(url)[0]


def visitors(server: Server) -> int:
    return int(readiness(server.address)["visitors"])


def test_a_class_at_two_servers(browser: Browser, site: Site) -> None:
    windows: list[BrowserContext] = []
    counts = [0, 0]

    def shows_maps(window: BrowserContext, address: str) -> None:
        window.pages[0].goto(address)
        expect(window.pages[0].locator("button.map").first).to_be_visible(timeout=60_000)

    while min(counts) == 0 or sum(counts) < 4:
        assert len(windows) < 24, "each seat is drawn by chance, and all drew the same server"
        windows.append(browser.new_context(ignore_https_errors=True))
        windows[-1].new_page()
        shows_maps(windows[-1], f"{site.address}/attention?sentence=A+dog+runs.")
        counts = [visitors(each) for each in site.servers]
        assert sum(counts) == len(windows)
    for window in windows:  # comes back to the same server, whose caches know the sentence
        shows_maps(window, window.pages[0].url)
    assert wait_until(lambda: [visitors(each) for each in site.servers] == counts)
    os.kill(site.servers[0].pid, signal.SIGKILL)
    for window in windows:  # goes on at the other
        shows_maps(window, window.pages[0].url)
        assert "dog" in window.pages[0].url
    assert visitors(site.servers[1]) == len(windows)
    for window in windows:
        window.close()


def test_what_is_hidden_stays_hidden_and_https_is_insisted_on(site: Site) -> None:
    for hidden in ("metrics", "upload_file", "upload_file/a/b"):
        assert status(f"{site.address}/_stcore/{hidden}") == 404
    # A proxy may end the connection while the rest is still sent: then there is no answer.
    found, _ = asked(f"{site.address}/_stcore/health", b"x" * 2_000_000)
    assert found == 0 or found >= 400
    found, headers = asked(f"{site.address}/")
    assert found == 200 and headers["X-Content-Type-Options"] == "nosniff"
    # The proxy says by which scheme a visitor came.
    encrypted = site.address.startswith("https")
    cookie = headers["Set-Cookie"]
    assert cookie.startswith("headlight_seat=") and cookie.count("Path=/; HttpOnly; ") == 1
    assert cookie.endswith("Secure; SameSite=None" if encrypted else "SameSite=Lax")
    assert ("Strict-Transport-Security" in headers) == encrypted
    if encrypted:
        return
    with ExitStack() as stack:  # nginx: one address has 300 sockets and not one more

        def opened() -> None:
            url = f"ws{site.address.removeprefix('http')}/_stcore/stream"
            stack.enter_context(connect(url, subprotocols=[Subprotocol("streamlit")]))

        for _ in range(300):
            opened()
        with pytest.raises(InvalidStatus) as refused:
            opened()
    assert refused.value.response.status_code == 503


def test_below_a_path_as_behind_jupyterhub(
    browser: Browser, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    root, port, behind = tmp_path / "checkpoints", free_port(), free_port()
    shutil.copytree(tiny_checkpoint, root / "tiny")
    path = f"/user/anna/proxy/absolute/{behind}"
    ours = BELOW.format(port=port, behind=behind, path=path)
    conf = tmp_path / "nginx.conf"
    conf.write_text(AROUND.format(folder=tmp_path, ours=ours))
    command = [find_program("nginx", "nginx-light"), "-c", str(conf), "-p", str(tmp_path)]
    outside: list[str] = []
    address = f"http://127.0.0.1:{port}{path}"
    log = tmp_path / "log.txt"
    with serving(log, APP, checkpoints=root, port=behind, path=path):
        proxy = subprocess.Popen(command)
        try:
            assert wait_until(lambda: status(f"{address}/_stcore/health") == 200)
            page = browser.new_page()
            page.on(
                "request",
                lambda request: (
                    request.url.startswith(("http", "ws"))
                    and f"127.0.0.1:{port}{path}/" not in request.url
                    and outside.append(request.url)
                ),
            )
            page.goto(f"{address}/attention?sentence=A+dog+runs.")
            maps = page.locator("button.map").first
            expect(maps).to_be_visible(timeout=60_000)
            page.get_by_role("button", name="Download").first.click()
            with page.expect_download() as download:
                page.get_by_role("button", name="NPZ").first.click()
            assert download.value.path().stat().st_size > 0
            page.keyboard.press("Escape")
            page.get_by_role("link", name="Translate").first.click()
            expect(page).to_have_url(re.compile(re.escape(f"{address}/?")))
            page.go_back()
            expect(page).to_have_url(re.compile(re.escape(f"{address}/attention?")))
            expect(maps).to_be_visible(timeout=60_000)
            links = page.locator("a").evaluate_all("all => all.map(link => link.href)")
            assert links and all(link.startswith(address) for link in links), links
            assert outside == []
        finally:
            proxy.terminate()
            proxy.wait()
