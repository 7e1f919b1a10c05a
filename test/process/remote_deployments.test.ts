// tier: all (serves models)
/** A deployment of the executable on a node behind a real sshd: the same answers, a link that is cut, and its end. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { type CutLink, cutLink } from "../servers/cut.ts";
import { describeWith, sshd } from "../servers/servers.ts";
import { startServing } from "../serving/served.ts";
import { IS_FULL } from "../sweep.ts";
import { isAlive } from "./supervisor_kit.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 120_000;
const WORK = "served here";
const RANDOM = { arch: "llama", type: "F32", context: 256 } as const;

describeWith("a deployment in a region over ssh", sshd, (node) => {
  let server: Awaited<ReturnType<typeof startServing>>;
  let link: CutLink;
  let id = "";
  const root = join(node.home, WORK);

  beforeAll(async () => {
    await placeExecutable(EXECUTABLE, root);
    link = await cutLink(node.port);
    server = await startServing({
      models: { random: RANDOM },
      settings: {
        VERK_NETWORK__ALLOW: "127.0.0.1",
        VERK_SANDBOX__REQUIRE: "language",
        VERK_SERVING__RESTART_BACKOFF_MS: "1",
      },
    });
    const { publicKey: public_key, privateKey: private_key } = node;
    const key = await server.call("POST", "/v1/ssh_keys", { name: "node", public_key, private_key });
    const region = await server.call("POST", "/v1/regions", {
      name: "node",
      kind: "ssh",
      address: "127.0.0.1",
      port: link.port,
      user: node.user,
      work_dir: WORK,
      ssh_key_id: key.body.id,
    });
    expect(region.status).toBe(201);
    await until(
      "the node",
      async () => (await server.get(`/v1/regions/${region.body.id}`)).available || undefined,
      LONG_MS,
    );
  }, LONG_MS);
  afterAll(async () => {
    await server?.stop();
    await link?.[Symbol.asyncDispose]();
  });

  const ask = (model: string, more: object = {}) =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model,
        messages: [{ role: "user", content: "hello" }],
        max_tokens: 24,
        temperature: 0,
        ...more,
      }),
    });
  const textOf = async (answer: Response): Promise<string> => {
    const body = await answer.json();
    if (!answer.ok) throw new Error(JSON.stringify(body));
    return body.choices[0].message.content;
  };
  const replicas = () => (existsSync(join(root, "replicas")) ? readdirSync(join(root, "replicas")) : []);

  test(
    "answers as on this machine, alone and as a stream, with its use of tokens",
    async () => {
      await server.deploy({ model: "random", name: "here" });
      id = await server.deploy({ model: "random", name: "there", region: "node" });
      expect(await server.get(`/v1/deployments/${id}`)).toMatchObject({
        provider: "ssh",
        region: expect.stringMatching(/^reg_/),
      });
      expect(replicas()).toHaveLength(1);
      expect(await textOf(await ask("there"))).toBe(await textOf(await ask("here")));
      const events = await (await ask("there", { stream: true })).text();
      expect(events).toEndWith("data: [DONE]\n\n");
      const metrics = await until("the record of the stream", async () => {
        const found = await server.get(`/v1/deployments/${id}/metrics`);
        return found.total_requests === 2 ? found : undefined;
      });
      expect(metrics.total_completion_tokens).toBeGreaterThan(2);
    },
    LONG_MS,
  );

  test(
    "a cut link gives 503 with Retry-After; the replica goes on, and answers again",
    async () => {
      const [before] = replicas();
      link.cut();
      const refused = await until("the cut to be seen", async () => {
        const answer = await ask("there");
        return answer.status === 503 ? answer : undefined;
      });
      expect([refused.headers.get("retry-after"), (await refused.json()).error.code]).toEqual([
        "5",
        "region_unreachable",
      ]);
      expect(await server.get(`/v1/deployments/${id}`)).toMatchObject({ status: "serving", replicas: { ready: 1 } });
      link.join();
      await until("an answer", async () => (await ask("there")).ok || undefined, LONG_MS);
      expect(replicas()).toEqual([before!]);
    },
    LONG_MS,
  );

  test(
    "a killed server adopts the replica when it starts again",
    async () => {
      const [before = ""] = replicas();
      const pid = pidOf(root, before);
      await server.kill();
      expect(isAlive(pid)).toBe(true);
      await server.restart();
      await server.reaches(id, "serving");
      expect((await ask("there")).status).toBe(200);
      expect([replicas(), pidOf(root, before)]).toEqual([[before], pid]);
      expect(processesOf(root)).toEqual([pid]); // never a second one
    },
    LONG_MS,
  );

  test(
    "a replica whose supervisor is killed is replaced",
    async () => {
      const [before = ""] = replicas();
      const left = foldersOf(root, before);
      expect(left.filter((path) => existsSync(path))).toHaveLength(2);
      process.kill(pidOf(root, before), "SIGKILL");
      await until(
        "another replica",
        async () => {
          const [now] = replicas();
          return now !== undefined && now !== before && (await ask("there")).ok ? true : undefined;
        },
        LONG_MS,
      );
      expect([replicas().length, processesOf(root).length]).toEqual([1, 1]);
      await until("the folders of the killed one to go", () => !left.some((path) => existsSync(path)) || undefined);
    },
    LONG_MS,
  );

  test.if(IS_FULL)(
    "an adapter that was trained here answers there as it does here",
    async () => {
      const row = { prompt: "hello", completion: "the other thing" };
      const form = new FormData();
      form.set("name", "rows");
      form.set("file", new File([[row, row, row, row].map((each) => JSON.stringify(each)).join("\n")], "a.jsonl"));
      const headers = { authorization: `Bearer ${server.key}` };
      const dataset = await (await fetch(`${server.url}/v1/datasets`, { method: "POST", body: form, headers })).json();
      const job = await server.call("POST", "/v1/training_jobs", {
        base_model: "verk-tiny",
        method: "sft",
        dataset: dataset.id,
        output_name: "fine",
        lora: { r: 4 },
        hyperparameters: { max_steps: 2, learning_rate: 0.05 },
        provider: "local",
      });
      expect([job.status, job.body.error]).toEqual([201, null]);
      const ended = await until(
        "the job",
        async () => {
          const found = await server.get(`/v1/training_jobs/${job.body.id}`);
          return found.completed_at === null ? undefined : found;
        },
        LONG_MS,
      );
      expect([ended.status, ended.error]).toEqual(["completed", null]);
      await server.deploy({ model: job.body.id, name: "fine here" });
      const there = await server.deploy({ model: job.body.id, name: "fine there", region: "node" });
      expect(await textOf(await ask("fine there"))).toBe(await textOf(await ask("fine here")));
      expect((await server.call("POST", `/v1/deployments/${there}/stop`)).status).toBe(200);
    },
    2 * LONG_MS,
  );

  test(
    "the region stays while it serves; stop and delete leave no process and no file of it",
    async () => {
      const { region } = await server.get(`/v1/deployments/${id}`);
      expect((await server.call("DELETE", `/v1/regions/${region}`)).status).toBe(400);
      const [name = ""] = replicas();
      const [pid, folders] = [pidOf(root, name), foldersOf(root, name)];
      expect((await server.call("POST", `/v1/deployments/${id}/stop`)).body.status).toBe("stopped");
      await until("the replica to end", () => (isAlive(pid) ? undefined : true), LONG_MS);
      await until("its files to go", () => replicas().length === 0 || undefined, LONG_MS);
      await until("every supervisor to end", () => processesOf(root).length === 0 || undefined, LONG_MS);
      expect(folders.filter((path) => existsSync(path))).toEqual([]);
      expect((await server.call("DELETE", `/v1/deployments/${id}`)).status).toBe(200);
      expect(readdirSync(join(server.dir, "node-keys"))).toEqual([]);
      expect((await server.call("DELETE", `/v1/regions/${region}`)).status).toBe(200);
    },
    LONG_MS,
  );
});

const pidOf = (root: string, name: string): number =>
  JSON.parse(readFileSync(join(root, "replicas", name, "server.json"), "utf8")).pid;

/** The folders of the sockets of a replica. */
const foldersOf = (root: string, name: string): string[] =>
  Object.values<string>(JSON.parse(readFileSync(join(root, "replicas", name, "sockets.json"), "utf8"))).map(dirname);

/** Supervisors of replicas in the work directory. */
const processesOf = (root: string): number[] =>
  readdirSync("/proc")
    .filter((name) => {
      try {
        const text = readFileSync(`/proc/${name}/cmdline`, "utf8");
        return text.includes("replica_run") && text.includes(root);
      } catch {
        return false; // it has ended
      }
    })
    .map(Number);
