#!/usr/bin/env python3
"""Reads an event file byte by byte and compares it with what write_events puts there.

usage: read_events.py WRITE_EVENTS
"""
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8])
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body)
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """{field number: [values]} of one message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def pixels(png):
    """(width, height, bits, colour type) and the rows, each behind its filter byte."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(png):
        length, name = struct.unpack_from(">I4s", png, at)
        body = png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length)[0] == zlib.crc32(name + body)
        chunks[name] = body
        at += 12 + length
    return struct.unpack(">IIBB", chunks[b"IHDR"][:10]), zlib.decompress(chunks[b"IDAT"])


def value_of(event):
    return fields(fields(event[5][0])[1][0])


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = subprocess.run([sys.argv[1], directory], check=True, capture_output=True, text=True).stdout.strip()
        events = [fields(record) for record in records(pathlib.Path(path).read_bytes())]
    assert events[0][3] == [b"brain.Event:2"]
    for step in range(3):
        value = value_of(events[1 + step])
        assert value[1] == [b"loss"]
        assert abs(value[2][0] - 1 / (1 + step)) < 1e-6
        assert events[1 + step].get(2, [0]) == [step]
    histogram = fields(value_of(events[4])[5][0])
    assert (histogram[1], histogram[2], histogram[3]) == ([-1.0], [0.5], [4.0])
    assert sum(doubles(histogram[7][0])) == 4
    picture = fields(value_of(events[5])[4][0])
    assert (picture[1], picture[2], picture[3]) == ([2], [3], [1])
    assert pixels(picture[4][0]) == ((3, 2, 8, 0), bytes([0, 0, 255, 128, 0, 255, 0, 64]))
    text = value_of(events[6])
    assert fields(fields(text[9][0])[1][0])[1] == [b"text"]
    assert fields(text[8][0])[8] == [b"first *run*"]
    nodes = [fields(node) for node in fields(events[7][4][0])[1]]
    assert [nodes[0][1], nodes[0][2]] == [[b"x"], [b"Placeholder"]]
    assert b"x" in nodes[-2].get(3, []) or b"x" in nodes[-1].get(3, [])
    assert len(events) == 8


main()
