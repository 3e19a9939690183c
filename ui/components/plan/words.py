"""Names, roles and sizes of the drawing's blocks."""

from __future__ import annotations

from dataclasses import dataclass

from transformer.config import ModelConfig


@dataclass(frozen=True)
class Words:
    """One kind of block in words.

    Attributes:
        name: in the drawing.  shape: below it.
        text: what it does, in one or two sentences.  section: of the paper.
        opens: what a click leads to.
    """

    name: str
    shape: str
    text: str
    section: str
    opens: str


def words_for(config: ModelConfig) -> dict[str, Words]:
    """Return the words for every kind of block of a model, by the id that plan.js uses."""
    heads = {"encoder": config.n_heads, "decoder": config.decoder_heads}
    model, target = config.d_model, config.target_vocab_size

    def width(stack: str) -> int:
        return config.d_k or model // heads[stack]

    def attention(name: str, stack: str, text: str) -> Words:
        shape = f"{heads[stack]} heads × {width(stack)}"
        return Words(name, shape, text, "section 3.2.2", "Opens Attention: all heads.")

    def network(inner: int) -> Words:
        return Words(
            "Feed-forward", f"{model} → {inner:,} → {model}",
            "Each token by itself goes through two matrices with a non-linearity between them. "
            "The numbers in the middle are the neurons.",
            "section 3.3", "Opens its neurons, below.",
        )  # fmt: skip

    def embedding(size: int) -> Words:
        scaled = f", times √{model}." if config.scale_embedding else "."
        text = f"Each token's row of the embedding matrix{scaled}"
        return Words("Embedding", f"{size:,} × {model}", text, "section 3.4", "Opens Tokens.")

    def projections(stack: str, text: str) -> Words:
        return Words(
            "V K Q", f"{model} → {width(stack)}", text, "section 3.2.1", "Opens Inside a head."
        )

    pre = config.norm == "pre"
    return {
        "encoder.embedding": embedding(config.vocab_size),
        "decoder.embedding": embedding(target),
        "positions": Words(
            "+ Position", f"n × {model}",
            "A pattern that says where the token stands is added to its embedding. "
            "This is what enters layer 1.",
            "section 3.5", "Opens Positions.",
        ),
        "encoder.self": attention(
            "Multi-head attention", "encoder",
            "Every source token takes in values from all source tokens.",
        ),
        "decoder.self": attention(
            "Masked multi-head attention", "decoder",
            "Every row takes in values from itself and the rows before it; later ones are masked.",
        ),
        "decoder.cross": attention(
            "Multi-head attention", "decoder",
            "Queries come from the decoder, keys and values from the encoder's output: here the "
            "translation looks at the source.",
        ),
        "encoder.qkv": projections("encoder", "All three are made from the same tokens."),
        "decoder.qkv": projections("decoder", "All three are made from the same rows."),
        "cross.qkv": projections("decoder", "V and K from the encoder, Q from the decoder."),
        "encoder.feed_forward": network(config.d_ff),
        "decoder.feed_forward": network(config.decoder_inner),
        "norm": Words(
            "Norm" if pre else "Add & Norm", f"n × {model}",
            "A normalised copy of the stream is what the next block reads; the stream itself goes "
            "past (pre-norm, not in the paper)." if pre else
            "What the block computed is added to what it was given, and the sum is normalised.",
            "section 3.1", "Opens the stream, below.",
        ),
        "add": Words(
            "Add", f"n × {model}",
            "What the block computed is added to the stream.",
            "section 3.1", "Opens the stream, below.",
        ),
        "final": Words(
            "Norm", f"n × {model}", "Pre-norm stacks end in one more LayerNorm.",
            "section 5.4", "Opens the stream, below.",
        ),
        "linear": Words(
            "Linear", f"{model} → {target:,}",
            "The stream of the last layer times the output matrix: one logit for each token of "
            "the vocabulary.",
            "section 3.4", "Opens Tokens.",
        ),
        "softmax": Words(
            "Softmax", f"{target:,}",
            "Logits become probabilities that add up to 1.",
            "section 3.4", "Opens Translate at this step.",
        ),
        "layer": Words(
            "Layer", f"n × {model}", "Built like the opened one, with weights of its own.",
            "section 3.1", "Opens this layer.",
        ),
    }  # fmt: skip
