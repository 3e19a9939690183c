"""Views that run in the browser: a `.py`, a `.js` and a `.css` file each, no build step, no CDN."""
