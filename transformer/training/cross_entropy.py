"""Label-smoothed cross-entropy (section 5.4), from logits or directly from hidden states."""

from typing import Any

import torch
from torch import Tensor, nn

from transformer.kernels import linear

#: Logits computed at a time: 16 MB, which may fit a processor's last-level cache.
LOGITS = 2**22


def smoothed_cross_entropy(
    logits: Tensor, target: Tensor, smoothing: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Return cross-entropy against (1 - epsilon) one-hot + epsilon / V, summed over real tokens.

    It is computed from log-sum-exp, so the [..., V] log-probabilities are never stored.

    Args: logits: [..., V].  target: [...] token ids; `pad_id` is ignored.

    Returns: the smoothed loss and the plain negative log-likelihood, both summed, in nats.
    """
    logits = logits.float()
    normaliser = logits.logsumexp(-1)  # [...]
    fuses = torch.compiler.is_compiling() and logits.device.type != "cpu"
    nll = normaliser - _target_logits(logits, target, fuses=fuses)
    uniform = normaliser - logits.mean(-1)
    keep = target != pad_id
    loss = (1 - smoothing) * nll + smoothing * uniform
    return (loss * keep).sum(), (nll * keep).sum().detach()


def _target_logits(logits: Tensor, target: Tensor, *, fuses: bool) -> Tensor:
    if not fuses:
        return logits.gather(-1, target[..., None])[..., 0]
    # The gradient of `gather` would take one more matrix [..., V] in memory.
    right = torch.arange(logits.size(-1), device=logits.device) == target[..., None]
    return torch.where(right, logits, 0.0).sum(-1)


def projected_cross_entropy(
    hidden: Tensor, generator: nn.Linear, target: Tensor, smoothing: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Return `smoothed_cross_entropy` of the generator's logits for hidden states.

    On a CPU, logits are computed for a few hundred real tokens at a time, together with their
    gradient. The [..., V] logits are never in memory, and padding costs nothing. The result can be
    differentiated once.

    Args: hidden: [..., d_model].  target: [...].
    """
    if hidden.device.type != "cpu" or not torch.is_grad_enabled():
        return smoothed_cross_entropy(generator(hidden), target, smoothing, pad_id)
    narrow = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    loss, nll, *_ = _by_blocks(
        hidden.flatten(0, -2), generator.weight, generator.bias, target.flatten(),
        smoothing, pad_id, narrow,
    )  # fmt: skip
    return loss, nll.detach()


# A custom operation, so that torch.compile keeps it whole: padding determines its loop count.
@torch.library.custom_op(
    "headlight::smoothed_cross_entropy",
    mutates_args=(),
    device_types="cpu",
    schema="(Tensor hidden, Tensor weight, Tensor? bias, Tensor target, float smoothing, "
    "int pad_id, bool narrow) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _by_blocks(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float,
    pad_id: int, narrow: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute the loss and its gradients, a block of rows at a time.

    With a row's softmax p, the gradient of its loss with respect to its logits is
    p - (1 - epsilon) one-hot - epsilon / V. The last term is the same for all rows and columns, so
    it is added at the end, as is the mean logit in the loss: both need only the mean weight.

    Args: hidden: [N, d_model].  weight: [V, d_model].  bias: [V].  target: [N].
        narrow: multiply in bfloat16.

    Returns: loss, negative log-likelihood, and gradients with respect to hidden, weight and bias.
    """
    real = (target != pad_id).nonzero()[:, 0]
    n_real, n_pieces = len(real), len(weight)
    h, right = hidden[real].to(weight.dtype), target[real, None]  # [R, d_model], [R, 1]
    kind = torch.bfloat16 if narrow else weight.dtype
    states, matrix, offset = h.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    by_h, by_weight = torch.empty_like(h), torch.zeros_like(weight)
    by_bias = weight.new_zeros(0 if bias is None else n_pieces)
    of_right, normaliser = h.new_empty(n_real, 1), h.new_empty(n_real, 1)
    n_rows = max(LOGITS // n_pieces, 1)
    held = h.new_empty(min(n_rows, n_real), n_pieces)
    with torch.autocast("cpu", enabled=False):
        for start in range(0, n_real, n_rows):
            at = slice(start, start + n_rows)
            logits = linear(states[at], matrix, offset).to(h.dtype)
            p = torch.softmax(logits, -1, out=held[: len(logits)])
            # Log-sum-exp from the most probable piece, whose probability does not round to 0.
            normaliser[at] = logits.amax(-1, keepdim=True) - p.amax(-1, keepdim=True).log()
            of_right[at] = logits.gather(-1, right[at])
            p.scatter_add_(-1, right[at], p.new_full((len(p), 1), smoothing - 1))
            if bias is not None:
                by_bias += p.sum(0)
            p = p.to(kind)
            by_h[at] = p @ matrix
            if narrow:
                by_weight += p.T @ states[at]
            else:
                by_weight.addmm_(p.T, states[at])
        total, mean = h.sum(0), weight.mean(0)
        mean_logits = total @ mean  # summed over rows
        by_h -= smoothing * mean
        by_weight -= smoothing / n_pieces * total
        if bias is not None:
            mean_logits = mean_logits + n_real * bias.mean()
            by_bias -= smoothing / n_pieces * n_real
    nll = (normaliser - of_right).sum()
    loss = (1 - smoothing) * nll + smoothing * (normaliser.sum() - mean_logits)
    by_hidden = torch.zeros_like(hidden)
    by_hidden[real] = by_h.to(hidden.dtype)
    return loss, nll, by_hidden, by_weight, by_bias


@_by_blocks.register_fake
def _shapes(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    one, of_bias = weight.new_empty(()), 0 if bias is None else weight.size(0)
    return (
        one, weight.new_empty(()), torch.empty_like(hidden), torch.empty_like(weight),
        weight.new_empty(of_bias),
    )  # fmt: skip


def _keep_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[2:])
    ctx.has_bias = inputs[2] is not None


def _scaled(ctx: Any, by_loss: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if by_loss is None:
        return (None,) * 7
    hidden, weight, bias = ctx.saved_tensors
    return (
        by_loss.to(hidden.dtype) * hidden, by_loss * weight,
        by_loss * bias if ctx.has_bias else None, None, None, None, None,
    )  # fmt: skip


_by_blocks.register_autograd(_scaled, setup_context=_keep_gradients)
