/** Long faults of a real Slurm. Only full runs have them; slurm.test.ts has short ones. */
import { beforeAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { directLink } from "../../src/platform/providers/link.ts";
import { NodeProvider } from "../../src/platform/providers/node_provider.ts";
import type { Handle } from "../../src/platform/providers/protocol.ts";
import { SlurmProvider } from "../../src/platform/providers/slurm_provider.ts";
import { SlurmSettings, slurmName } from "../../src/platform/providers/slurm_text.ts";
import { Unreachable } from "../../src/platform/providers/types.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { runToEnd } from "../servers/process.ts";
import { describeWith, NotAvailable, slurm } from "../servers/servers.ts";
import { IS_FULL } from "../sweep.ts";
import {
  dir,
  ended,
  exitOf,
  LONG_MS,
  messagesOf,
  numbersOf,
  recordsOf,
  stateOf,
  stepsDone,
  stepsOf,
  submission,
} from "./provider_kit.ts";

const [EXECUTABLE = ""] = program();
const IS_ROOT = process.getuid?.() === 0;
const start = () => (IS_FULL ? slurm() : Promise.reject(new NotAvailable("long faults of slurm", "only in full runs")));

describeWith("long faults", start, (server) => {
  process.env["PATH"] = `${server.bin}:${process.env["PATH"]}`;
  const options = {
    region: "reg_test",
    kind: "slurm",
    link: directLink(dir),
    executable: EXECUTABLE,
    rateMicros: null,
  };
  const root = join(dir, "faults");
  const providerIn = (partition: string, more: Partial<SlurmSettings> = {}, at = root) =>
    new SlurmProvider({ ...options, root: at }, SlurmSettings.parse({ partition, ...more }));
  const provider = providerIn("cpu");
  const idOf = (handle: Handle) =>
    readFileSync(join(root, "jobs", handle.job, String(handle.attempt), "submitted"), "utf8").trim();
  let numbers: unknown[] = [];

  beforeAll(async () => {
    await placeExecutable(EXECUTABLE, root);
    const here = new NodeProvider({ ...options, kind: "ssh", root });
    const handle = await here.submit(await submission(6));
    await ended(here, handle);
    numbers = stepsOf(await recordsOf(here, handle)).map(numbersOf);
    await here.remove(handle.job);
  }, LONG_MS);

  test(
    "a killed controller changes nothing for the run",
    async () => {
      const handle = await provider.submit(await submission(6));
      await until("Slurm to save its state", () => server.hasSaved(slurmName(handle)) || undefined, LONG_MS);
      server.kill("slurmctld", { stayDown: true });
      await expect(provider.observe([handle])).rejects.toThrow(Unreachable);
      server.up("slurmctld");
      await until("the controller", () => stateOf(provider, handle).catch(() => undefined), LONG_MS);
      await ended(provider, handle);
      expect(stepsOf(await recordsOf(provider, handle)).map(numbersOf)).toEqual(numbers as never);
      await until("the nodes", () => provider.info().catch(() => undefined), LONG_MS); // it asks them first
      await provider.remove(handle.job);
    },
    LONG_MS,
  );

  test(
    "a killed slurmd and a drained node change nothing for the run",
    async () => {
      const handle = await provider.submit(await submission(6));
      await stepsDone(provider, handle, 1);
      server.kill("n2");
      server.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test");
      await ended(provider, handle);
      expect(stepsOf(await recordsOf(provider, handle)).map(numbersOf)).toEqual(numbers as never);
      const next = await provider.submit(await submission(3));
      expect(await stateOf(provider, next)).toBe("ready");
      server.run("scontrol", "update", "nodename=n2", "state=resume");
      await ended(provider, next);
      for (const { job } of [handle, next]) await provider.remove(job);
    },
    LONG_MS,
  );

  test(
    "a run saves before its time limit, or is lost with that reason and a checkpoint",
    async () => {
      const short = providerIn("cpu", { time_limit_minutes: 1 });
      const handle = await short.submit(await submission(50_000));
      const state = await until(
        "the time limit",
        async () => {
          const seen = await stateOf(short, handle);
          return seen === "ended" || seen === "lost" ? seen : undefined;
        },
        5 * LONG_MS,
      );
      const records = await recordsOf(short, handle);
      const [observed] = await short.observe([handle]);
      if (state === "ended") expect(messagesOf(records).map(({ type }) => type)).toContain("saved");
      else expect(observed?.lost?.message).toContain("TIMEOUT");
      expect((await short.checkpoints(handle, [])).length).toBeGreaterThan(0);
      await until("Slurm to end it", () => !server.run("squeue", "-h").includes(idOf(handle)) || undefined, LONG_MS);
      await short.remove(handle.job);
    },
    5 * LONG_MS,
  );

  test.if(IS_ROOT)(
    "a full work directory ends the run with that reason",
    async () => {
      const full = join(dir, "full");
      mkdirSync(full);
      runToEnd(["mount", "-t", "tmpfs", "-o", "size=3m,mode=755", "tmpfs", full]);
      try {
        for (const name of ["bin", "data"]) {
          mkdirSync(join(root, name), { recursive: true });
          symlinkSync(join(root, name), join(full, name));
        }
        const small = providerIn("cpu", {}, full);
        const handle = await small.submit(await submission(50_000));
        await ended(small, handle);
        const exit = exitOf(await recordsOf(small, handle));
        expect(`${exit?.message} ${exit?.tail}`).toMatch(/ENOSPC|no space left|disk is full|is full/i);
        await small.remove(handle.job);
      } finally {
        runToEnd(["umount", "-l", full]);
      }
    },
    5 * LONG_MS,
  );
});
