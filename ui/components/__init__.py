"""Views that run in the browser: a `.js` and a `.css` file each, no build step, no CDN.

Each package encodes the message that its view draws and needs no Streamlit; its `mount` module puts
the view on a page and handles its events. May import `figures` and the model's records.
"""
