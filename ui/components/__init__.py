"""Views that run in the browser: JavaScript and CSS, no CDN.

Their bundles are part of the repository, so running the app takes no build step.

Each package returns the `packing.Component` that its view shows and needs no Streamlit;
`mount.show` puts it on a page. May import `figures` and the model's records.
"""
