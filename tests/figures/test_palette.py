import itertools
import re
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from figures import palette, removals
from figures.palette import CHROME, THEMES, Theme
from tests.forks import ROOT
from ui.components.packing import attention_colours
from ui.export import html

SETTINGS = tomllib.loads((ROOT / ".streamlit/config.toml").read_text("utf-8"))

# Machado et al. 2009, severity 1: what red-, green- and blue-blind eyes see, in linear RGB.
COLOUR_BLIND = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


RGB_TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                       [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip


def linear(colours: np.ndarray) -> np.ndarray:
    share = np.asarray(colours, dtype=np.float64) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def srgb_to_lab(colours: np.ndarray) -> np.ndarray:
    """Convert sRGB bytes to CIELAB (D65), [..., 3] to [..., 3]."""
    scaled = linear(colours) @ RGB_TO_XYZ.T / RGB_TO_XYZ.sum(axis=1)
    low = scaled * (29 / 6) ** 2 / 3 + 4 / 29
    f = np.where(scaled > (6 / 29) ** 3, np.cbrt(scaled), low)
    lab = [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])]
    return np.stack(lab, axis=-1)


def seen_by(kind: str, colours: np.ndarray) -> np.ndarray:
    """Simulate a color-vision deficiency and return sRGB bytes."""
    seen = np.clip(linear(colours) @ np.array(COLOUR_BLIND[kind]).T, 0, 1)
    back = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
    return np.rint(255 * back).astype(np.uint8)


def to_rgb(colours: list[str]) -> np.ndarray:
    return np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours], dtype=np.uint8)


@pytest.mark.parametrize("theme", THEMES)
def test_attention_scale_is_even_and_monotone_for_any_eyes(theme: Theme) -> None:
    table = palette.attention_table(theme)
    lightness = srgb_to_lab(table)[:, 0]
    up = np.sign(lightness[-1] - lightness[0])
    assert np.abs(lightness - np.linspace(lightness[0], lightness[-1], 256)).max() < 0.5
    # 8-bit rounding near white; 0.2 of L* is far below what eyes see
    assert (np.diff(lightness) * up).min() > -0.2 and (np.diff(lightness[::8]) * up).min() > 0
    # Steps of the square root: the plain scale would leave a mean weight of 0.05 near the page.
    small = lightness[palette.weight_levels(np.array([0, 0.05]))]
    assert abs(small[1] - small[0]) > 15
    for eyes in COLOUR_BLIND:
        assert (np.diff(srgb_to_lab(seen_by(eyes, table))[::8, 0]) * up).min() > 1


@pytest.mark.parametrize("theme", THEMES)
def test_one_table_for_plotly_altair_and_components(theme: Theme) -> None:
    table = palette.attention_table(theme)
    flat = attention_colours()[theme]
    assert len(flat) == 6 * 256 and not table.flags.writeable
    hexes = ["#" + flat[at : at + 6] for at in range(0, len(flat), 6)]
    for colour in hexes:
        assert max(palette.contrast(ink, colour) for ink in ("#000000", "#ffffff")) >= 4.5
    altair = palette.as_altair(table)
    assert altair == [hexes[round(at)] for at in np.linspace(0, 255, 64)]
    assert palette.as_plotly(table) == [[at / 63, colour] for at, colour in enumerate(altair)]
    # Plotly gives every weight the colour of the table.
    stops = palette.attention_plotly(theme)
    assert (stops[0][0], stops[-1][0]) == (0, 1)
    at, colours = [float(stop[0]) for stop in stops], to_rgb([str(stop[1]) for stop in stops])
    weights = np.linspace(0, 1, 101)
    drawn = np.stack([np.interp(weights, at, colours[:, i]) for i in range(3)], axis=1)
    assert np.abs(drawn - table[palette.weight_levels(weights)].astype(int)).max() < 3


@pytest.mark.parametrize("theme", THEMES)
def test_signed_scale_is_the_page_at_zero_and_even_handed(theme: Theme) -> None:
    lightness = srgb_to_lab(palette.signed_table(theme))[:, 0]
    np.testing.assert_allclose(lightness, lightness[::-1], atol=1)
    assert abs(lightness[127] - srgb_to_lab(to_rgb([CHROME[theme].surface]))[0, 0]) < 5
    for arms in (palette.signed_table(theme)[[0, 255]], to_rgb([*palette.signs(theme)])):
        below, above = arms.astype(int)
        assert below[2] > below[0]  # negative is blue
        assert above[0] > above[2]  # positive is orange


@pytest.mark.parametrize("theme", THEMES)
def test_blue_lowers_and_orange_raises_in_every_chart_of_signed_numbers(theme: Theme) -> None:
    share = {"name": "a", "share": 1.0, "lost": None, "kind": "", "layer": 0, "head": 0}
    bars = removals.part_needs(["a"], np.ones(1, np.float32), theme)
    for chart in (bars, removals.share_bars([share], theme)):
        colour = chart.to_dict()["layer"][0]["encoding"]["color"]
        assert colour["condition"]["test"].endswith("< 0)")
        assert (colour["condition"]["value"], colour["value"]) == palette.signs(theme)
    # No other colours for signed numbers, and none picked from the scale elsewhere.
    for path in [*ROOT.glob("figures/**/*.py"), *ROOT.glob("ui/**/*.py"), *ROOT.glob("ui/**/*.js")]:
        text = path.read_text("utf-8") if path.name != "palette.py" else ""
        other = r"signed_table\(\w+\)\)?\[-?\d|RdBu|PuOr|RdYlGn|[\"'](redblue|blueorange)"
        assert not re.search(other, text), path


@pytest.mark.parametrize("theme", THEMES)
def test_sixteen_categories_stay_apart(theme: Theme) -> None:
    colours = palette.categorical(16, theme)
    assert min(palette.contrast(c, CHROME[theme].surface) for c in colours) >= 3
    for view in (to_rgb(colours), *(seen_by(eyes, to_rgb(colours)) for eyes in COLOUR_BLIND)):
        lab = srgb_to_lab(view)
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(lab, 2)) > 10
    many = palette.categorical(40, theme)
    for n in (0, 8, 17, 40):  # they never repeat, and keep their order
        assert palette.categorical(n, theme) == many[:n] and len(set(many[:n])) == n


@pytest.mark.parametrize("theme", THEMES)
def test_q_k_v_the_stream_and_the_accent_stay_apart_for_any_eyes(theme: Theme) -> None:
    colours = [*palette.ROLES[theme].values()]
    assert [*palette.ROLES[theme]] == ["q", "k", "v", "residual"]
    assert min(palette.contrast(colour, CHROME[theme].surface) for colour in colours) >= 4.5
    colours.append(CHROME[theme].accent)
    for view in (to_rgb(colours), *(seen_by(eyes, to_rgb(colours)) for eyes in COLOUR_BLIND)):
        pairs = itertools.combinations(srgb_to_lab(view), 2)
        assert min(np.linalg.norm(one - other) for one, other in pairs) > 18


def test_bad_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="n=-1"):
        palette.categorical(-1, "light")
    for bad in (np.nan, 1.1, -0.1):
        with pytest.raises(ValueError, match="attention weights"):
            palette.to_weight_bytes(np.array([0.5, bad], dtype=np.float32))


@given(
    hnp.arrays(
        np.float32, hnp.array_shapes(max_dims=4, max_side=6), elements=st.floats(0, 1, width=32)
    )
)
def test_weight_bytes_are_near_the_weights(weights: np.ndarray) -> None:
    packed = palette.to_weight_bytes(weights)
    assert packed.dtype == np.uint8
    assert packed.shape == weights.shape
    np.testing.assert_allclose(packed / 255, weights, atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_and_streamlit_wears_the_same_colours(theme: Theme) -> None:
    settings = SETTINGS["theme"][theme]
    chrome = CHROME[theme]
    assert palette.contrast(chrome.ink, chrome.surface) > 12
    assert palette.contrast(chrome.muted, chrome.surface) > 4.5
    assert palette.contrast(chrome.accent, chrome.surface) > 4.5
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert settings["primaryColor"] == chrome.accent
    assert settings["backgroundColor"] == chrome.surface
    assert settings["textColor"] == chrome.ink
    assert settings["borderColor"] == chrome.rule
    sidebar = settings["sidebar"]["backgroundColor"]
    assert palette.contrast(chrome.ink, sidebar) >= 10
    assert palette.contrast(chrome.accent, sidebar) >= 4.5
    # A page that opens offline has them too.
    given = dict(re.findall(r"(--st-[a-z-]+): ([^;]+);", html._variables(theme)))
    assert given["--st-secondary-background-color"] == settings["secondaryBackgroundColor"]
    for name, colour in (("background", chrome.surface), ("text", chrome.ink)):
        assert given[f"--st-{name}-color"] == colour


def test_streamlit_asks_sends_and_shows_nothing() -> None:
    assert SETTINGS["server"]["showEmailPrompt"] is False
    assert SETTINGS["browser"]["gatherUsageStats"] is False
    assert SETTINGS["server"]["fileWatcherType"] == "none"
    assert SETTINGS["client"]["showErrorDetails"] == "none"
