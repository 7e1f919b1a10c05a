import {
  closeSync,
  createReadStream,
  existsSync,
  fsyncSync,
  openSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { createInterface } from "node:readline";
import {
  BrokenChain,
  type Chain,
  type Entry,
  entryLine,
  openChain,
  type Position,
  START,
  sealLine,
} from "../../../lib/audit_chain.ts";
import { UsageError } from "../../../lib/errors.ts";
import { readIntoSync } from "../../../platform/files.ts";
import { becomeOwnerOf } from "../../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG } from "../../args.ts";
import { note, print, printJson } from "../../output.ts";
import { settingsOf } from "../../settings.ts";

const exportLog = command({
  summary: "Print the audit log as JSON lines, each with the hash of the line before it",
  flags: {
    to: { type: "string", value: "FILE", doc: "Add the entries that FILE does not have (default: standard output)" },
    workspace: { type: "string", value: "NAME", doc: "Only entries of this workspace (default: all)" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
  },
  examples: ["verk audit export > audit.jsonl", "verk audit export --to /var/log/verk/audit.jsonl"],
  exits: { 5: "FILE is not a whole audit export: nothing was added" },
  async run({ to, workspace, ...where }) {
    const { auditExport, offline, workspaces } = await import("../../offline.ts");
    const exportedIds = new Set<string>();
    const settings = settingsOf(where);
    becomeOwnerOf(settings.data_dir);
    if (to !== undefined && existsSync(to)) cutUnfinishedLine(to);
    const before = to !== undefined && existsSync(to) ? await chainOf(to, ({ id }) => exportedIds.add(id)) : undefined;
    if (before instanceof BrokenChain) return reportBroken(to ?? "", before);
    const done = await offline(settings, async (ctx) => {
      const only = workspace === undefined ? undefined : workspaces.findByName(ctx, workspace)?.id;
      if (workspace !== undefined && only === undefined)
        throw new UsageError(
          `There is no workspace ${JSON.stringify(workspace)}. \`verk workspaces list\` shows them.`,
        );
      const output = outputTo(to);
      let position: Position = before ?? START;
      for (const entry of auditExport.entries(ctx, only)) {
        if (exportedIds.has(entry.id)) continue;
        const next = entryLine(position, entry);
        await output.line(next.line);
        position = next.position;
      }
      const added = position.entries - (before?.entries ?? 0);
      const isSealed = added === 0 && before?.sealed;
      const seal = isSealed ? undefined : sealLine(position, auditExport.signer(ctx));
      if (seal) await output.line(seal.line);
      await output.end();
      return { added, hash: (seal?.position ?? position).hash };
    });
    note(`${entriesOf(done.added)} exported. The last hash is ${done.hash}.`);
    return EXIT.ok;
  },
});

const verify = command({
  summary: "Check that an audit export is whole, and name the first line that is not",
  takes: ["FILE"],
  flags: {
    "public-key": { type: "string", value: "HEX", doc: "Accept seals of this key only" },
    "last-hash": { type: "string", value: "HEX", doc: "Require this hash in the last line: nothing was cut off" },
    json: JSON_FLAG,
  },
  examples: ["verk audit verify audit.jsonl", "verk audit verify audit.jsonl --last-hash 5f1c…"],
  exits: { 5: "the export is not whole" },
  async run({ "public-key": key, "last-hash": lastHash, json }, file = "") {
    if (!existsSync(file)) throw new UsageError(`There is no file ${file}`);
    const chain = await chainOf(file);
    const fault = chain instanceof BrokenChain ? chain : faultOf(chain, key?.toLowerCase(), lastHash?.toLowerCase());
    if (fault) {
      if (json) printJson({ object: "audit_export", valid: false, line: fault.line, error: fault.reason });
      return reportBroken(file, fault);
    }
    const { entries, hash, publicKeys } = chain as Chain;
    if (json) printJson({ object: "audit_export", valid: true, entries, last_hash: hash, public_keys: publicKeys });
    else print(`${entriesOf(entries)}\nLast hash   ${hash}\nSealed by   ${publicKeys.join(", ")}`);
    return EXIT.ok;
  },
});

export const audit: Group = {
  summary: "Export the audit log as a hash chain, and verify an export",
  subcommands: { export: exportLog, verify },
};

function faultOf(chain: Chain, key: string | undefined, lastHash: string | undefined): BrokenChain | undefined {
  const other = key === undefined ? undefined : chain.publicKeys.find((each) => each !== key);
  if (!chain.sealed) return new BrokenChain(chain.lines, "the export ends without a seal: its end was cut off");
  if (lastHash !== undefined && chain.hash !== lastHash)
    return new BrokenChain(chain.lines, `the last hash is ${chain.hash}: the end was cut off, or more was added`);
  return other === undefined ? undefined : new BrokenChain(chain.lines, `a seal is of another key, ${other}`);
}

function reportBroken(file: string, { line, reason }: BrokenChain): number {
  note(`${file}, line ${line}: ${reason}.`);
  return EXIT.check;
}

async function chainOf(file: string, onEntry?: (entry: Entry) => void): Promise<Chain | BrokenChain> {
  const chain = openChain(onEntry);
  try {
    for await (const line of createInterface({ input: createReadStream(file, "utf8"), crlfDelay: 0 })) chain.add(line);
    return chain.end();
  } catch (error) {
    if (error instanceof BrokenChain) return error;
    throw error;
  }
}

const entriesOf = (n: number) => (n === 1 ? "1 entry" : `${n} entries`);

const BATCH_LINES = 1_000;
const LONGEST_LINE = 64 * 1024;

/** A kill during an export leaves the start of a line. The entry comes again. */
function cutUnfinishedLine(file: string) {
  const { size } = statSync(file);
  const tail = Buffer.alloc(Math.min(size, LONGEST_LINE));
  const fd = openSync(file, "r");
  readIntoSync(fd, tail, size - tail.length);
  closeSync(fd);
  const end = tail.lastIndexOf(10) + 1;
  if (end < tail.length && (end > 0 || size <= LONGEST_LINE)) truncateSync(file, size - tail.length + end);
}

/** Lines go out in batches: the log may be larger than the memory. */
function outputTo(file: string | undefined) {
  const fd = file === undefined ? undefined : openSync(file, "a", 0o600);
  let lines: string[] = [];
  const flush = async () => {
    const text = lines.map((line) => `${line}\n`).join("");
    lines = [];
    if (fd !== undefined) writeSync(fd, text);
    else await new Promise((done) => process.stdout.write(text, done));
  };
  return {
    async line(text: string) {
      lines.push(text);
      if (lines.length >= BATCH_LINES) await flush();
    },
    async end() {
      await flush();
      if (fd === undefined) return;
      fsyncSync(fd);
      closeSync(fd);
    },
  };
}
