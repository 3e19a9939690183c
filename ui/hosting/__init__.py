"""In front of the app: headers, a limit on visitors, the server's state, and its counters.

May import `ui.core` and `ui.work`. None of it needs a session.
"""
