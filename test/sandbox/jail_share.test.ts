/** Code of users has a bounded share of the processor, whatever it starts. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { openShare } from "../../src/sandbox/jail/share.ts";
import { until } from "../harness.ts";
import { openYard } from "./jail_kit.ts";

const yard = openYard();

const share = openShare();
const group = share?.procs.replace(/\/\d+\/cgroup\.procs$/, "") ?? "";
share?.close();

test.skipIf(share === undefined)(
  "the command and all it starts are in one group, also in sessions of their own",
  async () => {
    const show = "grep -h verk- /proc/self/cgroup";
    const ran = await yard.run(["/bin/sh", "-c", `${show}; setsid sh -c '${show}'`]);
    expect(ran.stdout.trim().split("\n")).toHaveLength(2);
    expect(new Set(ran.stdout.trim().split("\n")).size).toBe(1);
    expect(ran.stdout).toContain(`/verk-${process.pid}/`);
  },
);

test.skipIf(share === undefined)(
  "all jails of this process weigh a tenth of it, and an ended one leaves no group",
  async () => {
    const weights = { "cpu.shares": "102", "cpu.weight": "10" };
    const [file, weight] = Object.entries(weights).find(([name]) => existsSync(`${group}/${name}`)) ?? [];
    expect(readFileSync(`${group}/${file}`, "utf8").trim()).toBe(weight as string);
    await Promise.all(Array.from({ length: 4 }, () => yard.run(["/bin/true"])));
    const groups = () => readdirSync(group, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    await until("the kernel lets go of the last processes", () => {
      openShare()?.close(); // the next jail removes what could not be removed before
      return groups().length === 0;
    });
  },
);
