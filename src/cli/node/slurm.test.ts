import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { UsageError } from "../../lib/errors.ts";
import { TRY_LATER } from "../../platform/providers/link.ts";
import { SlurmSettings } from "../../platform/providers/slurm_text.ts";
import { layoutFor, runSlurm } from "./slurm.ts";

const path = process.env["PATH"];
let dir: string;
beforeAll(() => {
  dir = tempDir();
  process.env["PATH"] = `${dir}:${path}`;
});
afterAll(() => {
  process.env["PATH"] = path;
  rmSync(dir, { recursive: true });
});

const CPU = SlurmSettings.parse({ partition: "batch" });
const cluster = (...lines: string[]) => answers(`printf '%s\\n' ${lines.map((line) => `'${line}'`).join(" ")}`);
const answers = (script: string) => writeFileSync(join(dir, "sinfo"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
const layout = (gpus: number, gpu_type: string, ranks: number) => layoutFor(CPU, { gpus, gpu_type, ranks });
const failure = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error instanceof UsageError ? [error.message, error.exitCode] : error;
};

test("a run takes the fewest nodes that can share its devices, and a job of one processor asks no node", async () => {
  answers("exit 1");
  expect(await layout(0, "cpu", 1)).toEqual({ nodes: 1, gres: undefined });
  cluster("n1|gpu:h200:2|1000|8|idle", "n2|gpu:h200:2|1000|8|mixed", "n3|(null)|1000|8|idle", "n4|gpu:h200:8|1|1|down");
  expect(await layout(2, "H200", 2)).toEqual({ nodes: 1, gres: "gpu:h200" });
  expect(await layout(4, "H200", 4)).toEqual({ nodes: 2, gres: "gpu:h200" });
  expect(await layout(0, "cpu", 3)).toEqual({ nodes: 3, gres: undefined });
  await expect(layout(6, "H200", 6)).rejects.toThrow("cannot share 6 devices of type H200 equally");
  await expect(layout(1, "A100-40GB", 1)).rejects.toThrow("no node that can be used has a GPU of type A100-40GB");
});

test("a cluster whose controller is away or has just started is asked again later", async () => {
  cluster("n1|(null)|1000|8|unknown*");
  expect(await failure(layout(0, "cpu", 2))).toEqual(["no node of the partition batch can be used now", TRY_LATER]);
  cluster("n1|(null)|1000|8|drained");
  expect(await failure(layout(0, "cpu", 2))).toEqual(["no node of the partition batch can be used now", 1]);
  answers('echo first >&2; echo "slurm_load: Unable to contact slurm controller (connect failure)" >&2; exit 1');
  const away = "slurm_load: Unable to contact slurm controller (connect failure)";
  expect(await failure(runSlurm(["sinfo"]))).toEqual([away, TRY_LATER]);
  answers("echo 'Invalid partition name' >&2; exit 1");
  expect(await failure(runSlurm(["sinfo"]))).toEqual(["Invalid partition name", 1]);
  await expect(runSlurm(["no-such-program"])).rejects.toThrow("the login node has no no-such-program");
});
