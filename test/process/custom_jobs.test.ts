// tier: all (whole paths on the executable)
/** Custom jobs of the executable, which runs as an unprivileged user, against its own files. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tarGz } from "../archives.ts";
import { startBinary } from "../binary.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { asNobody, isRoot, NOBODY } from "../sandbox/nobody.ts";

setDefaultTimeout(120_000);
const root = tempDir();
const data = join(root, "data");
let server: Awaited<ReturnType<typeof startBinary>>;
let code: string;

beforeAll(async () => {
  mkdirSync(data);
  chmodSync(root, 0o755);
  if (isRoot) chownSync(data, NOBODY, NOBODY);
  server = await startBinary({ dir: data, prefix: asNobody([]) });
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name: "readme", content: "nothing" })], "code.tar.gz"));
  code = (await call("POST", "/v1/code_artifacts", form)).body.id;
});
afterAll(async () => {
  await server.kill();
  expect(violations(data)).toEqual([]);
  rmSync(root, { recursive: true, force: true });
});

const call = (method: string, path: string, body?: object | string) => server.call(method, path, body);

async function ended(body: object) {
  const made = await call("POST", "/v1/training_jobs", { method: "custom", code_artifact_id: code, ...body });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  const job = await until(
    "the job to end",
    async () => {
      const { body: now } = await call("GET", `/v1/training_jobs/${made.body.id}`);
      return ["completed", "failed"].includes(now.status) ? now : undefined;
    },
    60_000,
  );
  return { job, log: (await call("GET", `/v1/training_jobs/${job.id}/logs/full?stream=all`)).body as string };
}

const FIND =
  "D=$(sed -n 's#.* \\(/.*\\)/jobs/job_[^ ]* /workspace .*#\\1#p' /proc/self/mountinfo); echo \"data is $D\"; ";

test("C1: a mount point that becomes a link to the data directory reveals no key and no database", async () => {
  await call("POST", "/v1/volumes", { name: "loot" });
  const { job, log } = await ended({
    volumes: [{ name: "loot", mount_path: "/workspace/v" }],
    command: `${FIND} rm -rf /workspace/v && ln -s $D /workspace/v`,
  });
  expect(log).toContain(`data is ${data}`); // the path is known, and of no use
  expect(log).toContain("loot was not written back: /workspace/v is a symbolic link, not a directory");
  expect(job.status).toBe("completed");
  expect(readFileSync(join(data, "master.key")).length).toBeGreaterThan(0);
  for (const file of ["master.key", "verk.db", "verk.db-wal"])
    expect((await call("GET", `/v1/volumes/loot/files/${file}`)).status).toBe(404);
  expect((await call("GET", "/v1/volumes/loot/files")).body.data).toEqual([]);
});

test("C1: an output that becomes a link fails the job, and nothing behind the link is kept", async () => {
  const { job } = await ended({ command: "rm -rf output; ln -s /etc output" });
  expect([job.status, job.error?.param]).toEqual(["failed", "/command"]);
  expect(job.error.message).toStartWith("/workspace/output is a symbolic link, not a directory");
  expect((await call("GET", `/v1/training_jobs/${job.id}/model`)).status).toBe(400);
});

test("C1: directories and files that the server may not read are named in the log, the rest is kept", async () => {
  await call("POST", "/v1/volumes", { name: "modes" });
  await call("PUT", "/v1/volumes/modes/files/dir/old.txt", "old");
  const { job, log } = await ended({
    volumes: [{ name: "modes", mount_path: "/workspace/m" }],
    command:
      "echo new > m/new.txt; chmod 0 m/dir; echo a > output/a; echo b > output/b; chmod 0 output/b; mkdir output/d; chmod 0 output/d",
  });
  expect(job.status).toBe("completed");
  expect(log).toContain("modes: some directories cannot be read");
  expect(log).toContain("output: some directories cannot be read");
  expect(log).toContain("output/b was not kept: its mode does not allow reading");
  const { body } = await call("GET", "/v1/volumes/modes/files");
  expect(body.data.map(({ path }: { path: string }) => path)).toEqual(["dir/old.txt", "new.txt"]); // nothing is deleted
  await until(
    "the directory to be removed",
    () => Bun.spawnSync(["test", "!", "-e", join(data, "jobs", job.id, "work")]).success,
  );
});
