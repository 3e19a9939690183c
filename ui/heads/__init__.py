"""The Head roles page: roles, importance, and example sentences from a study."""
