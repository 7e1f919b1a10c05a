/** A deployment as a job of a real Slurm behind a real sshd: the same answers, adoption, cancellation, and its end. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { NotAvailable } from "../servers/process.ts";
import { describeWith, slurmLogin } from "../servers/servers.ts";
import { startServing } from "../serving/served.ts";
import { IS_FULL } from "../sweep.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 180_000;
const WORK = "served by slurm";
const RANDOM = { arch: "llama", type: "F32", context: 256 } as const;

/** A minute: only full runs have it. */
const start = () =>
  IS_FULL ? slurmLogin() : Promise.reject(new NotAvailable("deployments with Slurm", "only in full runs"));

describeWith("a deployment in a region with Slurm", start, ({ cluster, login }) => {
  let server: Awaited<ReturnType<typeof startServing>>;
  let id = "";
  const root = join(login.home, WORK);
  const jobs = () =>
    cluster
      .run("squeue", "--noheader", "--format=%i|%j|%T")
      .split("\n")
      .filter((line) => line.includes("|verk-dep_"));
  const replicas = () => (existsSync(join(root, "replicas")) ? readdirSync(join(root, "replicas")) : []);

  beforeAll(async () => {
    await placeExecutable(EXECUTABLE, root);
    server = await startServing({
      models: { random: RANDOM },
      settings: {
        VERK_NETWORK__ALLOW: "127.0.0.1",
        VERK_SANDBOX__REQUIRE: "language",
        VERK_SERVING__RESTART_BACKOFF_MS: "1",
      },
    });
    const { publicKey: public_key, privateKey: private_key } = login;
    const key = await server.call("POST", "/v1/ssh_keys", { name: "login", public_key, private_key });
    const region = await server.call("POST", "/v1/regions", {
      name: "cluster",
      kind: "slurm",
      address: "127.0.0.1",
      port: login.port,
      user: login.user,
      work_dir: WORK,
      ssh_key_id: key.body.id,
      slurm: { partition: "cpu" },
    });
    expect(region.status).toBe(201);
    await until(
      "the cluster",
      async () => (await server.get(`/v1/regions/${region.body.id}`)).available || undefined,
      LONG_MS,
    );
  }, LONG_MS);
  afterAll(() => server?.stop());

  const ask = async (model: string): Promise<string> => {
    const messages = [{ role: "user", content: "hello" }];
    const { status, body } = await server.call("POST", "/v1/chat/completions", {
      model,
      messages,
      max_tokens: 24,
      temperature: 0,
    });
    if (status !== 200) throw new Error(JSON.stringify(body));
    return body.choices[0].message.content;
  };

  test(
    "answers as on this machine",
    async () => {
      await server.deploy({ model: "random", name: "here" });
      id = await server.deploy({ model: "random", name: "there", region: "cluster" });
      expect((await server.get(`/v1/deployments/${id}`)).provider).toBe("slurm");
      expect(await ask("there")).toBe(await ask("here"));
      expect(jobs()).toHaveLength(1);
    },
    LONG_MS,
  );

  test(
    "a killed server adopts the job when it starts again",
    async () => {
      const before = jobs();
      await server.kill();
      await server.restart();
      await server.reaches(id, "serving");
      await until("an answer", () => ask("there"), LONG_MS);
      expect(jobs()).toEqual(before);
    },
    LONG_MS,
  );

  test(
    "a job that is cancelled on the cluster is replaced by one other",
    async () => {
      const [before = ""] = jobs();
      cluster.run("scancel", before.split("|")[0] ?? "");
      await until("another job", () => (jobs().length === 1 && jobs()[0] !== before) || undefined, LONG_MS);
      await until("an answer", () => ask("there"), LONG_MS);
      expect([jobs().length, replicas().length]).toEqual([1, 1]);
    },
    LONG_MS,
  );

  test(
    "stop leaves no job and no file",
    async () => {
      expect((await server.call("POST", `/v1/deployments/${id}/stop`)).body.status).toBe("stopped");
      await until("the end of the job", () => jobs().length === 0 || undefined, LONG_MS);
      await until("its files to go", () => replicas().length === 0 || undefined, LONG_MS);
      expect((await server.call("DELETE", `/v1/deployments/${id}`)).status).toBe(200);
    },
    LONG_MS,
  );
});
