/** The decisions of the protocol are Python, like the training, and have their tests there. */
import { expect, test } from "bun:test";
import { join } from "node:path";

const hasPython = Bun.which("python3") !== null;

test.skipIf(!hasPython).each([
  ["folds, the ledger, the threshold of the tier ai, and figures", "protocol/test.py"],
  ["lines of speech systems, equal error, and clips on one footing", "audio/test.py"],
])(
  "%s",
  (_, script) => {
    const command = ["python3", join(import.meta.dir, script)];
    const { exitCode, stderr } = Bun.spawnSync(command, {
      cwd: import.meta.dir,
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
    });
    expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: expect.stringContaining("OK") });
  },
  60_000,
);

test.skipIf(!hasPython)(
  "every script compiles",
  () => {
    const code =
      "import ast, pathlib, sys\nfor p in pathlib.Path(sys.argv[1]).rglob('*.py'): ast.parse(p.read_text(), str(p))";
    const { exitCode, stderr } = Bun.spawnSync(["python3", "-c", code, import.meta.dir]);
    expect([exitCode, stderr.toString()]).toEqual([0, ""]);
  },
  60_000,
);
