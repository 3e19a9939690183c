"""Initial values of the weights, which the paper leaves open."""

from __future__ import annotations

from torch import nn

#: Gains of the matrices inside the residual branches, by name; those of others are 1.
GAINS = {"w_q": 0.5**0.5, "w_k": 0.5**0.5, "w_v": 0.5, "w_o": 0.5, "w_1": 0.5, "w_2": 0.5}


def initialise(model: nn.Module, d_model: int) -> None:
    """Set Xavier-uniform matrices, smaller in the branches; embeddings of unit norm; zero biases.

    Departure: with plain Xavier a post-norm encoder at these learning rates makes all positions
    alike within an epoch, and cross-attention stays uniform. Branches that begin smaller than the
    residual stream prevent that.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, GAINS.get(name.rpartition(".")[2], 1.0))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=d_model**-0.5)
