// tier: all (whole paths on the executable)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { program, runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { chunk, fakeServer, say } from "./fake_api.ts";

const root = tempDir();

let fake: ReturnType<typeof fakeServer>;
beforeAll(() => {
  fake = fakeServer();
});
afterAll(() => {
  fake.stop();
  rmSync(root, { recursive: true, force: true });
});

const env = () => ({ VERK_URL: fake.url, VERK_API_KEY: "vk_test" });
const verk = (args: string[], stdin = "") => runVerk(args, { cwd: root, env: env(), stdin });

describe("verk deploy", () => {
  test("creates a deployment, reports progress, and prints the address once it serves", async () => {
    const loading = (progress: number) => ({
      status: "provisioning",
      load: { stage: "loading", progress, reason: null },
    });
    fake.state.views = [
      { status: "queued", load: { stage: "queued", progress: 0, reason: "waits for 3.1 GB" } },
      loading(0.41),
      loading(0.44),
      loading(0.9),
    ];
    const flags = ["--name", "demo", "--min-replicas", "0", "--idle-timeout", "2m", "--parallel", "4", "--pinned"];
    const { code, out, err } = await verk(["deploy", "verk-tiny", ...flags]);
    expect([code, out]).toEqual([0, `${fake.url}/v1/deployments/dep_1/chat/completions\n`]);
    expect(fake.state.created.at(-1)).toEqual({
      model: "verk-tiny",
      name: "demo",
      min_replicas: 0,
      idle_timeout_seconds: 120,
      parallel: 4,
      pinned: true,
    });
    expect(err.split("\n").slice(0, 3)).toEqual(["waits for 3.1 GB", "loading 40 %", "loading 90 %"]);
    expect(err).toContain("curl ");
    // F30 the base URL of the README, and how to get a key
    expect(err).toContain(`OpenAI clients: base URL ${fake.url}/v1, model demo.`);
    expect(err).toContain("VERK_API_KEY=$(verk keys create)");
  });

  test("a deployment that fails is an error with its cause", async () => {
    fake.state.views = [{ status: "failed", error: "the file is damaged", last_error: "the file is damaged" }];
    const { code, out, err } = await verk(["deploy", "verk-tiny"]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toBe("verk: verk-tiny (dep_1) failed: the file is damaged\n");
  });

  test("F23 a refusal of the server is one line; --verbose adds the code and the status", async () => {
    const { code, err } = await verk(["deploy", "nonsense"]);
    expect([code, err]).toEqual([1, "verk: No model nonsense\n"]);
    const verbose = await verk(["deploy", "nonsense", "--verbose"]);
    expect(verbose.err).toBe("verk: No model nonsense (resource_not_found, 404)\n");
  });

  test("--no-wait prints the id; --json the record", async () => {
    expect((await verk(["deploy", "verk-tiny", "--no-wait"])).out).toBe("dep_1\n");
    expect(JSON.parse((await verk(["deploy", "verk-tiny", "--json"])).out)).toMatchObject({
      id: "dep_1",
      status: "serving",
    });
  });

  test("Ctrl-C leaves the deployment loading and says so", async () => {
    fake.state.views = Array.from({ length: 1000 }, () => ({
      status: "provisioning",
      load: { stage: "loading", progress: 0.1, reason: null },
    }));
    const child = spawnVerk(["deploy", "verk-tiny"], { cwd: root, env: env() });
    await until("the first read", () => fake.state.views.length < 1000);
    child.kill("SIGINT");
    const err = await new Response(child.stderr).text();
    expect(await child.exited).toBe(130);
    expect(err).toContain("continues on the server");
    fake.state.views = [];
  });

  test("a file, a wrong number and a wrong time are refused with the fix", async () => {
    expect((await verk(["deploy", "./model.gguf"])).err).toContain("verk models import ./model.gguf");
    expect((await verk(["deploy", "x", "--parallel", "many"])).err).toContain("--parallel: expected a whole number");
    expect((await verk(["deploy", "x", "--idle-timeout", "soon"])).err).toContain(
      "--idle-timeout: expected a duration such as 90s",
    );
  });
});

describe("verk deployments", () => {
  test("lists, shows, stops and starts by name", async () => {
    const listed = await verk(["deployments", "list"]);
    expect(listed.out).toMatch(/dep_1 +demo +serving +verk-tiny +1 × cpu +3 +never/);
    expect((await verk(["deployments", "show", "demo"])).out).toContain(
      `endpoint      ${fake.url}/v1/deployments/dep_1`,
    );
    expect((await verk(["deployments", "stop", "demo"])).err).toBe("demo (dep_1) is stopped.\n");
    expect((await verk(["deployments", "start", "dep_1"])).err).toBe("demo (dep_1) is queued.\n");
    expect(fake.state.moved).toEqual(["POST /v1/deployments/dep_1/stop", "POST /v1/deployments/dep_1/start"]);
  });

  test("switch sends the model and says whether it is loaded first; a refused model is named", async () => {
    fake.state.changed = [];
    fake.state.views = [{ next_model: { model: "job_1" } }, { model: "terse-tiny", next_model: null }];
    const later = await verk(["deployments", "switch", "demo", "--model", "job_1", "--checkpoint", "ckpt_1"]);
    expect(later).toMatchObject({ code: 0, out: "", err: "demo (dep_1) switches to job_1 once it is loaded.\n" });
    const now = await verk(["deployments", "switch", "demo", "--model", "terse-tiny"]);
    expect(now).toMatchObject({ code: 0, err: "demo (dep_1) has the model terse-tiny.\n" });
    expect(fake.state.changed).toEqual([{ model: "job_1", checkpoint: "ckpt_1" }, { model: "terse-tiny" }]);
    const shown = await verk(["deployments", "switch", "demo", "--model", "verk-tiny", "--json"]);
    expect(JSON.parse(shown.out)).toMatchObject({ id: "dep_1", model: "verk-tiny" });
    const [unknown, none] = [
      await verk(["deployments", "switch", "demo", "--model", "nonsense"]),
      await verk(["deployments", "switch", "demo"]),
    ];
    expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining("No model nonsense") });
    expect(none).toMatchObject({ code: 2, err: expect.stringContaining("--model is missing") });
    expect(fake.state.changed).toHaveLength(3);
  });

  test("an unknown name gets the nearest one", async () => {
    const { code, err } = await verk(["deployments", "show", "dmo"]);
    expect(code).toBe(1);
    expect(err).toContain("Did you mean demo?");
  });
});

describe("verk run", () => {
  test("deploys a model that parks itself and asks one question: progress on standard error, the answer on standard output", async () => {
    fake.state.views = [{ status: "provisioning", load: { stage: "downloading", progress: 0.4, reason: null } }];
    const flags = ["--once", "Hi", "--temperature", "0", "--context-length", "2048"];
    const { code, out, err } = await verk(["run", "Owner/Small-GGUF:Q8_0", ...flags]);
    expect([code, out, err]).toEqual([0, "Hello there\n", "downloading 40 %\n"]);
    const fields = { model: "Owner/Small-GGUF:Q8_0", name: "small", min_replicas: 0, context_length: 2048 };
    expect(fake.state.created.at(-1)).toEqual(fields);
    expect(fake.state.requests.at(-1)).toMatchObject({ temperature: 0, messages: [{ role: "user", content: "Hi" }] });
  });

  test("a deployment of the model answers without a second one, also by its own name", async () => {
    const before = fake.state.created.length;
    expect(await verk(["run", "verk-tiny", "--name", "demo"], "Hi\n")).toMatchObject({
      code: 0,
      out: "Hello there\n",
      err: "",
    });
    expect(await verk(["run", "demo", "--once", "Hi"])).toMatchObject({ code: 0, out: "Hello there\n" });
    expect(fake.state.created).toHaveLength(before);
  });

  test("a name that another model has, a failed start and a refused model are one line each", async () => {
    const other = await verk(["run", "carry", "--name", "demo", "--once", "Hi"]);
    expect([other.code, other.out]).toEqual([1, ""]);
    expect(other.err).toStartWith(
      "verk: The deployment demo serves verk-tiny, not carry. Chat with it by `verk chat demo`",
    );
    fake.state.views = [{ status: "failed", last_error: "the file is damaged" }];
    const failed = await verk(["run", "small", "--once", "Hi"]);
    expect(failed).toMatchObject({ code: 1, out: "", err: "verk: small (dep_1) failed: the file is damaged\n" });
    expect(await verk(["run", "nonsense", "--once", "Hi"])).toMatchObject({
      code: 1,
      err: "verk: No model nonsense\n",
    });
  });

  test("without a server it starts none and says how to start one", async () => {
    const { code, err } = await runVerk(["run", "verk-tiny", "--once", "Hi", "--data", root], { cwd: root });
    expect([code, err]).toEqual([1, expect.stringContaining("Start one with `verk serve` in another terminal")]);
  });
});

describe("verk completion values", () => {
  test("prints the names of the server that a shell can complete; without a server or a key nothing", async () => {
    expect(await verk(["completion", "values", "deployments"])).toMatchObject({ code: 0, out: "demo\nold\n", err: "" });
    const nowhere = await runVerk(["completion", "values", "models"], { cwd: root, env: { VERK_DATA: root } });
    expect(nowhere).toMatchObject({ code: 0, out: "", err: "" });
    expect((await verk(["completion", "values", "rivers"])).err).toContain("expected agents, datasets, deployments");
  });
});

describe("verk chat", () => {
  test("a piped question gets its answer on standard output", async () => {
    const flags = ["--system", "Be brief.", "--temperature", "0", "--max-tokens", "9"];
    expect(await verk(["chat", "demo", ...flags], "Who are you?\n")).toMatchObject({
      code: 0,
      out: "Hello there\n",
      err: "",
    });
    expect(fake.state.requests.at(-1)).toMatchObject({
      model: "demo",
      temperature: 0,
      max_tokens: 9,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Who are you?" },
      ],
    });
  });

  test("-m asks one question, and a wake is reported on standard error", async () => {
    fake.state.answer = (controller) => {
      controller.enqueue(": waking: loading 40 %\n\n");
      say(controller, "Awake");
    };
    expect(await verk(["chat", "dep_1", "-m", "Up?"])).toMatchObject({
      code: 0,
      out: "Awake\n",
      err: "waking: loading 40 %\n",
    });
  });

  test("an error in the middle of an answer is one line and exit 1", async () => {
    fake.state.answer = (controller) => {
      controller.enqueue(chunk({ content: "Half" }));
      controller.enqueue(
        `data: ${JSON.stringify({ error: { message: "The replica was lost", code: "worker_failed" } })}\n\n`,
      );
      controller.close();
    };
    const { code, out, err } = await verk(["chat", "demo", "-m", "Hi"]);
    expect([code, out, err]).toEqual([1, "Half\n", "verk: The replica was lost\n"]);
  });

  test("an answer that breaks off is not treated as complete", async () => {
    fake.state.answer = (controller) => {
      controller.enqueue(chunk({ content: "Half" }));
      controller.close();
    };
    expect(await verk(["chat", "demo", "-m", "Hi"])).toMatchObject({ code: 1, out: "Half\n" });
  });

  test("a terminal chat keeps the conversation and obeys commands; Ctrl-C stops the answer, then exits", async () => {
    fake.state.answer = (controller, { messages }) =>
      messages.at(-1)?.content === "forever"
        ? controller.enqueue(chunk({ content: "on and on" }))
        : say(controller, `answer ${messages.length}`);
    let shown = "";
    const child = Bun.spawn([...program(), "chat", "demo"], {
      env: { HOME: root, PATH: process.env["PATH"] ?? "", ...env(), TERM: "xterm" },
      cwd: root,
      terminal: {
        cols: 120,
        rows: 40,
        data: (_: unknown, bytes: Uint8Array) => {
          shown += new TextDecoder().decode(bytes);
        },
      },
    });
    const terminal = child.terminal as { write: (text: string) => void };
    const type = async (text: string, awaited: string) => {
      const from = shown.length;
      terminal.write(`${text}\r`);
      await until(`${awaited} after ${text}: ${shown.slice(from)}`, () => shown.slice(from).includes(awaited));
    };
    await until("the prompt", () => shown.includes("> "));
    await type("first", "answer 1");
    await type("second", "answer 3");
    await type("forever", "on and on");
    terminal.write("\x03");
    await until("the stop", () => shown.includes("(stopped)") && fake.state.left === 1);
    await type("third", "answer 7"); // the broken-off answer stays in the conversation
    await type("/system Rhyme.", "with this system prompt");
    await type("fourth", "answer 2");
    await type("/reset", "a new conversation");
    await type("fifth", "answer 2");
    terminal.write("\x03");
    expect(await child.exited).toBe(0);
  });
});

test("without a key the error says how to give one", async () => {
  const told = await runVerk(["chat", "demo", "--url", fake.url], { cwd: root });
  expect(told).toMatchObject({ code: 2, err: expect.stringContaining("VERK_API_KEY") });
});

test("on the server's own data directory a key is made once, and again when it was revoked", async () => {
  const server = await startBinary();
  const file = join(server.dir, "cli.key");
  const run = async (...args: string[]) => {
    const ran = await runVerk([...args, "--data", server.dir, "--json"], { cwd: root });
    expect(ran.code).toBe(0);
    return ran.json();
  };
  try {
    expect(await run("deployments", "list")).toMatchObject({ object: "list" });
    const kept = readFileSync(file, "utf8");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await run("deployments", "list");
    expect(readFileSync(file, "utf8")).toBe(kept);
    const { data } = await run("keys", "list");
    expect(data).toHaveLength(1);
    await run("keys", "revoke", data[0].id);
    await until("the server to refuse it", async () => {
      await run("deployments", "list");
      return readFileSync(file, "utf8") !== kept;
    });
  } finally {
    await server.kill();
    rmSync(server.dir, { recursive: true, force: true });
  }
}, 120_000);
