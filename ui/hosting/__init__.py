"""The server in front of the app: headers, visitor limit and state; knows no sessions."""
