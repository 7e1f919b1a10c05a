/** Unpacks a downloaded tar archive into a new folder, which appears whole or not at all. */
import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { ArchiveError, createLedger, type Sink as Unpacked } from "../../lib/archive/entries.ts";
import { createTarReader } from "../../lib/archive/tar_read.ts";
import { UsageError } from "../../lib/errors.ts";
import { renameDurably } from "../../platform/files.ts";
import { EXIT } from "../args.ts";
import { pour, type Sink } from "./sink.ts";

/** A tar is not packed: its files are never longer than what was downloaded. */
const LIMITS = { entries: 10_000, unpackedBytes: Number.MAX_SAFE_INTEGER, ratio: 1 };

export const isFolderName = (text: string): boolean =>
  text.endsWith("/") || fs.statSync(text, { throwIfNoEntry: false })?.isDirectory() === true;

/** Only a new or an empty folder is written: nothing of the user is replaced. */
export function folderNamed(flag: string, text: string): string {
  const path = resolve(text);
  const there = fs.statSync(path, { throwIfNoEntry: false });
  if (there && !there.isDirectory()) throw new UsageError(`${flag}: ${text} is a file. Give the path of a folder.`);
  if (there && fs.readdirSync(path).length > 0)
    throw new UsageError(`${flag}: the folder ${text} is not empty. Choose another folder.`);
  return there ? fs.realpathSync(path) : path; // a link to a folder stays
}

export const toFolder =
  (path: string): Sink =>
  async (chunks, expectedSha256) => {
    fs.mkdirSync(dirname(path), { recursive: true });
    const temp = fs.mkdtempSync(join(dirname(path), ".verk-folder-"));
    const sink = sinkIn(temp);
    const reader = createTarReader(createLedger(Number.POSITIVE_INFINITY, LIMITS), sink);
    try {
      await pour(chunks, expectedSha256, async (chunk) => reader.push(chunk));
      reader.end();
      fs.chmodSync(temp, 0o777 & ~process.umask());
      await renameDurably(temp, path);
    } catch (error) {
      sink.close();
      if (error instanceof ArchiveError)
        throw new UsageError(`${path} was not written. ${error.message}.`, EXIT.failed);
      throw error;
    } finally {
      fs.rmSync(temp, { recursive: true, force: true });
    }
  };

/** The reader has checked the names: none leads out of the folder, none is a link, and none comes twice. */
function sinkIn(folder: string): Unpacked {
  let fd: number | undefined;
  return {
    folder: (name) => void fs.mkdirSync(join(folder, name), { recursive: true }),
    open(name) {
      const path = join(folder, name);
      fs.mkdirSync(dirname(path), { recursive: true });
      fd = fs.openSync(path, "wx");
    },
    write(chunk) {
      for (let at = 0; fd !== undefined && at < chunk.byteLength; ) at += fs.writeSync(fd, chunk, at);
    },
    close() {
      if (fd === undefined) return;
      fs.fsyncSync(fd);
      fs.closeSync(fd);
      fd = undefined;
    },
  };
}
