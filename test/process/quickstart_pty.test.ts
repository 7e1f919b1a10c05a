// tier: all (every block of the documents)
/**
 * The first contact, typed at a terminal: the two commands at the top of the README and every line of its quickstart,
 * in a fresh copy of the repository and with an empty home. `--full` also runs `./install.sh demo` and the training to
 * the letter; by default `demo` only prints its rows and the training is shorter.
 */
import { afterAll, expect, test } from "bun:test";
import { copyFileSync, cpSync, linkSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { program } from "../cli.ts";
import { type Block, blocksOf, FULL, isShell, ROOT, reasonOf, shortened } from "../docs_blocks.ts";
import { tempDir, until } from "../harness.ts";

const root = tempDir();
const [clone, home] = [join(root, "verk"), join(root, "home")];
const undo: (() => unknown)[] = [() => rmSync(root, { recursive: true, force: true })];
afterAll(async () => {
  for (const each of undo.reverse()) await each();
});

/** The files that a clone of this tree would have, the packages that a build would fetch, and the built executable. */
function makeClone() {
  const listed = Bun.spawnSync(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: ROOT });
  for (const path of listed.stdout.toString().split("\0").filter(Boolean)) {
    mkdirSync(dirname(join(clone, path)), { recursive: true });
    cpSync(join(ROOT, path), join(clone, path), { force: true });
  }
  for (const fetched of [".tools", "node_modules"]) symlinkSync(join(ROOT, fetched), join(clone, fetched));
  const [binary = "", ...rest] = program();
  if (rest.length > 0) throw new Error("quickstart_pty needs the executable: run ./scripts/build");
  mkdirSync(join(clone, "dist"));
  try {
    linkSync(binary, join(clone, "dist/verk"));
  } catch {
    copyFileSync(binary, join(clone, "dist/verk")); // another file system
  }
  for (const beside of [".verk.inputs", "verk.sha256", "verk.cdx.json", "verk.licenses.txt"])
    copyFileSync(join(dirname(binary), beside), join(clone, "dist", beside));
  mkdirSync(home);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

/** A shell in a terminal. `type` waits for the next prompt, which shows the exit code of the line before. */
function openTerminal(env: Record<string, string>) {
  let screen = "";
  const decoder = new TextDecoder();
  const shell = Bun.spawn(["bash", "--norc", "--noprofile", "-i"], {
    cwd: clone,
    env: { ...env, TERM: "xterm", PS1: "{{$?}} ", PS2: "{{more}} " },
    terminal: {
      cols: 100,
      rows: 40,
      data(_, bytes) {
        screen += decoder.decode(bytes, { stream: true });
      },
    },
  });
  undo.push(async () => {
    shell.terminal?.write("\x03kill %1; exit\n");
    await Promise.race([shell.exited, Bun.sleep(10_000)]);
    shell.kill("SIGKILL");
  });
  const promptAfter = async (from: number) => {
    const prompt = () => /\{\{(more|\d+)\}\} /.exec(screen.slice(from))?.[1];
    return await until("the prompt", prompt, 300_000).catch((cause) => {
      throw new Error(`no prompt after:\n${screen.slice(from)}`, { cause });
    });
  };
  return {
    screen: () => screen,
    start: () => promptAfter(0),
    async type(line: string): Promise<string> {
      const from = screen.length;
      shell.terminal?.write(`${line}\n`);
      const code = await promptAfter(from);
      if (code !== "more" && code !== "0") throw new Error(`"${line}" ended with ${code}:\n${screen.slice(from)}`);
      return screen.slice(from);
    },
  };
}

test("F29 quickstart: every line of the README works at a terminal, in a fresh clone and an empty home", async () => {
  makeClone();
  const address = `127.0.0.1:${await freePort()}`;
  const data = join(root, "data");
  const terminal = openTerminal({ HOME: home, PATH: process.env["PATH"] ?? "", VERK_HTTP__LISTEN: address });
  await terminal.start();
  const here = (text: string) => text.replaceAll("127.0.0.1:7070", address).replaceAll("/tmp/verk-data", data);
  const typeBlock = async (block: Block) => {
    let shown = "";
    for (const line of here(shortened(block.text)).trimEnd().split("\n")) shown += await terminal.type(line);
    return shown;
  };

  const [first, ...rest] = blocksOf("README.md").filter(isShell);
  expect(first?.text.split("\n").map((line) => line.split("#")[0]?.trim())).toEqual([
    "./install.sh demo",
    "./scripts/test",
    "",
  ]);
  const demo = await terminal.type(FULL ? "./install.sh demo" : "./install.sh demo --rows | tail -1");
  expect(demo).toContain(FULL ? "correct answers to held-out questions" : '{"prompt":');
  expect(await terminal.type("./scripts/test --list quickstart_pty")).toContain("1 file\r\n");

  let shown = "";
  for (const block of rest.filter((each) => reasonOf(each) === undefined)) shown += await typeBlock(block);
  expect(shown).toContain("  reward before training: mean ");
  expect(shown).toMatch(/accuracy[\s\S]*carry/); // the table of the evaluation
  expect(shown).toContain('"object":"chat.completion"');
  expect(shown).toContain("data: [DONE]");
  expect(shown).toContain("carry (job_");
  const table = await terminal.type("dist/verk jobs list");
  expect(table).toContain("\x1b[32mcompleted\x1b[0m"); // F27 a terminal gets colour, relative times and short ids
  expect(table).toContain(" ago\r\n");
  for (const line of table.split("\r\n")) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(100);
  const [short = ""] = /job_[0-9a-z]+/.exec(table) ?? [];
  expect(short.length).toBeLessThan(30);
  expect(await terminal.type(`dist/verk jobs get ${short}`)).toContain("carry");
  await terminal.type("kill %1");
  await until("the server to stop", () =>
    fetch(`http://${address}/healthz`).then(
      () => false,
      () => true,
    ),
  );
}, 600_000);
