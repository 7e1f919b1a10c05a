// tier: all (trains a network in Python, attacks of commands; 60 s)
/** Custom jobs on this machine: what a command may use, what it cannot exceed, and what it cannot reach. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { tarGz } from "../../../../../test/archives.ts";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { GIB, MIB } from "../../../../lib/units.ts";
import { sessionJail } from "../../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../../sandbox/jail/support.ts";
import * as gpu from "../../../machines/gpu/service.ts";

setDefaultTimeout(180_000);
const support = await jailSupport(sessionJail("/tmp")).catch((error) => ({ ok: false as const, reason: `${error}` }));
const jailed = test.skipIf(!support.ok); // there can be no sessions on this host, and so no custom jobs

const { app, closeAll } = manyTrainings();
afterEach(closeAll);

async function codeOf(on: TrainingApp, name = "readme", content = "nothing"): Promise<string> {
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name, content })], "code.tar.gz"));
  return (await on.call("POST", "/v1/code_artifacts", undefined, { raw: form })).body.id;
}

async function post(on: TrainingApp, body: object): Promise<string> {
  const code_artifact_id = await codeOf(on);
  const made = await on.call("POST", "/v1/training_jobs", { method: "custom", code_artifact_id, ...body });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  return made.body.id;
}
const logOf = async (on: TrainingApp, id: string) =>
  (await on.call("GET", `/v1/training_jobs/${id}/logs/full?stream=all`)).body as string;
const leasesOf = (on: TrainingApp) => on.ctx.db.$client.query("SELECT device, bytes, main_bytes FROM gpu_leases").all();

const CARD = "GPU-cf35c656-8872-dba6-15bc-92b3d41a1c49";
const OTHER = "GPU-00000000-1111-2222-3333-444444444444";

/** Two cards that the driver lists. Their nodes are /dev/null: a jail needs nodes that exist. */
function withCards(on: TrainingApp) {
  const dir = join(on.dir, "dev");
  mkdirSync(dir);
  const nodes = ["nvidia0", "nvidia1", "nvidiactl"];
  for (const node of nodes) symlinkSync("/dev/null", join(dir, node));
  const cards = [OTHER, CARD].map((uuid, minor) => `GPU UUID: \t ${uuid}\nDevice Minor: \t ${minor}\n`);
  on.ctx.state.gpu.driver = () => ({ cards, nodes, dir });
  const reading = { type: "H200", name: "H200", memoryTotalMib: 16_384, utilizationPercent: 0, memoryUsedMib: 0 };
  const heat = { temperatureCelsius: 30, powerWatts: 70 };
  gpu.useProbe(on.ctx, async () => [OTHER, CARD].map((uuid, index) => ({ ...reading, ...heat, uuid, index }) as never));
}

/** Two layers, learned by gradient descent: XOR. It holds 3 GiB while it learns, which the default of sessions forbids. */
const NETWORK = `
import json, math, os, random
random.seed(int(os.environ["VERK_SEED"]))
held = bytearray(3 << 30)
for i in range(0, len(held), 4096): held[i] = 1
rows = [((0, 0), 0), ((0, 1), 1), ((1, 0), 1), ((1, 1), 0)]
hidden = [[random.uniform(-1, 1) for _ in range(3)] for _ in range(4)]
out = [random.uniform(-1, 1) for _ in range(5)]
sigmoid = lambda x: 1 / (1 + math.exp(-x))
def forward(x):
    h = [sigmoid(w[0] * x[0] + w[1] * x[1] + w[2]) for w in hidden]
    return h, sigmoid(sum(o * v for o, v in zip(out, h)) + out[4])
for step in range(1, 2001):
    loss = 0
    for x, y in rows:
        h, p = forward(x)
        loss += (p - y) ** 2
        d = (p - y) * p * (1 - p)
        for i in range(4):
            g = d * out[i] * h[i] * (1 - h[i])
            out[i] -= 2 * d * h[i]
            for j, v in enumerate((x[0], x[1], 1)): hidden[i][j] -= 2 * g * v
        out[4] -= 2 * d
    if step % 200 == 0: print(json.dumps({"step": step, "loss": loss}))
print("devices", sorted(n for n in os.listdir("/dev") if n.startswith("nvidia")), os.environ["CUDA_VISIBLE_DEVICES"])
json.dump({"hidden": hidden, "out": out}, open(os.environ["VERK_OUTPUT"] + "/network.json", "w"))
`;

jailed(
  "a job with 6 GiB of memory and one of two GPUs trains a network in Python, and sees that GPU alone",
  async () => {
    const on = await app();
    withCards(on);
    const code_artifact_id = await codeOf(on, "train.py", NETWORK);
    const resources = { memory_mib: 6 * 1024, cpus: 1 };
    const id = await post(on, {
      code_artifact_id,
      command: "/usr/bin/python3 train.py",
      gpu: { gpu_type: "H200", gpu_count: 1 },
      resources,
      seed: 8,
    });
    await on.reaches(id, "running", 60_000);
    const [lease] = leasesOf(on) as { device: string; bytes: number; main_bytes: number }[];
    expect(lease?.main_bytes).toBe(6 * GIB);
    expect(lease?.bytes).toBe(on.row(id).memoryBytes); // the whole card
    expect(lease?.bytes).toBeGreaterThan(12 * GIB);
    const job = await on.reaches(id, "completed", 150_000);
    const losses = (on.metrics(id) as { loss?: number }[]).map(({ loss = Number.NaN }) => loss);
    expect(losses.at(-1)).toBeLessThan(0.05);
    expect(losses.at(-1)).toBeLessThan((losses[0] ?? 0) / 2);
    const minor = lease?.device === OTHER ? 0 : 1;
    expect(await logOf(on, id)).toContain(`devices ['nvidia${minor}', 'nvidiactl'] ${lease?.device}`);
    expect(job.gpu).toEqual({ type: "H200", count: 1 });
    expect(leasesOf(on)).toEqual([]);
    expect((await on.call("GET", `/v1/training_jobs/${id}/model`)).body.status).toBe("ready");
  },
);

jailed("the memory of a job on the CPU is leased, and the next job waits for it", async () => {
  const on = await app({ flags: { "training.parallel": 2 } });
  const most = Math.floor((await gpu.devices(on.ctx))[0]!.capacityBytes / MIB);
  const large = { memory_mib: Math.floor(most * 0.7) };
  const first = await post(on, { command: "while [ ! -e /workspace/stop ]; do sleep 0.1; done", resources: large });
  await on.reaches(first, "running", 60_000);
  expect(leasesOf(on)).toMatchObject([{ device: "cpu", bytes: large.memory_mib * MIB, main_bytes: 0 }]);
  const second = await post(on, { command: "true", resources: large });
  on.ctx.wake("training_jobs.reconcile");
  await on.reaches(second, "queued");
  await on.call("POST", `/v1/training_jobs/${first}/cancel`);
  await on.reaches(second, "completed", 60_000);
  const beyond = await on.call("POST", "/v1/training_jobs/validate", {
    method: "custom",
    code_artifact_id: await codeOf(on),
    command: "true",
    resources: { memory_mib: most + 1 },
  });
  expect(beyond.body.errors).toMatchObject([{ param: "/resources/memory_mib" }]);
});

const FORKS = `import os, time
count = 1
while count < 60:
    try:
        if os.fork() == 0: time.sleep(60)
    except BlockingIOError: break
    count += 1
print("processes", count)`;

const ATTACKS = {
  memory: {
    command:
      "/usr/bin/python3 -c 'import mmap\nm = mmap.mmap(-1, 600 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1'",
    resources: { memory_mib: 256 },
    code: "out_of_memory",
    message: "bytes of memory",
  },
  disk: {
    command: "for i in $(seq 40); do head -c 20000000 /dev/zero > f$i || exit 9; done; sleep 5",
    resources: { disk_mib: 64 },
    code: "worker_crashed",
    message: "it wrote more than 67108864 bytes",
  },
  "largest file": {
    command: "head -c 200000000 /dev/zero > one",
    resources: { disk_mib: 64 },
    code: /^(?:command_failed|worker_crashed)$/, // its own signal, or the limit of the disk, whichever comes first
    message: "The command",
  },
} as const;

jailed.each(Object.entries(ATTACKS))(
  "a command cannot exceed its %s",
  async (_what, { command, resources, ...end }) => {
    const on = await app();
    const job = await on.reaches(await post(on, { command, resources }), "failed", 60_000);
    expect(job.error?.code).toMatch(end.code);
    expect(job.error?.message).toContain(end.message);
  },
);

jailed("a command has its processes, its processors and its variables, and no card that it did not lease", async () => {
  const on = await app({ flags: { "custom_jobs.processes": 20 } });
  const forks = `/usr/bin/python3 -c '${FORKS}'`;
  const hide =
    "/usr/bin/python3 -c 'import os\ntry: os.sched_setaffinity(0, range(64))\nexcept OSError as e: print(\"kept\", e.errno)'";
  const command = `nproc; ${hide}; echo $GREETING $LD_PRELOAD; ls /dev | grep nvidia; grep -c nvidia /proc/mounts; ${forks}`;
  const env = { GREETING: "hello", LD_PRELOAD: "/nothing.so", BUN_OPTIONS: "--preload /nothing" };
  const id = await post(on, { command, resources: { cpus: 1 }, env });
  const { body } = await on.call("GET", `/v1/training_jobs/${id}`);
  expect(body.env).toEqual(["GREETING", "LD_PRELOAD", "BUN_OPTIONS"]);
  await on.reaches(id, "completed", 60_000);
  const log = await logOf(on, id);
  expect(log).toMatch(/^1$/m);
  expect(log).toContain("kept 1");
  expect(log).toContain("hello /nothing.so");
  expect(log).toMatch(/^0$/m);
  expect(Number(/^processes (\d+)$/m.exec(log)?.[1])).toBeWithin(10, 21);
  expect(JSON.stringify(on.ctx.db.$client.query("SELECT * FROM training_jobs").all())).not.toContain("/nothing.so");
});

jailed("guarded: a job reaches what the operator lists, and neither this server nor private addresses", async () => {
  const reached: string[] = [];
  const server = createServer((request, response) => {
    reached.push(request.url ?? "");
    response.end("reached\n");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  // By default programs reach 127.0.0.1 without the proxy: it is the loopback device of the jail.
  const fetchAll = (...urls: string[]) => urls.map((url) => `curl -sS -m 20 --noproxy none ${url}`).join("; ");
  const url = `http://127.0.0.1:${port}`;
  const closed = await app({ flags: { "custom_jobs.network": "guarded" } });
  const tries = fetchAll(`${url}/a`, "http://10.1.2.3/", "http://localhost/", "http://169.254.169.254/");
  const id = await post(closed, { network: "guarded", command: `${tries}; curl -sS -m 5 --noproxy '*' ${url}/b` });
  await closed.reaches(id, "failed", 60_000);
  const log = await logOf(closed, id);
  for (const host of [`127.0.0.1:${port}`, "10.1.2.3:80", "localhost:80", "169.254.169.254:80"])
    expect(log).toContain(`No connection to ${host}`);
  expect(reached).toEqual([]);
  const open = await app({ flags: { "custom_jobs.network": "guarded", "network.allow": ["127.0.0.1"] } });
  const allowed = await post(open, {
    network: "guarded",
    command: `${fetchAll(`${url}/c`)}; curl --version | head -1`,
  });
  await open.reaches(allowed, "completed", 60_000);
  expect(await logOf(open, allowed)).toContain("reached");
  expect(reached).toEqual(["/c"]);
  const [traffic] = open.notes(allowed).filter(({ type }) => type === "network");
  expect(traffic?.data).toMatchObject({ connections: 1, refused: 0 });
  const none = await post(open, { command: `curl -sS -m 5 ${url}/d || echo no network` });
  await open.reaches(none, "completed", 60_000);
  expect(await logOf(open, none)).toContain("no network");
  server.close();
});

jailed(
  "a read-only volume below /workspace refuses every write, and a writable one is written back beside it",
  async () => {
    const on = await app();
    for (const name of ["in", "out"]) await on.call("POST", "/v1/volumes", { name });
    await on.call("PUT", "/v1/volumes/in/files/a.txt", undefined, { raw: "A" });
    const attacks = ["echo x > in/a.txt", "rm -f in/a.txt", "touch in/new", "mv in elsewhere", "chmod 777 in/a.txt"];
    const command = `${attacks.map((attack) => `(${attack}) && echo broken`).join("; ")}; cp in/a.txt out/copy.txt; cp /data/a.txt out/other.txt`;
    const id = await post(on, {
      command,
      volumes: [
        { name: "in", mount_path: "/workspace/in", read_only: true },
        { name: "in", mount_path: "/data" },
        { name: "out", mount_path: "/workspace/out" },
      ],
    });
    const { body } = await on.call("GET", `/v1/training_jobs/${id}`);
    expect(body.volumes.map((each: { read_only: boolean }) => each.read_only)).toEqual([true, true, false]);
    await on.reaches(id, "completed", 60_000);
    const log = await logOf(on, id);
    expect(log).not.toContain("broken");
    expect(log.match(/Read-only file system/g)?.length).toBeGreaterThanOrEqual(4);
    const paths = async (name: string) =>
      (await on.call("GET", `/v1/volumes/${name}/files`)).body.data.map(({ path }: { path: string }) => path);
    expect([await paths("in"), await paths("out")]).toEqual([["a.txt"], ["copy.txt", "other.txt"]]);
  },
);
