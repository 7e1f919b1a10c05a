import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { testCloud } from "../../../../test/cloud_kit.ts";
import { INFO } from "../../../../test/fake_node.ts";
import { fakeClock, type TestApp, tempDir, testApp, until } from "../../../../test/harness.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { readLeases, serverId, writeLease } from "../../../platform/providers/leases.ts";
import { ledgerEntries } from "../../money/billing/table.ts";
import { store as storeCounters } from "../../watching/metrics/store.ts";
import type { RegionProvider } from "../regions/live.ts";
import * as regions from "../regions/service.ts";
import { liveMachines } from "./moves.ts";
import { close, reconcile } from "./reconcile.ts";
import { waitForMachine } from "./service.ts";
import { type MachineRow, machines } from "./table.ts";

setDefaultTimeout(60_000);
const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2";
const opened: TestApp[] = [];
afterEach(async () => {
  const apps = opened.splice(0);
  for (const app of apps) await app.close();
  apps[0]?.remove();
});

function world(settings = {}) {
  const dir = tempDir();
  const clock = fakeClock();
  const cloud = testCloud(dir, settings, `node@192.0.2.1 ${HOST_KEY}`);
  const open = () => {
    const app = testApp({ dir, clock, flags: { "clouds.files": [cloud.file] } });
    opened.push(app);
    app.ctx.state.regions.executable = "/bin/true";
    answering(app);
    return app;
  };
  const app = open();
  reconcile(app.ctx);
  return { app, clock, cloud, dir, region: () => regions.named(app.ctx, app.workspaceA, "lab")!, open };
}

/** Machines answer at once. Only the test with a real sshd connects. */
function answering(app: TestApp) {
  const provider = { info: async () => INFO } as RegionProvider;
  const { providers } = app.ctx.state.regions;
  providers.get = () => provider;
}

const all = (app: TestApp): MachineRow[] => app.ctx.db.select().from(machines).all();
const charges = (app: TestApp) =>
  app.ctx.db.select().from(ledgerEntries).where(eq(ledgerEntries.subjectKind, "machine")).all();
const settled = (app: TestApp) =>
  until("the commands to end", async () => {
    const { tasks, sweeping } = app.ctx.state.clouds;
    await Promise.all([...tasks.values(), ...sweeping.values()]);
    return tasks.size === 0 && sweeping.size === 0 ? true : undefined;
  });
async function turn(app: TestApp) {
  reconcile(app.ctx);
  await settled(app);
}
type World = ReturnType<typeof world>;
async function readied({ app, region }: World) {
  expect(waitForMachine(app.ctx, region(), null)).toContain("a machine is being made");
  await turn(app);
  expect(waitForMachine(app.ctx, region(), null)).toBeUndefined();
  return liveMachines(app.ctx.db)[0]!;
}

test("a cloud is a region of each workspace, and its name is the provider", async () => {
  const { app } = world({ gpu_type: "H100", gpu_count: 8, memory_gib: 80 });
  const { body } = await app.call("GET", "/v1/regions");
  expect(body.data[1]).toMatchObject({
    name: "lab",
    provider: "lab",
    available: true,
    gpu_types: ["H100"],
    rate_usd_per_hour: 36,
    ssh: null,
  });
  const named = (await app.call("GET", "/v1/regions", undefined, { key: app.keyB })).body.data[1];
  expect([named.name, named.id === body.data[1].id]).toEqual(["lab", false]);
  const removed = await app.call("DELETE", `/v1/regions/${body.data[1].id}`);
  expect([removed.status, removed.body.error.message]).toEqual([400, expect.stringContaining("clouds.files")]);
  const rates = await app.call("GET", "/v1/cost/rates");
  expect(rates.body.lab).toEqual({ H100: 36 });
  const estimate = "/v1/cost/estimate?gpu_type=H100&gpu_count=2&duration_minutes=60&provider=lab";
  expect((await app.call("GET", estimate)).body.gpu_cost_usd).toBe(72);
  const created = { kind: "exec", name: "mine", up: "touch /tmp/x", address: "h", user: "u", ssh_key_id: "s" };
  expect((await app.call("POST", "/v1/regions", created)).body.error.param).toBe("/kind");
});

test("a machine is made for work that waits, charged each minute once, kept warm, and ended", async () => {
  const w = world();
  const { app, clock, cloud, region } = w;
  const { name } = await readied(w);
  expect(cloud.machines()).toEqual([name]);
  expect(name).toStartWith(`verk-${serverId(app.ctx.config.data_dir)}-lab-`);
  expect(readLeases(app.ctx.config.data_dir)).toMatchObject([{ name, cloud: "lab", trouble: null }]);
  expect(region()).toMatchObject({ address: "192.0.2.1", user: "node", hostKey: HOST_KEY });
  for (let minute = 1; minute <= 10; minute++) {
    clock.advance(MINUTE_MS);
    await turn(app);
  }
  await turn(app); // `down` comes one turn after the end of the idle time at the latest
  expect(cloud.machines()).toEqual([]);
  expect(readLeases(app.ctx.config.data_dir)).toEqual([]);
  const [row] = all(app);
  expect(row).toMatchObject({ status: "ended", fault: "no work for idle_minutes", upSince: null });
  expect([row?.uptimeMs, row?.costMicros]).toEqual([10 * MINUTE_MS, 6_000_000]);
  const entries = charges(app);
  expect(entries.map(({ windowKey }) => windowKey)).toEqual(
    Array.from({ length: 10 }, (_, i) => `${row?.id}/${i * MINUTE_MS}`),
  );
  expect(entries.reduce((sum, { amountMicros }) => sum + amountMicros, 0)).toBe(-6_000_000);
  expect(region().address).toBe("");
  const { body } = await app.call("GET", "/v1/machines");
  expect(body.data).toMatchObject([{ name, status: "ended", cost_usd: 6, uptime_seconds: 600 }]);
  expect((await app.call("GET", "/v1/machines", undefined, { key: app.keyB })).body.data).toEqual([]);
});

test("work keeps a machine, and work that waits gets the warm one", async () => {
  const w = world();
  const { app, clock, cloud, region } = w;
  const { name } = await readied(w);
  for (let minute = 0; minute < 30; minute += 5) {
    clock.advance(5 * MINUTE_MS);
    expect(waitForMachine(app.ctx, region(), null)).toBeUndefined();
    await turn(app);
  }
  expect(cloud.machines()).toEqual([name]);
  expect(cloud.calls().filter((call) => call.startsWith("up"))).toHaveLength(1);
});

test("the lease is on the disk before `up` is called", async () => {
  const w = world();
  const lease = join(w.app.ctx.config.data_dir, "machines");
  w.cloud.set("before_up", `ls '${lease}' > '${w.dir}/seen'\n`);
  const { name } = await readied(w);
  expect(readFileSync(join(w.dir, "seen"), "utf8")).toContain(`${name}.json`);
});

test("a command gets the name, the key and no setting of the server", async () => {
  const w = world();
  w.cloud.set("up", `env > '${w.dir}/env'\n`);
  const { name } = await readied(w);
  const env = readFileSync(join(w.dir, "env"), "utf8");
  expect(env).toContain(`VERK_MACHINE=${name}\n`);
  expect(env).toMatch(/VERK_SSH_PUBLIC_KEY=ssh-ed25519 /);
  const known = /^VERK_(MACHINE|CLOUD|GPU_TYPE|GPU_COUNT|SSH_PUBLIC_KEY|SSH_PUBLIC_KEY_FILE|COMMAND_OF|COMMAND_ID)$/;
  const names = env.match(/^VERK_\w+(?==)/gm) ?? [];
  expect(names.filter((each) => !known.test(each))).toEqual([]);
});

test("an `up` that fails after it made a machine leaves none, and the next start waits", async () => {
  const w = world();
  const { app, clock, cloud, region } = w;
  cloud.set("up", "echo 'no capacity in this zone' >&2; exit 3\n");
  waitForMachine(app.ctx, region(), null);
  await turn(app);
  await turn(app);
  expect([cloud.machines(), all(app).map(({ status }) => status)]).toEqual([[], ["ended"]]);
  const reason = waitForMachine(app.ctx, region(), null);
  expect(reason).toContain("The command `up` of the cloud lab failed: no capacity in this zone");
  await turn(app);
  expect(all(app)).toHaveLength(1);
  cloud.set("up", "");
  clock.advance(10_000);
  waitForMachine(app.ctx, region(), null);
  await turn(app);
  expect(cloud.machines()).toHaveLength(1);
  expect(charges(app)).toEqual([]); // the first one never counted
});

test("an `up` that prints something else is ended with its machine", async () => {
  const w = world();
  w.cloud.set("up", "echo 'root@-oProxyCommand=x'; exit 0\n");
  waitForMachine(w.app.ctx, w.region(), null);
  await turn(w.app);
  await turn(w.app);
  expect(w.cloud.machines()).toEqual([]);
  expect(all(w.app)[0]?.fault).toContain("the output of the command `up`");
});

test("a `down` that fails is an alarm, is repeated, and costs until it succeeds", async () => {
  const w = world({ idle_minutes: 0 });
  const { app, clock, cloud } = w;
  cloud.set("down", "echo 'the API is away' >&2; exit 1\n");
  await readied(w);
  clock.advance(11_000); // the request of the work is over
  await turn(app);
  const [stuck] = all(app);
  expect(stuck).toMatchObject({ status: "ending", attempts: 1, fault: expect.stringContaining("the API is away") });
  expect(readLeases(app.ctx.config.data_dir)[0]?.trouble).toContain("the API is away");
  const types = async () => {
    const { data } = (await app.call("GET", "/v1/events?limit=100")).body;
    return (data as { type: string }[]).map(({ type }) => type).filter((type) => type.startsWith("machine."));
  };
  expect(await types()).toEqual(["machine.created", "machine.ready", "machine.ending", "machine.stuck"]);
  const metrics = (await app.call("GET", "/v1/metrics", undefined, { key: app.adminKey })).body;
  expect(metrics).toMatch(/verk_machines\{.*status="ending".*\} 1/);
  await turn(app);
  expect(cloud.calls().filter((call) => call.startsWith("down"))).toHaveLength(1); // the pause
  cloud.set("down", "");
  clock.advance(10_000);
  await turn(app);
  expect([cloud.machines(), (await types()).at(-1)]).toEqual([[], "machine.ended"]);
  expect(all(app)[0]?.uptimeMs).toBe(21_000);
});

test("the sweep ends own machines without a lease, with an alarm, and leaves all others alone", async () => {
  const w = world();
  const { app, cloud, dir } = w;
  await settled(app);
  const server = serverId(app.ctx.config.data_dir);
  const own = `verk-${server}-lab-000000000000`;
  const others = [`verk-0000000000-lab-000000000000`, "database", `verk-${server}-other-000000000000`];
  for (const name of [own, ...others]) writeFileSync(join(dir, "cloud/machines", name), "");
  app.ctx.state.clouds.sweeps.clear();
  await turn(app);
  expect(cloud.machines()).toEqual(others.toSorted());
  expect(cloud.calls()).toEqual([`down ${own}`]);
  expect(app.log.join("\n")).toContain("a machine that no lease explains is ended");
  await storeCounters(app.ctx);
  const metrics = (await app.call("GET", "/v1/metrics", undefined, { key: app.adminKey })).body;
  expect(metrics).toMatch(/verk_cloud_orphans_total\{.*cloud="lab".*\} 1/);
});

test("the next server ends a machine whose start was cut, and a lease without a row", async () => {
  const w = world();
  const { app, cloud, region, open } = w;
  const gate = join(w.dir, "gate");
  cloud.set("up", `touch '${gate}'; while [ -f '${gate}' ]; do sleep 0.05; done; exit 1\n`);
  waitForMachine(app.ctx, region(), null);
  reconcile(app.ctx);
  await until("the machine", () => cloud.machines().length === 1 || undefined);
  const { name } = liveMachines(app.ctx.db)[0]!;
  const next = open(); // as after a kill: the first server decides nothing any more
  const old = { workspace_id: "", region_id: "", created_at: "", trouble: null };
  const lost = `verk-${serverId(next.ctx.config.data_dir)}-lab-111111111111`;
  writeLease(next.ctx.config.data_dir, { name: lost, cloud: "lab", ...old });
  writeFileSync(join(w.dir, "cloud/machines", lost), "");
  await turn(next);
  await turn(next);
  expect(cloud.machines()).toEqual([]);
  expect(readLeases(next.ctx.config.data_dir)).toEqual([]);
  expect(next.ctx.db.select().from(machines).where(eq(machines.name, name)).get()).toMatchObject({
    status: "ended",
    fault: "the server ended while the machine was being made",
  });
  cloud.set("up", "");
  await Bun.file(gate).delete();
  await settled(app);
});

test("a machine that the cloud no longer lists ends after two lists", async () => {
  const w = world();
  const { app, cloud, dir, region } = w;
  const { name } = await readied(w);
  await Bun.file(join(dir, "cloud/machines", name)).delete();
  for (let i = 0; i < 2; i++) {
    expect(liveMachines(app.ctx.db)[0]?.status).toBe("ready");
    app.ctx.state.clouds.sweeps.clear();
    await turn(app);
  }
  await turn(app);
  expect([all(app)[0]?.status, all(app)[0]?.fault, region().address]).toEqual([
    "ended",
    "the cloud no longer lists the machine",
    "",
  ]);
  expect(existsSync(join(dir, "cloud/machines", name))).toBe(false);
  expect(cloud.calls().at(-1)).toBe(`down ${name}`);
});

test("a server that stops ends its machines without work", async () => {
  const w = world();
  await readied(w);
  await close(w.app.ctx, new AbortController().signal);
  expect([w.cloud.machines(), all(w.app)[0]?.fault]).toEqual([[], "the server stops"]);
});

test("no machine is made for a workspace without credit, nor beyond max_machines", async () => {
  const w = world({ max_machines: 1 });
  const { app } = w;
  await readied(w);
  const other = regions.named(app.ctx, app.workspaceB, "lab")!;
  expect(waitForMachine(app.ctx, other, null)).toContain("max_machines");
  await turn(app);
  expect(w.cloud.machines()).toHaveLength(1);
});

test("a file of a cloud that others can change stops the server, and so do a wrong name and a missing price", () => {
  const dir = tempDir();
  const { file } = testCloud(dir);
  const open = (path: string) => testApp({ dir, flags: { "clouds.files": [path] } });
  Bun.spawnSync(["chmod", "666", file]);
  expect(() => open(file)).toThrow(/can be changed by other users/);
  Bun.spawnSync(["chmod", "600", file]);
  const write = (name: string, text: string) => {
    const path = join(dir, "cloud", name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  expect(() => open(write("ssh.toml", "up = 'x'\n"))).toThrow(/the name of the cloud/);
  expect(() => open(write("aws.toml", "up = 'x'\ndown = 'y'\nlist = 'z'\n"))).toThrow(/price of one device/);
  expect(() => open(write("aws.toml", "down = 'y'\nlist = 'z'\nrate_usd_per_hour = 1\n"))).toThrow(
    /up: expected a command/,
  );
  expect(() => open(write("aws.toml", "upp = 'y'\n"))).toThrow(/unknown setting upp/);
});
