// tier: all (every block of the documents)
/**
 * Runs every command of docs/*.md as the page shows it. A block that cannot run here says why in its info string:
 * ```` ```sh no-run: needs root ````. Other tests run the pages of ELSEWHERE.
 */
import { afterEach, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { startBinary, untilTinyIsReady } from "../binary.ts";
import { makeKey, program } from "../cli.ts";
import { wavOf } from "../detection/sounds.ts";
import { blocksOf, commandsOf, faultOf, filesOf, isShell, pages, ROOT, reasonOf, scriptOf } from "../docs_blocks.ts";
import { tempDir } from "../harness.ts";

const SHELL_BLOCKS = pages().flatMap((page) => blocksOf(page).filter(isShell));
const RUN = SHELL_BLOCKS.filter((block) => reasonOf(block) === undefined);

test("F29 docs: every block with commands is run or says why not", () => {
  const faults = pages().flatMap((page) => blocksOf(page).flatMap((block) => faultOf(block) ?? []));
  expect(faults).toEqual([]);
  const skipped = SHELL_BLOCKS.filter((block) => !RUN.includes(block));
  console.log(`docs: ${RUN.length} blocks run, ${skipped.length} do not:`);
  for (const block of skipped) console.log(`  ${block.page}:${block.line}: ${reasonOf(block)}`);
  expect(skipped.length).toBeLessThanOrEqual(MOST_SKIPPED);
});
/** A new block that cannot run needs a second look. */
const MOST_SKIPPED = 19;

test("F29 docs: one name for the server and one for the key on every page", () => {
  const other = /\$\{?(U|URL|KEY|VERK|HOST|TOKEN|API_KEY|BASE_URL)\b|\b(KEY|U|VERK)=/;
  const wrong = SHELL_BLOCKS.filter(({ text }) => other.test(text)).map(({ page, line }) => `${page}:${line}`);
  expect(wrong).toEqual([]);
});

/** Pictures of two kinds, as many as an adaptation needs. */
async function putLabelledPictures(dir: string) {
  for (const [label, sigma] of [
    ["generated", 4],
    ["real", 40],
  ] as const) {
    mkdirSync(join(dir, label), { recursive: true });
    for (let i = 0; i < 20; i++) {
      const noise = { type: "gaussian", mean: 100 + 3 * i, sigma } as const;
      const picture = sharp({ create: { width: 96, height: 96, channels: 3, background: "grey", noise } });
      await picture.png().toFile(join(dir, label, `${i}.png`));
    }
  }
}

/** Files that a page expects the reader to have. */
const READERS_FILES: Record<string, (dir: string, home: string) => void | Promise<void>> = {
  "docs/api.md": (dir) => {
    writeFileSync(join(dir, "sums.jsonl"), '{"prompt":"2 + 2"}\n');
    for (const { name, text } of filesOf(blocksOf("docs/rewards.md"))) writeFileSync(join(dir, name), text);
  },
  "docs/datasets.md": (dir) => {
    writeFileSync(join(dir, "support.jsonl"), '{"prompt":"Hello"}\n');
    writeFileSync(join(dir, "new.jsonl"), '{"prompt":"Good day"}\n');
    writeFileSync(join(dir, "alpaca.csv"), "instruction,input,output\nAdd,1 and 1,2\nGreet,,Hello\n");
    writeFileSync(join(dir, "faq.jsonl"), '{"question":"Open?","answer":"At nine."}\n');
  },
  "docs/detection.md": async (dir, home) => {
    await putLabelledPictures(join(dir, "ours"));
    const picture = join(ROOT, "test/fixtures/images/blocks_420.jpg");
    const folders = ["labelled/ai/sdxl", "labelled/real/phone"].map((folder) => join(dir, folder));
    for (const folder of [...folders, join(home, "pictures")]) {
      mkdirSync(folder, { recursive: true });
      copyFileSync(picture, join(folder, "0001.jpg"));
    }
    copyFileSync(picture, join(dir, "photo.jpg"));
    copyFileSync(picture, join(dir, "upload.png"));
    writeFileSync(join(dir, "voice.wav"), wavOf({ seconds: 2, channels: 1, bits: 16 }));
  },
  "docs/public_runs.md": (dir) =>
    writeFileSync(join(dir, "shop.jsonl"), '{"prompt":"When do you open?","completion":"At nine."}\n'),
  "docs/rewards.md": (dir) => {
    writeFileSync(join(dir, "rows.jsonl"), '{"prompt":"6 * 7","completion":"It is 42.","answer":42}\n');
    writeFileSync(join(dir, "broken.py"), "def reward(completions, **kwargs)\n    return [1.0]\n");
  },
  "docs/sessions.md": (dir) => writeFileSync(join(dir, "train.sh"), "mkdir -p out; echo $2 > out/model.txt\n"),
  "docs/settings.md": (dir) => writeFileSync(join(dir, "config.toml"), 'log.level = "info"\n'),
};

/** Commands that a page expects the reader to have run. */
const BEFORE: Record<string, string> = {
  "docs/agents.md": "verk deploy verk-tiny --name demo",
  "docs/agents_training.md": "verk deploy verk-tiny --name demo",
  "docs/api.md": "verk deploy verk-tiny --name demo; verk datasets push sums.jsonl",
  "docs/backup.md": `echo '{"prompt":"a","completion":"b"}' > a.jsonl; verk jobs create --model verk-tiny --method sft --dataset a.jsonl`,
  "docs/billing.md": "verk workspaces create research",
  "docs/monitors.md": "verk deploy verk-tiny --name demo",
};

/** Programs that the commands of a page use and that not every machine has. */
const TOOLS: Record<string, string> = {};

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** A server, an empty home, and a folder in which `verk` and `dist/verk` are the executable. */
/** A server, an empty home, and a folder in which `verk` and `dist/verk` are the executable. */
async function worldOf(page: string) {
  const root = tempDir();
  undo.push(() => rmSync(root, { recursive: true, force: true }));
  const [home, dir, bin, etc] = ["home", "work", "bin", "etc"].map((name) => join(root, name)) as [
    string,
    string,
    string,
    string,
  ];
  for (const each of [home, dir, bin, etc, join(dir, "dist"), join(root, "data")]) mkdirSync(each);
  const [binary = "", ...rest] = program();
  if (rest.length > 0) throw new Error("docs_commands needs the executable: run ./scripts/build");
  for (const path of [join(bin, "verk"), join(dir, "dist/verk")]) symlinkSync(binary, path);
  const server = await startBinary({ dir: join(root, "data") });
  undo.push(() => server.kill());
  const { key } = await makeKey(server.dir, "--scope", "admin");
  await untilTinyIsReady(server.url, key); // the file of the model that comes with Verk is checked after a first start
  await READERS_FILES[page]?.(dir, home);
  for (const { name, text } of filesOf(blocksOf(page))) writeFileSync(join(dir, name), text);
  const env = {
    HOME: home,
    PATH: `${bin}:${process.env["PATH"]}`,
    VERK_DATA: server.dir,
    VERK_URL: server.url,
    VERK_API_KEY: key,
  };
  /** The page's addresses and directories are those of an installed server. */
  const here = (text: string) =>
    text
      .replaceAll("127.0.0.1:7070", new URL(server.url).host)
      .replaceAll("/var/lib/verk", server.dir)
      .replaceAll("/etc/verk", etc)
      .replaceAll(/(?<=\s|")\/backup/g, join(root, "backup"));
  return { dir, env, here };
}

async function runScript(script: string, { dir, env }: { dir: string; env: Record<string, string> }) {
  const child = Bun.spawn(["bash", "-c", script], { cwd: dir, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  return { code: child.exitCode, out, err };
}

const hasTools = (page: string) => TOOLS[page] === undefined || Bun.which(TOOLS[page]) !== null;
/** The README is typed at a terminal by quickstart_pty.test.ts. The agent of clients.md needs a model that calls tools. */
const ELSEWHERE = ["README.md", "docs/clients.md"];
const withCommands = pages().filter((page) => !ELSEWHERE.includes(page) && RUN.some((block) => block.page === page));

test.skip.each(withCommands.filter((page) => !hasTools(page)))("F29 docs: the commands of %s work", () => {});
test.each(withCommands.filter(hasTools))(
  "F29 docs: the commands of %s work",
  async (page) => {
    const world = await worldOf(page);
    const blocks = RUN.filter((block) => block.page === page);
    const script = scriptOf(blocks.filter(({ language }) => language !== "console"));
    const { code, out, err } = await runScript(world.here(`${BEFORE[page] ?? ""}\n${script}`), world);
    if (code !== 0) throw new Error(`${page} ended with ${code}:\n${err.slice(-3000)}\n${out.slice(-3000)}`);
    for (const block of blocks.filter(({ language }) => language === "console")) {
      const shown = block.text.split("\n").filter((line) => line !== "" && !line.startsWith("$ "));
      const { out, err } = await runScript(world.here(commandsOf(block)), world);
      for (const line of shown) expect(out + err).toContain(line);
    }
  },
  300_000,
);
