"""python3 audio/test.py: what is decided about clips before a model is looked at. Needs NumPy."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the folders beside this one

try:
    import numpy as np

    from protocol import metrics
except ImportError:
    np = None
try:
    from audio import prepare
except ImportError:
    prepare = None
from audio.lines import LINES, family_of


class Lines(unittest.TestCase):
    def test_a_repository_is_in_one_line(self):
        named = [r for repositories in LINES.values() for r in repositories]
        self.assertEqual(len(named), len(set(named)))

    def test_a_repository_without_a_line_is_its_own(self):
        self.assertEqual(family_of("google/tacotron"), family_of("wavegrad/wavegrad.github.io"))
        self.assertEqual(family_of("Somebody/Else"), "somebody/else")


@unittest.skipIf(np is None, "NumPy is not installed")
class EqualError(unittest.TestCase):
    def test_of_two_bells_and_of_no_knowledge(self):
        rng = np.random.default_rng(0)
        label = rng.random(20000) < 0.3
        self.assertAlmostEqual(metrics.equal_error(label, rng.normal(0, 1, 20000) + 2 * label), 0.1587, 2)
        self.assertAlmostEqual(metrics.equal_error(label, np.zeros(20000)), 0.5)
        self.assertEqual((metrics.equal_error(label, label), metrics.equal_error(label, ~label)), (0.0, 1.0))

    def test_weights_count(self):
        label, score = np.array([1, 1, 0, 0]), np.array([0.9, 0.1, 0.8, 0.2])
        self.assertAlmostEqual(metrics.equal_error(label, score), 0.5)
        self.assertLess(metrics.equal_error(label, score, np.array([9, 1, 1, 9])), 0.2)


@unittest.skipIf(prepare is None, "soundfile or SciPy is not installed")
class Preparation(unittest.TestCase):
    def test_as_many_of_each_label_went_through_each_codec(self):
        rows = [{"path": "a.mp3" if i % 5 == 0 and i < 4000 else "a.wav", "label": "ai" if i < 4000 else "real"}
                for i in range(8000)]
        slots = np.array(prepare.slots(rows))
        for names in (("mp3", "old"), ("opus",)):
            ai, real = np.isin(slots[:4000], names).mean(), np.isin(slots[4000:], names).mean()
            self.assertAlmostEqual(ai, real, delta=0.03)
        self.assertTrue((slots[:4000:5] == "old").all())

    def test_silence_at_the_ends_is_cut(self):
        x = np.concatenate([np.zeros(16000), 0.1 * np.sin(np.arange(32000)), np.zeros(8000)])
        self.assertLess(abs(len(prepare.trimmed(x)) - 32000), 2500)

    def test_a_repository_of_many_sources_gives_less_of_each(self):
        rows = [{"sha256": f"{i:08x}", "source": f"s{i % 25}", "repository": "many", "label": "ai"} for i in range(5000)]
        rows += [{"sha256": f"{i:08x}", "source": "one", "repository": "few", "label": "ai"} for i in range(500)]
        kept = prepare.capped(rows)
        self.assertEqual(sum(r["source"] == "s0" for r in kept), prepare.CAP_OF_MANY)
        self.assertEqual(sum(r["source"] == "one" for r in kept), prepare.CAP)


if __name__ == "__main__":
    unittest.main()
