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


def walk_back(device, trace):
    """From the segments and blocks at the end to the first event, as the page does to draw any moment."""
    blocks, runs = {}, []
    for s in root["segments"]:
        if s["device"] == device:
            runs.append([s["address"], s["address"] + s["total_size"]])
            blocks.update({b["address"]: b["state"] for b in s["blocks"] if b["state"] != "inactive"})
    for event in reversed(trace):
        action, at, end = event["action"], event.get("addr"), event.get("addr", 0) + event["size"]
        if action == "alloc":
            assert blocks.pop(at) == "active_allocated", hex(at)
            assert any(low <= at and end <= high for low, high in runs), hex(at)
        elif action == "free_completed":
            assert at not in blocks, hex(at)
            blocks[at] = "active_pending_free"
        elif action == "free_requested":
            assert blocks[at] == "active_pending_free", hex(at)
            blocks[at] = "active_allocated"
        elif action in ("segment_alloc", "segment_map"):
            run = next(r for r in runs if r[0] <= at and end <= r[1])
            runs.remove(run)
            runs += [r for r in ([run[0], at], [end, run[1]]) if r[0] < r[1]]
        elif action in ("segment_free", "segment_unmap"):
            for low, high in [r for r in runs if action == "segment_unmap" and (r[1] == at or r[0] == end)]:
                runs.remove([low, high])
                at, end = min(low, at), max(high, end)
            runs.append([at, end])


for device, trace in enumerate(root["device_traces"]):
    walk_back(device, trace)
    times = [event["time_us"] for event in trace]
    assert times == sorted(times)
for mark in root["external_annotations"]:
    assert mark["stage"] in ("START", "END") and isinstance(mark["name"], str) and isinstance(mark["time_us"], int)
print("events", sum(map(len, root["device_traces"])), "segments", len(root["segments"]))
