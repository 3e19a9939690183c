"""What visitors read who find no place or gave one up: pages without a script."""

from __future__ import annotations

from html import escape

#: Seconds after which these pages look again.
AGAIN = 20

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{refresh}">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1rem;
  background: light-dark(#fdfcf9, #0f0e0d); color: light-dark(#1d1c26, #efebe4) }}
h1 {{ font-size: 1.5rem; font-weight: 600 }}
</style></head>
<body><h1>{heading}</h1>
<p>{text}</p>
</body></html>
"""


def full_page(most: int, idle: float) -> bytes:
    """Return the page for a visitor who finds no place; it stays at its address.

    Args:
        most: places there are.
        idle: seconds without an action after which one is given up, 0 for never.
    """
    text = (
        f"At most {most:,} can look at Headlight here at once, so that it stays quick. This page "
        f"looks for a free place every {AGAIN} seconds; your link is kept."
    )
    if idle:
        text += f" A visitor who does nothing for {_minutes(idle)} makes room for one who waits."
    return _page("Headlight is full", f"{AGAIN}", "Every place is taken", text)


def given_up_page(idle: float, next_look: str) -> bytes:
    """Return the page for a visitor who gave a place up; it opens `next_look` after a while."""
    return _page(
        "Headlight is waiting",
        f"{AGAIN}; url={next_look}",
        "Your place went to someone waiting",
        f"Nothing had been done here for {_minutes(idle)}, and every place was taken. This page "
        f"looks for a free one every {AGAIN} seconds and then shows what you saw.",
    )


def _page(title: str, refresh: str, heading: str, text: str) -> bytes:
    parts = {"title": title, "refresh": refresh, "heading": heading, "text": text}
    return _PAGE.format(**{name: escape(part) for name, part in parts.items()}).encode()


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "a minute" if minutes == 1 else f"{minutes:,} minutes"
