"""A public server: what a visitor, a balancer and a collector of counters find there."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from tests.pages.session import Session
from tests.servers import APP, free_port, serving
from tests.waiting import wait_until


def get(url: str, **headers: str) -> tuple[int, str, HTTPMessage]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(), refused.headers


@pytest.fixture(scope="module")
def metrics() -> str:
    return f"http://127.0.0.1:{free_port()}/metrics"


@pytest.fixture(scope="module")
def public(
    random_checkpoints: Path, metrics: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Address of a public server with two places, and a budget of 40 tokens a visit."""
    port = metrics.split(":")[2].partition("/")[0]
    environment = {
        "HEADLIGHT_PUBLIC": "1", "HEADLIGHT_SESSIONS": "2", "HEADLIGHT_METRICS": port,
        "HEADLIGHT_BUDGET_TOKENS": "40", "HEADLIGHT_IMPORT": "",
    }  # fmt: skip
    log = tmp_path_factory.mktemp("public") / "log.txt"
    command = [*APP, "--server.allowedHosts", "127.0.0.1"]
    with serving(
        log, command, checkpoints=random_checkpoints, importing=False, environment=environment
    ) as (address, _):
        assert wait_until(lambda: get(f"{address}/_headlight/ready")[0] == 200)
        yield address


def test_who_asks_by_another_name_gets_no_session(public: str) -> None:
    with (
        pytest.raises(InvalidStatus, match="403"),
        Session(public.replace("127.0.0.1", "localhost")),
    ):
        pass


def test_a_balancer_learns_the_model_and_strangers_no_counters(public: str, metrics: str) -> None:
    told = json.loads(get(f"{public}/_headlight/ready")[1])
    assert told["ready"] and len(told["models"]) == 1 and told["most_visitors"] == 2
    assert get(f"{public}/_stcore/metrics")[0] == 404
    status, text, headers = get(metrics, Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200 and headers.get_content_type() == "application/openmetrics-text"
    assert text.endswith("# EOF\n")
    assert "headlight_models 1.0" in text and "headlight_visitors_limit 2.0" in text


def test_the_third_visitor_reads_that_the_server_is_full(public: str) -> None:
    with Session(public) as one, Session(public) as two:
        one.open("glossary")
        two.open("glossary")
        status, text, _ = get(f"{public}/attention")
        assert status == 503 and "Every place is taken" in text
        with pytest.raises(InvalidStatus, match="403"), Session(public):
            pass
    assert wait_until(lambda: get(f"{public}/attention")[0] == 200)


def test_a_visit_has_its_budget_and_no_right_to_import_or_train(public: str) -> None:
    with Session(public) as visitor:
        said = ""
        for number in range(30):
            visitor.open("attention", sentence=f"{'A dog runs. ' * (number + 1)}", beam="1")
            said = " ".join(each.alert.body for each in visitor.elements)
            if "Compute quota used up" in said:
                break
        assert "Compute quota used up" in said
        visitor.open("models")
        shown = " ".join(str(each) for each in visitor.elements)
        assert "Importing from the app is switched off" in shown
        visitor.open("training")
        assert "Training in the app is switched off" in " ".join(str(e) for e in visitor.elements)
