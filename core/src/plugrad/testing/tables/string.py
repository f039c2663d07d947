"""Test rows of the kernels of strings."""

import numpy as np

from plugrad.kernels import string
from plugrad.testing.rows import STRING_DTYPE, Row, fixed_values

# From Google's farmhash.
FINGERPRINT_OF_TEXT = {
    "": 11160318154034397263,
    "a": 12917804110809363939,
    "hello": 13009744463427800296,
    "sieben ": 12862328172717371630,
    "seventeen letters": 7723131893474706300,
    "日本語": 15681232226066675783,
    "The quick brown fox jump": 6702341905823656245,
}
"""The FarmHash fingerprints of some texts."""


def as_text_array(values: object) -> object:
    """Return strings as an array of NumPy's variable-width string dtype."""
    return np.array(values, STRING_DTYPE)


TEST_ROWS = [
    *(
        Row(
            string.static_regex_replace,
            lambda x, e=expected: as_text_array(e),
            [fixed_values(["aba", "b a", "", "éa"], "string")],
            {"pattern": pattern, "rewrite": rewrite, "replace_global": everywhere},
            dtypes=["string"],
        )
        for pattern, rewrite, everywhere, expected in [
            ("a", "x", True, ["xbx", "b x", "", "éx"]),
            ("a", "x", False, ["xba", "b x", "", "éx"]),
            (r"(\w)(\w)", r"\2-\1\0", True, ["b-aaba", "b a", "", "a-ééa"]),
            ("[é]", "日本", True, ["aba", "b a", "", "日本a"]),
        ]
    ),
    *(
        Row(
            string.string_to_hash_bucket_fast,
            lambda x, n=count: np.array([f % n for f in FINGERPRINT_OF_TEXT.values()]),
            [fixed_values(list(FINGERPRINT_OF_TEXT), "string")],
            {"num_buckets": count},
            dtypes=["string"],
        )
        for count in (10, 2**31)
    ),
    *(
        Row(
            string.string_split,
            lambda x, d, p=places, t=pieces, s=shape: [np.array(p), as_text_array(t), np.array(s)],
            [fixed_values(["a b", "", " c", "d"], "string"), fixed_values(" ", "string")],
            {"skip_empty": skipped},
            dtypes=["string"],
        )
        for skipped, places, pieces, shape in [
            (True, [[0, 0], [0, 1], [2, 0], [3, 0]], ["a", "b", "c", "d"], [4, 2]),
            (
                False,
                [[0, 0], [0, 1], [2, 0], [2, 1], [3, 0]],
                ["a", "b", "", "c", "d"],
                [4, 2],
            ),
        ]
    ),
    *(
        Row(
            string.string_n_grams,
            lambda data, splits, g=grams, s=found: [as_text_array(g), np.array(s)],
            [fixed_values(["a", "b", "c", "d"], "string"), fixed_values([0, 3, 4], "int32")],
            {
                "separator": "|",
                "n_gram_widths": widths,
                "left_pad": "LP",
                "right_pad": "RP",
                "pad_width": pad,
                "preserve_short_sequences": short,
            },
            dtypes=["string"],
        )
        for widths, pad, short, grams, found in [
            ((2,), 0, False, ["a|b", "b|c"], [0, 2, 2]),
            ((2,), 0, True, ["a|b", "b|c", "d"], [0, 2, 3]),
            ((2,), 1, False, ["LP|a", "a|b", "b|c", "c|RP", "LP|d", "d|RP"], [0, 4, 6]),
            ((3, 1), 0, False, ["a|b|c", "a", "b", "c", "d"], [0, 4, 5]),
        ]
    ),
]
