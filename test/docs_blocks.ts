/** The fenced blocks of the documentation, and the shell script that runs the commands of a page. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dir, "..");
const SHELL = ["sh", "bash", "console"];

export type Block = {
  page: string;
  /** Line of the opening fence, from 1. */
  line: number;
  language: string;
  /** The rest of the info string: a file name, or `no-run: REASON`. */
  info: string;
  text: string;
};

export const pages = (): string[] => [
  "README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => `docs/${name}`),
];

export function blocksOf(page: string, source = readFileSync(join(ROOT, page), "utf8")): Block[] {
  const lineAt = (index: number) => source.slice(0, index).split("\n").length;
  return [...source.matchAll(/^```(\S*)[ \t]*(.*)\n([\s\S]*?)^```$/gm)].map(
    ({ index, 1: language = "", 2: info = "", 3: text = "" }) => ({ page, line: lineAt(index), language, info, text }),
  );
}

export const isShell = ({ language }: Block) => SHELL.includes(language);

/** Why a block is not run: ```` ```sh no-run: needs root ````. */
export const reasonOf = ({ info }: Block): string | undefined => /^no-run: (.+)$/.exec(info)?.[1];

/** A mark with a typing error, or commands in a block that has no language of a shell: neither run nor marked. */
export function faultOf(block: Block): string | undefined {
  const where = `${block.page}:${block.line}`;
  if (isShell(block) && block.info !== "" && reasonOf(block) === undefined)
    return `${where}: "${block.info}" is neither empty nor "no-run: REASON"`;
  if (block.language === "" && /^(\$ |sudo |curl |verk |dist\/verk |\.\/[a-z])/m.test(block.text))
    return `${where}: a block with commands needs the language sh or console`;
  return undefined;
}

/** Files that a page shows by name: ```` ```python accuracy.py ````. */
export const filesOf = (blocks: readonly Block[]) =>
  blocks
    .filter((block) => !isShell(block) && /^[\w.-]+\.\w+$/.test(block.info))
    .map(({ info, text }) => ({ name: info, text }));

/** The commands of a block; those of a `console` block stand after `$ `. */
export const commandsOf = ({ language, text }: Block): string =>
  language === "console" ? [...text.matchAll(/^\$ (.*)$/gm)].map(([, command]) => command).join("\n") : text;

export const FULL = process.env["VERK_TEST_FULL"] === "1";

/** Shorter trainings, unless `--full` runs the page to the letter. */
export const shortened = (text: string): string =>
  FULL
    ? text
    : text
        .replaceAll(/(max_steps"?[=:] ?)\d+/g, "$12")
        .replaceAll(/(num_train_epochs"?[=:] ?)\d+/g, "$11")
        .replaceAll(/(per_device_train_batch_size"?[=:] ?)\d+/g, "$116");

/**
 * One script for a page, so that variables stay. It stops at the first command that fails, also inside a pipe, and says
 * which one. An HTTP error makes curl fail.
 */
export const scriptOf = (blocks: readonly Block[]): string =>
  [
    "set -eEuo pipefail",
    'curl() { command curl --fail-with-body --max-time 60 "$@"; }',
    `trap 'echo "FAILED in $WHERE: $BASH_COMMAND" >&2' ERR`,
    ...blocks.flatMap((block) => [
      `WHERE=${block.page}:${block.line}; echo "# $WHERE" >&2`,
      shortened(commandsOf(block)),
    ]),
  ].join("\n");
