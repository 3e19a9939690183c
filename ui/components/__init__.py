"""Views that run in the browser: a `.js` and a `.css` file each, no build step, no CDN.

Each package makes the message that its view draws and needs no Streamlit; its `mount` puts the view
on a page and listens to it. May import `figures` and the model's records.
"""
