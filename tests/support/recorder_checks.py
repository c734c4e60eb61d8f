"""Holds validator/pytorch/headroom_recorder.py to what it promises, on whichever `torch` is found: PyTorch with a GPU, or
the stand-in in fake_torch.

usage: recorder_checks.py RECORDER_FOLDER FOLDER_TO_WRITE_TO"""

import asyncio
import contextlib
import inspect
import io
import json
import multiprocessing
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import torch

RECORDER, FOLDER = sys.argv[1:3]
sys.path.insert(0, RECORDER)
import headroom_recorder

MIB = 1 << 20
BLOCK = 64 * MIB


def take(size=BLOCK):
    """`size` bytes of the device; whatever is returned gives them back when called."""
    if hasattr(torch.cuda, "fragment"):
        torch.cuda.allocate(size)
        return lambda: torch.cuda.free(size)
    held = [torch.empty(size, dtype=torch.uint8, device="cuda")]
    return held.clear


class Broken:
    """An object's methods that raise, for a while: Broken(torch.cuda, "synchronize", …)."""

    def __init__(self, target, *names):
        self.patches = [mock.patch.object(target, name, side_effect=RuntimeError("CUDA error: unspecified launch failure"))
                        for name in names]

    def __enter__(self):
        for patch in self.patches:
            patch.start()

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


def spawned(path):
    with headroom_recorder.start(path).phase("init"):
        pass


class Trainer:
    def generate(self, tokens, *, rounds=1):
        """Made-up work."""
        give_back = take()
        give_back()
        return tokens * rounds

    def update(self):
        take()()

    async def rollout(self, tokens):
        """Made-up waiting."""
        give_back = take()
        await asyncio.sleep(0)
        give_back()
        return tokens

    def batches(self, count):
        for index in range(count):
            give_back = take()
            yield index
            give_back()
        return "done"

    async def stream(self, count):
        for index in range(count):
            take()()
            yield index


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

    @contextlib.contextmanager
    def warnings(self):
        said = io.StringIO()
        with mock.patch("sys.stderr", said):
            yield said

    def test_without_a_start_nothing_is_recorded(self):
        trainer = Trainer()
        headroom_recorder.mark(trainer, generate="generate")
        with headroom_recorder.phase("generate"):
            pass
        headroom_recorder.step()
        self.assertEqual(trainer.generate(3), 3)
        self.assertFalse(os.path.exists(self.path))

    def test_a_mark_before_the_start_counts_from_the_start_on(self):
        trainer = Trainer()
        headroom_recorder.mark(trainer, generate="generate")
        trainer.generate(3)
        self.start()
        trainer.generate(3)
        self.assertEqual([r["phase"] for r in self.rows()], ["generate"])

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

    def test_coroutines_and_generators_are_phases_and_keep_their_kind(self):
        self.start()
        trainer = Trainer()
        headroom_recorder.mark(trainer, rollout="generate", batches="reward", stream="actor_logprob")
        self.assertTrue(inspect.iscoroutinefunction(trainer.rollout))
        self.assertEqual(trainer.rollout.__doc__, "Made-up waiting.")
        self.assertEqual(asyncio.run(trainer.rollout(5)), 5)
        self.assertEqual(list(trainer.batches(3)), [0, 1, 2])

        async def drain():
            return [item async for item in trainer.stream(2)]

        self.assertEqual(asyncio.run(drain()), [0, 1])
        self.assertEqual([(r["phase"], r["n_allocs"], r["peak_alloc"] - r["alloc_start"]) for r in self.rows()],
                         [("generate", 1, BLOCK), ("reward", 3, BLOCK), ("actor_logprob", 2, BLOCK)])

    def test_a_generator_left_early_is_a_phase_without_error(self):
        self.start()
        trainer = Trainer()
        headroom_recorder.mark(trainer, batches="reward")
        batches = trainer.batches(3)
        next(batches)
        batches.close()
        self.assertEqual([(r["phase"], r["error"]) for r in self.rows()], [("reward", None)])

    def test_coroutines_at_the_same_time_are_rows_of_their_own(self):
        self.start()
        trainer = Trainer()
        headroom_recorder.mark(trainer, rollout="generate")

        async def both():
            return await asyncio.gather(trainer.rollout(1), trainer.rollout(2))

        self.assertEqual(asyncio.run(both()), [1, 2])
        self.assertEqual(len(self.rows()), 2)
        self.assertEqual(max(r["peak_alloc"] - r["alloc_start"] for r in self.rows()), 2 * BLOCK)

    def test_each_rank_writes_a_file(self):
        os.environ.update(RANK="3", WORLD_SIZE="8")
        with self.start().phase("init"):
            pass
        record = self.written(self.path.replace(".json", ".rank3.json"))
        self.assertEqual((record["rank"], record["ranks"]), (3, 8))
        self.assertFalse(os.path.exists(self.path))

    def test_a_rank_that_only_torch_distributed_knows_names_the_file(self):
        ranks = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 2,
                                      get_world_size=lambda: 4)
        with mock.patch.object(torch, "distributed", ranks, create=True):
            with self.start().phase("init"):
                pass
        record = self.written(self.path.replace(".json", ".rank2.json"))
        self.assertEqual((record["rank"], record["ranks"]), (2, 4))
        self.assertFalse(os.path.exists(self.path))

    def test_spawned_processes_without_a_rank_write_files_of_their_own(self):
        workers = [multiprocessing.get_context("fork").Process(target=spawned, args=(self.path,)) for _ in range(2)]
        if not hasattr(torch.cuda, "fragment"):
            self.skipTest("CUDA is in use: no process can be forked")
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for worker in workers:
            self.assertEqual(len(self.written(self.path.replace(".json", f".pid{worker.pid}.json"))["phases"]), 1)
        self.assertFalse(os.path.exists(self.path))

    def steps(self, names):
        """Of phases in a row; "|" is step()."""
        self.start()
        for name in names.split():
            if name == "|":
                headroom_recorder.step()
                continue
            with headroom_recorder.phase(name):
                pass
        return [r["step"] for r in self.rows()]

    def test_init_is_before_the_first_step_and_steps_can_be_given(self):
        recorder = self.start()
        for name, step in (("init", None), ("generate", 0), ("reward", None), ("generate", 7), ("reward", None)):
            with recorder.phase(name, step):
                pass
        self.assertEqual([r["step"] for r in self.rows()], [-1, 0, 0, 7, 7])

    def test_several_calls_in_a_row_are_one_step(self):
        self.assertEqual(self.steps("init generate generate reward train_actor generate generate reward generate"),
                         [-1, 0, 0, 0, 0, 1, 1, 1, 2])

    def test_calls_of_the_only_phase_are_steps(self):
        self.assertEqual(self.steps("init train_actor train_actor train_actor"), [-1, 0, 1, 2])

    def test_steps_that_go_around_are_told_at_their_start_or_end(self):
        around = "generate reward generate reward train_actor"
        expected = [-1] + 5 * [0] + 5 * [1] + 5 * [2]
        self.assertEqual(self.steps(f"init | {around} | {around} | {around}"), expected)
        self.assertEqual(self.steps(f"init {around} | {around} | {around} |"), expected)

    def test_phases_within_a_phase_pass_their_peaks_on(self):
        recorder = self.start()
        with recorder.phase("train_actor"):
            take(8 * BLOCK)()
            with recorder.phase("actor_logprob"):
                take()()
                with recorder.phase("reward"):
                    take(3 * BLOCK)()
            with recorder.phase("ref_logprob"):
                take(2 * BLOCK)()
        peaks = {r["phase"]: r["peak_alloc"] - r["alloc_start"] for r in self.rows()}
        self.assertEqual(peaks, {"train_actor": 8 * BLOCK, "actor_logprob": 3 * BLOCK, "reward": 3 * BLOCK,
                                 "ref_logprob": 2 * BLOCK})
        self.assertEqual({r["phase"]: r.get("depth", 0) for r in self.rows()},
                         {"train_actor": 0, "actor_logprob": 1, "reward": 2, "ref_logprob": 1})
        self.assertEqual({r["step"] for r in self.rows()}, {0})

    def test_a_phase_has_the_peak_of_one_within_it_that_fails(self):
        recorder = self.start()
        with recorder.phase("train_actor"):
            with contextlib.suppress(ValueError):
                with recorder.phase("reward"):
                    take(3 * BLOCK)()
                    raise ValueError
            take()()
        self.assertEqual([r["peak_alloc"] - r["alloc_start"] for r in self.rows()], [3 * BLOCK, 3 * BLOCK])

    def test_errors_of_the_recorder_hide_none_of_the_script(self):
        for names in (("synchronize", "mem_get_info"), ("memory_stats",), ("mem_get_info", "memory_stats")):
            recorder = self.start()
            with self.warnings() as said, contextlib.ExitStack() as failures, \
                    self.assertRaisesRegex(ValueError, "mine"):
                with recorder.phase("train_actor"):
                    failures.enter_context(Broken(torch.cuda, *names))
                    raise ValueError("mine")
            row = self.rows()[0]
            self.assertEqual((row["error"], row["message"]), ("ValueError", "mine"))
            self.assertGreaterEqual(row["peak_alloc"], row["alloc_start"])
            self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())

    def test_a_phase_that_cannot_be_measured_runs(self):
        recorder, ran = self.start(), []
        with self.warnings() as said, Broken(torch.cuda, "memory_stats"):
            for _ in range(2):
                with recorder.phase("train_actor"):
                    ran.append(1)
        self.assertEqual(len(ran), 2)
        self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())

    def test_a_missing_folder_is_made(self):
        self.path = os.path.join(FOLDER, self._testMethodName, str(os.getpid()), "deep", "run.json")
        with self.start().phase("init"):
            pass
        self.assertEqual(len(self.rows()), 1)

    def test_a_folder_that_cannot_be_made_is_said_at_once_and_once(self):
        with open(self.path, "w"):
            pass
        with self.warnings() as said:
            recorder = headroom_recorder.start(os.path.join(self.path, "run.json"))
            self.assertIn("cannot write", said.getvalue())
            for _ in range(3):
                with recorder.phase("generate"):
                    pass
        self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())

    def test_a_full_disk_ends_no_training_and_leaves_no_rest(self):
        recorder = self.start()
        with self.warnings() as said, mock.patch("json.dump", side_effect=OSError(28, "No space left on device")):
            for _ in range(3):
                with recorder.phase("generate"):
                    pass
        self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())
        self.assertIn("No space left", said.getvalue())
        self.assertEqual([name for name in os.listdir(FOLDER) if name.endswith(".tmp")], [])

    def test_a_case_that_is_no_json_is_kept_as_text(self):
        with self.warnings() as said:
            with self.start(case={"settings": Trainer}).phase("init"):
                pass
        self.assertIn("no JSON", said.getvalue())
        self.assertIn("Trainer", self.written()["case"]["text"])

    def test_without_cuda_one_sentence_and_the_training_goes_on(self):
        trainer = types.SimpleNamespace(update=lambda: 7)
        with self.warnings() as said, mock.patch.object(torch.cuda, "is_available", lambda: False), \
                Broken(torch.cuda, "memory_stats", "synchronize", "reset_peak_memory_stats"):
            recorder = self.start(snapshot=self.path + ".pickle")
            headroom_recorder.mark(trainer, update="train_actor")
            self.assertEqual([trainer.update(), trainer.update()], [7, 7])
            recorder.note_empty_cache()
            headroom_recorder.step()
        self.assertEqual(said.getvalue(), "headroom_recorder: nothing is recorded: PyTorch finds no CUDA device. "
                                          "The training goes on.\n")
        self.assertFalse(os.path.exists(self.path))

    def test_a_mark_of_what_is_not_there_is_a_warning(self):
        trainer = Trainer()
        with self.warnings() as said:
            headroom_recorder.mark(trainer, generat="generate", update="train_actor")
        self.assertIn("cannot mark generat", said.getvalue())
        self.assertIn("update", vars(trainer))

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
