"""The paper's experiments, repeated: costs of layers (table 1) and ablations (table 3)."""
