"""Records a small made-up run through validator/pytorch/headroom_recorder.py, on the stand-in for PyTorch beside this
file: record_run.py RECORDER_FOLDER OUT.json leaks|fragments"""

import sys

sys.path.insert(0, sys.argv[1])

import headroom_recorder as headroom
import torch

GIB, LOST = 1 << 30, 64 << 20  # LOST: a step
leaks = sys.argv[3] == "leaks"


class Trainer:
    def generate(self):
        torch.cuda.allocate(2 * GIB)
        torch.cuda.free(2 * GIB)

    def update(self):
        torch.cuda.allocate(4 * GIB)
        torch.cuda.free(4 * GIB - LOST * leaks)
        torch.cuda.fragment(LOST * (not leaks))


headroom.start(sys.argv[2], {"name": "made-up"})
with headroom.phase("init"):
    torch.cuda.allocate(GIB)
trainer = Trainer()
headroom.mark(trainer, generate="generate", update="train_actor")
for _ in range(20):
    trainer.generate()
    trainer.update()
try:
    with headroom.phase("generate"):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
except torch.cuda.OutOfMemoryError:
    pass
