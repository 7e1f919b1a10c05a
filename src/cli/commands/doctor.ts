import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
import { storageChecks } from "../doctor/storage.ts";
import { tlsChecks } from "../doctor/tls.ts";
import { note, paint, print, printJson } from "../output.ts";
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
  flags: { data: DATA_FLAG, config: CONFIG_FLAG, json: { ...JSON_FLAG, doc: 'Print {"ok","version","checks":[…]}' } },
  examples: ["verk doctor", "verk doctor --data /var/lib/verk --json"],
  exits: { 0: "no check failed (there may be warnings)", 5: "a check failed" },
  async run({ json, ...where }) {
    const config = settingsOf(where);
    becomeOwnerOf(config.data_dir);
    const temporary = existsSync(config.data_dir) ? undefined : mkdtempSync(join(tmpdir(), "verk-doctor-"));
    const scene = { config, probeDir: temporary ?? config.data_dir, file: configFile(where.config) };
    const findings: Finding[] = [];
    try {
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
