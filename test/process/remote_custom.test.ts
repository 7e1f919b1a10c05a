// tier: all (custom jobs behind a real sshd, 60 s)
/** Custom jobs on nodes: code, rows, variables, secrets, volumes and network go there, and changes and output come back. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { observe } from "../../src/resources/machines/regions/observe.ts";
import { syncRemote } from "../../src/resources/training/training_jobs/remote/sync.ts";
import { reconcile } from "../../src/resources/training/training_jobs/running/reconcile.ts";
import { tarGz } from "../archives.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { type JobsApp, jobsApp } from "../jobs_kit.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, sshd } from "../servers/servers.ts";

const [EXECUTABLE = ""] = program();
const LONG_MS = 120_000;
setDefaultTimeout(2 * LONG_MS);

const SCRIPT = `#!/bin/sh
set -e
echo "$(wc -l < "$VERK_DATASET") rows, $GREETING, token $TOKEN, $(nproc) processors"
echo '{"step": 1, "loss": 0.5}'
echo learned > "$VERK_OUTPUT/model.bin"
cat in/a.txt
(echo x > in/a.txt) 2>&1 || echo refused
echo made > out/new.txt
echo changed > out/old.txt
rm out/gone.txt
curl -sS -m 10 --noproxy none "$OPEN" || true
curl -sS -m 10 http://10.1.2.3/ > /dev/null || true
`;

describeWith("custom jobs on a node over ssh", sshd, (server) => {
  let app: JobsApp;
  let region: string;
  const reached: string[] = [];
  const web = createServer((request, response) => {
    reached.push(request.url ?? "");
    response.end("from outside\n");
  });
  beforeAll(async () => {
    await new Promise<void>((done) => web.listen(0, "127.0.0.1", done));
    const flags = { "network.allow": ["127.0.0.1"], "sandbox.require": "language", "custom_jobs.network": "guarded" };
    app = await jobsApp({ flags });
    app.ctx.state.regions.executable = EXECUTABLE;
    await placeExecutable(EXECUTABLE, join(server.home, "remote jobs"));
    const { publicKey: public_key, privateKey: private_key } = server;
    const key = await app.call("POST", "/v1/ssh_keys", { name: "node", public_key, private_key });
    const made = await app.call("POST", "/v1/regions", {
      name: "node",
      kind: "ssh",
      address: "127.0.0.1",
      port: server.port,
      user: server.user,
      ssh_key_id: key.body.id,
      work_dir: "remote jobs",
    });
    region = made.body.id;
    observe(app.ctx);
    await app.ctx.state.regions.asking.get(region);
  }, LONG_MS);
  afterAll(async () => {
    web.close();
    await app.close();
    app.remove();
  });

  const turn = async (id: string) => {
    await reconcile(app.ctx);
    syncRemote(app.ctx);
    await Promise.all(app.ctx.state.trainingJobs.syncing.values());
    return (await app.call("GET", `/v1/training_jobs/${id}`)).body;
  };
  const ended = (id: string) =>
    until(
      "the job to end",
      async () => {
        const body = await turn(id);
        return body.completed_at === null ? undefined : body;
      },
      LONG_MS,
    );
  const planOf = (id: string) => join(server.home, "remote jobs/jobs", id, "1/plan.json");
  /** The log is stored after the end. */
  const logOf = (id: string) =>
    until(
      "the log",
      async () => {
        await turn(id);
        const { body } = await app.call("GET", `/v1/training_jobs/${id}/logs/full?stream=all`);
        return typeof body === "string" ? body : undefined;
      },
      LONG_MS,
    );

  async function post(body: object): Promise<string> {
    const form = new FormData();
    form.append("name", "code");
    form.append("file", new File([tarGz({ name: "src/train.sh", content: SCRIPT })], "code.tar.gz"));
    const { body: code } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
    const made = await app.call("POST", "/v1/training_jobs", {
      method: "custom",
      code_artifact_id: code.id,
      region,
      resources: { memory_mib: 512, disk_mib: 256, cpus: 1 },
      ...body,
    });
    if (made.status !== 201) throw new Error(JSON.stringify(made.body));
    expect(made.body.region).toBe(region);
    return made.body.id;
  }

  test("a job has all its inputs there, and its changes and its output come back", async () => {
    await app.call("PUT", "/v1/secrets/TOKEN", { value: "hunter2-hunter2" });
    for (const name of ["in", "out"]) await app.call("POST", "/v1/volumes", { name });
    const put = (path: string) => app.call("PUT", `/v1/volumes/${path}`, undefined, { raw: `${path}\n` });
    for (const path of ["in/files/a.txt", "out/files/old.txt", "out/files/gone.txt", "out/files/same.txt"])
      await put(path);
    const id = await post({
      command: "./src/train.sh",
      dataset: await app.dataset("prompt"),
      secrets: ["TOKEN"],
      env: { GREETING: "hello", OPEN: `http://127.0.0.1:${(web.address() as AddressInfo).port}/open` },
      network: "guarded",
      volumes: [
        { name: "in", mount_path: "/workspace/in", read_only: true },
        { name: "out", mount_path: "/workspace/out" },
      ],
    });
    const job = await ended(id);
    const log = await logOf(id);
    expect([job.status, job.error, log.includes("3 rows, hello, token [secret], 1 processors")]).toEqual([
      "completed",
      null,
      true,
    ]);
    expect(log).toContain("in/files/a.txt");
    expect(log).toContain("refused");
    expect(log).toContain("from outside");
    expect(log).toContain("No connection to 10.1.2.3:80: private");
    expect(reached).toEqual(["/open"]);
    expect(job.latest_metrics).toEqual({ loss: 0.5 });
    const file = async (path: string) => (await app.call("GET", `/v1/volumes/out/files/${path}`)).body;
    expect([await file("new.txt"), await file("old.txt"), await file("same.txt")]).toEqual([
      "made\n",
      "changed\n",
      "out/files/same.txt\n",
    ]);
    expect((await app.call("GET", "/v1/volumes/out/files/gone.txt")).status).toBe(404);
    const { body } = await app.call("GET", `/v1/training_jobs/${id}/model`);
    const { pathname, search } = new URL(body.url);
    expect((await app.call("GET", pathname + search, undefined, { key: null })).body).toContain("learned");
    const isRemoved = () => !existsSync(join(server.home, "remote jobs", "jobs", id)); // the plan with the secret too
    await until("the files to be removed", async () => (await turn(id)) && isRemoved(), LONG_MS);
  });

  test("a command that fails, and one that takes too much memory, fail the job once, with the reason", async () => {
    const failed = await ended(await post({ command: "echo 'no such layer' >&2; exit 3" }));
    expect(failed.error.code).toBe("command_failed");
    expect(failed.error.message).toBe("The command exited with code 3\nno such layer");
    const python =
      "/usr/bin/python3 -c 'import mmap\nm = mmap.mmap(-1, 900 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1'";
    const large = await ended(await post({ command: python }));
    expect(large.error.code).toBe("out_of_memory");
    expect(large.error.message).toContain("bytes of memory");
  });

  test("the disk and the time of a job hold there", async () => {
    const large = await ended(
      await post({ command: "head -c 64M /dev/zero > large; sleep 30", resources: { memory_mib: 64, disk_mib: 16 } }),
    );
    expect([large.status, large.error.code]).toEqual(["failed", "worker_crashed"]);
    const { $client } = app.ctx.db;
    const id = await post({ command: "while :; do sleep 0.1; done" });
    $client.run("UPDATE training_jobs SET max_runtime_ms = 2000 WHERE id = ?", [id]);
    await until("the plan", async () => (await turn(id)) && existsSync(planOf(id)), LONG_MS);
    $client.run("UPDATE training_jobs SET max_runtime_ms = 3600000 WHERE id = ?", [id]); // only the node ends it
    expect((await ended(id)).error).toMatchObject({
      code: "timeout",
      message: expect.stringContaining("The command reached its time limit"),
    });
  });

  test("only the user of the node can read the plan with the secrets, and it is gone after the job", async () => {
    await app.call("PUT", "/v1/secrets/TOKEN", { value: "hunter2-hunter2" });
    const id = await post({ command: "while :; do sleep 0.1; done", secrets: ["TOKEN"] });
    await until("it to run", async () => (await turn(id)).status === "running", LONG_MS);
    const modes: string[] = [];
    for (let path = planOf(id); path !== join(server.home, "remote jobs"); path = dirname(path))
      modes.push((statSync(path).mode & 0o777).toString(8));
    expect(readFileSync(planOf(id), "utf8")).toContain("hunter2");
    expect(modes).toEqual(["600", "700", "700", "700"]);
    writeFileSync(join(dirname(planOf(id)), "stop"), ""); // as the server asks it, which then does not come again
    await until("the end there", () => existsSync(join(dirname(planOf(id)), "ended")) || undefined, LONG_MS);
    await until("the secrets to be gone", () => statSync(planOf(id)).size === 0 || undefined, LONG_MS);
    await app.call("POST", `/v1/training_jobs/${id}/cancel`);
    await ended(id);
    await until("the files to be removed", async () => (await turn(id)) && !existsSync(dirname(planOf(id))), LONG_MS);
  });

  test("a cancelled command ends on the node", async () => {
    const id = await post({ command: "while :; do sleep 0.1; done" });
    await until("it to run", async () => (await turn(id)).status === "running", LONG_MS);
    await app.call("POST", `/v1/training_jobs/${id}/cancel`);
    expect((await ended(id)).status).toBe("cancelled");
    const isRemoved = () => !existsSync(join(server.home, "remote jobs", "jobs", id));
    await until("the files to be removed", async () => (await turn(id)) && isRemoved(), LONG_MS);
  });
});
