"""README's picture shows today's app."""

from tests.browser import pictures


def test_the_picture_in_the_readme_is_of_todays_app() -> None:
    assert pictures.pictured() == pictures.fingerprint(), "docs/translate.png: run `make pictures`"
    assert pictures.PICTURE.stat().st_size < pictures.LARGEST
