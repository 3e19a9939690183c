"""The room of the Training page: jobs and their processes, settings, views."""
