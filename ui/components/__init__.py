"""Views that run in the browser: JavaScript and CSS, no build step, no CDN.

Each package returns the `packing.Component` that its view shows and needs no Streamlit;
`mount.show` puts it on a page. May import `figures` and the model's records.
"""
