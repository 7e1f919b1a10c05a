/** The files of an RPM package: their entries in the payload, and their tags in the header, in the same order. */
import { createHash } from "node:crypto";
import { basename, dirname } from "node:path";
import { foldersOf, type PackedFile, SERVICE_USER } from "./contents.ts";
import type { CpioEntry } from "./cpio.ts";
import { int16, int32, strings, type Tags } from "./rpm_header.ts";

const REGULAR = 0o100000;
const DIRECTORY = 0o040000;
const SHA256 = 8;
const VERIFY_ALL = 0xffffffff;
const FLAGS = { config: 1, doc: 2, noReplace: 16, license: 128 } as const;
const KIND_FLAGS: Readonly<Record<PackedFile["kind"], number>> = {
  program: 0,
  config: FLAGS.config | FLAGS.noReplace,
  doc: FLAGS.doc,
  license: FLAGS.license,
};

type Row = CpioEntry & { isFolder: boolean; flags: number; group: string };

/** Folders of the product itself are part of the package. Shared ones, such as /usr/bin, belong to the system. */
const isOwn = (path: string) => /\/verk(\/|$)/.test(path);

function rows(files: readonly PackedFile[], seconds: number): Row[] {
  const folders = foldersOf(files)
    .filter(isOwn)
    .map((path) => ({ path, mode: DIRECTORY | 0o755, content: new Uint8Array(), isFolder: true, flags: 0 }));
  const plain = files.map(({ path, mode, content, kind }) => ({
    path,
    mode: REGULAR | mode,
    content,
    isFolder: false,
    flags: KIND_FLAGS[kind],
  }));
  return [...folders, ...plain]
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .map((row, i) => ({
      ...row,
      seconds,
      inode: i + 1,
      group: row.flags & FLAGS.config ? SERVICE_USER : "root", // the service reads its settings
    }));
}

export const rpmEntries = (files: readonly PackedFile[], seconds: number): CpioEntry[] => rows(files, seconds);

export function fileTags(files: readonly PackedFile[], seconds: number): Tags {
  const all = rows(files, seconds);
  const folders = [...new Set(all.map(({ path }) => `${dirname(path)}/`))];
  const each = <T>(value: (row: Row) => T) => all.map(value);
  const sizes = each(({ content }) => content.byteLength);
  return new Map([
    [1009, int32(sizes.reduce((sum, size) => sum + size, 0))],
    [1028, int32(...sizes)],
    [1030, int16(...each(({ mode }) => mode))],
    [1033, int16(...each(() => 0))],
    [1034, int32(...each((row) => row.seconds))],
    [1035, strings(each(({ isFolder, content }) => (isFolder ? "" : sha256(content))))],
    [1036, strings(each(() => ""))],
    [1037, int32(...each(({ flags }) => flags))],
    [1039, strings(each(() => "root"))],
    [1040, strings(each(({ group }) => group))],
    [1045, int32(...each(() => VERIFY_ALL))],
    [1095, int32(...each(() => 1))],
    [1096, int32(...each(({ inode }) => inode))],
    [1097, strings(each(() => ""))],
    [1116, int32(...each(({ path }) => folders.indexOf(`${dirname(path)}/`)))],
    [1117, strings(each(({ path }) => basename(path)))],
    [1118, strings(folders)],
    [5011, int32(SHA256)],
  ]);
}

const sha256 = (content: Uint8Array) => createHash("sha256").update(content).digest("hex");
