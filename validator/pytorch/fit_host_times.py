"""Turns what measure_times.py measured into the sections host_times and host_rates of a hardware profile.

usage: fit_host_times.py FOLDER… > host.yaml      (host.json, layers.json, groups.json, allocator.json, copies.json)

Several folders are several sessions: hosts differ by half, and one host from hour to hour. Layers of all are fitted
together; of other figures the geometric mean is taken.

Whole layers are counted rather than single operations: `layer_counts.json` says how many tensors, launches, products
and gradients `headroom simulate` executes for each measured case (a model of that family, batch 2, 32 tokens). The
costs are least squares of relative errors, with large errors weighted down. Three ratios are held, for the counts
rise together: a launch is 0.6 of a tensor, a product 2 of one, a product of the backward pass 2.5 of another gradient.
"""
import json, os, statistics, sys

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH, PRODUCT, PRODUCT_GRADIENT = 0.6, 2.0, 2.5


def least_squares(rows, target, weights):
    """Non-negative, by coordinate descent: few unknowns."""
    n = len(rows[0])
    square = [[sum(w * r[i] * r[j] for r, w in zip(rows, weights)) for j in range(n)] for i in range(n)]
    right = [sum(w * r[i] * y for r, y, w in zip(rows, target, weights)) for i in range(n)]
    out = [0.0] * n
    for _ in range(4000):
        for i in range(n):
            if square[i][i] > 0:
                rest = right[i] - sum(square[i][j] * out[j] for j in range(n))
                out[i] = max(0.0, out[i] + rest / square[i][i])
    return out


def read(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return json.load(f)["rows"]


def layer_rows(folder):
    """Counts of each measured case over its seconds."""
    measured = {}
    for r in read(folder, "layers.json"):
        case = {"eager attention": "eager"}.get(r["case"], r["case"])
        measured[(r["family"], case, r["layers"], r["what"])] = r["seconds"]
    with open(os.path.join(HERE, "layer_counts.json")) as f:
        counts = json.load(f)["rows"]
    rows = []
    for family, case, count, what, tensors, launches, products, product_gradients, gradients, call, token, again in counts:
        at = (family, case, count)
        if what == "train":
            if at + ("backward",) not in measured:
                continue
            seconds = measured[at + ("train forward",)] + measured[at + ("backward",)]
        elif at + (what,) in measured:
            seconds = measured[at + (what,)]
        else:
            continue
        rows.append([v / seconds for v in (tensors + LAUNCH * launches + PRODUCT * products,
                                           gradients + PRODUCT_GRADIENT * product_gradients, call, token, again)])
    return rows


def layers(folders):
    rows = [row for folder in folders for row in layer_rows(folder)]
    if not rows:
        return {}
    weights = [1.0] * len(rows)
    for _ in range(12):
        fit = least_squares(rows, [1.0] * len(rows), weights)
        errors = [abs(sum(a * b for a, b in zip(row, fit)) - 1) for row in rows]
        weights = [1 / max(e, 0.05) for e in errors]
    errors.sort()
    print(f"# layers: median error {100 * statistics.median(errors):.0f} %, 90 % within "
          f"{100 * errors[int(0.9 * len(errors))]:.0f} %, {len(rows)} cases", file=sys.stderr)
    tensor, gradient, call, token, again = fit
    known = [calls(folder) for folder in folders]
    regions = [one["checkpoint"] for one in known if "checkpoint" in one]
    # A checkpointed layer's first run is counted where it happens.
    again -= statistics.geometric_mean(regions) if regions else 0
    return {"allocation": tensor, "launch": LAUNCH * tensor, "product": PRODUCT * tensor, "gradient": gradient,
            "product_gradient": PRODUCT_GRADIENT * gradient, "model_call": call, "token": token, "recompute": again}


def calls(folder):
    """Python calls that no operation shows."""
    out, rows = {}, read(folder, "host.json")
    at = {r["what"]: r["seconds"] for r in rows if "segment" in r["what"]}
    if "segment checkpoint, forward" in at:
        out["checkpoint"] = at["segment checkpoint, forward"] - at["segment plain, forward"]
    visits = [r["seconds"] / (2 * r["modules"]) for r in rows if r["part"] == "modules" and r["what"] == "mode"]
    if visits:
        out["module_visit"] = statistics.median(visits)
    at = {(r["family"], r["what"]): r for r in rows if r["part"] == "recording" and "family" in r}
    recorded = [(r["seconds"] - at[family, what.replace("frames", "off")]["seconds"]) / r["allocations"]
                for (family, what), r in at.items() if what.endswith(", frames")]
    if recorded:
        out["history"] = statistics.median(recorded)
    return out


def optimizer_steps(folder):
    out = {}
    rows = [r for r in read(folder, "layers.json") if r["layers"] == 8]
    for key, what in (("foreach_parameter", "step foreach"), ("fused_parameter", "step fused")):
        each = [r["seconds"] / r["parameters"] for r in rows if r["what"] == what]
        if each:
            out[key] = statistics.median(each)
    return out


def units(folder):
    """What FSDP2 adds to a layer: its forward gathers once, its backward gathers and reduces."""
    at = {(r["family"], r["layers"], r["fsdp"], r["recompute"], r["what"]): r["seconds"]
          for r in read(folder, "groups.json") if "fsdp" in r}
    forwards, trains = [], []
    for family in sorted({key[0] for key in at}):
        def slope(fsdp, what):
            return (at[(family, 8, fsdp, False, what)] - at[(family, 2, fsdp, False, what)]) / 6
        forwards.append(slope(True, "forward") - slope(False, "forward"))
        trains.append(slope(True, "forward and backward") - slope(False, "forward and backward"))
    if not forwards:
        return {}
    forward = statistics.median(forwards)
    return {"unshard": forward, "reduce": max(0.0, statistics.median(trains) - 2 * forward)}


def line(points):
    """Seconds = fixed + bytes / rate, by least squares of relative errors."""
    rows = [[1 / seconds, size / seconds / 2**30] for size, seconds in points]
    fixed, slope = least_squares(rows, [1.0] * len(rows), [1.0] * len(rows))
    return fixed, 2**30 / slope


def driver_calls(folder):
    """Getting a segment and giving it back, one at a time and many, from 20 MiB on (smaller ones share segments)."""
    rows, least = read(folder, "allocator.json"), 20 << 20
    gets = [(r["bytes"], r["seconds"]) for r in rows if r["what"] in ("get", "get one of many") and r["bytes"] >= least]
    returns = [(r["bytes"], r["seconds"]) for r in rows if r["what"] in ("return", "return one of many") and r["bytes"] >= least]
    rows = [r for r in read(folder, "emptying.json") if r["bytes"] >= least and r["turn"] > 0]
    gets += [(r["bytes"], r["get"]) for r in rows]
    returns += [(r["bytes"], r["give_back"]) for r in rows]
    if not gets:
        return {}, {}
    (get, get_rate), (back, back_rate) = line(gets), line(returns)
    return {"segment": get, "segment_return": back}, {"device_get": get_rate, "device_return": back_rate}


def rates(folder):
    copies = {}
    for r in read(folder, "copies.json"):
        if r["part"] == "copies":
            copies.setdefault(r["what"], {})[r["bytes"]] = r["seconds"]
    out = {}
    size = 1 << 28
    if size in copies.get("to pageable", {}):
        out["from_pageable"] = size / copies["from pageable"][size]
        out["to_pageable"] = size / copies["to pageable"][size]
        out["first_touch"] = size / (copies["to new pageable, kept"][size] - copies["to pageable"][size])
        out["unmap"] = size / copies["free pageable"][size]
        out["pin"] = size / copies["pin new"][size]
    out.update(driver_calls(folder)[1])
    for r in read(folder, "copies.json"):
        if r["what"] == "host foreach":
            out["optimizer"] = 7 * 4 * r["parameters"] * r["elements"] / r["seconds"]
    return out


def over(folders, figures):
    """The geometric mean of each figure over the folders that have it."""
    found = {}
    for folder in folders:
        for key, value in figures(folder).items():
            found.setdefault(key, []).append(value)
    return {key: statistics.geometric_mean(values) for key, values in found.items() if min(values) > 0}


def main():
    folders = sys.argv[1:]
    times = {**layers(folders), **over(folders, calls), **over(folders, optimizer_steps), **over(folders, units),
             **over(folders, lambda folder: driver_calls(folder)[0])}
    for title, figures in (("host_times", times), ("host_rates", over(folders, rates))):
        print(f"{title}:")
        for key, value in figures.items():
            print(f"  {key}: {value:.3g}")
        print("  source: measured on this machine, "
              + ", ".join(os.path.basename(os.path.normpath(folder)) for folder in folders))


if __name__ == "__main__":
    main()
