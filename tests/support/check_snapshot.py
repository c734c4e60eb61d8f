"""Opens a memory snapshot with Python's pickle and checks what PyTorch's memory_viz page relies on.

usage: check_snapshot.py FILE
"""
import pickle
import pickletools
import sys

# What the page's own unpickler executes.
PAGE_OPCODES = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "EMPTY_DICT", "EMPTY_LIST",
    "EMPTY_TUPLE", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "DICT", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "NEWTRUE", "NEWFALSE", "NONE", "SHORT_BINUNICODE", "BINUNICODE"}

with open(sys.argv[1], "rb") as f:
    data = f.read()
unknown = {op.name for op, _, _ in pickletools.genops(data)} - PAGE_OPCODES
assert not unknown, unknown
root = pickle.loads(data)
assert list(root) == ["segments", "device_traces", "allocator_settings", "external_annotations"]
for segment in root["segments"]:
    assert segment["segment_type"] in ("small", "large")
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at and block["state"] in ("active_allocated", "active_pending_free", "inactive")
        assert isinstance(block["requested_size"], int)
        for frame in block["frames"]:
            assert set(frame) == {"name", "filename", "line"}
        at += block["size"]
    assert at == segment["address"] + segment["total_size"]
for trace in root["device_traces"]:
    for event in trace:
        assert isinstance(event["size"], int) and isinstance(event["stream"], int) and isinstance(event["time_us"], int)
        assert "device_free" in event if event["action"] == "oom" else "addr" in event
print("events", sum(map(len, root["device_traces"])), "segments", len(root["segments"]))
