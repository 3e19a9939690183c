"""Changes that break an input: bits, numbers, pieces cut out, doubled, or taken from elsewhere."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

#: Numbers at which lengths and counts go wrong, and marks of the formats that are read.
_TELLING = (
    *(value.to_bytes(8, "little", signed=True)[:size]
      for value in (0, 1, -1, 127, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2**62)
      for size in (1, 2, 4, 8)),
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\r", b"\n", b"\t",
    b"[", b"]", b"{", b"}", b"(", b")", b'"', b"'", b",", b":", b"&a [*a]",
    b"!!python/object:os.system", b"NaN", b"Infinity", b"-1", b"1e999", b"null", b"true",
    b"[[[[[[[[", b"9" * 40, b"\\u0000", b"%00",
    b"<script>", b"__metadata__", b"PK\x03\x04", b"PK\x05\x06", b"../", b"</s>", b"<unk>", b"@@",
)  # fmt: skip


class Mutation(NamedTuple):
    """A change: its kind, where it is (a share of the length), how far, and new bytes."""

    kind: int
    at: float
    length: int
    new: bytes


MUTATIONS = st.lists(
    st.builds(
        Mutation,
        st.integers(0, 5),
        st.floats(0, 1),
        st.integers(0, 60),
        st.sampled_from(_TELLING) | st.binary(max_size=12),
    ),
    max_size=6,
)


def mutated(data: bytes, changes: Sequence[Mutation]) -> bytes:
    """Return the data with these changes, one after the other."""
    for kind, share, length, new in changes:
        at = min(len(data), int(share * (len(data) + 1)))
        if kind == 0:  # other bytes in the place of as many
            data = data[:at] + new + data[at + len(new) :]
        elif kind == 1:  # more
            data = data[:at] + new + data[at:]
        elif kind == 2:  # fewer
            data = data[:at] + data[at + length :]
        elif kind == 3:  # a piece again
            data = data[: at + length] + data[at:]
        elif kind == 4:  # an end
            data = data[:at] + new
        elif data:  # one bit
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (1 << length % 8)]) + data[at + 1 :]
    return data
