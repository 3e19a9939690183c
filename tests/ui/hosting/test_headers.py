import base64
import hashlib

import pytest

from ui.hosting.headers import FRAMES, headers_of, policy_of


def rules(page: bytes) -> dict[str, list[str]]:
    split = (rule.split() for rule in policy_of(page).split("; "))
    return {name: values for name, *values in split}


def test_scripts_of_the_page_run_and_no_others() -> None:
    page = (
        b'<script>a()\r\nb()</script><script src="x.js"></script><SCRIPT type="module">c</SCRIPT>'
    )
    wanted = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
        for text in (b"a()\nb()", b"c")
    ]
    scripts = rules(page)["script-src"]
    assert [each for each in scripts if each.startswith("'sha256")] == wanted
    assert "'unsafe-inline'" not in scripts and "'unsafe-eval'" not in scripts
    assert rules(b"")["default-src"] == ["'none'"]


def test_only_named_origins_may_frame_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rules(b"")["frame-ancestors"] == ["'self'"]
    monkeypatch.setenv(FRAMES, "https://huggingface.co  https://*.ex-ample.org:8443 http://a")
    named = rules(b"")["frame-ancestors"]
    assert named == ["'self'", "https://huggingface.co", "https://*.ex-ample.org:8443", "http://a"]
    wrong = (
        "example.org https://a.b/path * 'unsafe-inline' https://a.b;script-src https://... "
        "https://a..b https://.a.b https://a.b. https://-a.b https://a-.b https://*. https://* "
        "https:// https://a.*.b https://a.b: https://a.b:0 https://a.b:65536 https://a_b.c "
        "https://ä.b https://me@a.b https://a.b? https://[::1] ftp://a.b"
    )
    for none in wrong.split():
        monkeypatch.setenv(FRAMES, none)
        with pytest.raises(ValueError, match="must be origins"):
            policy_of(b"")


@pytest.mark.parametrize("public", ["", "1"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_public_server_insists_on_encryption_where_it_has_it(
    public: str, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_PUBLIC", public)
    names = headers_of(encrypted).keys()
    assert {"x-content-type-options", "referrer-policy"} <= names
    assert ("strict-transport-security" in names) == bool(public and encrypted)
