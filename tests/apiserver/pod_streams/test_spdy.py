"""The frames of SPDY: read as they were written however they are cut, and bounded whatever comes."""

from __future__ import annotations

import struct
import zlib
from random import Random

import pytest

from muster.apiserver.pod_streams import spdy
from tests.support import proof_count


class Client:
    """Writes what clients write."""

    def __init__(self):
        self.packer = zlib.compressobj(zdict=spdy.DICTIONARY)

    def open(self, stream, headers, *, is_last=False):
        texts = [text.encode("latin-1") for one in headers.items() for text in one]
        pairs = b"".join(struct.pack("!I", len(text)) + text for text in texts)
        block = self.packer.compress(struct.pack("!I", len(headers)) + pairs) + self.packer.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack("!IIH", stream, 0, 0) + block, is_last=is_last)


def control(kind, payload, *, is_last=False, version=3):
    return struct.pack("!HHI", 0x8000 | version, kind, (is_last << 24) | len(payload)) + payload


def test_the_dictionary_is_the_one_of_the_protocol():
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


@pytest.mark.prove
def test_events_do_not_depend_on_how_the_bytes_are_cut():
    for seed in range(proof_count(2_000)):
        random = Random(seed)
        client, reader, sent, events = Client(), spdy.Reader(), b"", []
        for _ in range(random.randrange(1, 12)):
            stream, is_last = random.randrange(1, 2**31), random.random() < 0.5
            match random.randrange(5):
                case 0:
                    headers = {f"name{n}": "v" * random.randrange(50) for n in range(random.randrange(4))}
                    sent += client.open(stream, headers, is_last=is_last)
                    events.append(spdy.Opened(stream, headers, is_last))
                case 1:
                    piece = random.randbytes(random.randrange(3_000))
                    sent += spdy.data(stream, piece, is_last=is_last)
                    events.append(spdy.Data(stream, piece, is_last))
                case 2:
                    sent += spdy.reset(stream, 5)
                    events.append(spdy.Reset(stream))
                case 3:
                    sent += spdy.pong(stream)
                    events.append(spdy.Ping(stream))
                case 4:
                    sent += control(random.choice((4, 8, 9)), random.randbytes(9)) + control(7, bytes(8))
                    events.append(spdy.GoAway())
        found = []
        while sent:
            at = random.randrange(1, 2_000)
            found += reader.receive(sent[:at])
            sent = sent[at:]
        assert found == events, f"seed {seed}"


BOMB = zlib.compressobj(9, zdict=spdy.DICTIONARY)
BAD = {
    "another version": control(6, bytes(4), version=2),
    "a long control frame": struct.pack("!HHI", 0x8003, 1, spdy.MOST_CONTROL_BYTES + 1),
    "a long data frame": struct.pack("!II", 1, spdy.MOST_DATA_BYTES + 1),
    "a short SYN_STREAM": control(1, b"\0"),
    "headers that are no zlib": control(1, bytes(10) + b"abc"),
    "headers that unpack to 40 MB": control(
        1, bytes(10) + BOMB.compress(bytes(40_000_000)) + BOMB.flush(zlib.Z_SYNC_FLUSH)
    ),
    "a short PING": control(6, bytes(3)),
    "a long RST_STREAM": control(3, bytes(9)),
}


@pytest.mark.parametrize("frame", BAD.values(), ids=BAD.keys())
def test_bad_frames(frame):
    with pytest.raises(spdy.BadFrame):
        list(spdy.Reader().receive(frame))


@pytest.mark.parametrize(
    "block",
    [
        struct.pack("!I", 2**32 - 1),
        struct.pack("!II", 1, 2**32 - 1) + b"x",
        struct.pack("!II", 1, 1) + b"x",
        b"\0",
    ],
)
def test_bad_headers(block):
    packer = zlib.compressobj(zdict=spdy.DICTIONARY)
    packed = packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(spdy.BadFrame):
        list(spdy.Reader().receive(control(1, bytes(10) + packed)))


def test_replies_can_be_unpacked_by_the_other_side():
    writer, unpacker = spdy.Writer(), zlib.decompressobj(zdict=spdy.DICTIONARY)
    for stream in (1, 3, 5):
        frame = writer.reply(stream)
        assert frame[:4] == b"\x80\x03\x00\x02"
        assert struct.unpack("!I", frame[8:12]) == (stream,)
        assert unpacker.decompress(frame[12:]) == bytes(4)
