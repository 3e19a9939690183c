import importlib
import pkgutil
import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ui
from ui.core import url_state
from ui.core.url_state import OneOf, Param
from ui.core.widgets import Choice

for module in pkgutil.walk_packages(ui.__path__, "ui."):
    importlib.import_module(module.name)

CHOICES = sorted(Choice.__subclasses__(), key=lambda cls: cls.__module__)
#: Every setting, those of no choice too.
PARAMS = {
    value
    for name, module in sys.modules.items() if name.startswith("ui.")
    for value in vars(module).values() if isinstance(value, Param)
}.union(*(cls.params() for cls in CHOICES))  # fmt: skip
#: Raw strings to try; each setting takes some of them.
RAWS = (
    "0", "1", "2", "4", "12", "40", "400", "0.5", "0.01", "1.2", "5.2", "mean", "none", "on",
    "off", "q1", "k12", "1.10-12.2", "12-1", "encoder_self-cross", "A <b>dog</b>.", "nan", "1e999",
    "٣", "-1", "", "3,5,9", "1.1,2.3", "a|b", "en-de", "model@500",
)  # fmt: skip


@dataclass(frozen=True)
class Sample(Choice):
    picked: Param[int | None] = url_state.position("picked", of="phrase")
    count: Param[int] = Param("count", url_state.whole(3, 30), 10)


@pytest.fixture(autouse=True)
def _session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url_state.st, "session_state", {})


def others(param: Param[Any]) -> list[Any]:
    """Return possible values of the setting, its default first."""
    found = [param.default]
    held = [cell.cell_contents for cell in getattr(param.parse, "__closure__", None) or ()]
    words = [word for each in (param.parse, *held) if isinstance(each, OneOf) for word in each]
    for raw in (*RAWS, *words):
        try:
            value = param.parse(raw)
        except ValueError:
            continue
        if value not in found and param.write(value):
            found.append(value)
    return found


@pytest.mark.parametrize("cls", CHOICES, ids=lambda cls: cls.__name__)
def test_every_choice_is_read_stored_linked_and_reset_by_its_fields(cls: type[Choice]) -> None:
    params = cls.params()
    assert len({param.name for param in params}) == len(params)
    assert cls.read() == cls()
    for field, param in zip(cls.__dataclass_fields__, params, strict=True):
        values = others(param)
        assert len(values) > 1, f"add to RAWS what {param.name} may be"
        for value in values:
            replace(cls(), **{field: value}).put()
            cls.show()
            assert url_state.query().get(param.name, "") == param.write(value)
            assert getattr(cls.read(), field) == value or not value
            url_state.forget(*params)
            assert cls.read() == cls()


@given(raw=st.one_of(st.text(), st.sampled_from(RAWS)))
def test_any_text_is_refused_or_written_as_it_was_read(raw: str) -> None:
    for param in PARAMS:
        try:
            value = param.parse(raw)
        except ValueError:
            continue
        written = param.write(value)
        assert not written.strip() or param.parse(written) == value


def test_what_belongs_to_a_sentence_goes_with_it_unless_a_link_brought_it() -> None:
    choice = Sample(picked=4, count=5)
    choice.put()
    url_state.settle(phrase="one")
    assert Sample.read() == choice
    url_state.settle(phrase="two")
    assert Sample.read() == replace(choice, picked=None)
    url_state.bring({"picked": "7"})
    url_state.settle(phrase="three")
    assert Sample.read().picked == 7
    url_state.start_over({"picked": "8"}, keep=())
    url_state.settle(phrase="four")
    assert Sample.read().picked == 8


def test_what_belongs_to_a_setting_goes_with_it_unless_stored_beside_it() -> None:
    owner: Param[str] = Param("owner", str, "a")
    owned = url_state.position("owned", of="phrase owner")
    url_state.store({owner: "b", owned: 3})
    url_state.put(owner, "b")
    assert url_state.get(owned) == 3
    url_state.put(owner, "c")
    assert url_state.get(owned) is None
    url_state.store({owned: 4, owner: "d"})
    assert url_state.get(owned) == 4


def test_places_are_indices_of_what_there_is() -> None:
    url_state.put_index(Sample.picked, 4)
    assert (url_state.index(Sample.picked, 5), url_state.index(Sample.picked, 4)) == (4, None)
    url_state.put_index(Sample.picked, None)
    assert url_state.index(Sample.picked, 5) is None
