// tier: all (whole paths on the executable)
/** A real sshd whose user answers `verk node` as a hostile owner likes. The server asks it as any region. */
import { expect, test } from "bun:test";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MOST_GPUS } from "../../src/platform/providers/protocol.ts";
import { observe } from "../../src/resources/machines/regions/observe.ts";
import { cpuMsOf } from "../cost.ts";
import { testApp, until } from "../harness.ts";
import { describeWith, sshd } from "../servers/servers.ts";
import type { SshServer } from "../servers/sshd.ts";

const GPUS = '{"version":"1","architecture":"x","cpus":1,"memory_bytes":1,"free_bytes":1,"gpus":[';
const gpu = (i: string) => `{"type":"T${i}","memory_bytes":1}`;
/** Name → shell code of the answer, and the words that the region shows. */
const ATTACKS: Record<string, [answer: string, fault: string]> = {
  "40,000 types": [
    `printf '%s' '${GPUS}'; seq -f '${gpu("%.0f")},' 1 40000; printf '%s' '${gpu("x")}]}'`,
    "more than the 262144 bytes",
  ],
  "57 MB": ["head -c 57000000 /dev/zero | tr '\\0' ' '", "more than the 262144 bytes"],
  "without an end": ["exec yes '[[[['", "more than the 262144 bytes"],
  "65 types": [`printf '%s' '${GPUS}'; seq -f '${gpu("%.0f")},' 1 ${MOST_GPUS}; printf '%s' '${gpu("x")}]}'`, "gpus: "],
  "a long name": [`printf '%s' '${GPUS}${gpu("x".repeat(101))}]}'`, "gpus.0.type: "],
  "the wrong types": [`printf '%s' '{"version":[],"gpus":"many"}'`, "version: "],
  "deep lists": ["head -c 130000 /dev/zero | tr '\\0' '['", "is not JSON"],
  "no JSON": ["echo hello", "is not JSON"],
  "a long error": ["head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; exit 1", "more than the"],
};

describeWith("a hostile node", sshd, (server) => {
  test("S2: no answer of a node holds the server, and the region says what is wrong", async () => {
    await using world = await hostileWorld(server);
    const { app, region } = world;
    for (const [name, [answer, fault]] of Object.entries(ATTACKS)) {
      const cpu = await cpuMsOf(() => world.answerWith(answer));
      const { body } = await app.call("GET", `/v1/regions/${region}`);
      expect(body, name).toMatchObject({ available: false, reason: expect.stringContaining(fault), gpu_types: [] });
      const listing = await cpuMsOf(() => app.call("GET", "/v1/gpu/availability"));
      expect(Math.max(cpu, listing), name).toBeLessThan(2_000); // 12,000 and more before
    }
    await world.answerWith(`printf '%s' '${GPUS}${gpu("a")},${gpu("a")},${gpu("b")}]}'`);
    const { body } = await app.call("GET", `/v1/regions/${region}`);
    expect(body).toMatchObject({ available: true, reason: null, gpu_types: ["Ta", "Tb"] });
  }, 600_000);

  test("S2: a node that answers a byte at a time keeps no other region waiting", async () => {
    await using world = await hostileWorld(server, 6);
    const { app } = world;
    world.say("while :; do printf ' '; sleep 1; done");
    await world.tick();
    expect(app.ctx.state.regions.asking.size).toBe(4); // of one workspace; the others come later
    const { status } = await app.call("GET", "/healthz");
    expect(status).toBe(200);
    const other = await world.add(app.keyB);
    await world.tick();
    expect(app.ctx.state.regions.asking.has(other)).toBe(true);
  }, 600_000);
});

/** The script is the executable that the server copies to its nodes; it answers every verb. */
async function hostileWorld(server: SshServer, regions = 1) {
  const app = testApp({ flags: { "network.allow": ["127.0.0.1"] } });
  const script = join(app.dir, "verk-node");
  const answer = join(app.dir, "answer");
  chmodSync(app.dir, 0o755);
  writeFileSync(script, `#!/bin/sh\n. ${answer}\n`);
  app.ctx.state.regions.executable = script;
  const say = (code: string) => writeFileSync(answer, `${code}\n`, { mode: 0o644 });
  const { state } = app.ctx;
  const tick = async () => {
    state.regions.askedAt.clear();
    observe(app.ctx);
  };
  const add = async (key: string, name = "node") => {
    const keys = { name, public_key: server.publicKey, private_key: server.privateKey };
    const made = await app.call("POST", "/v1/ssh_keys", keys, { key });
    const host_key = server.hostKey.split(" ").slice(0, 2).join(" ");
    const ssh = { address: "127.0.0.1", port: server.port, user: server.user, ssh_key_id: made.body.id, host_key };
    const { body } = await app.call("POST", "/v1/regions", { name, kind: "ssh", ...ssh }, { key });
    return body.id as string;
  };
  say("echo");
  const ids: string[] = [];
  for (let i = 0; i < regions; i++) ids.push(await add(app.keyA, `node ${i}`));
  await until("the first answers", () => state.regions.asking.size === 0 || undefined, 60_000);
  return {
    app,
    region: ids[0] ?? "",
    say,
    tick,
    add,
    async answerWith(code: string) {
      say(code);
      await tick();
      await Promise.all(state.regions.asking.values());
    },
    async [Symbol.asyncDispose]() {
      await app.close();
      app.remove();
    },
  };
}
