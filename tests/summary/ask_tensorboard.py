#!/usr/bin/env python3
"""Lets TensorBoard read what write_events wrote.

usage: ask_tensorboard.py WRITE_EVENTS
"""
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

with tempfile.TemporaryDirectory() as directory:
    subprocess.run([sys.argv[1], directory], check=True)
    seen = EventAccumulator(directory)
    seen.Reload()
    assert [(e.step, round(e.value, 6)) for e in seen.Scalars("loss")] == [(0, 1.0), (1, 0.5), (2, 0.333333)]
    assert seen.Histograms("weights")[0].histogram_value.num == 4
    assert (seen.Images("picture")[0].height, seen.Images("picture")[0].width) == (2, 3)
    assert seen.Tensors("note/text_summary" if "note/text_summary" in seen.Tags()["tensors"] else "note")[
        0
    ].tensor_proto.string_val == [b"first *run*"]
    assert seen.Graph().node[0].name == "x"
