"""Background jobs in threads and processes, and the scheduler that shares a processor."""
