"""Shows the first place where a predicted stream of allocations departs from a recorded one.

usage: first_difference.py PREDICTED.json RECORDED.trace.json.gz [--context N] [--to END]

PREDICTED is what `headroom simulate CASE --events FILE` writes. Allocation ids, requested sizes, streams (where
recorded, numbered by first use) and frees are compared in order; segments are not. Exit 0 when all are equal, 4 otherwise.
"""
import gzip
import json
import sys


def read(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as f:
        return json.load(f)


def steps(recording, with_streams):
    """(kind, id, bytes, stream, label) of allocations and frees, ids counted in order of allocation."""
    labels, numbers, sizes, streams, out = recording.get("labels") or [], {}, {}, {0: 0}, []
    streamed = recording.get("format") == 2
    labelled = bool(labels)
    for event in recording["events"]:
        if event[0] == "a":
            stream = streams.setdefault(event[3], len(streams)) if streamed and with_streams else 0
            label = labels[event[-1]] if labelled and len(event) > (4 if streamed else 3) else ""
            if not out and "|barrier|" in label:
                continue  # came before the recording began
            number = numbers[event[1]] = len(numbers)
            sizes[number] = event[2]
            out.append(("a", number, event[2], stream, label))
        elif event[0] == "f" and event[1] in numbers:
            number = numbers[event[1]]
            out.append(("f", number, sizes[number], 0, ""))
    return out


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    context = int(sys.argv[sys.argv.index("--context") + 1]) if "--context" in sys.argv else 12
    arguments = arguments[:2]
    files = [read(path) for path in arguments]
    with_streams = all(file.get("format") == 2 for file in files)
    predicted, recorded = (steps(file, with_streams) for file in files)
    equal = 0
    for p, r in zip(predicted, recorded):
        if p[:4] != r[:4]:
            break
        equal += 1
    # What a process frees at its end is not part of the program.
    rest = [e for e in recorded[equal:] if e[0] == "a"] + predicted[equal:]
    print(f"{equal} equal, predicted {len(predicted)}, recorded {len(recorded)}")
    if not rest:
        return 0
    for name, events in (("predicted", predicted), ("recorded", recorded)):
        print(f"--- {name}")
        for i in range(max(0, equal - context), min(len(events), equal + context)):
            kind, number, size, stream, label = events[i]
            print("  >" if i == equal else "   ", i, kind, number, size, label[:110])
    return 4


if __name__ == "__main__":
    sys.exit(main())
