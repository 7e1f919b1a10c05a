import { afterAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fakeClock, testApp } from "../../../../test/harness.ts";
import { sshKeypair } from "../../../../test/ssh_keypair.ts";
import { bestKey } from "../../../platform/providers/host_key.ts";
import { offersOf } from "../../../platform/providers/node_provider.ts";
import { RegionsState } from "./live.ts";
import { providerOf } from "./provider.ts";
import * as regions from "./service.ts";

const H200 = { type: "H200" };
const clock = fakeClock();
const app = testApp({ clock });
afterAll(async () => {
  await app.close();
  app.remove();
});

test("this machine is a region", async () => {
  const { status, body } = await app.call("GET", "/v1/regions");
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: "list", has_more: false });
  expect(body.data).toHaveLength(1);
  expect(body.data[0]).toMatchObject({ object: "region", id: "local", provider: "local", available: true });
  expect(body.data[0].gpu_types).toBeArray();
  expect((await app.call("GET", "/v1/regions/local")).body).toEqual(body.data[0]);
  expect((await app.call("GET", "/v1/regions/mars")).status).toBe(404);
});

test("the list pages like every other", async () => {
  expect((await app.call("GET", "/v1/regions?after=local")).body.data).toEqual([]);
  const strange = await app.call("GET", "/v1/regions?after=mars");
  expect([strange.status, strange.body.error.code]).toEqual([400, "invalid_cursor"]);
  const greedy = await app.call("GET", "/v1/regions?limit=101");
  expect([greedy.status, greedy.body.error.param]).toEqual([422, "limit"]);
});

test("GPUs are asked for once a minute, and equal ones are named once", async () => {
  const ctx = { ...app.ctx, state: { ...app.ctx.state, regions: new RegionsState() } };
  let calls = 0;
  const probe = async () => {
    calls++;
    return [H200, H200];
  };
  expect((await regions.mustGet(ctx, app.workspaceA, "local", probe)).gpu_types).toEqual(["H200"]);
  await Promise.all([
    regions.mustGet(ctx, app.workspaceA, "local", probe),
    regions.mustGet(ctx, app.workspaceA, "local", probe),
  ]);
  expect(calls).toBe(1);
  clock.advance(60_001);
  await Promise.all([
    regions.mustGet(ctx, app.workspaceA, "local", probe),
    regions.mustGet(ctx, app.workspaceA, "local", probe),
  ]);
  expect(calls).toBe(2);
});

test("a driver that hangs delays the answer by two seconds at most, and is not asked twice at once", async () => {
  const ctx = { ...app.ctx, state: { ...app.ctx.state, regions: new RegionsState() } };
  let calls = 0;
  const driver = Promise.withResolvers<(typeof H200)[]>();
  const probe = () => {
    calls++;
    return driver.promise;
  };
  const first = regions.mustGet(ctx, app.workspaceA, "local", probe);
  clock.advance(2_000);
  expect((await first).gpu_types).toEqual([]);
  const second = regions.mustGet(ctx, app.workspaceA, "local", probe);
  driver.resolve([H200]);
  expect((await second).gpu_types).toEqual(["H200"]);
  expect(calls).toBe(1);
});

test("a driver that fails leaves the last answer standing", async () => {
  const ctx = { ...app.ctx, state: { ...app.ctx.state, regions: new RegionsState() } };
  await regions.mustGet(ctx, app.workspaceA, "local", async () => [H200]);
  clock.advance(60_001);
  const broken = () => Promise.reject(new Error("driver mismatch"));
  expect((await regions.mustGet(ctx, app.workspaceA, "local", broken)).gpu_types).toEqual(["H200"]);
});

const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2";
const keyOf = async (name: string) =>
  (await app.call("POST", "/v1/ssh_keys", { name, ...(await sshKeypair()) })).body.id as string;
const NODE = { kind: "ssh", address: "node.example.com", user: "verk", host_key: HOST_KEY };

test("a region over ssh shows the fingerprint that it pins, and never the key", async () => {
  const ssh_key_id = await keyOf("one");
  const body = { ...NODE, name: "big", ssh_key_id, rate_usd_per_hour: 2.5 };
  const made = await app.call("POST", "/v1/regions", body, { headers: { "idempotency-key": "r1" } });
  expect([made.status, made.body.provider, made.body.available]).toEqual([201, "ssh", false]);
  expect(made.body.ssh).toEqual({
    address: "node.example.com",
    port: 22,
    user: "verk",
    ssh_key_id,
    work_dir: "verk",
    host_key: HOST_KEY,
    host_key_fingerprint: "SHA256:HwlAoSMW8wB6nk0vdCubflE1h3XIY6UDfAMiHOgTpEM",
  });
  const again = await app.call("POST", "/v1/regions", body, { headers: { "idempotency-key": "r1" } });
  expect(again.body).toEqual(made.body);
  expect((await app.call("GET", "/v1/regions?limit=1")).body).toMatchObject({
    data: [{ id: "local" }],
    has_more: true,
  });
  expect((await app.call("GET", "/v1/regions?after=local")).body.data).toEqual([made.body]);
  expect((await app.call("GET", `/v1/regions/${made.body.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("DELETE", `/v1/ssh_keys/${ssh_key_id}`)).body.error.code).toBe("unsupported_state");
  const deleted = await app.call("DELETE", `/v1/regions/${made.body.id}`);
  expect(deleted.body).toEqual({ id: made.body.id, object: "region", deleted: true });
  expect((await app.call("DELETE", `/v1/ssh_keys/${ssh_key_id}`)).status).toBe(200);
  expect((await app.call("DELETE", "/v1/regions/local")).body.error.code).toBe("unsupported_state");
});

test("what a region cannot be", async () => {
  const ssh_key_id = await keyOf("two");
  const refused: [Record<string, unknown>, number, string][] = [
    [{ address: "127.0.0.1" }, 400, "/address"],
    [{ address: "localhost" }, 400, "/address"],
    [{ address: "169.254.169.254" }, 400, "/address"],
    [{ address: "-oProxyCommand=x" }, 422, "/address"],
    [{ user: "-l" }, 422, "/user"],
    [{ user: "a b" }, 422, "/user"],
    [{ work_dir: "~/x" }, 422, "/work_dir"],
    [{ work_dir: "a\nb" }, 422, "/work_dir"],
    [{ host_key: "ssh-dss AAAA" }, 422, "/host_key"],
    [{ host_key: `${HOST_KEY}\n* ${HOST_KEY}` }, 422, "/host_key"],
    [{ kind: "cloud" }, 422, "/kind"],
    [{ port: 0 }, 422, "/port"],
    [{ address: undefined }, 422, "/address"],
    [{ user: undefined }, 422, "/user"],
    [{ ssh_key_id: undefined }, 422, "/ssh_key_id"],
    [{ kind: "slurm", address: undefined }, 422, "/address"],
    [{ slurm: {} }, 422, "/slurm"],
    [{ kind: "slurm", slurm: { partition: "-x" } }, 422, "/slurm/partition"],
    [{ kind: "slurm", slurm: { time_limit_minutes: 0 } }, 422, "/slurm/time_limit_minutes"],
    [{ ssh_key_id: "ssh_none" }, 404, "/ssh_key_id"],
  ];
  for (const [more, status, param] of refused) {
    const { status: got, body } = await app.call("POST", "/v1/regions", { name: "x", ...NODE, ssh_key_id, ...more });
    expect([more, got, body.error?.param]).toEqual([more, status, param]);
  }
});

test("a cluster with Slurm shows how jobs are submitted there", async () => {
  const body = {
    ...NODE,
    name: "cluster",
    kind: "slurm",
    ssh_key_id: await keyOf("three"),
    slurm: { partition: "gpu" },
  };
  const made = await app.call("POST", "/v1/regions", body);
  expect([made.status, made.body.provider]).toEqual([201, "slurm"]);
  expect(made.body.slurm).toEqual({
    partition: "gpu",
    account: null,
    qos: null,
    constraint: null,
    time_limit_minutes: null,
    cpus: null,
    memory_mib: null,
    max_jobs: 8,
  });
});

test("a server on a login node needs no address, and its operator chooses the directory", async () => {
  const here = testApp({ flags: { "training.slurm_work_dir": join(app.dir, "shared") } });
  try {
    const made = await here.call("POST", "/v1/regions", { name: "here", kind: "slurm", work_dir: "/etc" });
    expect([made.status, made.body.ssh, made.body.slurm?.max_jobs]).toEqual([201, null, 8]);
    here.ctx.state.regions.executable = "/nonexistent";
    const row = regions.find(here.ctx, here.workspaceA, made.body.id);
    await expect(providerOf(here.ctx, row as never).info()).rejects.toThrow(/nonexistent/);
    expect(existsSync(join(app.dir, "shared"))).toBe(true);
  } finally {
    await here.close();
    here.remove();
  }
});

test("the best host key is pinned", () => {
  const lines = ["# host", "h ssh-rsa AAAAR", "h ecdsa-sha2-nistp256 AAAAE", "h ssh-ed25519 AAAAD", ""].join("\n");
  expect(bestKey(lines)).toBe("ssh-ed25519 AAAAD");
  expect(bestKey("# nothing\n")).toBeUndefined();
});

test("S2: a workspace has as many regions as its quota allows, and the error names the setting", async () => {
  using limits = withQuota(2);
  const { app: small, key } = await limits.open();
  const add = (name: string, more = {}) =>
    small.call("POST", "/v1/regions", {
      ...key,
      name,
      kind: "ssh",
      address: "node.example.com",
      user: "verk",
      ...more,
    });
  expect([(await add("a")).status, (await add("b")).status]).toEqual([201, 201]);
  const third = await add("c");
  expect([third.status, third.body.error.code]).toEqual([422, "quota_exceeded"]);
  expect(third.body.error.message).toContain("quotas.regions");
  const listed = (await small.call("GET", "/v1/regions")).body.data;
  expect((await small.call("DELETE", `/v1/regions/${listed[1].id}`)).status).toBe(200);
  expect((await add("c")).status).toBe(201);
});

function withQuota(most: number) {
  const small = testApp({ flags: { "quotas.regions": most } });
  return {
    async open() {
      const made = await small.call("POST", "/v1/ssh_keys", { name: "key", ...(await sshKeypair()) });
      const host_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2";
      return { app: small, key: { ssh_key_id: made.body.id, host_key } };
    },
    [Symbol.dispose]() {
      void small.close().then(() => small.remove());
    },
  };
}

test("S2: offers of a node are made in one pass", () => {
  const gpus = Array.from({ length: 64 }, (_, i) => ({ type: `T${i % 3}`, memory_bytes: 100 - i }));
  const info = { version: "1", architecture: "x", cpus: 1, memory_bytes: 1, free_bytes: 1, gpus };
  const offers = offersOf(info, { region: "r", kind: "ssh", rateMicros: null });
  expect(offers.map(({ gpuType, gpuCount, memoryBytes }) => [gpuType, gpuCount, memoryBytes])).toEqual([
    ["T0", 22, 37],
    ["T1", 21, 39],
    ["T2", 21, 38],
  ]);
});
