import { expect, test } from "bun:test";
import { read, sources } from "./imports.ts";

/**
 * Every file that starts a process, and the environment that it gives. A tenant's variables are in none of them: they
 * travel inside the specification of a jail, which the helper gives to the command alone.
 */
const STARTS: Record<string, "empty" | "fixed" | "some names" | "own"> = {
  "src/sandbox/jail/jail.ts": "empty",
  "src/sandbox/confinement/support.ts": "empty",
  "src/sandbox/reward/spawn.ts": "fixed",
  "src/platform/workers/process.ts": "some names", // workerEnv: PATH, locale, GPU
  "src/platform/providers/link.ts": "some names", // PATH, HOME, SLURM_CONF
  "src/platform/providers/channel.ts": "some names",
  "src/resources/machines/clouds/commands.ts": "own", // the operator's commands, without the settings of the server
  "src/resources/machines/clouds/key.ts": "own", // ssh-keygen
  "src/platform/backup/schedule.ts": "some names", // settings of backups
  "src/platform/tls/renew_acme.ts": "some names", // settings of ACME
  "src/workers/trainer/ranks/start.ts": "own", // that of the worker, which workerEnv chose
  "src/platform/providers/host_key.ts": "own", // ssh-keyscan
  "src/platform/machine/hardware.ts": "own", // nvidia-smi
  "src/resources/server/system/checks.ts": "own", // verk doctor, with the settings of the server
  "src/cli/node/runs.ts": "own", // the commands below run as the user who calls them
  "src/cli/node/slurm.ts": "own",
  "src/cli/node/ranks.ts": "own",
  "src/cli/node/replica/slurm.ts": "own",
  "src/cli/node/replica/verbs.ts": "own",
  "src/cli/doctor/gpus.ts": "own",
  "src/cli/doctor/speed.ts": "own",
  "src/cli/native_probe.ts": "own",
  "src/cli/demo/server.ts": "own",
  "src/cli/connect.ts": "own",
  "src/cli/commands/operate/support_parts.ts": "own",
  "src/cli/commands/updates/service.ts": "own",
  "src/cli/commands/updates/upgrade.ts": "own",
};

const STARTERS = /\bBun\.(?:spawn|spawnSync|\$)|from "node:child_process"/;
const withoutComments = (text: string) => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");

test("S10: every file that starts a process is listed with the environment that it gives", () => {
  const found = sources.filter((file) => STARTERS.test(withoutComments(read(file))));
  expect(found.toSorted()).toEqual(Object.keys(STARTS).sort());
  for (const [file, gives] of Object.entries(STARTS))
    if (gives === "empty") expect([file, read(file).includes("env: {}")]).toEqual([file, true]);
});

test("S10: only main changes the environment of its own process: a HOME that exists", () => {
  const CHANGES = /\bprocess\.env(?:\.\w+|\[[^\]]+\])\s*=[^=]|Object\.assign\(process\.env/;
  expect(sources.filter((file) => CHANGES.test(withoutComments(read(file))))).toEqual(["src/main.ts"]);
});
