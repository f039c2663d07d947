"""plugrad-nn is an op pack, which plugrad finds."""

import plugrad
import plugrad_nn


def test_plugrad_lists_the_op_pack():
    (pack,) = [p for p in plugrad.plugins("ops") if p.name == "nn"]
    assert pack.distribution == "plugrad-nn"
    assert plugrad.op_pack("nn") is plugrad_nn
