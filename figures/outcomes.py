"""Explanations of a search: why the winner won, and why a node was dropped.

Functions return Markdown, with tokens and translations as code spans to prevent formatting.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from figures.labels import code, count, probability, signed
from transformer.measures.beam import Node, Tree, compare
from transformer.measures.finish import (
    ALPHAS,
    WinningRange,
    could_reach,
    needed_then,
    ranking,
    winning_ranges,
)
from transformer.search.rules import PAPER, BeamRule

#: Decodes token ids into text.
Decode = Callable[[Sequence[int]], str]

_LONGEST = 64  # maximum characters quoted from a translation
_SHORTEST = 14  # minimum characters quoted from its end

#: Short outcome labels for lists and pictures.
OUTCOMES = {
    "continued": "kept",
    "exhausted": "abandoned",
    "finished": "finished",
    "cut": "cut at the length limit",
    "outranked": "dropped",
    "stopped": "dropped when the search ended",
    "passed": "not taken",
}


def penalty_of(length: int, alpha: float, rule: BeamRule = PAPER) -> str:
    """Return the length penalty as an equation with its values."""
    base = str(length) if rule.plain_length else f"((5 + {length}) / 6)"
    return f"{base}^{alpha:g} = {rule.penalty(length, alpha):.3f}"


def text_of(tree: Tree, index: int, decode: Decode) -> str:
    """Return the decoded prefix up to and including a node."""
    return decode([node.token_id for node in tree.prefix(index)])


def why_the_winner_won(tree: Tree, decode: Decode) -> str:
    """Explain why the winner won; `score_arithmetic` gives the arithmetic."""
    if not tree.leaves:
        return "The search found no translation."
    winner = tree.node(tree.leaves[0])
    if tree.beam_size == 1:
        return _why_greedy(tree, winner)
    score = f"**{signed(winner.score)}**"
    ended = [node for node in map(tree.node, tree.leaves) if node.outcome == "finished"]
    if winner.outcome != "finished":
        text = f"This is the best hypothesis cut there, with a score of {score}."
        if ended:
            text += f" {_quoted(tree, ended[0], decode)} ended with {signed(ended[0].score)}."
        likely = "likely " if ended else ""
        return (
            f"**No {likely}hypothesis finished within {count(tree.max_length, 'token')}.** {text}"
        )
    if len(tree.leaves) == 1:
        return f"**Why it won:** it is the only finished hypothesis, with a score of {score}."
    rival = tree.node(tree.leaves[1])
    return (
        f"**Why it won:** its score, {score}, is the highest of the {len(tree.leaves)} "
        f"that {_ended(tree)}. Runner-up: {_quoted(tree, rival, decode)} with "
        f"{signed(rival.score)}."
    )


def score_arithmetic(tree: Tree, decode: Decode) -> str:
    """Return the two best scores' arithmetic, and the winner under other length penalties.

    Returns: "" for a beam of one, which compares no scores.
    """
    if not tree.leaves or tree.beam_size == 1:
        return ""
    leaves = [tree.node(index) for index in tree.leaves]
    sums = [
        f"- #{place}: {signed(leaf.total)} / {penalty_of(leaf.length, tree.alpha, tree.rule)} "
        f"gives **{signed(leaf.score)}** ({count(leaf.length, 'token')})"
        for place, leaf in enumerate(leaves[:2], 1)
    ]
    text = "Score = log p of the translation / length penalty:\n\n" + "\n".join(sums)
    if leaves[0].outcome != "finished" or len(leaves) == 1:
        return text
    return f"{text}\n\n{_other_alphas(tree, decode)}"


def _ended(tree: Tree) -> str:
    outcomes = {tree.node(index).outcome for index in tree.leaves}
    return "finished" if outcomes == {"finished"} else "finished or were cut"


def _other_alphas(tree: Tree, decode: Decode) -> str:
    leaves = [tree.node(index) for index in tree.leaves]
    likeliest = leaves[ranking(leaves, 0.0, tree.rule)[0]]
    rules = winning_ranges(leaves, rule=tree.rule)
    if len(rules) == 1:
        also = " It is also the most probable." if likeliest is leaves[0] else ""
        return f"#1 would win at every α from {ALPHAS[0]:g} to {ALPHAS[1]:g}.{also}"
    sentences = []
    if likeliest is not leaves[0]:
        sentences.append(
            f"Without a penalty (α = 0), {_quoted(tree, likeliest, decode)} would have won with "
            f"log p {signed(likeliest.total)}."
        )
    else:
        sentences.append("#1 is also the most probable (α = 0).")
    sentences += [_change(tree, leaves, before, after, decode) for before, after in pairwise(rules)]
    return " ".join(sentences)


def _change(
    tree: Tree, leaves: Sequence[Node], before: WinningRange, after: WinningRange, decode: Decode
) -> str:
    border = f"{after.low:.3f}"
    if after.place == 0:
        return f"#1 leads from α = {border}."
    taker = leaves[after.place]
    if before.place == 0:
        return f"Above α = {border}, the longer {_quoted(tree, taker, decode)} would win."
    return f"Above α = {border}, {_quoted(tree, taker, decode)} would win."


def _why_greedy(tree: Tree, winner: Node) -> str:
    start = (
        f"**A beam of one** keeps a single hypothesis: log p {signed(winner.total)} over "
        f"{count(winner.length, 'token')}, the sum of its tokens' log-probabilities."
    )
    if tree.sampled:
        steps = [node for node in tree.prefix(winner.index) if node.step >= tree.n_forced]
        lower = sum(node.rank > 0 for node in steps)
        return (
            f"{start} Its tokens were sampled; at {lower} of {len(steps)} steps the most probable "
            "token was not taken."
        )
    close = closest_call(tree)
    if close is None:
        return start
    taken, other = close
    return (
        f"{start} The closest choice was at step {taken.step + 1}: {code(taken.token)} "
        f"{probability(taken.log_prob)} over {code(other.token)} {probability(other.log_prob)}, "
        "which this search never followed."
    )


def closest_call(tree: Tree) -> tuple[Node, Node] | None:
    """Return the closest choice in a beam of one and its runner-up, or None."""
    calls = []
    for index in tree.winner[tree.n_forced :]:
        taken = tree.node(index)
        others = [tree.node(i) for i in tree.steps[taken.step] if i != index]
        if others:
            calls.append((taken, max(others, key=lambda node: node.log_prob)))
    return min(calls, key=lambda call: call[0].log_prob - call[1].log_prob, default=None)


def why_it_went(tree: Tree, node: Node) -> str:
    """Explain a node's outcome and its margin."""
    in_beam = f"rank {node.rank + 1} of the {len(tree.steps[node.step])} compared at this step"
    if node.outcome == "finished":
        place = tree.leaves.index(node.index) + 1
        return (
            f"**Finished** with {code(node.token)}: its score ranks {place} among the "
            f"{len(tree.leaves)} that {_ended(tree)}."
        )
    if node.outcome == "cut":
        return f"**Cut** at the length limit of {count(tree.max_length, 'token')}."
    if node.outcome == "passed":
        return _why_passed(tree, node)
    if node.outcome == "outranked":
        last = tree.last_in_beam(node.step)
        return (
            f"**Dropped:** {in_beam}, and the beam holds {tree.beam_size}. The last token in it, "
            f"{code(last.token)}, reached log p {signed(last.total)}; this token's is "
            f"{signed(last.total - node.total)} lower."
        )
    if node.outcome == "stopped":
        return _why_stopped(tree, node)
    if node.outcome == "exhausted":
        text = f"**Abandoned:** {in_beam}, but no continuation entered the next beam."
        below = [tree.node(index) for index in tree.children[node.index]]
        if below:
            last = tree.last_in_beam(node.step + 1)
            text += (
                f" The best, {code(below[0].token)}, reached log p {signed(below[0].total)}; the "
                f"last token in the beam reached {signed(last.total)}."
            )
        return text
    if node.step < tree.n_forced:
        return "**Forced:** the prefix includes this token."
    if tree.beam_size == 1:
        return f"**Taken:** rank {node.rank + 1} by probability."
    return f"**Kept:** {in_beam}; the beam holds {tree.beam_size}."


def _why_passed(tree: Tree, node: Node) -> str:
    taken = tree.last_in_beam(node.step)
    if node.log_prob > taken.log_prob:
        why = "the model is not allowed to write this token"
        if node.step < tree.n_forced:
            why = "the prefix includes that token"
        elif tree.sampled:
            why = "that token was sampled"
        return f"**Not taken,** though more probable than {code(taken.token)}: {why}."
    return (
        f"**Not taken:** {probability(node.log_prob)} against {probability(taken.log_prob)} for "
        f"{code(taken.token)}."
    )


def _why_stopped(tree: Tree, node: Node) -> str:
    needed, reach = needed_then(tree, node.step), could_reach(tree, node)
    if needed is None or reach > needed:
        return "**Dropped when the search ended** after this step."
    return (
        f"**Dropped when the search ended:** log-probabilities only fall, so even at the maximum "
        f"length, {count(tree.max_length, 'token')}, it could score no more than {signed(reach)}; "
        f"{tree.beam_size} had already finished with {signed(needed)} or better."
    )


def summary(tree: Tree, decode: Decode) -> str:
    """Describe the tree in plain text for screen readers."""
    n_kept = sum(node.fate != "dropped" for node in tree.nodes)
    finished = sum(node.outcome == "finished" for node in tree.nodes)
    best = text_of(tree, tree.leaves[0], decode) if tree.leaves else ""
    return (
        f"Search tree: {len(tree.steps)} steps, beam {tree.beam_size}, {n_kept} nodes kept, "
        f"{len(tree.nodes) - n_kept} dropped, {finished} finished. The winner: {best}"
    )


def _quoted(tree: Tree, node: Node, decode: Decode) -> str:
    """Quote a translation's place and the text that differs from the winner's."""
    place = tree.leaves.index(node.index) + 1
    shared = compare(tree, node.index, tree.leaves[0]).shared
    ids = [prefix_node.token_id for prefix_node in tree.prefix(node.index)]
    text, before = decode(ids), decode(ids[:shared])
    start = len(before) if text.startswith(before) else 0
    start += text[start : start + 1] == " "
    # Start at a whole word, and add words before a short ending for context.
    while start and (text[start - 1] != " " or len(text) - start < _SHORTEST):
        start = text.rfind(" ", 0, start - 1) + 1
    quoted = f"… {text[start:]}" if start and len(text) > _LONGEST else text
    return f"#{place} {code(quoted or '</s>', _LONGEST)}"
