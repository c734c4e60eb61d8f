"""Holds validator/pytorch/headroom_recorder.py to what it promises, on whichever `torch` is found: PyTorch with a GPU, or
the stand-in in fake_torch.

usage: recorder_checks.py RECORDER_FOLDER FOLDER_TO_WRITE_TO"""

import json
import os
import subprocess
import sys
import unittest

import torch

RECORDER, FOLDER = sys.argv[1:3]
sys.path.insert(0, RECORDER)
import headroom_recorder

MIB = 1 << 20
BLOCK = 64 * MIB


def take():
    """BLOCK bytes of the device; whatever is returned gives them back when called."""
    if hasattr(torch.cuda, "fragment"):
        torch.cuda.allocate(BLOCK)
        return lambda: torch.cuda.free(BLOCK)
    held = [torch.empty(BLOCK, dtype=torch.uint8, device="cuda")]
    return held.clear


class Trainer:
    def generate(self, tokens, *, rounds=1):
        """Made-up work."""
        give_back = take()
        give_back()
        return tokens * rounds

    def update(self):
        take()()


class Promises(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(FOLDER, self._testMethodName + ".json")
        headroom_recorder._recorder = None
        for variable in ("RANK", "WORLD_SIZE"):
            os.environ.pop(variable, None)

    def start(self, **options):
        return headroom_recorder.start(self.path, **options)

    def written(self, path=None):
        with open(path or self.path) as file:
            return json.load(file)

    def rows(self):
        return self.written()["phases"]

    def test_without_a_start_nothing_is_recorded_or_wrapped(self):
        trainer = Trainer()
        headroom_recorder.mark(trainer, generate="generate")
        with headroom_recorder.phase("generate"):
            pass
        self.assertNotIn("generate", vars(trainer))
        self.assertFalse(os.path.exists(self.path))

    def test_marked_methods_are_phases_and_keep_their_meaning(self):
        self.start()
        trainer = Trainer()
        headroom_recorder.mark(trainer, generate="generate", update="train_actor")
        for _ in range(2):
            self.assertEqual(trainer.generate(3, rounds=2), 6)
            trainer.update()
        self.assertEqual(trainer.generate.__doc__, "Made-up work.")
        self.assertEqual([(r["step"], r["phase"]) for r in self.rows()],
                         [(0, "generate"), (0, "train_actor"), (1, "generate"), (1, "train_actor")])

    def test_a_phase_has_its_peaks_and_the_use_of_the_card(self):
        recorder = self.start()
        with recorder.phase("generate"):
            give_back = take()
            second = take()
            second()
        row = self.rows()[0]
        self.assertEqual(row["peak_alloc"] - row["alloc_start"], 2 * BLOCK)
        self.assertEqual(row["alloc_end"] - row["alloc_start"], BLOCK)
        self.assertGreaterEqual(row["peak_reserved"], row["peak_alloc"])
        self.assertEqual(row["n_allocs"], 2)
        self.assertGreaterEqual(row["device_used_end"], row["reserved_end"])
        self.assertIsNone(row["error"])
        with recorder.phase("reward"):
            give_back()
        row = self.rows()[1]
        self.assertEqual(row["peak_alloc"], row["alloc_start"], "peaks begin anew in every phase")

    def test_versions_and_the_card_are_named(self):
        with self.start(case={"name": "mine"}).phase("init"):
            pass
        record = self.written()
        self.assertEqual(record["schema"], "headroom.recording/1")
        self.assertEqual(record["case"], {"name": "mine"})
        self.assertEqual(record["torch"], torch.__version__)
        self.assertEqual(record["cuda"], torch.version.cuda)
        self.assertEqual(record["device"], torch.cuda.get_device_properties(0).name)
        self.assertGreater(record["total_memory"], BLOCK)
        self.assertRegex(record["nccl"], r"^\d+\.\d+")
        self.assertEqual((record["rank"], record["ranks"]), (0, 1))

    def test_each_rank_writes_a_file(self):
        os.environ.update(RANK="3", WORLD_SIZE="8")
        with self.start().phase("init"):
            pass
        record = self.written(self.path.replace(".json", ".rank3.json"))
        self.assertEqual((record["rank"], record["ranks"]), (3, 8))
        self.assertFalse(os.path.exists(self.path))

    def test_init_is_before_the_first_step_and_steps_can_be_given(self):
        recorder = self.start()
        for name, step in (("init", None), ("generate", None), ("generate", None), ("generate", 7), ("reward", None)):
            with recorder.phase(name, step):
                pass
        self.assertEqual([r["step"] for r in self.rows()], [-1, 0, 1, 7, 7])

    def test_phases_within_a_phase_are_measured_for_themselves(self):
        recorder = self.start()
        with recorder.phase("experience"):
            with recorder.phase("actor_logprob"):
                take()()
            take()()
        inner, outer = self.rows()
        self.assertEqual((inner["phase"], inner["depth"]), ("actor_logprob", 1))
        self.assertNotIn("depth", outer)
        self.assertEqual(outer["step"], inner["step"])
        self.assertEqual(outer["peak_alloc"] - outer["alloc_start"], BLOCK)

    def test_a_crash_leaves_what_was_measured_and_its_message(self):
        recorder = self.start()
        with recorder.phase("generate"):
            pass
        with self.assertRaisesRegex(torch.cuda.OutOfMemoryError, "2.00 GiB"):
            with recorder.phase("train_actor"):
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        whole, broken = self.rows()
        self.assertIsNone(whole["error"])
        self.assertEqual(broken["error"], "OutOfMemoryError")
        self.assertIn("2.00 GiB", broken["message"])

    def test_an_emptied_cache_is_noted(self):
        recorder = self.start()
        with recorder.phase("generate"):
            take()()
        torch.cuda.empty_cache()
        recorder.note_empty_cache()
        self.assertEqual(self.rows()[0]["reserved_after_empty"], torch.cuda.memory_reserved())

    def test_a_snapshot_comes_when_memory_runs_out_and_at_the_end(self):
        snapshot = os.path.join(FOLDER, "run.pickle")
        for ending in ("memory runs out", "end"):
            if os.path.exists(snapshot):
                os.remove(snapshot)
            program = (f"import sys; sys.path.insert(0, {RECORDER!r})\n"
                       "import os, torch, headroom_recorder as headroom\n"
                       f"headroom.start({self.path!r}, snapshot={snapshot!r})\n"
                       "try:\n"
                       "    with headroom.phase('generate'):\n"
                       f"        if {ending == 'memory runs out'}: raise torch.cuda.OutOfMemoryError('no room')\n"
                       "except torch.cuda.OutOfMemoryError:\n"
                       "    os._exit(0)  # as if it were killed: nothing more is written\n")
            subprocess.run([sys.executable, "-c", program], check=True)
            self.assertGreater(os.path.getsize(snapshot), 0, ending)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
