"""The server in front of the app: headers, a limit on visitors, its state for balancers and counters.

May import `ui.core` and `ui.work`. None of it needs a session.
"""
