import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { VERSION } from "../../lib/version.ts";
import { configFile } from "../../platform/config/config.ts";
import { becomeOwnerOf } from "../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../args.ts";
import { examine, type Finding, type Status } from "../doctor/check.ts";
import { cloudChecks } from "../doctor/clouds.ts";
import { gpuChecks } from "../doctor/gpus.ts";
import { hostChecks } from "../doctor/host.ts";
import { keyChecks } from "../doctor/keys.ts";
import { nativeChecks } from "../doctor/natives.ts";
import { sandboxChecks } from "../doctor/sandbox.ts";
import { measureSpeed, type SpeedResult } from "../doctor/speed.ts";
import { storageChecks } from "../doctor/storage.ts";
import { tlsChecks } from "../doctor/tls.ts";
import { note, paint, print, printJson, printTable } from "../output.ts";
import { settingsOf } from "../settings.ts";

const CHECKS = [
  ...storageChecks,
  ...keyChecks,
  ...hostChecks,
  ...tlsChecks,
  ...cloudChecks,
  ...nativeChecks,
  ...gpuChecks,
  ...sandboxChecks,
];
const WIDTH = Math.max(...CHECKS.map(({ name }) => name.length));
const COLORS = { ok: "green", warn: "yellow", fail: "red" } as const satisfies Record<Status, string>;

export const doctor = command({
  summary: "Check this machine and the data directory; each problem is shown with its fix",
  takes: ["MODEL?"],
  flags: {
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    speed: { type: "boolean", doc: "Measure instead how fast each decoder is with MODEL (default: verk-tiny)" },
    json: { ...JSON_FLAG, doc: 'Print {"ok","version","checks":[…]}' },
  },
  examples: ["verk doctor", "verk doctor --data /var/lib/verk --json", "verk doctor --speed llama-8b"],
  exits: { 0: "no check failed (there may be warnings)", 5: "a check failed" },
  async run({ json, speed, ...where }, model?: string) {
    if (model !== undefined && !speed) throw new UsageError("MODEL is only for --speed");
    const config = settingsOf(where);
    becomeOwnerOf(config.data_dir);
    const temporary = existsSync(config.data_dir) ? undefined : mkdtempSync(join(tmpdir(), "verk-doctor-"));
    const scene = { config, probeDir: temporary ?? config.data_dir, file: configFile(where.config) };
    const findings: Finding[] = [];
    try {
      if (speed) return showSpeed(await measureSpeed(config, scene.probeDir, model ?? "verk-tiny"), json);
      for (const check of CHECKS) {
        const finding = await examine(check, scene);
        findings.push(finding);
        if (!json) show(finding);
      }
    } finally {
      if (temporary) rmSync(temporary, { recursive: true, force: true });
    }
    const count = (status: Status) => findings.filter((finding) => finding.status === status).length;
    const good = count("fail") === 0;
    if (json) printJson({ ok: good, version: VERSION, checks: findings });
    else note(`\n${count("ok")} ok, ${count("warn")} warnings, ${count("fail")} failed`);
    return good ? EXIT.ok : EXIT.check;
  },
});

function show({ check, status, detail, fix }: Finding) {
  const margin = " ".repeat(WIDTH + 8);
  const [first = "", ...more] = detail.split("\n").filter((line) => line.trim() !== "");
  print(`${paint(COLORS[status], status.padEnd(4))}  ${check.padEnd(WIDTH)}  ${first}`);
  for (const line of more) print(margin + line);
  if (fix) print(`${margin}→ ${fix}`);
}

/** Tokens a second. */
function showSpeed(result: SpeedResult, json: boolean): number {
  const { model, gpu, own, library, errors, ratio } = result;
  const isMeasured = (gpu === null || own !== null) && library !== null;
  if (json) {
    printJson(result);
    return isMeasured ? EXIT.ok : EXIT.check;
  }
  const measured = { "Verk's kernels": own, "llama.cpp": library };
  const streams = (library ?? own)?.answers.map((each) => each.streams) ?? [];
  const rows = Object.entries(measured).flatMap(([name, speed]) => {
    if (!speed) return [];
    const rates = streams.map((n) => speed.answers.find((each) => each.streams === n)?.rate);
    return [[name, ...[speed.prompt, ...rates].map((rate) => (rate === undefined ? "–" : String(Math.round(rate))))]];
  });
  printTable(["Tokens a second", "Prompt", ...streams.map((n) => (n === 1 ? "1 answer" : `${n} answers`))], rows, "");
  for (const error of errors) note(error);
  if (gpu === null) note(`${model} on this processor. There is no GPU, so llama.cpp decodes everything.`);
  else if (ratio === null) note(`${model} on ${gpu}: one of the two cannot decode it, so there is nothing to choose.`);
  else {
    const [name, times] = ratio >= 1 ? ["Verk's kernels", ratio] : ["llama.cpp", 1 / ratio];
    note(
      `${model} on ${gpu}: ${name} is faster, ${times.toFixed(2)} times. serving.decoder = "auto" uses it from the next load on.`,
    );
  }
  return isMeasured ? EXIT.ok : EXIT.check;
}
