import { rmSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import { parseDuration } from "../../../lib/time.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { isHeld } from "../../../platform/db/data_lock.ts";
import { copyDatabase, databaseVersion } from "../../../platform/updates/database.ts";
import type { BundleManifest } from "../../../platform/updates/manifest.ts";
import { executableFor, isSameBuild, refusalOf } from "../../../platform/updates/policy.ts";
import {
  type Journal,
  nextOf,
  readJournal,
  removeJournal,
  shareNext,
  swapIn,
  writeJournal,
} from "../../../platform/updates/program.ts";
import type { Bundle } from "../../../platform/updates/read_bundle.ts";
import { readStamp } from "../../../platform/updates/stamp.ts";
import { asOwnerOf } from "../../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT } from "../../args.ts";
import { note, print } from "../../output.ts";
import { settingsOf } from "../../settings.ts";
import { isReady, SERVICE_FLAG, type Service, serviceOf } from "./service.ts";
import { explainDenied, goBack, PROGRAM_FLAG, programAt, withDataLock } from "./steps.ts";
import { openTrusted } from "./trusted.ts";

export const upgrade = command({
  summary: "Install a signed release; go back by itself if the new version does not become ready",
  takes: ["FILE"],
  flags: {
    program: PROGRAM_FLAG,
    service: SERVICE_FLAG,
    timeout: { type: "string", value: "TIME", doc: "How long the new version may take to become ready (default 120s)" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
  },
  examples: ["sudo verk upgrade verk-0.2.0.bundle"],
  exits: {
    1: "the new version did not become ready; the previous one is back",
    5: "the bundle was refused; nothing has changed",
  },
  async run(flags, file = "") {
    const program = programAt(flags.program);
    const config = settingsOf(flags);
    const bundle = await openTrusted(file, { key: undefined, config: flags.config });
    try {
      const installed = readStamp(program);
      const refusal = refusalOf(installed, bundle.manifest);
      if (refusal !== undefined) throw new UsageError(refusal, EXIT.check);
      if (isSameBuild(installed, bundle.manifest)) {
        print(`verk ${installed.version} (${installed.commit}) is already installed`);
        return EXIT.ok;
      }
      await bundle.check();
      await settleUnfinished(program, installed.version);
      const service = serviceOf(flags.service, {
        program,
        dataDir: config.data_dir,
        config: flags.config,
        data: flags.data,
        timeoutMs: timeoutOf(flags.timeout),
      });
      await extractNext(program, installed.target, bundle).catch(explainDenied);
      return await install(program, installed.version, bundle.manifest, config.data_dir, service);
    } finally {
      await bundle.close();
    }
  },
});

/** Checked in a process of its own before anything stops: does it start here, and is it what the manifest says? */
async function extractNext(program: string, target: string, bundle: Bundle) {
  const { manifest } = bundle;
  const executable = executableFor(manifest, target);
  if (!executable) throw new UsageError(`The bundle has no executable for ${target}`, EXIT.check);
  const next = nextOf(program);
  await bundle.extract(executable, next);
  shareNext(program);
  const run = Bun.spawnSync([next, "version", "--json"], { stdin: "ignore" });
  const facts = run.success ? (JSON.parse(run.stdout.toString()) as Partial<BundleManifest>) : {};
  if (facts.version === manifest.version && facts.database_version === manifest.database_version) return;
  rmSync(next, { force: true });
  throw new UsageError(
    `The new version does not start on this machine: ${run.stderr.toString().trim().slice(0, 300)}`,
    EXIT.check,
  );
}

async function install(program: string, from: string, manifest: BundleManifest, dataDir: string, service: Service) {
  const to = manifest.version;
  await service.stop();
  const journal = withDataLock(dataDir, () => swap(program, from, manifest, dataDir));
  const fault = await service.start(to);
  if (fault === undefined) {
    writeJournal(program, { ...journal, state: "done" });
    print(`verk ${to} is installed; before: ${from}. To go back: verk rollback`);
    return EXIT.ok;
  }
  note(`verk ${to} does not work here: ${fault}. Going back to ${from}.`);
  await service.stop();
  const { replaced } = goBack(program, journal);
  if (replaced !== undefined) note(`The database is as before. The one that ${to} wrote is at ${replaced}.`);
  const again = await service.start(from);
  note(again === undefined ? `verk ${from} is back.` : `verk ${from} is back, but it is not ready either: ${again}`);
  return EXIT.failed;
}

function swap(program: string, from: string, manifest: BundleManifest, dataDir: string): Journal {
  const version = asOwnerOf(dataDir, () => databaseVersion(dataDir));
  const isNewer = version > 0 && manifest.database_version > version;
  const journal: Journal = {
    state: "started",
    from,
    to: manifest.version,
    data_dir: dataDir,
    database_version: version,
    database_copy: isNewer ? asOwnerOf(dataDir, () => copyDatabase(dataDir, version)) : null,
    at: new Date().toISOString(),
  };
  writeJournal(program, journal);
  swapIn(program);
  return journal;
}

/** An upgrade that was killed: before the swap it left nothing to undo, after it a person decides. */
async function settleUnfinished(program: string, installed: string) {
  const journal = await readJournal(program);
  if (journal?.state !== "started") return;
  if (installed !== journal.to) return removeJournal(program);
  const { holder } = isHeld(journal.data_dir);
  if (holder?.version === journal.to && (await isReady(holder)))
    return writeJournal(program, { ...journal, state: "done" });
  throw new UsageError(
    `The upgrade to ${journal.to} of ${journal.at} was interrupted. Start the server and run this again, or go back with \`verk rollback\`.`,
    EXIT.failed,
  );
}

function timeoutOf(text: string | undefined): number {
  const ms = text === undefined ? 120 * SECOND_MS : parseDuration(text);
  if (ms === undefined || ms <= 0)
    throw new UsageError(`--timeout: expected a time such as 120s or 5m, not ${JSON.stringify(text)}`);
  return ms;
}
