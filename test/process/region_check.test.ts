// tier: all (a real sshd)
/** The check of a region against a real sshd: each mistake stops at its step, with the sentence that fixes it. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type TestApp, testApp } from "../harness.ts";
import { describeWith, sshd } from "../servers/servers.ts";
import { sshKeypair } from "../ssh_keypair.ts";

setDefaultTimeout(120_000);

describeWith("the check of a region", sshd, (node) => {
  let app: TestApp;
  let keyId = "";
  let otherKeyId = "";
  beforeAll(async () => {
    app = testApp({ flags: { "network.allow": ["127.0.0.1"] } });
    const add = async (name: string, pair: object) =>
      (await app.call("POST", "/v1/ssh_keys", { name, ...pair })).body.id;
    keyId = await add("node", { public_key: node.publicKey, private_key: node.privateKey });
    otherKeyId = await add("other", await sshKeypair());
  });
  afterAll(() => app.close().then(app.remove));

  const target = () => ({
    kind: "ssh",
    address: "127.0.0.1",
    port: node.port,
    user: node.user,
    ssh_key_id: keyId,
    work_dir: "checked here",
  });
  const check = async (more: object = {}) => {
    const { status, body } = await app.call("POST", "/v1/regions/checks", { ...target(), ...more });
    expect(status).toBe(200);
    const failed = body.steps.find(({ state }: { state: string }) => state === "failed");
    return { ...body, failed: failed && [failed.name, failed.fix] };
  };

  test("a node that can be used passes every step, and shows the key to pin", async () => {
    const { ok, steps, host_key: hostKey } = await check();
    expect(steps.filter(({ state }: { state: string }) => state !== "ok")).toEqual([]);
    expect(ok).toBe(true);
    expect(hostKey).toBe(node.hostKey.split(" ").slice(0, 2).join(" "));
    expect(steps.map(({ name }: { name: string }) => name)).toEqual([
      ...["address", "host_key", "sign_in", "work_dir", "devices"],
    ]);
    expect(steps[3].message).toMatch(/^It can be written, .* are free$/);
    expect(steps[4].message).toMatch(/^\d+ processors, /);
    expect(existsSync(join(node.home, "checked here"))).toBe(true);
    expect((await app.call("GET", "/v1/regions")).body.data.length).toBe(1); // nothing is stored
  });

  test("a wrong port, key, host key, directory and a missing sbatch say how to fix them", async () => {
    expect((await check({ port: 9 })).failed).toEqual(["host_key", expect.stringContaining("port 9 of 127.0.0.1")]);
    expect((await check({ ssh_key_id: otherKeyId })).failed).toEqual([
      "sign_in",
      expect.stringContaining(`authorized_keys of ${node.user}`),
    ]);
    const foreign = (await sshKeypair()).public_key.split(" ").slice(0, 2).join(" ");
    expect((await check({ host_key: foreign })).failed).toEqual([
      "host_key",
      expect.stringContaining("If the machine was set up again"),
    ]);
    expect((await check({ work_dir: "/proc/none" })).failed).toEqual([
      "work_dir",
      expect.stringContaining("choose another directory"),
    ]);
    const slurm = await check({ kind: "slurm" });
    const hasSlurm = Bun.which("sbatch") !== null; // the programs, without a cluster
    const fix = hasSlurm ? "sinfo works for this user" : "login node of the cluster";
    expect(slurm.failed).toEqual(["slurm", expect.stringContaining(fix)]);
    expect(slurm.steps.at(-1)).toMatchObject({ name: "devices", state: "skipped" });
    expect((await check({ address: "10.1.2.3" })).failed).toEqual([
      "address",
      expect.stringContaining("network.allow"),
    ]);
  });

  test("a stored region shows what its check found", async () => {
    const { body: region } = await app.call("POST", "/v1/regions", {
      name: "node",
      ...target(),
      host_key: node.hostKey,
    });
    const { body } = await app.call("POST", `/v1/regions/${region.id}/checks`);
    // The server of this test runs from its source, so it has no executable for the node.
    expect(body.steps.at(-1)).toMatchObject({
      name: "program",
      state: "failed",
      fix: expect.stringMatching(/executable/),
    });
    expect((await app.call("GET", `/v1/regions/${region.id}`)).body).toMatchObject({
      available: false,
      reason: expect.stringContaining("from its source"),
      hardware: null,
    });
    expect((await app.call("POST", "/v1/regions/local/checks")).status).toBe(400);
  });
});
