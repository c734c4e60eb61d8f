"""What driver_clock.c counted in this process: {"get": [calls, seconds], "return": [calls, seconds]}, of cudaMalloc and
cudaFree since the process began; None where it is not preloaded.

`python3 driver_clock.py FOLDER` builds it there, and prints the library's path for LD_PRELOAD.
"""

import ctypes
import os
import subprocess
import sys


def read():
    try:
        library = ctypes.CDLL(None)
        calls = (ctypes.c_long * 2).in_dll(library, "headroom_driver_calls")
        seconds = (ctypes.c_double * 2).in_dll(library, "headroom_driver_seconds")
    except ValueError:
        return None
    return {name: [calls[i], seconds[i]] for i, name in enumerate(("get", "return"))}


def since(before):
    """What came after `before` was read."""
    after = read()
    return after and {name: [b - a for a, b in zip(before[name], after[name])] for name in after}


def build(folder):
    path = os.path.join(os.path.abspath(folder), "driver_clock.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "driver_clock.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


if __name__ == "__main__":
    print(build(sys.argv[1]))
