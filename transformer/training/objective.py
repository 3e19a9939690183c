"""The training objective (section 5.4) with its loss, learning rates (section 5.3), and tasks.

A learning task builds a model, prepares its batches and saves it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from transformer.config import ModelConfig
from transformer.hooks import Hook
from transformer.kernels import linear
from transformer.model import Transformer
from transformer.models.one_stack.model import MASK, OneStack, mask_id
from transformer.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer.training.corpus import one_side
from transformer.training.data import Batch, Corpus, collate
from transformer.training.recipe import Recipe, TrainingRecipe

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


@torch.no_grad()
def tally(
    model: Transformer | OneStack, sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]], *,
    prepare: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[float, int, int]:  # fmt: skip
    """Predict the targets. Leaves the model in evaluation mode and PyTorch's generator unchanged.

    Args: prepare: see `LearningTask`; it draws the same numbers every time.

    Returns: summed negative log-likelihood in nats, number of tokens ranked first, and number of
        tokens.
    """
    device = next(model.parameters()).device
    model.eval()
    total, right, count = 0.0, 0, 0
    order = sorted(range(len(sources)), key=lambda row: len(targets[row]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            pairs = [sources[row] for row in rows], [targets[row] for row in rows]
            batch = prepare(collate(*pairs))
            with autocast():
                logits = model(batch.src.to(device), batch.tgt_in.to(device))
            target, pad_id = batch.tgt_out.to(device), model.config.pad_id
            total += smoothed_cross_entropy(logits, target, 0.0, pad_id)[1].item()
            right += int(((logits.argmax(-1) == target) & (target != pad_id)).sum())
            count += batch.n_tokens
    return total, right, count


def validation_loss(*text: Any, **how: Any) -> float:
    """Return the mean loss of `tally` in nats per token, or NaN without tokens."""
    total, _, count = tally(*text, **how)
    return total / count if count else float("nan")


def smoothed_target(smoothing: float, vocab_size: int) -> tuple[float, float]:
    """Return smoothed probabilities of the right token and of any other token (section 5.4)."""
    other = smoothing / vocab_size
    return 1 - smoothing + other, other


class Objective(nn.Module):
    """Model and loss as one module, to be compiled and distributed together."""

    def __init__(
        self, model: Transformer | OneStack, recipe: TrainingRecipe, hooks: Hook | None = None
    ) -> None:
        super().__init__()
        self.model, self.hooks = model, hooks
        self.smoothing = recipe.label_smoothing

    def forward(self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss and negative log-likelihood of a batch, in nats."""
        pad_id = self.model.config.pad_id
        hidden, generator = self.model.hidden(src, tgt_in, self.hooks), self.model.generator
        return projected_cross_entropy(hidden, generator, tgt_out, self.smoothing, pad_id)


def learning_rate(update: int, recipe: TrainingRecipe, d_model: int, n_updates: int) -> float:
    """Return the learning rate of an update, counted from 1 (section 5.3, eq. 3).

    d_model^-0.5 min(update^-0.5, update warmup^-1.5), scaled to a peak of `peak_lr` if it is set,
    and decayed linearly to zero over the final `cooldown` share of `n_updates`.
    """
    warmup = max(recipe.warmup, 1)
    peak: float = recipe.peak_lr or (d_model * warmup) ** -0.5
    rate: float = peak * min(update / warmup, (warmup / update) ** 0.5)
    falling = recipe.cooldown * n_updates
    if falling:
        rate *= min(1.0, max(n_updates - update + 1, 1) / falling)
    return rate


#: BERT's shares: tokens to predict, and of these, masked and unchanged ones; the rest become random
#: tokens (Devlin et al. 2019, section 3.1).
PREDICTED, MASKED, UNCHANGED = 0.15, 0.8, 0.1


@dataclass(frozen=True)
class LearningTask:
    """The task of one kind of model."""

    build: Callable[[ModelConfig], Transformer | OneStack]  # builds the model
    #: turns a batch of pairs into a batch of the task; draws from PyTorch's generator
    prepare: Callable[[Batch], Batch]
    examine: Callable[[Batch], Batch]  # `prepare` for measurements
    setting: str = "each token predicted from those before it"  # measurement setting in words


def task_of(recipe: Recipe, tokenizer: Tokenizer) -> LearningTask:
    """Return the task of a recipe's model."""

    def unchanged(batch: Batch) -> Batch:
        return batch

    if (stack := recipe.stack) is None:
        return LearningTask(Transformer, unchanged, unchanged)

    def build(blocks: ModelConfig) -> OneStack:
        return OneStack(stack.config(blocks))

    if stack.task != "fill":
        prepare = unchanged if stack.task == "translate" else continuation
        return LearningTask(build, prepare, prepare)
    mask = mask_id(tokenizer)

    def masked(batch: Batch) -> Batch:
        return masked_tokens(batch, mask, tokenizer.vocab_size)

    def hidden_only(batch: Batch) -> Batch:
        # Tokens that are shown, or replaced by others, are not hidden.
        batch = masked(batch)
        return replace(batch, tgt_out=batch.tgt_out.masked_fill(batch.tgt_in != mask, PAD_ID))

    setting = f"hidden tokens only, {PREDICTED * MASKED:.0%} of the text, each shown as {MASK}"
    return LearningTask(build, masked, hidden_only, setting)


def text_of(recipe: Recipe, corpus: Corpus) -> Corpus:
    """Return the text that a recipe's model learns: pairs, or only sources for GPT and BERT."""
    if recipe.stack is None or recipe.stack.task == "translate":
        return corpus
    return one_side(corpus)


def continuation(batch: Batch) -> Batch:
    """Drop the source, so that every token of the text is predicted from the tokens before it."""
    return Batch(batch.src[:, :0], batch.tgt_in, batch.tgt_out)


def masked_tokens(batch: Batch, mask: int, vocab_size: int) -> Batch:
    """Mask some tokens of the text, `<s>` to `</s>`, with the id `mask`, for BERT to predict."""
    text = torch.cat([batch.tgt_in[:, :1], batch.tgt_out], dim=1)
    words = (text != PAD_ID) & (text != BOS_ID) & (text != EOS_ID)
    predicted = words & (torch.rand(text.shape) < PREDICTED)
    draw = torch.rand(text.shape)
    visible = text.masked_fill(predicted & (draw < MASKED), mask)
    others = torch.randint(EOS_ID + 2, vocab_size, text.shape)
    visible = torch.where(predicted & (draw >= MASKED + UNCHANGED), others, visible)
    return Batch(batch.src[:, :0], visible, text.masked_fill(~predicted, PAD_ID))
