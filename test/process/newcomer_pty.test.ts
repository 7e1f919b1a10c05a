// tier: all (a terminal with the executable, 60 s)
/**
 * The walk of a newcomer who reads no documents, typed at a terminal of 80 columns: the first start, one chat, mistakes
 * and what they answer. Each number is a friction of the review.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { untilTinyIsReady } from "../binary.ts";
import { program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const COLUMNS = 80;
const root = tempDir();
const env = {
  HOME: root,
  PATH: process.env["PATH"] ?? "",
  VERK_DATA: join(root, "data"),
  TERM: "xterm",
  PS1: "{{$?}} ",
};
const undo: (() => unknown)[] = [() => rmSync(root, { recursive: true, force: true })];
afterAll(async () => {
  for (const each of undo.reverse()) await each();
});

/** A process at a terminal of its own. `screen` is what it has shown, without colours. */
function terminal(command: readonly string[]) {
  let shown = "";
  const decoder = new TextDecoder();
  const child = Bun.spawn([...command], {
    cwd: root,
    env,
    terminal: {
      cols: COLUMNS,
      rows: 40,
      data(_, bytes) {
        shown += decoder.decode(bytes, { stream: true });
      },
    },
  });
  undo.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours of a terminal begin with one
  const screen = () => shown.replaceAll(/\x1b\[[\d;?]*[A-Za-z]/g, "").replaceAll("\r\n", "\n");
  const write = (text: string) => child.terminal?.write(text);
  return { child, screen, write };
}

let server: ReturnType<typeof terminal>;
let shell: ReturnType<typeof terminal>;
let url = "";

/** Types a line and waits for the next prompt. */
async function type(line: string): Promise<{ code: number; shown: string }> {
  const from = shell.screen().length;
  shell.write(`${line}\n`);
  const text = () => shell.screen().slice(from);
  const code = await until(`the prompt after ${line}`, () => /\{\{(\d+)\}\} $/.exec(text())?.[1], 120_000);
  return { code: Number(code), shown: text().slice(0, text().lastIndexOf("{{")) };
}

beforeAll(async () => {
  mkdirSync(join(root, "bin"));
  const path = join(root, "bin/verk");
  writeFileSync(path, `#!/bin/sh\nexec ${program().join(" ")} "$@"\n`, { mode: 0o755 });
  env.PATH = `${join(root, "bin")}:${env.PATH}`;
  const rows = [13, 27, 38].map((a) => `{"prompt":"What is ${a} + 2?","answer":${a + 2}}\n`).join("");
  writeFileSync(join(root, "sums.jsonl"), rows);
  writeFileSync(join(root, "pairs.jsonl"), '{"prompt":"a","chosen":"b"}\n');
  writeFileSync(join(root, "turns.jsonl"), '{"prompt":"Hello","completion":"Hi"}\n');
  writeFileSync(
    join(root, "reward.ts"),
    "export const reward = ({ completion }) => {\n  return completion.trm().length;\n};\n",
  );
  shell = terminal(["bash", "--norc", "--noprofile", "-i"]);
  await until("the shell", () => shell.screen().includes("{{0}} "), 60_000);
}, 120_000);

test("without a server a command says how to start one", async () => {
  const { code, shown } = await type("verk run verk-tiny --once Hi");
  expect(code).toBe(1);
  expect(shown.replaceAll("\n", "")).toContain("Start one with `verk serve` in another terminal");
}, 120_000);

test("F9, F27 the first start shows a link that signs in, and no log but starts, stops and problems", async () => {
  server = terminal(["verk", "serve", "--listen", "127.0.0.1:0"]);
  const link = /Dashboard: (http:\/\/\S+)\/setup\?token=(\S+) \(signs you in/;
  const [, address = "", token] = await until("the link", () => link.exec(server.screen()) ?? undefined, 60_000);
  url = address;
  expect((await type("verk run verk-tiny --once 'Who are you?'")).code).toBe(0);
  const answer = await fetch(`${url}/setup`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  const { key } = (await answer.json()) as { key: string };
  expect(answer.status).toBe(201);
  await untilTinyIsReady(url, key);
  expect(server.screen()).not.toMatch(/^\d\d:\d\d:\d\d\.\d+ (INFO|DEBUG)/m);
}, 180_000);

test("6 `verk run` leaves a deployment that parks itself, and the shell completes its name", async () => {
  expect((await type("verk deployments show verk-tiny")).shown).toContain("(0 to 1)");
  await type("source <(verk completion bash)");
  shell.write("verk chat verk-t\t");
  await until("the completion", () => shell.screen().trimEnd().endsWith("verk chat verk-tiny"), 60_000);
  expect((await type("-m Hello")).code).toBe(0);
}, 180_000);

test("F29 mistakes get the nearest name, all at once, in the words of the command line", async () => {
  const said = async (line: string) => {
    const { code, shown } = await type(line);
    expect(code).not.toBe(0);
    return shown.replaceAll("\n", "");
  };
  expect(await said("verk deploy verk-tny")).toContain("Did you mean verk-tiny?");
  expect(await said("verk deploy verk-tiny --context 512")).toContain("Did you mean --context-length?");
  expect(await said("verk jobs create --model verk-tiny --method sft --dataset sum.jsonl")).toContain(
    "Did you mean sums.jsonl?",
  );
  expect(await said("verk datasets push pairs.jsonl")).toContain("rejected is missing");
  const wrong = "--set learning_rate=-1 --set max_stepz=3 --set per_device_train_batch_size=99999";
  const all = await said(`verk jobs create --model verk-tiny --method sft --dataset turns.jsonl --output x ${wrong}`);
  expect(all).toContain("the job has 3 errors");
  for (const part of [
    "--set learning_rate: must be",
    "Did you mean max_steps?",
    "--set per_device_train_batch_size: must be at most 4096",
  ])
    expect(all).toContain(part);
  expect(await said("verk models delete verk-tiny")).toMatch(/verk-tiny/);
}, 180_000);

test("F13 a dry run of sft shows the text, and F11 a reward in TypeScript names the method", async () => {
  const sft = await type("verk jobs create --model verk-tiny --method sft --dataset turns.jsonl --output x --dry-run");
  expect(sft.shown).toContain("«Hi<|im_end|>»");
  expect(sft.shown).toMatch(/rows: 1, \d+ tokens; 0 cut at max_length \d+, 0 not used/);
  expect(sft.shown).toMatch(/estimate: .*\d+ steps?/); // F17
  const reward = await type("verk rewards test reward.ts --rows turns.jsonl --json");
  expect(reward.shown.replaceAll("\n", "")).toContain(
    "completion.trm is not a function, in: return completion.trm().length;",
  );
}, 180_000);

test("F19 no line of a table is wider than the terminal, and the status is whole", async () => {
  const { shown } = await type("verk deployments list");
  for (const line of shown.split("\n")) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(COLUMNS);
  expect(shown).toMatch(/serving|parked/);
}, 120_000);

test("F18 a lost server is reported in plain words, and Ctrl-C says that it stops", async () => {
  server.write("\u0003");
  await server.child.exited;
  expect(server.screen()).toContain("Stopped.");
  const { code, shown } = await type(`VERK_API_KEY=vk_x verk status --url ${url}`);
  expect(code).toBe(1);
  expect(shown.replaceAll("\n", "")).toContain("the connection was refused. Check that a server runs there.");
}, 180_000);
