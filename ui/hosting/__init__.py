"""The server in front of the app: headers, visitor limit, state and counters. No sessions."""
